#include "scenarios/sweep.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "backend/temporary_directory_for_test.hpp"
#include "backend/user_error.hpp"
#include "scenarios/catalog_test.hpp"

namespace verbtwin::scenarios {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class Sweep : public testing::Test {
 protected:
  std::vector<SweepPoint> points(const std::string& sweep, const std::vector<std::string>& overrides = {},
                                 const std::vector<Override>& flags = {}) {
    const fs::path file = directory_ / "s.json";
    std::ofstream(file)
        << "{\n\"cluster\": {\"nodes\": 4, \"threads\": 2},\n\"protocol\": {\"name\": \"drtmh\"},\n"
           "\"workload\": {\"name\": \"smallbank\"}"
        << (sweep.empty() ? "" : ",\n\"sweep\": " + sweep) << "}\n";
    return load_points(file, overrides, test_catalog(), flags);
  }
  std::string refusal(const std::string& sweep, const std::vector<std::string>& overrides = {},
                      const std::vector<Override>& flags = {}) {
    try {
      points(sweep, overrides, flags);
    } catch (const UserError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      return error.what();
    }
    return "accepted";
  }

  TemporaryDirectory made_;
  const fs::path directory_ = made_.path();
};

TEST_F(Sweep, WithoutOneThereIsOnePoint) {
  const auto all = points("");
  ASSERT_EQ(all.size(), 1U);
  EXPECT_TRUE(all[0].settings.empty());
  EXPECT_EQ(all[0].scenario.cluster.nodes, 4);
}

TEST_F(Sweep, IsTheProductOfItsEntriesTheFirstVaryingSlowest) {
  const auto all = points(
      R"([{"cluster.nodes": [3, 5]}, {"cluster.coroutines": [1, 2, 4], "run.measure_us": [30, 20, 10]}])");
  ASSERT_EQ(all.size(), 6U);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].scenario.cluster.nodes, i < 3 ? 3 : 5);
    EXPECT_EQ(all[i].scenario.cluster.coroutines, 1 << i % 3);
    EXPECT_EQ(all[i].scenario.run.measure_us, 30 - 10 * static_cast<double>(i % 3))
        << "moves with coroutines";
    ASSERT_EQ(all[i].settings.size(), 3U);
    EXPECT_FALSE(all[i].scenario.resolved.contains("sweep")) << "a point is a scenario of its own";
  }
}

TEST_F(Sweep, NullLeavesAFieldAsItIs) {
  const auto all = points(R"([{"cluster.nodes": [null, 5], "protocol.name": ["drtmh", null]}])");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].scenario.cluster.nodes, 4);
  EXPECT_EQ(all[1].scenario.cluster.nodes, 5);
  EXPECT_EQ(all[1].scenario.protocol.at("name"), "drtmh");
  EXPECT_EQ(all[0].settings.size(), 2U) << "a column of the table all the same";
}

TEST_F(Sweep, WhatAnOverrideSetsHoldsAtEveryPoint) {
  for (const SweepPoint& point :
       points(R"([{"cluster.nodes": [3, 5]}])", {"cluster.nodes=8", "run.seed=7"})) {
    EXPECT_EQ(point.scenario.cluster.nodes, 8);
    EXPECT_EQ(point.scenario.run.seed, 7U);
  }
}

TEST_F(Sweep, AWrongValueIsToldWithItsPlaceInTheFile) {
  const std::string line = refusal("[\n{\"cluster.nodes\": [3, 0]}]");
  EXPECT_THAT(line, HasSubstr("s.json:6:23: /cluster/nodes: out of range: 0"));
  EXPECT_THAT(refusal(R"([{"cluster.nods": [3]}])"), HasSubstr("did you mean \"nodes\"?"));
}

TEST_F(Sweep, AFieldThatOnePointDoesNotSuitIsToldWithThePoint) {
  EXPECT_THAT(
      refusal(R"([{"run.seed": [1, 2]}, {"cluster.nodes": [3, 1]}])"),
      HasSubstr("s.json:2:12: /cluster/replicas: out of range: 3 (the default); allowed: integer, 1 to "
                "1 (cluster.nodes); in point 1 (run.seed=1, cluster.nodes=1)"));
}

TEST_F(Sweep, FlagsComeLastAndGoByTheirNames) {
  EXPECT_EQ(points("", {"run.seed=7"}, {flag_override("run.seed", "--seed", "8")})[0].scenario.run.seed, 8U);
  EXPECT_THAT(refusal("", {}, {flag_override("run.seed", "--seed", "x")}),
              testing::StartsWith("--seed x: /run/seed: wrong type: string \"x\"; allowed: integer"));
}

TEST_F(Sweep, WrongShapesAreRefused) {
  EXPECT_THAT(refusal("{}"), HasSubstr("/sweep: expected a list"));
  EXPECT_THAT(refusal("[[]]"), HasSubstr("/sweep/0: expected an object"));
  EXPECT_THAT(refusal("[{}]"), HasSubstr("/sweep/0: expected an object"));
  EXPECT_THAT(refusal(R"([{"cluster.nodes": 3}])"), HasSubstr("expected a list of at least one value"));
  EXPECT_THAT(refusal(R"([{"cluster.nodes": []}])"), HasSubstr("expected a list of at least one value"));
  EXPECT_THAT(refusal(R"([{"cluster.nodes": [3, 4], "run.seed": [1]}])"), HasSubstr("move together"));
  EXPECT_THAT(
      refusal("[{\"run.seed\": [1, 2],\n\"cluster.nodes\": [3]}]"),
      HasSubstr(
          "s.json:6:18: /sweep/0/cluster.nodes: a list of 1; allowed: of 2, as \"run.seed\" before it"));
  EXPECT_THAT(refusal("[{\"\": [1]}]"),
              HasSubstr("s.json:5:12: /sweep/0/: \"\" is no field; allowed: a path"));
  EXPECT_THAT(refusal("[{\"run.seed=3\": [1]}]"), HasSubstr("\"run.seed=3\" is no field"));
  EXPECT_THAT(refusal(R"([{"sweep": [1]}])"), HasSubstr("cannot be swept"));
  EXPECT_THAT(refusal("", {"sweep=[]"}), HasSubstr("belongs in the scenario's file"));
  EXPECT_THAT(refusal("[{\"cluster.nodes\": [3, 4]},\n{\"run.seed\": [1], \"cluster.nodes\": [5]}]"),
              HasSubstr("s.json:6:19: /sweep/1/cluster.nodes: \"cluster.nodes\" is swept already"));
  std::string keys = "[";
  ;
  for (int i = 0; i < 65; ++i) keys += "{\"workload.k" + std::to_string(i) + "\": [1]},";
  keys.back() = ']';
  EXPECT_THAT(refusal(keys), HasSubstr("/sweep/64/workload.k64: more than 64 keys are swept"));
  std::string many = "[";
  for (const char* key :
       {"run.seed", "cluster.nodes", "cluster.threads", "cluster.coroutines", "run.warmup_us"})
    many += "{\"" + std::string(key) + "\": [1,2,3,4,5,6,7,8,9,10]},";
  many.back() = ']';
  EXPECT_THAT(refusal(many), HasSubstr("more than 10000 points"));
}

}  // namespace
}  // namespace verbtwin::scenarios
