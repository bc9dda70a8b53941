// --cfg and --log, which go to SimGrid.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/tests/command_line_for_test.hpp"

namespace verbtwin::tools {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class SimgridFlagsTest : public CommandLine {
 protected:
  std::string in(const std::string& name) const { return (directory_ / name).string(); }

  Ended run_with(const std::vector<std::string>& flags, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"run", scenario_, "--json"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    return verbtwin(arguments);
  }

  json result_with(const std::vector<std::string>& flags, const std::vector<std::string>& more = {}) const {
    const Ended ended = run_with(flags, more);
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    return json::parse(ended.out);
  }

  std::string refusal_with(const std::string& flag) const { return refusal({"run", scenario_, flag}); }
};

TEST_F(SimgridFlagsTest, WhatSimGridDoesNotTakeIsRefused) {
  EXPECT_THAT(refusal_with("--cfg=network/weight_S:1"),
              StartsWith("--cfg=network/weight_S:1: unknown key \"network/weight_S\"; did you mean "
                         "\"network/weight-S\"?"));
  EXPECT_THAT(refusal_with("--cfg=nosuch:1"), StartsWith("--cfg=nosuch:1: unknown key \"nosuch\""));
  EXPECT_THAT(refusal_with("--cfg=network/weight-S:abc"), HasSubstr("invalid double"));
  EXPECT_THAT(refusal_with("--cfg=network/weight-S"), HasSubstr("Should be of the form 'name:value'"));
  EXPECT_THAT(refusal_with("--cfg=network/optim:foo"), HasSubstr("Valid models are: Lazy, TI, Full."));
  EXPECT_THAT(refusal_with("--cfg=network/optim:help"), HasSubstr("Lazy action management"))
      << "where SimGrid ends the process, too";
  EXPECT_THAT(refusal_with("--cfg=network/optim:Full,nosuch:1"), HasSubstr("unknown key \"nosuch\""));
  EXPECT_THAT(refusal_with("--log=nosuch.thres:verbose"),
              StartsWith("--log=nosuch.thres:verbose: unknown category \"nosuch\""));
  EXPECT_THAT(refusal_with("--log=surf_network.thres:verbose"), HasSubstr("did you mean \"ker_network\"?"))
      << "its name in other versions";
  EXPECT_THAT(refusal_with("--log=root.thres:foo"), HasSubstr("Unknown priority name: foo"));
  EXPECT_THAT(refusal_with("--log=root"), HasSubstr("Invalid control string 'root'"));
  for (const char* command : {"check", "explain"})
    EXPECT_THAT(refusal({command, scenario_, "--cfg=nosuch:1"}), StartsWith("--cfg=nosuch:1: unknown key"));
  EXPECT_THAT(refusal({"plan", scenario_, "--goal", "committed_per_s>=1", "--cfg=nosuch:1"}),
              StartsWith("--cfg=nosuch:1: unknown key"));
}

TEST_F(SimgridFlagsTest, WhatEverySimulationSetsIsRefused) {
  EXPECT_EQ(
      refusal_with("--cfg=network/model:LV08"),
      "--cfg=network/model:LV08: network/model is CM02 in every simulation: the others correct for TCP, "
      "which RDMA does not speak");
  EXPECT_THAT(refusal_with("--cfg=network/optim:Full surf/precision:1e-9"),
              HasSubstr("surf/precision is 1e-12 in every simulation"));
}

TEST_F(SimgridFlagsTest, KeysReachMessagesThatAreSimGrids) {
  const std::vector<std::string> simgrid = {"--set", "cluster.network.model=simgrid"};
  const auto p50_us = [](const json& result) { return result.at("latency_us").at("p50").get<double>(); };
  const json plain = result_with({}, simgrid);
  EXPECT_FALSE(plain.at("simulator").contains("simgrid_cfg"));
  const std::vector<std::string> slower = {"--cfg=network/latency-factor:10"};
  const json slow = result_with(slower, simgrid);
  EXPECT_EQ(slow.at("simulator").at("simgrid_cfg"), json({"network/latency-factor:10"}));
  EXPECT_GT(p50_us(slow), 1.3 * p50_us(plain));
  EXPECT_EQ(p50_us(result_with(slower)), p50_us(result_with({}))) << "others are not SimGrid's";

  const std::vector<std::string> sweep = {"--sweep", "run.seed=1,2", "--jobs", "2"};
  std::vector<std::string> all = simgrid;
  all.insert(all.end(), sweep.begin(), sweep.end());
  const json points = result_with(slower, all).at("points");
  for (const json& point : points) EXPECT_GT(p50_us(point), 1.3 * p50_us(plain));
}

TEST_F(SimgridFlagsTest, APointWithOtherKeysIsNotKept) {
  const std::vector<std::string> run = {"run",   scenario_,  "--sweep", "run.seed=1,2",
                                        "--out", in("made"), "--resume"};
  std::vector<std::string> with_cfg = run;
  with_cfg.emplace_back("--cfg=network/weight-S:100");
  ASSERT_EQ(verbtwin(run).exit_code, 0);
  ASSERT_EQ(verbtwin(with_cfg).exit_code, 0);
  const json again = json::parse(read_text(in("made/points/001/result.json")));
  EXPECT_TRUE(again.at("simulator").contains("simgrid_cfg"));
}

TEST_F(SimgridFlagsTest, LogsComeToStandardError) {
  const std::vector<std::string> simgrid = {
      "--set", "cluster.network.model=simgrid", "--set", "run.measure_us=1", "--set", "run.warmup_us=1"};
  EXPECT_THAT(run_with({}, simgrid).err, Not(HasSubstr("[")));
  const Ended verbose = run_with({"--log=root.thres:verbose"}, simgrid);
  EXPECT_EQ(verbose.exit_code, 0);
  EXPECT_THAT(verbose.err, HasSubstr("/VERBOSE] "));
  EXPECT_TRUE(json::accept(verbose.out)) << "and nowhere else";
}

TEST_F(SimgridFlagsTest, AreOfSimulatedRuns) {
  EXPECT_EQ(refusal({"run", scenario_, "--backend", "ibverbs", "--rank", "0", "--log=root.thres:verbose"}),
            "--cfg and --log are SimGrid's: --backend sim is allowed with them");
}

}  // namespace
}  // namespace verbtwin::tools
