#include "scenarios/sweep.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "backend/temporary_directory.hpp"
#include "backend/user_error.hpp"
#include "scenarios/catalog_for_test.hpp"

namespace verbtwin::scenarios {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class Sweep : public testing::Test {
 protected:
  std::vector<SweepPoint> points(const std::string& sweep, const std::vector<std::string>& overrides = {},
                                 const std::vector<Override>& flags = {},
                                 const std::vector<std::string>& sweeps = {}) {
    const fs::path file = directory_ / "s.json";
    std::ofstream(file) << "{\n" << own_ << (sweep.empty() ? "" : ",\n\"sweep\": " + sweep) << "}\n";
    return load_points(file, overrides, test_catalog(), flags, sweeps);
  }
  std::string refusal(const std::string& sweep, const std::vector<std::string>& overrides = {},
                      const std::vector<Override>& flags = {}, const std::vector<std::string>& sweeps = {}) {
    try {
      points(sweep, overrides, flags, sweeps);
    } catch (const UserError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      return error.what();
    }
    return "accepted";
  }

  std::string own_ = R"("cluster": {"nodes": 4, "threads": 2},
"protocol": {"name": "drtmh"},
"workload": {"name": "smallbank"})";
  TemporaryDirectory made_;
  const fs::path directory_ = made_.path();
};

TEST_F(Sweep, WithoutOneThereIsOnePoint) {
  const auto all = points("");
  ASSERT_EQ(all.size(), 1U);
  EXPECT_TRUE(all[0].settings.empty());
  EXPECT_EQ(all[0].scenario.cluster.nodes, 4);
}

TEST_F(Sweep, MayComeFromTheCommandLine) {
  const auto all = points(
      R"([{"cluster.nodes": [3, 5]}])", {"run.measure_us=1e3"}, {},
      {"protocol.name=fasst-occ,drtmh", "cluster.network={\"topology\":\"star\"}", "cluster.coroutines=1,2"});
  ASSERT_EQ(all.size(), 8U);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].scenario.cluster.nodes, i < 4 ? 3 : 5);
    EXPECT_EQ(all[i].scenario.protocol.at("name"), i % 4 < 2 ? "fasst-occ" : "drtmh");
    EXPECT_EQ(all[i].scenario.cluster.coroutines, 1 + static_cast<int>(i % 2));
    EXPECT_EQ(all[i].scenario.run.measure_us, 1000);
    ASSERT_EQ(all[i].settings.size(), 4U);
    EXPECT_EQ(all[i].settings[3].first, "cluster.coroutines");
    EXPECT_EQ(all[i].settings[3].second, 1 + i % 2) << "a number in tables";
  }
  const auto one = points("", {"cluster.coroutines=2"}, {}, {"cluster.coroutines=1,2,4"});
  ASSERT_EQ(one.size(), 1U) << "picked";
  EXPECT_EQ(one[0].scenario.cluster.coroutines, 2);
}

