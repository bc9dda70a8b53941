// The shipped sweeps of scenarios/ramp: every point of them shortened and with fewer clients, and the order
// of the systems as they are.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "scenarios/sweep.hpp"
#include "tools/compare/ramp_ratios.hpp"
#include "tools/report/sweep_table.hpp"
#include "tools/tests/runs_for_test.hpp"

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
  Overrides few = {"cluster.coroutines=2", "run.warmup_us=500", "run.measure_us=2000"};
  if (GetParam() != "communication-types.json")
    few.emplace_back("cluster.threads=2");  // that one sweeps them
  const auto rows = run_sweep(GetParam(), few);
  EXPECT_GT(rows.size(), 10U);
  for (const SweepRow& row : rows) {
    SCOPED_TRACE(sweep_table_line(row));
    EXPECT_GT(row.result.at("committed"), 20);
    EXPECT_EQ(violations(row.result), 0U) << findings(row.result);
    EXPECT_EQ(row.result.at("checks").at(0).at("name"), "read-atomic");
  }
}

TEST_P(RampScenarios, SystemsComeInThePublishedOrderWhereReadsDominate) {
  const std::string text =
      compare_ramp(calibration::CsvTable::parse("points.csv", sweep_csv(run_sweep(GetParam(), {})),
                                                calibration::CsvTable::Kind::kPlain))
          .text;
  // Of the six sizes, with 16 operations GET+ comes out a twelfth faster than GET*.
  EXPECT_THAT(text, testing::ContainsRegex("holds at (1 of 1|2 of 2|3 of 3|[56] of 6) workloads")) << text;
}

TEST(RampRoles, TheBusierRoleTellsWhatLimits) {
  const auto limit_of = [](const char* workload, const char* get) {
    const std::string text = R"({"name": "roles",
      "cluster": {"nodes": 6, "roles": {"servers": 2, "clients": 4}, "threads": 7, "coroutines": 2, "replicas": 1,
                  "nic": "connectx-2", "nics_per_node": 1, "host": "ramp-qdr-host"},
      "protocol": {"name": "ramp-fast", "transport": "rdma_write", "put": "put_plus"},
      "run": {"warmup_us": 200, "measure_us": 1000, "check": "read-atomic"}, )" +
                             fmt::format(R"("workload": {}}})", workload);
    const json result = run(text.c_str(), {std::string("protocol.get=") + get});
    EXPECT_EQ(result.at("bottleneck").value("role", ""), "servers") << result.at("bottleneck");
    for (const json& resource : result.at("resources")) {
      if (resource.at("name") != "core") continue;
      EXPECT_NEAR(resource.at("utilization_mean").get<double>() * 6,
                  resource.at("utilization_servers").get<double>() * 2 +
                      resource.at("utilization_clients").get<double>() * 4,
                  1e-9);
    }
    return result.at("bottleneck").at("resource").get<std::string>();
  };
  EXPECT_EQ(limit_of(R"({"name": "ycsb-groups", "mix": "C"})", "get_plus"), "pcie_down");
  EXPECT_EQ(limit_of(R"({"name": "read-write-mix", "keys": 1000, "read_ratio": 1})", "get_star"), "nic_send");
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
