#include "sim/calendar.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

namespace verbtwin::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

/// The calendar's sequence number, which takes 2^32 events to wrap. (An explicit instantiation may name a
/// private member.)
std::uint32_t& sequence_of(Calendar& calendar);
template <std::uint32_t Calendar::*member>
struct Opener {
  friend std::uint32_t& sequence_of(Calendar& calendar) { return calendar.*member; }
};
template struct Opener<&Calendar::sequence_>;

struct Recorder final : EventHandler {
  explicit Recorder(Calendar& its_calendar) : calendar(its_calendar), id(its_calendar.add_handler(*this)) {}
  void handle(std::uint32_t index) override {
    seen.emplace_back(calendar.now_ps(), index);
    if (then) then(index);
  }
  Calendar& calendar;
  Calendar::HandlerId id;
  std::vector<std::pair<std::int64_t, std::uint32_t>> seen;
  std::function<void(std::uint32_t)> then;
};

TEST(Calendar, RunsEventsByTime) {
  Calendar calendar;
  Recorder recorder(calendar);
  for (const std::int64_t time_ps : {50, 10, 40, 20, 30}) {
    calendar.schedule(time_ps, recorder.id, static_cast<std::uint32_t>(time_ps));
  }
  EXPECT_EQ(calendar.pending(), 5U);
  EXPECT_EQ(calendar.next_ps(), 10);
  calendar.run_until(100);
  EXPECT_THAT(recorder.seen,
              ElementsAre(Pair(10, 10), Pair(20, 20), Pair(30, 30), Pair(40, 40), Pair(50, 50)));
  EXPECT_TRUE(calendar.empty());
  EXPECT_EQ(calendar.now_ps(), 100);
  EXPECT_EQ(calendar.executed(), 5U);
}

TEST(Calendar, StopsAtItsGoalInclusively) {
  Calendar calendar;
  Recorder recorder(calendar);
  for (const std::int64_t time_ps : {10, 20, 21}) calendar.schedule(time_ps, recorder.id, 0);
  calendar.run_until(20);
  EXPECT_EQ(recorder.seen.size(), 2U);
  EXPECT_EQ(calendar.now_ps(), 20);
  calendar.run_until(5);  // a goal in the past changes nothing
  EXPECT_EQ(calendar.now_ps(), 20);
  EXPECT_EQ(calendar.pending(), 1U);
}

TEST(Calendar, TimeNeverGoesBack) {
  Calendar calendar;
  Recorder recorder(calendar);
  calendar.schedule(500, recorder.id, 1);
  recorder.then = [&](std::uint32_t) { calendar.schedule(499, recorder.id, 2); };
#ifdef NDEBUG
  EXPECT_THROW(calendar.run_until(1000), std::logic_error);
  EXPECT_THAT(recorder.seen, ElementsAre(Pair(500, 1)));
#else
  EXPECT_DEATH(calendar.run_until(1000), "an event in the past");
#endif
}

TEST(Calendar, RunsEventsOfOneInstantAsScheduled) {
  Calendar calendar;
  Recorder first(calendar);
  Recorder second(calendar);
  std::vector<std::uint32_t> order;
  first.then = second.then = [&](std::uint32_t index) { order.push_back(index); };
  std::vector<std::uint32_t> scheduled;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    calendar.schedule(7, i % 3 == 0 ? first.id : second.id, i);
    scheduled.push_back(i);
  }
  calendar.run_until(7);
  EXPECT_EQ(order, scheduled);
}

TEST(Calendar, RunsEventsOfOneInstantAsScheduledWhereTheSequenceWraps) {
  Calendar calendar;
  sequence_of(calendar) = 0xffffffff - 499;
  Recorder recorder(calendar);
  std::vector<std::pair<std::int64_t, std::uint32_t>> expected;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    calendar.schedule(7, recorder.id, i);
    expected.emplace_back(7, i);
  }
  EXPECT_LT(sequence_of(calendar), 1000U);
  calendar.run_until(7);
  EXPECT_EQ(recorder.seen, expected);
}

TEST(Calendar, TellsHandlersAndIndicesApart) {
  Calendar calendar;
  Recorder first(calendar);
  std::vector<Recorder> rest;
  rest.reserve(Calendar::kHandlersMax - 1);
  while (rest.size() < Calendar::kHandlersMax - 1) rest.emplace_back(calendar);
  calendar.schedule(1, rest.back().id, Calendar::kIndexMax);
  calendar.schedule(2, first.id, Calendar::kIndexMax);
  calendar.run_until(2);
  EXPECT_THAT(rest.back().seen, ElementsAre(Pair(1, Calendar::kIndexMax)));
  EXPECT_THAT(first.seen, ElementsAre(Pair(2, Calendar::kIndexMax)));
  EXPECT_THAT(rest.front().seen, IsEmpty());
}