TEST_F(Sweep, FromTheCommandLineIsRefusedByItsName) {
  const auto refused = [&](const std::string& flag, const std::string& sweep = "") {
    return refusal(sweep, {}, {}, {flag});
  };
  EXPECT_EQ(refused("cluster.nodes"),
            "--sweep cluster.nodes: expected PATH=VALUE,VALUE, such as cluster.nodes=4,8,16");
  EXPECT_EQ(refused("=1"), "--sweep =1: expected PATH=VALUE,VALUE, such as cluster.nodes=4,8,16");
  EXPECT_THAT(refused("cluster.nodes=4,,8"), HasSubstr("--sweep cluster.nodes=4,,8: a value is empty"));
  EXPECT_THAT(refused("cluster.nodes="), HasSubstr(": a value is empty"));
  EXPECT_THAT(refused("cluster.nods=4,8"),
              testing::StartsWith("--sweep cluster.nods=4,8: /cluster/nods: unknown key \"nods\""));
  EXPECT_THAT(refused("cluster.nodes=4,4"),
              HasSubstr("--sweep cluster.nodes=4,4: value 1 makes the same points as value 0"));
  EXPECT_THAT(refused("cluster.nodes=4,0"),
              testing::StartsWith("--sweep cluster.nodes=4,0: /cluster/nodes: out of range: 0"));
  EXPECT_THAT(refused("cluster.nodes=4,x"),
              testing::StartsWith("--sweep cluster.nodes=4,x: /cluster/nodes: wrong type: string \"x\""));
  EXPECT_THAT(refused("sweep=1,2"), HasSubstr("--sweep sweep=1,2: \"sweep\" cannot be swept"));
  const std::string swept = R"([{"cluster.nodes": [3, 5]}])";
  EXPECT_THAT(refused("cluster.nodes=4,8", swept),
              HasSubstr("--sweep cluster.nodes=4,8: \"cluster.nodes\" is swept already"));
  EXPECT_THAT(refused("cluster={\"nodes\":4}", swept),
              testing::AllOf(testing::StartsWith("--sweep cluster={"), HasSubstr(" sets what ")));
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

TEST_F(Sweep, TheFilesOwnValueOfASweptFieldIsLookedAtToo) {
  const auto refused = [&](const std::string& where, const std::string& what, const std::string& sweep) {
    const std::string before = own_;
    own_.replace(own_.find(where), where.size(), what);
    const std::string line = refusal(sweep);
    own_ = before;
    return line.substr(line == "accepted" ? 0 : line.find("s.json"));
  };
  const std::string threads = R"([{"cluster.threads": [2, 4]}])";
  EXPECT_EQ(refused("\"threads\": 2", "\"threads\": \"many\"", threads),
            "s.json:2:36: /cluster/threads: wrong type: string \"many\"; allowed: integer, 1 to 256");
  EXPECT_THAT(refused("\"threads\": 2", "\"threads\": 0", threads), HasSubstr("out of range: 0"));
  EXPECT_THAT(refused("\"threads\": 2", "\"thraeds\": 2", R"([{"cluster": [{"nodes": 4}, {"nodes": 5}]}])"),
              HasSubstr("/cluster/thraeds: unknown key"));
  EXPECT_THAT(refused("drtmh", "dtrmh", R"([{"protocol.name": ["drtmh", "fasst-occ"]}])"),
              HasSubstr("/protocol/name: unknown value \"dtrmh\""));
  // What no point lacks may be absent, and what another protocol takes may be there.
  EXPECT_EQ(refused(R"("nodes": 4, )", "", R"([{"cluster.nodes": [4, 5]}])"), "accepted");
  EXPECT_EQ(refused(R"("nodes": 4, )", "", R"([{"cluster": [{"nodes": 4}, {"nodes": 5}]}])"), "accepted");
  EXPECT_EQ(refused("drtmh", "fasst-occ", R"([{"protocol.name": ["drtmh", "fasst-occ"]}])"), "accepted");
}

TEST_F(Sweep, WhatAnOverrideSetsHoldsAtEveryPoint) {
  for (const SweepPoint& point : points(R"([{"cluster.nodes": [3, 5], "run.measure_us": [10, 20]}])",
                                        {"cluster.threads=8", "run.seed=7", "run.measure_us=30"})) {
    EXPECT_EQ(point.scenario.cluster.threads, 8);
    EXPECT_EQ(point.scenario.run.seed, 7U);
    EXPECT_EQ(point.scenario.run.measure_us, 30) << "how long points run is not what tells them apart";
  }
}

TEST_F(Sweep, AnOverrideOfWhatIsSweptPicksPoints) {
  const char* sweep = R"([{"protocol.name": ["drtmh", "fasst-occ"]},
                          {"cluster.nodes": [3, 5, 7], "run.measure_us": [10, 20, 20]}])";
  const auto picked = [&](const std::vector<std::string>& overrides) {
    std::vector<std::string> result;
    for (const SweepPoint& point : points(sweep, overrides)) {
      result.push_back(fmt::format("{} {} {:g}", point.scenario.protocol.at("name").get<std::string>(),
                                   point.scenario.cluster.nodes, point.scenario.run.measure_us));
    }
    return result;
  };
  using testing::ElementsAre;
  EXPECT_THAT(picked({"cluster.nodes=5"}), ElementsAre("drtmh 5 20", "fasst-occ 5 20"));
  EXPECT_THAT(picked({"cluster.nodes=5", "protocol.name=fasst-occ"}), ElementsAre("fasst-occ 5 20"));
  EXPECT_THAT(picked({"cluster.nodes=5.0", "protocol.name=drtmh", "run.measure_us=30"}),
              ElementsAre("drtmh 5 30"));
  EXPECT_THAT(picked({"cluster.nodes=5", "protocol.name=drtmh", "cluster.nodes=3"}),
              ElementsAre("drtmh 3 10"))
      << "the last one wins";
  EXPECT_THAT(points(sweep, {"cluster.nodes=7"}).front().settings, testing::SizeIs(3))
      << "what varies is still said";
}

TEST_F(Sweep, OnlyValuesThatAreSweptCanBePicked) {
  const std::string nodes = R"([{"cluster.nodes": [3, 5]}])";
  EXPECT_EQ(refusal(nodes, {"run.seed=7", "cluster.nodes=8"}),
            "--set cluster.nodes=8: the scenario sweeps cluster.nodes; allowed: its values, 3, 5");
  EXPECT_THAT(refusal(nodes, {R"(cluster={"nodes":8})"}), HasSubstr("the scenario sweeps cluster.nodes;"));
  EXPECT_THAT(
      refusal(R"([{"cluster.nodes": [3, 5], "run.seed": [1, 2]}])", {"cluster.nodes=3", "run.seed=2"}),
      HasSubstr("--set run.seed=2: the scenario sweeps run.seed;"))
      << "each is a value, but no point has both";
  EXPECT_THAT(refusal(R"([{"run.seed": [1, 2]}])", {}, {flag_override("run.seed", "--seed", "8")}),
              testing::StartsWith("--seed 8: the scenario sweeps run.seed;"));
  EXPECT_THAT(refusal(R"([{"run.measure_us": [10, 20]}])", {"run.measure_us=30"}),
              HasSubstr("the scenario sweeps run.measure_us;"))
      << "the only thing that tells its points apart";
  EXPECT_EQ(refusal(R"([{"cluster": [{"nodes": 4}, {"nodes": 5}]}])", {"cluster.threads=3"}), "accepted");
  EXPECT_EQ(refusal(R"([{"cluster.nodes": [3, 5]}])", {"cluster.nodes_per_rack=3"}).find("sweeps"),
            std::string::npos)
      << "another field whose name begins so";
}

