// What a sweep keeps of points that run side by side when it is stopped.
#include "tools/sweeps/side_by_side.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "tools/tests/runs_for_test.hpp"

namespace verbtwin::tools {
namespace {

std::size_t children() {
  std::ifstream list("/proc/self/task/" + std::to_string(getpid()) + "/children");
  return static_cast<std::size_t>(std::distance(std::istream_iterator<int>(list), {}));
}

/// The first point takes long to be set up, and the second one has ended by then.
TEST(SideBySide, AStopLosesNoPointThatHasEnded) {
  constexpr const char* kScenario = R"({
    "cluster": {"nodes": 256, "threads": 24, "coroutines": 1},
    "protocol": {"name": "drtmh"},
    "workload": {"name": "smallbank"},
    "run": {"warmup_us": 0, "measure_us": 20}
  })";
  std::vector<scenarios::SweepPoint> points(2);
  points[0].scenario = load(kScenario, {"run.measure_us=1000000"});
  points[1].scenario = load(kScenario, {"cluster.nodes=3", "cluster.threads=1"});
  points[1].number = 1;
  std::atomic<bool> stop{false};
  std::thread user([&] {
    const auto wait_for = [](std::size_t wanted) {
      for (int i = 0; i < 10'000 && children() != wanted; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    wait_for(2);
    wait_for(1);
    stop = true;
  });
  std::vector<std::size_t> kept;
  run_side_by_side(points, 2, stop, false, [&](std::size_t point, json) { kept.push_back(point); });
  user.join();
  EXPECT_THAT(kept, testing::Contains(1U));
}

}  // namespace
}  // namespace verbtwin::tools
