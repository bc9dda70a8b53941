#include "models/server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace verbtwin::models {
namespace {

struct Job {
  std::int64_t ready_ps, service_ps;
};

/// The same server with nothing forgotten: all busy intervals in order, the earliest place that fits.
class NaiveServer {
 public:
  std::int64_t reserve(const Job& job) {
    std::int64_t start_ps = job.ready_ps;
    for (const auto& [begin_ps, end_ps] : busy_) {
      if (start_ps + job.service_ps <= begin_ps) break;
      start_ps = std::max(start_ps, end_ps);
    }
    busy_.emplace_back(start_ps, start_ps + job.service_ps);
    std::sort(busy_.begin(), busy_.end());
    return start_ps;
  }
  const std::vector<std::pair<std::int64_t, std::int64_t>>& busy() const { return busy_; }

 private:
  std::vector<std::pair<std::int64_t, std::int64_t>> busy_;
};

std::vector<Job> jobs_of(std::size_t count, std::int64_t ready_max, std::int64_t service_max,
                         std::int64_t unit_ps) {
  std::vector<Job> jobs;
  for (std::size_t i = 0; i < count; ++i) {
    jobs.push_back({*rc::gen::inRange<std::int64_t>(0, ready_max) * unit_ps,
                    *rc::gen::inRange<std::int64_t>(1, service_max) * unit_ps});
  }
  return jobs;
}

TEST(Server, ServesAtOnceWhenIdle) {
  Server server;
  EXPECT_EQ(server.reserve(1000, 500), 1000);
  EXPECT_EQ(server.reserve(1500, 500), 1500);
  EXPECT_EQ(server.reserve(90'000, 500), 90'000);
  EXPECT_EQ(server.busy_ps(), 1500);
  EXPECT_EQ(server.free_ps(), 90'500);
}

TEST(Server, IsFirstComeFirstServedAmongThoseThatWait) {
  Server server;
  EXPECT_EQ(server.reserve(0, 5000), 0);
  EXPECT_EQ(server.reserve(100, 300), 5000);
  EXPECT_EQ(server.reserve(50, 5000), 5300);
  EXPECT_EQ(server.reserve(0, 1), 10'300);
}

TEST(Server, FillsTheIdleTimeBeforeAJobThatWasAnnouncedEarlier) {
  Server server;
  EXPECT_EQ(server.reserve(100'000, 1000), 100'000);
  EXPECT_EQ(server.reserve(20'000, 30'000), 20'000);
  EXPECT_EQ(server.reserve(20'000, 30'000), 50'000);
  EXPECT_EQ(server.reserve(0, 30'000), 101'000) << "neither what is left before nor behind is long enough";
  EXPECT_EQ(server.reserve(0, 20'000), 0);
  EXPECT_EQ(server.reserve(0, 20'000), 80'000);
}

TEST(Server, ServeKeepsTheDelaysOfAMomentAside) {
  Server server;
  const Moment done = server.serve({1000, 700}, 300);
  EXPECT_EQ(done.queue_ps, 1300);
  EXPECT_EQ(done.delay_ps, 700);
  EXPECT_EQ(done.at(), 2000);
}

TEST(Server, AgreesWithAListOfIntervals) {
  EXPECT_TRUE(rc::check("every job starts where a server that forgets nothing starts it", [] {
    // In units of the shortest idle time worth remembering, and fewer jobs than idle times are remembered.
    const auto count = *rc::gen::inRange<std::size_t>(1, 30);
    Server server;
    NaiveServer naive;
    for (const Job& job : jobs_of(count, 200, 12, 2000)) {
      RC_ASSERT(server.reserve(job.ready_ps, job.service_ps) == naive.reserve(job));
    }
    RC_ASSERT(server.free_ps() == naive.busy().back().second);
  }));
}

TEST(Server, JobsNeverOverlapAndCapacityIsConserved) {
  EXPECT_TRUE(rc::check("any number of jobs of any length", [] {
    const auto count = *rc::gen::inRange<std::size_t>(1, 400);
    Server server;
    std::int64_t total_ps = 0;
    std::vector<std::pair<std::int64_t, std::int64_t>> busy;
    for (const Job& job : jobs_of(count, 2'000'000, 9000, 1)) {
      const std::int64_t start_ps = server.reserve(job.ready_ps, job.service_ps);
      RC_ASSERT(start_ps >= job.ready_ps);
      busy.emplace_back(start_ps, start_ps + job.service_ps);
      total_ps += job.service_ps;
    }
    std::sort(busy.begin(), busy.end());
    for (std::size_t i = 1; i < busy.size(); ++i) RC_ASSERT(busy[i - 1].second <= busy[i].first);
    RC_ASSERT(server.busy_ps() == total_ps);
    RC_ASSERT(server.free_ps() == busy.back().second);
  }));
}

TEST(Server, LosesNoCapacityToReadyTimesOutOfOrder) {
  // Two streams of calls, one 1 us behind the other, together as long as the time there is.
  Server server;
  for (std::int64_t i = 0; i < 1000; ++i) {
    server.reserve(1'000'000 + i * 10'000, 5000);
    server.reserve(i * 10'000, 5000);
  }
  EXPECT_EQ(server.busy_ps(), 10'000'000);
  EXPECT_LE(server.free_ps(), 11'000'000);
}

TEST(Moment, MovesOnInItsQueueToARealTime) {
  const Moment moment{100, 50};
  EXPECT_EQ(moment.at(), 150);
  EXPECT_EQ(moment.not_before(150).queue_ps, 100);
  EXPECT_EQ(moment.not_before(170).queue_ps, 120);
  EXPECT_EQ(moment.not_before(170).at(), 170);
  EXPECT_EQ(moment.plus_delay(5).at(), 155);
  EXPECT_EQ(moment.plus_delay(5).queue_ps, 100);
}

}  // namespace
}  // namespace verbtwin::models
