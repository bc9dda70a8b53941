#include "tools/report/conditions.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "scenarios/loader.hpp"
#include "tools/run/catalog.hpp"

namespace verbtwin::tools {
namespace {

using nlohmann::json;

json scenario_with(const std::vector<std::string>& overrides) {
  return scenarios::load_scenario(VERBTWIN_SOURCE_DIR "/scenarios/smallbank-16.json", overrides,
                                  make_catalog())
      .resolved;
}

TEST(Conditions, OfTheDefaultsNothingIsSaid) {
  const json scenario = scenario_with({});
  EXPECT_EQ(describe_conditions(scenario), "");
  EXPECT_EQ(describe_offered(scenario), "");
  EXPECT_EQ(describe_network(scenario), "a star network (fifo model)");
}

TEST(Conditions, WhatIsNotTheDefaultHasItsUnit) {
  const json scenario = scenario_with({"cluster.network.loss_ratio=0.1", "cluster.network.link_gbps=12.5",
                                       "cluster.network.background_gbps=2", "run.offered_per_s=50"});
  EXPECT_EQ(describe_conditions(scenario),
            ", links of 12.5 Gb/s, 2 Gb/s of others on each port, 10 % of packets lost; 50 transactions/s "
            "offered");
  EXPECT_EQ(describe_network(scenario),
            "a star network (fifo model, links of 12.5 Gb/s, 2 Gb/s of others on each port, 10 % of packets "
            "lost)");
  json measured = scenario;
  measured["backend"] = "ibverbs";
  EXPECT_EQ(describe_conditions(measured), "; 50 transactions/s offered") << "a real network is what it is";
}

TEST(Conditions, EveryFieldOfTheNetworkIsSaid) {
  EXPECT_EQ(describe_conditions(scenario_with({"cluster.network.loss_ratio=1e-6"})),
            ", 0.0001 % of packets lost");
  EXPECT_EQ(
      describe_conditions(scenario_with({"cluster.network.topology=fat_tree", "cluster.network.spines=4",
                                         "cluster.network.cable_ns=500", "cluster.network.switch_ns=0.5"})),
      ", fat_tree network, cables of 500 ns, spines 4, switches of 0.5 ns");
  EXPECT_EQ(
      describe_network(scenario_with({"cluster.network.topology=torus", "cluster.network.dimensions=[8,4]"})),
      "a torus network (fifo model, dimensions [8,4])");
  EXPECT_EQ(describe_conditions(scenario_with({"cluster.network.model=simgrid"})), ", simgrid model");
  const std::string platform = VERBTWIN_SOURCE_DIR "/scenarios/platforms/sixteen-hosts.xml";
  const json from_file = scenario_with({R"(cluster.network={"platform":")" + platform + "\"}"});
  EXPECT_EQ(describe_conditions(from_file), ", platform " + platform);
  EXPECT_EQ(describe_network(from_file), "the platform " + platform + " (fifo model)");
}

}  // namespace
}  // namespace verbtwin::tools
