// The shipped sweeps of scenarios/ramp, every point of them shortened and with fewer clients.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "scenarios/sweep.hpp"
#include "tools/ramp_ratios.hpp"
#include "tools/runs_for_test.hpp"
#include "tools/sweep.hpp"

namespace verbtwin::tools {
namespace {

namespace fs = std::filesystem;

/// The rows of a sweep that has run, with `overrides` at every point.
std::vector<SweepRow> run_sweep(const std::string& name, const Overrides& overrides) {
  std::vector<SweepRow> rows;
  const fs::path file = fs::path(VERBTWIN_SOURCE_DIR) / "scenarios" / "ramp" / name;
  for (const auto& point : scenarios::load_points(file, overrides, make_catalog())) {
    rows.push_back({point.settings, simulate(point.scenario, {})});
  }
  return rows;
}

class RampScenarios : public testing::TestWithParam<std::string> {};

TEST_P(RampScenarios, EveryPointRunsAndIsReadAtomic) {
  const auto rows = run_sweep(
      GetParam(), {"cluster.threads=2", "cluster.coroutines=2", "run.warmup_us=500", "run.measure_us=2000"});
  EXPECT_GT(rows.size(), 10U);
  for (const SweepRow& row : rows) {
    SCOPED_TRACE(sweep_table_line(row));
    EXPECT_GT(row.result.at("committed"), 20);
    EXPECT_EQ(violations(row.result), 0U) << findings(row.result);
    EXPECT_EQ(row.result.at("checks").at(0).at("name"), "read-atomic");
  }
}

std::vector<std::string> shipped() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(VERBTWIN_SOURCE_DIR "/scenarios/ramp")) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Shipped, RampScenarios, testing::ValuesIn(shipped()), [](const auto& file) {
  std::string name = fs::path(file.param).stem().string();
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace verbtwin::tools
