#include "scenarios/network_size.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "backend/user_error.hpp"
#include "scenarios/catalog_for_test.hpp"
#include "scenarios/loader.hpp"

namespace verbtwin::scenarios {
namespace {

NetworkSize of_dragonfly(int groups, int chassis, int routers, int router_ports) {
  Network n;
  n.topology = "dragonfly";
  n.groups = groups;
  n.chassis = chassis;
  n.routers = routers;
  n.router_ports = router_ports;
  return size_of(n, 3);
}

TEST(NetworkSize, ADragonflyJoinsEveryTwoOfThreeKinds) {
  const NetworkSize small = of_dragonfly(2, 2, 3, 4);
  EXPECT_EQ(small.places, 48);
  EXPECT_EQ(small.cables, 2 * (2 * 3 + 3 * 1) + 1) << "in a chassis, between chassis, between groups";
  EXPECT_EQ(of_dragonfly(1024, 1024, 1024, 1024).places, std::int64_t{1} << 40) << "nothing overflows";
}

TEST(NetworkSize, ATorusHasACableForEachPlaceAndWay) {
  Network n;
  n.topology = "torus";
  n.dimensions = {4, 1, 3};
  EXPECT_EQ(size_of(n, 3).places, 12);
  EXPECT_EQ(size_of(n, 3).cables, 24) << "a dimension of 1 joins nothing";
  n.dimensions = {1024, 1024, 1024, 1024, 1024, 1024};
  EXPECT_GT(size_of(n, 3).places, kPlacesMost);
}

TEST(NetworkSize, AFatTreeHasAsManyLeavesAsItsPortsTake) {
  Network n;
  n.topology = "fat_tree";
  n.leaf_ports = 4;
  n.spines = 3;
  EXPECT_EQ(size_of(n, 9).places, 12);
  EXPECT_EQ(size_of(n, 9).cables, 9);
  EXPECT_EQ(size_of(n, 8).cables, 6);
}

TEST(NetworkSize, APlatformHasNoneOfThem) {
  Network n;
  n.platform = "p.xml";
  EXPECT_EQ(size_of(n, 9).places, 0);
}

std::string error_of(const std::string& nodes, const std::string& network) {
  try {
    load_scenario(Document::parse("s.json", R"({"cluster": {"network": {"topology": )" + network +
                                                R"(}, "nodes": )" + nodes + R"(},
  "protocol": {"name": "drtmh"}, "workload": {"name": "smallbank"}})"),
                  {}, test_catalog());
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

/// Set-up would take minutes, and gigabytes.
TEST(NetworkSize, CablesAreBounded) {
  using testing::EndsWith;
  EXPECT_EQ(error_of("3", R"("dragonfly", "chassis": 512)"),
            "s.json:1:62: /cluster/network/chassis: out of range: 2105350 cables between switches; allowed: "
            "up to 131072");
  EXPECT_THAT(error_of("3", R"("dragonfly", "routers": 1024)"),
              EndsWith("/cluster/network/routers: out of range: 4194310 cables between switches; allowed: up "
                       "to 131072"));
  EXPECT_THAT(error_of("3", R"("torus", "dimensions": [16, 16, 16, 16])"),
              EndsWith("/cluster/network/dimensions: out of range: 262144 cables between switches; allowed: "
                       "up to 131072"));
  EXPECT_THAT(error_of("200", R"("fat_tree", "leaf_ports": 1, "spines": 1024)"),
              EndsWith("/cluster/network/spines: out of range: 409600 cables between switches; allowed: up "
                       "to 131072"));
  EXPECT_EQ(error_of("200", R"("fat_tree", "leaf_ports": 8, "spines": 1024)"), "accepted");
  EXPECT_EQ(error_of("1000", R"("torus", "dimensions": [32, 32, 32])"), "accepted");
}

}  // namespace
}  // namespace verbtwin::scenarios
