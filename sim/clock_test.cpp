#include "sim/clock.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include "backend/temporary_directory.hpp"

namespace verbtwin::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr std::int64_t kUs = 1'000'000;
constexpr std::int64_t kLatencyPs = 100'000 + 400'000;
const StarParameters kStar{
    .nodes = 8, .nics_per_node = 1, .link_gbps = 100, .cable_ps = 100'000, .switch_ps = 300'000};

bool always() {
  return true;
}

/// Notes when each index came.
struct Recorder final : EventHandler {
  explicit Recorder(Calendar& its_calendar) : calendar(its_calendar), id(its_calendar.add_handler(*this)) {}
  void handle(std::uint32_t index) override {
    seen.emplace_back(index, calendar.now_ps());
    if (then) then(index);
  }
  Calendar& calendar;
  Calendar::HandlerId id;
  std::vector<std::pair<std::uint32_t, std::int64_t>> seen;
  std::function<void(std::uint32_t)> then;
};

struct Simulation {
  explicit Simulation(Clock::Messages messages = Clock::Messages::kSimulated,
                      const StarParameters& star = kStar)
      : platform(Platform::star(star)), clock(*platform, calendar, messages) {}
  std::unique_ptr<Platform> platform;
  Calendar calendar;
  Clock clock;
  Recorder recorder{calendar};
};

