// A cluster that stands for a larger one: its NICs hold the larger one's queue pairs.
#include <gtest/gtest.h>

#include "calibration/profile_file.hpp"
#include "tools/tests/runs_for_test.hpp"

namespace verbtwin::tools {
namespace {

constexpr const char* kSmall = R"({
  "name": "small",
  "cluster": {"nodes": 3, "threads": 2, "coroutines": 4, "nics_per_node": 2},
  "protocol": {"name": "drtmh"},
  "workload": {"name": "smallbank", "accounts_per_thread": 5000},
  "run": {"warmup_us": 20, "measure_us": 400}
})";

TEST(EmulatedCluster, FillsTheNicsCachesOfQueuePairs) {
  models::NicProfile nic = calibration::load_nic_profile("connectx-4");
  nic.qp_cache_entries = 64;  // more than the queue pairs of three nodes
  RunControl control;
  control.nic = &nic;
  const auto hit_ratio = [&control](const Overrides& overrides) {
    const json result = run(kSmall, overrides, control);
    EXPECT_EQ(violations(result), 0U) << findings(result);
    for (const json& resource : result.at("resources")) {
      if (resource.at("name") == "qp_cache") return resource.at("hit_ratio").get<double>();
    }
    return -1.0;
  };
  const double alone = hit_ratio({});
  EXPECT_GT(alone, 0.999);
  EXPECT_LT(hit_ratio({"cluster.emulate_nodes=1536"}), alone - 0.01);
}

}  // namespace
}  // namespace verbtwin::tools
