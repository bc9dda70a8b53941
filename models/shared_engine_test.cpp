#include "models/shared_engine.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <queue>
#include <vector>

namespace verbtwin::models {
namespace {

constexpr Packets kOne{64, 4096};

std::int64_t sent_ps(SharedEngine& engine, std::int64_t ready_ps, std::int64_t service_ps) {
  return engine.take_own({ready_ps, 0, 0}, service_ps, kOne).at();
}
std::int64_t served_ps(SharedEngine& engine, std::int64_t ready_ps, std::int64_t service_ps) {
  return engine.take_others_early({ready_ps, 0, 0}, service_ps, kOne).at();
}

std::int64_t received_ps(SharedEngine& engine, std::int64_t ready_ps, std::int64_t service_ps) {
  return engine.take_others({ready_ps, 0, 0}, service_ps, kOne).at();
}

using Take = std::int64_t (*)(SharedEngine&, std::int64_t ready_ps, std::int64_t service_ps);

TEST(SharedEngine, OneKindAloneHasAllOfIt) {
  SharedEngine sends, serves, receives;
  for (int i = 1; i <= 10; ++i) {
    EXPECT_EQ(sent_ps(sends, 0, 100), i * 100);
    EXPECT_EQ(served_ps(serves, 0, 100), i * 100);
    EXPECT_EQ(received_ps(receives, 0, 100), i * 100);
  }
}

TEST(SharedEngine, ALoneJobPassesALongQueueOfTheOtherKind) {
  SharedEngine sends, serves;
  for (int i = 0; i < 1000; ++i) {
    sent_ps(sends, 0, 100);
    served_ps(serves, 0, 100);
  }
  EXPECT_EQ(served_ps(sends, 0, 30), 130) << "in turn with the first";
  EXPECT_EQ(sent_ps(serves, 0, 30), 130);
  EXPECT_EQ(sends.all().busy_ps(), 100'030);
  EXPECT_EQ(serves.all().busy_ps(), 100'030);
}

TEST(SharedEngine, WhatNobodyWaitsForTakesItsTimeFromTheMachinesOwnRequests) {
  SharedEngine engine;
  engine.owe_own(1000);
  EXPECT_EQ(served_ps(engine, 0, 100), 100) << "none of the other kind has had a turn";
  EXPECT_EQ(sent_ps(engine, 0, 100), 1200) << "behind both, which is sooner than in turn";
}

/// Else a kind that had the engine to itself would be known for turns that nobody took.
TEST(SharedEngine, TheNextTurnComesFromWhenTheLastJobPassed) {
  for (const Take others_ps : {served_ps, received_ps}) {
    SharedEngine engine;
    others_ps(engine, 0, 10);
    for (int i = 1; i <= 50; ++i) EXPECT_EQ(sent_ps(engine, 0, 100), 10 + i * 100);
    for (int i = 0; i < 200; ++i) others_ps(engine, 5010, 10);
    EXPECT_EQ(sent_ps(engine, 5010, 100), 5010 + 10 + 100) << "one of the others, and itself";
  }
}

/// A job that waited elsewhere comes later than its place in the queue says.
TEST(SharedEngine, AJobThatWasHeldBringsNoTurnForward) {
  SharedEngine engine;
  for (int i = 0; i < 10; ++i) {
    received_ps(engine, 0, 100);
    sent_ps(engine, 0, 100);
  }
  engine.take_own({0, 5000, 5000}, 100, kOne);
  EXPECT_EQ(sent_ps(engine, 0, 100), 2100 + 100);
}

TEST(SharedEngine, AMessageOfSeveralPacketsIsHandedOnAsItPasses) {
  SharedEngine engine;
  const Packets four{16384, 4096};
  EXPECT_EQ(engine.take_others_early({0, 0, 0}, 400, four).first().at(), 100);
  EXPECT_EQ(engine.take_own({0, 0, 0}, 400, four).at(), 800);
}

/// However soon its turn comes: what arrives over a time is handed on over as long.
TEST(SharedEngine, PacketsComeNoCloserInTheirTurn) {
  SharedEngine engine;
  for (int i = 0; i < 1000; ++i) sent_ps(engine, 0, 100);
  const Packets four{16384, 4096};
  const Moment passed = engine.take_others({0, 0, 0, 5000}, 400, four);
  EXPECT_EQ(passed.at(), 800) << "in turn";
  EXPECT_EQ(passed.at() - passed.first().at(), 5000);
}

TEST(SharedEngine, WhatOthersSendWaitsNoLongerThanItIsTold) {
  SharedEngine engine;
  for (int i = 0; i < 1000; ++i) sent_ps(engine, 0, 100);
  EXPECT_EQ(engine.others_wait_ps({0, 0, 0}), 0) << "all that is there is of the other kind";
  received_ps(engine, 0, 100);
  EXPECT_EQ(engine.others_wait_ps({0, 0, 0}), 200) << "one in between";
  SharedEngine one_kind;
  for (int i = 0; i < 10; ++i) received_ps(one_kind, 0, 100);
  EXPECT_EQ(one_kind.others_wait_ps({0, 0, 0}), 1000) << "all of it";
}

/// What each kind has had of the engine when so many jobs of it are always there, `think_ps` behind the end
/// of the one before.
struct Kind {
  std::int64_t service_ps;
  int jobs;
  std::int64_t think_ps = 0;
};
struct Shares {
  double sent, served;
};
Shares shares(Kind sends, Kind serves, Take others_ps = served_ps) {
  constexpr std::int64_t kEndPs = 10'000'000;
  struct Job {
    std::int64_t ready_ps;
    bool is_send;
    bool operator>(const Job& other) const {
      return std::pair(ready_ps, is_send) > std::pair(other.ready_ps, other.is_send);
    }
  };
  std::priority_queue<Job, std::vector<Job>, std::greater<>> jobs;
  for (int i = 0; i < sends.jobs; ++i) jobs.push({i, true});
  for (int i = 0; i < serves.jobs; ++i) jobs.push({i, false});
  SharedEngine engine;
  std::int64_t had_ps[2] = {0, 0};
  while (jobs.top().ready_ps < kEndPs) {
    const Job job = jobs.top();
    jobs.pop();
    const Kind& kind = job.is_send ? sends : serves;
    const std::int64_t done_ps = (job.is_send ? sent_ps : others_ps)(engine, job.ready_ps, kind.service_ps);
    if (done_ps <= kEndPs) had_ps[job.is_send ? 0 : 1] += kind.service_ps;
    jobs.push({done_ps + kind.think_ps, job.is_send});
  }
  return {static_cast<double>(had_ps[0]) / kEndPs, static_cast<double>(had_ps[1]) / kEndPs};
}

/// A turn each, however long: whose jobs are short does not get ahead of whom it serves.
TEST(SharedEngine, KindsThatAreAlwaysThereTakeTurns) {
  for (const auto& [sends, serves] : {std::pair{Kind{100, 32}, Kind{100, 32}},
                                      {Kind{100, 32}, Kind{700, 32}},
                                      {Kind{700, 8}, Kind{100, 64}},
                                      {Kind{100, 2}, Kind{30, 500}}}) {
    for (const Take others_ps : {served_ps, received_ps}) {
      const Shares had = shares(sends, serves, others_ps);
      const double both_ps = static_cast<double>(sends.service_ps + serves.service_ps);
      EXPECT_NEAR(had.sent, static_cast<double>(sends.service_ps) / both_ps, 0.02);
      EXPECT_NEAR(had.served, static_cast<double>(serves.service_ps) / both_ps, 0.02);
    }
  }
}

TEST(SharedEngine, WhatOneKindDoesNotTakeTheOtherHas) {
  const Kind seldom{100, 4, 1600};  // at most 4 in 1,700 ps
  const Kind always{100, 32};
  for (const Take others_ps : {served_ps, received_ps}) {
    const Shares sends_seldom = shares(seldom, always, others_ps);
    EXPECT_GT(sends_seldom.sent, 0.2);
    EXPECT_NEAR(sends_seldom.sent + sends_seldom.served, 1, 0.01);
    const Shares serves_seldom = shares(always, seldom, others_ps);
    EXPECT_GT(serves_seldom.served, 0.2);
    EXPECT_NEAR(serves_seldom.sent + serves_seldom.served, 1, 0.01);
  }
}

}  // namespace
}  // namespace verbtwin::models
