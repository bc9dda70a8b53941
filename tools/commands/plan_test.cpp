// verbtwin plan as its users meet it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tools/tests/command_line_for_test.hpp"

namespace verbtwin::tools {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::StartsWith;

class PlanCommand : public CommandLine {
 protected:
  /// A rate that so many times the smallest cluster's rate is.
  std::string goal(double times) const {
    const json result =
        json::parse(verbtwin({"run", scenario_, "--set", "cluster.nodes=3", "--json", "--quiet"}).out);
    return "committed_per_s>=" + std::to_string(times * result.at("committed_per_s").get<double>());
  }
};

TEST_F(PlanCommand, FindsTheSmallestClusterAndShowsThatOneLessIsNotEnough) {
  const Ended ended = verbtwin({"plan", scenario_, "--goal", goal(2.5), "--json"});
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  const json plan = json::parse(ended.out);
  EXPECT_EQ(plan.at("format"), "verbtwin-plan");
  EXPECT_EQ(plan.at("best"), 0);
  const json& found = plan.at("alternatives")[0];
  const int nodes = found.at("nodes");
  EXPECT_GT(nodes, 5);
  const double wanted = plan.at("goals")[0].at("at_least");
  std::map<int, bool> reached;  // by size: what its only run says, or most of the seeds
  for (const json& run : found.at("runs"))
    reached[run.at("scenario").at("cluster").at("nodes")] = run.at("committed_per_s") >= wanted;
  for (const json& size : found.at("seeds")) reached[size.at("nodes")] = 2 * size.at("met").get<int>() > 3;
  for (const auto& [of_run, is_enough] : reached) EXPECT_EQ(is_enough, of_run >= nodes) << of_run;
  EXPECT_TRUE(reached.contains(nodes - 1));
  std::set<int> seeds;
  for (const json& run : found.at("other_seeds"))
    seeds.insert(run.at("scenario").at("run").at("seed").get<int>());
  EXPECT_EQ(seeds.size(), 2U);
  for (json run : found.at("runs")) {
    if (run.at("scenario").at("cluster").at("nodes") != nodes) continue;
    json same = json::parse(
        verbtwin({"run", scenario_, "--set", "cluster.nodes=" + std::to_string(nodes), "--json"}).out);
    same.erase("simulator");
    run.erase("simulator");
    EXPECT_EQ(run, same) << "as a run of its own has it";
  }
}

TEST_F(PlanCommand, EverySettingOfTheSweepIsSearchedAndWhatRanIsKept) {
  const std::string scenario =
      write("sweep.json", with_sweep(R"([{"protocol.name": ["fasst-occ", "drtmh"]}])"));
  const std::string out = (directory_ / "planned").string();
  const std::string rate = goal(2);
  const Ended ended =
      verbtwin({"plan", scenario, "--goal", rate, "--goal", "latency_us.p99<=1000", "--out", out});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out, StartsWith("wanted       committed_per_s >= "));
  EXPECT_THAT(ended.out, ContainsRegex("\nsmallest     protocol=[a-z-]+: [0-9]+ machines: committed_per_s "));
  EXPECT_THAT(ended.out, HasSubstr(", seed 2\n"));
  EXPECT_THAT(ended.out, ContainsRegex("\n(or|smallest) +protocol=fasst-occ: "));
  EXPECT_THAT(ended.out, ContainsRegex("\n(or|smallest) +protocol=drtmh: "));
  const json plan = json::parse(read_text(fs::path(out) / "plan.json"));
  ASSERT_EQ(plan.at("alternatives").size(), 2U);
  EXPECT_EQ(plan.at("alternatives")[1].at("settings"), json({{"protocol.name", "drtmh"}}));
  const std::string rows = read_text(fs::path(out) / "plan.csv");
  std::size_t runs = 1;  // the head
  for (const json& alternative : plan.at("alternatives"))
    runs += alternative.at("runs").size() + alternative.at("other_seeds").size();
  EXPECT_EQ(static_cast<std::size_t>(std::count(rows.begin(), rows.end(), '\n')), runs);
  EXPECT_EQ(verbtwin({"plan", scenario, "--goal", rate, "--goal", "latency_us.p99<=1000", "--jobs", "2"}).out,
            ended.out.substr(0, ended.out.find("wrote ")));
}

