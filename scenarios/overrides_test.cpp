// What --set says of keys that a scenario does not have at its top.
#include "scenarios/overrides.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "backend/user_error.hpp"

namespace verbtwin::scenarios {
namespace {

using nlohmann::json;
using testing::EndsWith;

TEST(Overrides, AKeyFromFurtherInIsToldWithItsPath) {
  const json schema = json::parse(R"({"additionalProperties": false, "properties": {
    "cluster": {"properties": {"nodes": {}, "network": {"properties": {"topology": {}, "name": {}}}}},
    "protocol": {"properties": {"name": {}}}}})");
  const auto refusal = [&](const std::string& text) -> std::string {
    json root = json::object();
    try {
      apply_override(root, parse_override(text), schema);
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal("nodes=4"),
            "--set nodes=4: /nodes: unknown key \"nodes\"; allowed: cluster, protocol; did you "
            "mean \"cluster.nodes\"?");
  EXPECT_THAT(refusal("topology=torus"), EndsWith("; did you mean \"cluster.network.topology\"?"));
  EXPECT_THAT(refusal("name=farm"), EndsWith("; allowed: cluster, protocol")) << "there are two";
  EXPECT_THAT(refusal("node=4"), EndsWith("; allowed: cluster, protocol"));
  EXPECT_THAT(refusal("clustr=4"), EndsWith("; did you mean \"cluster\"?"));
  EXPECT_EQ(refusal("cluster.nodes=4"), "accepted");
}

}  // namespace
}  // namespace verbtwin::scenarios
