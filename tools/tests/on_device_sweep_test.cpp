// Sweeps measured on real verbs: the same ranks run point after point. Runs where there is a device: in
// tools/rxe-vm, by the tests labelled rxe.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tools/tests/child_process_for_test.hpp"
#include "tools/tests/on_device_for_test.hpp"

namespace verbtwin::tools {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using nlohmann::json;
using testing::ContainsRegex;
using testing::HasSubstr;

constexpr const char* kSweep = "coroutines-3-rxe.json";

class OnDeviceSweep : public OnDevice {
 protected:
  fs::path point(int number) const { return directory_ / "result" / "points" / fmt::format("{:03}", number); }
  /// The first point is over, the second one measures.
  void wait_for_second_point() const {
    const Clock::time_point limit = Clock::now() + 60s;
    while (!fs::exists(point(0) / "result.json")) {
      ASSERT_LT(Clock::now(), limit);
      std::this_thread::sleep_for(50ms);
    }
    wait_for_measuring();
  }
  std::ptrdiff_t rows() const {
    const std::string csv = read_text(directory_ / "result" / "points.csv");
    return std::count(csv.begin(), csv.end(), '\n') - 1;
  }
};

TEST_F(OnDeviceSweep, EveryPointIsMeasuredAndComparesWithItsTwin) {
  EXPECT_EQ(launch({}, {}, kSweep)->wait(), 0) << err();
  EXPECT_EQ(rows(), 6);
  for (int i = 0; i < 6; ++i) {
    const json r = result_at(point(i));
    EXPECT_EQ(r.at("backend"), "ibverbs");
    EXPECT_EQ(r.at("partial"), false);
    EXPECT_EQ(r.at("scenario").at("cluster").at("coroutines"), i % 3 == 0 ? 1 : i % 3 == 1 ? 4 : 16);
    EXPECT_GT(r.at("committed"), 20) << i;
    EXPECT_EQ(r.at("measured_on").size(), 3U);
    for (const json& check : r.at("checks")) EXPECT_EQ(check.at("violations"), 0) << check.dump(2);
  }

  const std::string twin = (directory_ / "twin").string();
  ChildProcess simulated(
      directory_, {VERBTWIN_BINARY, "run", VERBTWIN_SOURCE_DIR "/scenarios/" + std::string(kSweep), "--set",
                   "run.warmup_us=50", "--set", "run.measure_us=500", "--out", twin});
  ASSERT_EQ(simulated.wait(), 0) << err();
  ChildProcess compared(directory_, {VERBTWIN_BINARY, "compare", twin, (directory_ / "result").string()});
  ASSERT_EQ(compared.wait(), 0) << err();
  EXPECT_THAT(compared.out(), ContainsRegex("measured on rxe0, 6[ \n]+points"));
  EXPECT_THAT(compared.out(), ContainsRegex("order +by rate the same in [0-3] of [1-3] pair"));
}

TEST_F(OnDeviceSweep, CtrlCKeepsThePointsThatAreThere) {
  const auto run = launch({"--set", "run.measure_us=8000000"}, {}, kSweep);
  wait_for_second_point();
  run->signal(SIGINT);
  EXPECT_EQ(run->wait(), 128 + SIGINT) << err();
  EXPECT_EQ(rows(), 2);
  EXPECT_EQ(result_at(point(0)).at("partial"), false);
  EXPECT_EQ(result_at(point(1)).at("partial"), true);
  EXPECT_FALSE(fs::exists(point(2)));
  EXPECT_TRUE(ranks_running().empty());
}

TEST_F(OnDeviceSweep, AKilledRankEndsItWithThePointNamed) {
  const auto run = launch({"--set", "run.measure_us=8000000"}, {}, kSweep);
  wait_for_second_point();
  const pid_t victim = find_rank(1);
  ASSERT_GT(victim, 0);
  kill(victim, SIGKILL);
  EXPECT_EQ(run->wait(), 1);
  EXPECT_THAT(err(),
              ContainsRegex("^verbtwin: point 1 \\(protocol.name=drtmh, cluster.coroutines=4\\): [^\n]*rank 1"
                            "[^\n]*while measuring\n$"));
  EXPECT_EQ(rows(), 2);
  EXPECT_EQ(result_at(point(0)).at("partial"), false);
  EXPECT_EQ(result_at(point(1)).at("partial"), true);
  EXPECT_TRUE(ranks_running().empty());
}

}  // namespace
}  // namespace verbtwin::tools