TEST_F(PlanCommand, ASweepOnTheCommandLineIsOneOfTheFile) {
  const std::string rate = goal(1.2);
  const Ended typed =
      verbtwin({"plan", scenario_, "--goal", rate, "--sweep", "protocol.name=fasst-occ,drtmh"});
  EXPECT_EQ(typed.exit_code, 0) << typed.err;
  const std::string written =
      write("sweep.json", with_sweep(R"([{"protocol.name": ["fasst-occ", "drtmh"]}])"));
  EXPECT_EQ(typed.out, verbtwin({"plan", written, "--goal", rate}).out);
  EXPECT_EQ(refusal({"plan", scenario_, "--goal", rate, "--sweep", "cluster.nodes=4,8"}),
            "--sweep cluster.nodes=4,8: cluster.nodes is what plan looks for; allowed: --from N and --to N, "
            "between which it looks");
  EXPECT_THAT(refusal({"plan", scenario_, "--goal", rate, "--sweep", "cluster.threads=2,0"}),
              StartsWith("--sweep cluster.threads=2,0: /cluster/threads: out of range: 0"));
}

TEST_F(PlanCommand, QuietPrintsTheAnswerAlone) {
  const std::vector<std::string> asked = {"plan", scenario_, "--goal", goal(1.2)};
  std::vector<std::string> quietly = asked;
  quietly.emplace_back("--quiet");
  const Ended ended = verbtwin(quietly);
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_EQ(ended.err, "");
  EXPECT_THAT(ended.out, ContainsRegex("^smallest     [0-9]+ machines: committed_per_s "));
  EXPECT_THAT(verbtwin(asked).out, testing::EndsWith("\n\n" + ended.out));
  quietly.emplace_back("--json");
  EXPECT_EQ(json::parse(verbtwin(quietly).out).at("format"), "verbtwin-plan");
}

TEST_F(PlanCommand, NoneIsExitCodeOne) {
  const Ended rate = verbtwin({"plan", scenario_, "--goal", goal(50), "--to", "5"});
  EXPECT_EQ(rate.exit_code, 1);
  EXPECT_THAT(rate.out, HasSubstr("\nno cluster of 3 to 5 machines meets the goals\n"));
  const Ended latency = verbtwin({"plan", scenario_, "--goal", goal(1), "--goal", "latency_us.p50<=0.5"});
  EXPECT_EQ(latency.exit_code, 1);
  EXPECT_THAT(latency.out, HasSubstr("\nnot          3 machines reach the rate, and latency_us.p50 is "));
}

TEST_F(PlanCommand, WhatCannotBePlannedIsRefused) {
  const auto refused = [&](std::vector<std::string> flags, const std::string& goal = "committed_per_s>=1") {
    flags.insert(flags.begin(), {"plan", scenario_, "--goal", goal});
    return refusal(std::move(flags));
  };
  EXPECT_EQ(refusal({"plan", scenario_}), "verbtwin plan: --goal is required (see verbtwin plan --help)");
  EXPECT_THAT(refused({}, "rate>=1"), StartsWith("--goal rate>=1: unknown quantity \"rate\"; allowed: "));
  EXPECT_EQ(refused({"--from", "9", "--to", "8"}),
            "--to 8: the search begins at 9 machines; allowed: 9 or more");
  EXPECT_EQ(refused({"--from", "2"}),
            "--from 2: a record has 3 replicas, on a machine each; allowed: 3 or more, or --set "
            "cluster.replicas=2");
  EXPECT_EQ(refused({}, "committed_per_s>=-5"),
            "--goal committed_per_s>=-5: the value is no number of 0 or more; allowed: as 100e6");
  EXPECT_EQ(
      refused({"--set", "run.seed=2", "--set", "cluster.nodes=9"}),
      "--set cluster.nodes=9: cluster.nodes is what plan looks for; allowed: --from N and --to N, between "
      "which it looks");
  EXPECT_EQ(refused({"--set", "backend=ibverbs"}),
            "plan simulates clusters that are not there: --set backend=sim is allowed");
  EXPECT_EQ(
      refused({"--set", "run.offered_per_s=1e6"}, "committed_per_s>=2e6"),
      "--goal committed_per_s >= 2.00 M/s: run.offered_per_s asks for 1.00 M/s; allowed: no more than that");
  const std::string sweep = write("sweep.json", with_sweep(R"([{"cluster.nodes": [3, 4]}])"));
  EXPECT_EQ(refusal({"plan", sweep, "--goal", "committed_per_s>=1"}),
            "the scenario sweeps cluster.nodes, which plan looks for: leave it out of the sweep");
  EXPECT_THAT(refused({"--sweep", R"(cluster={"nodes": 3},{"nodes": 4})"}),
              StartsWith("the scenario sweeps cluster.nodes"));
  EXPECT_THAT(
      refusal({"plan", VERBTWIN_SOURCE_DIR "/scenarios/ramp/ycsb.json", "--goal", "committed_per_s>=1"}),
      testing::StartsWith("cluster.roles says how many machines serve and ask"));
  EXPECT_EQ(refusal({"plan", VERBTWIN_SOURCE_DIR "/scenarios/primitives/echo-ud.json", "--goal",
                     "committed_per_s>=1"}),
            "workload echo is a micro-benchmark, whose rate is per machine: plan is for transactions");
}

}  // namespace
}  // namespace verbtwin::tools