TEST(Clock, RunsTheCalendarInsideItsWindows) {
  Simulation s(Clock::Messages::kNone);
  for (const std::int64_t time_ps : {0L, 1L, 999'999L, 1'000'000L, 1'000'001L, 5'500'000L, 900'000'000L}) {
    s.calendar.schedule(time_ps, s.recorder.id, 0);
  }
  EXPECT_TRUE(s.clock.run_until(0, always));
  EXPECT_THAT(s.recorder.seen, ElementsAre(Pair(0, 0)));
  EXPECT_TRUE(s.clock.run_until(kUs, always));
  EXPECT_EQ(s.recorder.seen.size(), 4U);
  EXPECT_TRUE(s.clock.run_until(899'999'999, always));
  EXPECT_EQ(s.recorder.seen.size(), 6U);
  EXPECT_TRUE(s.clock.run_until(900'000'000, always));
  EXPECT_THAT(s.recorder.seen.back(), Pair(0, 900'000'000));
  EXPECT_EQ(s.calendar.now_ps(), 900'000'000);
}

TEST(Clock, StopsWithinAWindowOfBeingTold) {
  Simulation s(Clock::Messages::kNone);
  s.recorder.then = [&](std::uint32_t) { s.calendar.schedule(s.calendar.now_ps() + 100, s.recorder.id, 0); };
  s.calendar.schedule(0, s.recorder.id, 0);
  int asked = 0;
  EXPECT_FALSE(s.clock.run_until(kUs * 1000, [&] { return ++asked <= 10; }));
  EXPECT_EQ(asked, 11);
  EXPECT_EQ(s.calendar.now_ps(), 10 * kUs);
}

TEST(Clock, JumpsOverIdleTime) {
  Simulation s(Clock::Messages::kNone);
  s.calendar.schedule(7'000'000 * kUs, s.recorder.id, 1);
  int asked = 0;
  EXPECT_TRUE(s.clock.run_until(9'000'000 * kUs, [&] { return ++asked < 10; }));
  EXPECT_THAT(s.recorder.seen, ElementsAre(Pair(1, 7'000'000 * kUs)));
}

TEST(ClockMessages, AreExactLateInALongRun) {
  Simulation s;
  const std::int64_t late_ps = 99'000'000'000'001;
  s.clock.send(0, 1, 1000, late_ps, s.recorder.id, 1);
  s.clock.run_until(100'000'000 * kUs, always);
  ASSERT_EQ(s.recorder.seen.size(), 1U);
  EXPECT_LE(std::abs(s.recorder.seen[0].second - (late_ps + kLatencyPs + 80'000)), 1);
}

TEST(Clock, StaysWithSimGridOverManyWindows) {
  Simulation s;
  for (int step = 1; step <= 20'000; ++step) {
    s.calendar.schedule(step * 333'337L, s.recorder.id, static_cast<std::uint32_t>(step));
  }
  ASSERT_TRUE(s.clock.run_until(20'000 * 333'337L, always));
  s.recorder.seen.clear();
  s.clock.send(0, 1, 1000, s.calendar.now_ps(), s.recorder.id, 7);
  s.clock.run_until(s.calendar.now_ps() + kUs, always);
  EXPECT_THAT(s.recorder.seen, ElementsAre(Pair(7, 20'000 * 333'337L + kLatencyPs + 80'000)));
}

TEST(Clock, ExceptionsPassThrough) {
  Simulation s;
  s.recorder.then = [](std::uint32_t) { throw std::runtime_error("handler"); };
  s.clock.send(0, 1, 64, 0, s.recorder.id, 0);
  EXPECT_THROW(s.clock.run_until(10 * kUs, always), std::runtime_error);
}

TEST(ClockMessages, TakeLatencyAndSize) {
  for (const std::uint64_t bytes : {1UL, 64UL, 100UL, 4096UL, 1'000'000UL, 1'000'000'000UL}) {
    for (const std::int64_t start_ps : {0L, 1L, 123'457L, 999'999L, 50'000'001L}) {
      Simulation s;
      s.clock.send(2, 5, bytes, start_ps, s.recorder.id, 3);
      s.clock.run_until(200'000 * kUs, always);
      ASSERT_EQ(s.recorder.seen.size(), 1U);
      const std::int64_t expected_ps = start_ps + kLatencyPs + static_cast<std::int64_t>(bytes) * 80;
      EXPECT_LE(std::abs(s.recorder.seen[0].second - expected_ps), 1) << bytes << " B at " << start_ps;
    }
  }
}

TEST(ClockMessages, OfNoBytesTakeLatencyOnly) {
  Simulation s;
  s.clock.send(0, 1, 0, 17, s.recorder.id, 1);
  s.clock.run_until(kUs, always);
  EXPECT_THAT(s.recorder.seen, ElementsAre(Pair(1, 17 + kLatencyPs)));
}

TEST(ClockMessages, ToOneselfTakeNoTime) {
  Simulation s;
  s.clock.send(4, 4, 1'000'000, 17, s.recorder.id, 1);
  s.clock.send(4, 4, 0, 18, s.recorder.id, 2);
  s.clock.run_until(kUs, always);
  EXPECT_THAT(s.recorder.seen, ElementsAre(Pair(1, 17), Pair(2, 18)));
}

TEST(ClockMessages, ShareADownLink) {
  Simulation s;
  s.clock.send(0, 2, 1000, 0, s.recorder.id, 0);
  s.clock.send(1, 2, 1000, 0, s.recorder.id, 1);
  s.clock.send(3, 4, 1000, 0, s.recorder.id, 2);  // on links of its own
  s.clock.run_until(kUs, always);
  ASSERT_EQ(s.recorder.seen.size(), 3U);
  EXPECT_THAT(s.recorder.seen[0], Pair(2, kLatencyPs + 80'000));
  for (const int late : {1, 2})
    EXPECT_NEAR(static_cast<double>(s.recorder.seen[late].second), kLatencyPs + 160e3, 1);
}

TEST(ClockMessages, GiveWayToOneThatStartsLater) {
  Simulation s;
  s.clock.send(0, 2, 1000, 0, s.recorder.id, 0);
  s.clock.send(1, 2, 1000, 40'000, s.recorder.id, 1);  // finds half of the first one left
  s.clock.run_until(kUs, always);
  ASSERT_EQ(s.recorder.seen.size(), 2U);
  EXPECT_NEAR(static_cast<double>(s.recorder.seen[0].second), kLatencyPs + 120e3, 1);
  EXPECT_NEAR(static_cast<double>(s.recorder.seen[1].second), kLatencyPs + 160e3, 1);
}

TEST(ClockMessages, ArrivalsStartOthersAtThatInstant) {
  Simulation s;
  s.recorder.then = [&](std::uint32_t hop) {
    if (hop < 1000)
      s.clock.send(static_cast<int>(hop % 8), static_cast<int>((hop + 1) % 8), 100, s.calendar.now_ps(),
                   s.recorder.id, hop + 1);
  };
  s.clock.send(0, 1, 100, 0, s.recorder.id, 1);
  s.clock.run_until(2000 * kUs, always);
  ASSERT_EQ(s.recorder.seen.size(), 1000U);
  EXPECT_LE(std::abs(s.recorder.seen.back().second - 1000 * (kLatencyPs + 8000)), 1000);
}

std::vector<std::pair<std::uint32_t, std::int64_t>> random_traffic(int messages) {
  Simulation s;
  std::mt19937 random(7);
  for (int i = 0; i < messages; ++i) {
    const int from = static_cast<int>(random() % 8);
    const int to = static_cast<int>(random() % 8);
    const std::uint64_t bytes = random() % 5 == 0 ? 0 : random() % 3000;
    s.clock.send(from, to, bytes, random() % 40'000'000, s.recorder.id, static_cast<std::uint32_t>(i));
  }
  s.clock.run_until(1000 * kUs, always);
  return s.recorder.seen;
}

TEST(ClockMessages, AllArriveOnceWhateverTheirOrder) {
  const auto seen = random_traffic(5000);
  std::vector<int> times_seen(5000);
  for (const auto& [index, time_ps] : seen) ++times_seen[index];
  EXPECT_THAT(times_seen, testing::Each(1));
}

TEST(ClockMessages, DoNotDependOnFormerSimulations) {
  const auto first = random_traffic(2000);
  for (int again = 0; again < 5; ++again) EXPECT_EQ(random_traffic(2000), first);
}

TEST(ClockMessages, MayBeLeftInFlight) {
  for (int again = 0; again < 3; ++again) {
    Simulation s;
    for (std::uint32_t i = 0; i < 100; ++i) s.clock.send(0, 1, 1'000'000, i * 1000, s.recorder.id, i);
    s.clock.run_until(kUs, always);
    EXPECT_THAT(s.recorder.seen, IsEmpty());
  }
}

/// Two hosts, one link "wire" with a profile. SimGrid cannot run anything after it: call in a death test's
/// process.
std::unique_ptr<Platform> wire_with_profile(const std::string& attribute, const std::string& profile) {
  const TemporaryDirectory directory;
  directory.write(attribute + ".txt", profile);
  const std::string xml =
      R"(<?xml version='1.0'?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="z" routing="Full"><host id="a" speed="1Gf"/><host id="b" speed="1Gf"/>
<link id="wire" bandwidth="10GBps" latency="100ns" )" +
      attribute + "=\"" + attribute + R"(.txt"/><route src="a" dst="b"><link_ctn id="wire"/></route>
</zone></platform>)";
  return Platform::from_xml(directory.write(attribute + ".xml", xml), 2);
}

void link_changes_at_its_instant() {
  const auto platform =
      wire_with_profile("bandwidth_file", "0.0000025 5e9\n0.0000032 2.5e9\nLOOPAFTER 0.0001\n");
  const std::vector<std::uint32_t> route = platform->route(0, 1);
  const std::uint32_t wire = route.at(0);
  Calendar calendar;
  Clock clock(*platform, calendar);
  Recorder tick(calendar);
  std::vector<std::pair<std::int64_t, double>> changes;
  platform->on_link_change([&](std::uint32_t link) {
    EXPECT_EQ(link, wire);
    changes.emplace_back(calendar.now_ps(), platform->link(link).bandwidth_bytes_per_s);
  });
  std::vector<double> seen;
  tick.then = [&](std::uint32_t) { seen.push_back(platform->link(wire).bandwidth_bytes_per_s); };
  for (const std::int64_t time_ps : {0L, 2'499'999L, 2'500'001L, 3'199'999L, 3'200'001L}) {
    calendar.schedule(time_ps, tick.id, 0);
  }
  clock.run_until(10 * kUs, always);
  EXPECT_THAT(changes, ElementsAre(Pair(2'500'000, 5e9), Pair(3'200'000, 2.5e9)));
  EXPECT_THAT(seen, ElementsAre(10e9, 10e9, 5e9, 5e9, 2.5e9));
  clock.run_until(1000 * kUs, always);
  EXPECT_EQ(changes.size(), 20U);
}

void link_down_loses_messages() {
  const auto platform = wire_with_profile("state_file", "0.000002 0\n0.000004 1\n");
  Calendar calendar;
  Clock clock(*platform, calendar, Clock::Messages::kSimulated);
  Recorder recorder(calendar);
  clock.send(0, 1, 1000, 0, recorder.id, 0);
  clock.send(0, 1, 1'000'000, 1'000'000, recorder.id, 1);  // under way when the link goes down
  clock.send(0, 1, 1000, 3'000'000, recorder.id, 2);       // starts while it is down
  clock.send(0, 1, 0, 3'000'000, recorder.id, 3);
  clock.send(0, 1, 1000, 5'000'000, recorder.id, 4);
  clock.run_until(1000 * kUs, always);
  EXPECT_THAT(recorder.seen, ElementsAre(Pair(0, 200'000), Pair(4, 5'200'000)));
}

template <typename Body>
[[noreturn]] void exit_after(const Body& body) {
  body();
  _exit(testing::Test::HasFailure() ? 1 : 0);
}

TEST(ClockLinksDeathTest, ChangeAtTheirInstantInTheCalendar) {
  EXPECT_EXIT(exit_after(link_changes_at_its_instant), testing::ExitedWithCode(0), "");
}

TEST(ClockLinksDeathTest, LoseMessagesWhenDown) {
  EXPECT_EXIT(exit_after(link_down_loses_messages), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace verbtwin::sim