TEST(Calendar, EventsScheduleEventsForNowAndLater) {
  Calendar calendar;
  Recorder recorder(calendar);
  recorder.then = [&](std::uint32_t index) {
    if (index == 0) {
      calendar.schedule(calendar.now_ps(), recorder.id, 10);
      calendar.schedule(calendar.now_ps() + 5, recorder.id, 11);
    }
  };
  calendar.schedule(5, recorder.id, 0);
  calendar.schedule(5, recorder.id, 1);
  calendar.run_until(9);
  EXPECT_THAT(recorder.seen, ElementsAre(Pair(5, 0), Pair(5, 1), Pair(5, 10)));
  calendar.run_until(10);
  EXPECT_THAT(recorder.seen.back(), Pair(10, 11));
}

/// Writes down the steps of each event's way that it is asked to fetch ahead.
struct Fetcher final : EventHandler {
  explicit Fetcher(Calendar& calendar) : id(calendar.add_handler(*this)) {}
  void handle(std::uint32_t index) override { steps[index].push_back(kHandled); }
  void prefetch(std::uint32_t index, int steps_left) const override { steps[index].push_back(steps_left); }
  static constexpr int kHandled = -1;
  Calendar::HandlerId id;
  mutable std::map<std::uint32_t, std::vector<int>> steps;
};

TEST(Calendar, AsksForWhatComesNextStepByStep) {
  for (const std::int64_t apart_ps : {300, 5'000}) {  // a bucket apart, and with many empty ones between
    Calendar calendar;
    Fetcher fetcher(calendar);
    for (std::uint32_t i = 0; i < 100; ++i) calendar.schedule(1 + i * apart_ps, fetcher.id, i);
    calendar.run_until(1'000'000'000);
    ASSERT_EQ(fetcher.steps.size(), 100U);
    EXPECT_THAT(fetcher.steps[0], ElementsAre(Fetcher::kHandled));
    EXPECT_THAT(fetcher.steps[2], ElementsAre(1, 0, Fetcher::kHandled));
    for (std::uint32_t i = 4; i < 100; ++i)
      EXPECT_THAT(fetcher.steps[i], ElementsAre(3, 2, 1, 0, Fetcher::kHandled)) << i << " at " << apart_ps;
  }
}

/// Schedules, and goals to run to, are random; every third event schedules another, at once or later. A
/// multimap, which keeps equal keys in order of insertion, says what must happen.
TEST(Calendar, DoesWhatAMultimapDoes) {
  rc::check([] {
    Calendar calendar;
    sequence_of(calendar) = *rc::gen::arbitrary<std::uint32_t>();
    Recorder recorder(calendar);
    std::multimap<std::int64_t, std::uint32_t> model;
    std::vector<std::pair<std::int64_t, std::uint32_t>> expected;
    std::uint32_t scheduled = 0;
    const auto delay_of = [](std::uint32_t index) { return static_cast<std::int64_t>(index * 7 % 5); };
    const auto schedule = [&](std::int64_t time_ps) {
      calendar.schedule(time_ps, recorder.id, scheduled);
      model.emplace(time_ps, scheduled++);
    };
    recorder.then = [&](std::uint32_t index) {
      expected.emplace_back(model.begin()->first, model.begin()->second);
      model.erase(model.begin());
      if (index % 3 == 0) schedule(calendar.now_ps() + delay_of(index));
    };
    const auto steps = *rc::gen::arbitrary<std::vector<std::uint8_t>>();
    for (const std::uint8_t step : steps) {
      const bool run = step % 6 == 0;
      const std::int64_t amount = step / 6 % 12;
      if (!run) {
        schedule(calendar.now_ps() + amount);
      } else {
        const std::int64_t goal_ps = calendar.now_ps() + amount;
        calendar.run_until(goal_ps);
        RC_ASSERT((model.empty() || model.begin()->first > goal_ps));
        RC_ASSERT((model.empty() || model.begin()->first == calendar.next_ps()));
      }
      RC_ASSERT(calendar.pending() == model.size());
    }
    calendar.run_until(1'000'000);
    RC_ASSERT(calendar.empty());
    RC_ASSERT(recorder.seen == expected);
  });
}

}  // namespace
}  // namespace verbtwin::sim