TEST_F(Sweep, AValueHasTheTypeThatItsFieldWants) {
  EXPECT_THAT(refusal("[{\"cluster.nodes\": [3,\n\"4\"]}]"),
              HasSubstr("s.json:6:1: /cluster/nodes: wrong type: string \"4\"; allowed: integer, 1 to 4096"));
  EXPECT_THAT(refusal(R"([{"name": [4]}])"), HasSubstr("/name: wrong type: integer 4; allowed: string"));
  EXPECT_THAT(refusal(R"([{"protocol.name": [3]}])"), HasSubstr("/protocol/name: wrong type: integer 3"));
  EXPECT_THAT(refusal(R"([{"cluster.network": ["{}"]}])"), HasSubstr("/cluster/network: wrong type: string"));
  EXPECT_EQ(points(R"([{"cluster.nodes": [3e0, 5]}])")[0].scenario.cluster.nodes, 3) << "a whole number";
}

TEST_F(Sweep, AFieldIsSweptOnceAlsoAsPartOfAnother) {
  EXPECT_EQ(refusal("[{\"cluster.nodes\": [3, 5]},\n{\"cluster\": [{\"nodes\": 4}]}]")
                .substr(directory_.string().size()),
            "/s.json:6:2: /sweep/1/cluster: \"cluster\" sets what \"cluster.nodes\" sweeps already (" +
                directory_.string() +
                "/s.json:5:12); allowed: one of them, or the whole in an entry before its part");
  EXPECT_THAT(refusal(R"([{"cluster": [{"threads": 1}, {"nodes": 4}], "cluster.nodes": [3, 5]}])"),
              HasSubstr("/sweep/0/cluster.nodes: \"cluster.nodes\" sets what \"cluster\" sweeps already"));
  EXPECT_THAT(refusal(R"([{"cluster": [{"nodes": 4, "network": {"topology": "star"}}]},
                          {"cluster.network.topology": ["fat_tree"]}])"),
              HasSubstr("allowed: one of them, or values of the whole that leave its part out"));
  const auto all = points(R"([{"cluster": [{"threads": 3}]}, {"cluster.nodes": [3, 5]}])");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[1].scenario.cluster.nodes, 5);
  EXPECT_EQ(all[1].scenario.cluster.threads, 3);
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
  EXPECT_THAT(refusal(R"([{"$schema": ["a", "b"]}])"), HasSubstr("cannot be swept"));
  EXPECT_THAT(refusal(R"([{"cluster.nodes": [3, 4]}, {"name": ["a", "b"]}])"),
              HasSubstr("/sweep/1: varies words only"));
  EXPECT_THAT(refusal("", {"sweep=[]"}), HasSubstr("belongs in the scenario's file"));
  EXPECT_THAT(refusal("[{\"cluster.nodes\": [3, 4]},\n{\"run.seed\": [1], \"cluster.nodes\": [5]}]"),
              HasSubstr("s.json:6:19: /sweep/1/cluster.nodes: \"cluster.nodes\" is swept already"));
  EXPECT_THAT(refusal("[{\"cluster.nodes\": [3, 4, 3],\n\"run.seed\": [1, 1, 1]}]"),
              HasSubstr("/sweep/0/cluster.nodes/2: value 2 makes the same points as value 0"));
  EXPECT_THAT(refusal(R"([{"cluster.nodes": [4, null]}])"),
              HasSubstr("/sweep/0/cluster.nodes/1: value 1 makes"))
      << "null is what the file has";
  std::string keys = "[";
  for (int i = 0; i < 65; ++i) keys += "{\"workload.k" + std::to_string(i) + "\": [1]},";
  keys.back() = ']';
  EXPECT_THAT(refusal(keys), HasSubstr("/sweep/64/workload.k64: more than 64 keys are swept"));
  std::string many = "[";
  for (const char* key :
       {"run.seed", "cluster.nodes", "cluster.threads", "cluster.coroutines", "run.warmup_us"})
    many += "{\"" + std::string(key) + "\": [1,2,3,4,5,6,7,8,9,10]},";
  many.back() = ']';
  EXPECT_THAT(refusal(many), HasSubstr("/sweep: out of range: 100000 points; allowed: up to 10000"));
  std::string words = "[{\"cluster.nodes\": [3, 4]}";
  for (int i = 0; i < 30; ++i) words += ",{\"workload.k" + std::to_string(i) + "\": [1,2,3,4,5,6,7,8,9,10]}";
  EXPECT_THAT(refusal(words + "]"), HasSubstr("/sweep: out of range: 2e+30 points; allowed: up to 10000"));
}

}  // namespace
}  // namespace verbtwin::scenarios
