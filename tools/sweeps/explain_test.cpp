// Explaining: what "twice as good" changes, and what is said of what it brought.
#include "tools/sweeps/explain.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "calibration/profile_file.hpp"
#include "models/profile.hpp"
#include "models/socket.hpp"
#include "scenarios/document.hpp"

namespace verbtwin::tools {
namespace {

using calibration::ProfileKind;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

json profile(const std::string& name, ProfileKind kind) {
  return json::parse(scenarios::read_text(calibration::find_profile(name, kind)));
}
double value(const json& profile, const std::string& parameter) {
  return profile.at("parameters").at(parameter).at("value").get<double>();
}

template <typename Table>
std::set<std::string_view> names(const Table& table) {
  std::set<std::string_view> all;
  for (const auto& row : table) all.insert(row.name);
  return all;
}

TEST(Explain, PartsNameParametersThatThereAreAndNoneTwice) {
  const auto nic = names(models::nic_parameters());
  const auto host = names(models::host_parameters());
  const auto socket = names(models::socket_parameters());
  std::set<std::string_view> used;
  for (const Part& part : parts()) {
    for (const auto name : part.nic) EXPECT_TRUE(nic.contains(name) && used.insert(name).second) << name;
    for (const auto name : part.host) EXPECT_TRUE(host.contains(name) && used.insert(name).second) << name;
    for (const auto name : part.socket) EXPECT_TRUE(socket.contains(name)) << name;
  }
}

TEST(Explain, TimesAreHalvedRatesAndNumbersDoubled) {
  const json before = profile("connectx-4", ProfileKind::kNic);
  const json after = improved(before, ProfileKind::kNic, {"recv_packet_ns", "qp_cache_entries", "link_gbps"});
  EXPECT_DOUBLE_EQ(value(after, "recv_packet_ns"), value(before, "recv_packet_ns") / 2);
  EXPECT_DOUBLE_EQ(value(after, "qp_cache_entries"), value(before, "qp_cache_entries") * 2);
  EXPECT_DOUBLE_EQ(value(after, "link_gbps"), value(before, "link_gbps") * 2);
  EXPECT_EQ(value(after, "send_wqe_ns"), value(before, "send_wqe_ns")) << "was not asked for";
}

TEST(Explain, ASmallerStepLeavesNumbersWhole) {
  const json before = profile("connectx-4", ProfileKind::kNic);
  json odd = before;
  odd["parameters"]["qp_cache_entries"]["value"] = 1025;
  const json after = improved(odd, ProfileKind::kNic, {"recv_packet_ns", "qp_cache_entries"}, kSmallerStep);
  EXPECT_DOUBLE_EQ(value(after, "recv_packet_ns"), value(before, "recv_packet_ns") / 1.25);
  EXPECT_EQ(value(after, "qp_cache_entries"), 1282);
  EXPECT_EQ(improved_field({{"cluster", {{"coroutines", 5}}}}, "cluster.coroutines", kSmallerStep), 7);
}

TEST(Explain, NothingGetsBetterThanAProfileMayBe) {
  json before = profile("connectx-4", ProfileKind::kNic);
  before["parameters"]["atomic_locks"]["value"] = 60000;
  EXPECT_EQ(value(improved(before, ProfileKind::kNic, {"atomic_locks"}), "atomic_locks"), 65536);
}

TEST(Explain, FieldsOfTheScenario) {
  const json scenario = {
      {"cluster", {{"coroutines", 4}, {"network", {{"switch_ns", 200.0}, {"link_gbps", 0}}}}},
      {"workload", {{"process_ns", 2000}}}};
  EXPECT_EQ(improved_field(scenario, "cluster.coroutines"), 8);
  EXPECT_EQ(improved_field(scenario, "cluster.network.switch_ns"), 100.0);
  EXPECT_TRUE(improved_field(scenario, "cluster.network.link_gbps").is_null()) << "the NIC's own";
  EXPECT_EQ(improved_field(scenario, "workload.process_ns"), 1000.0);
  EXPECT_TRUE(improved_field(scenario, "workload.outstanding").is_null());
}

json result_with(double committed_per_s, double p50_us = 10) {
  return {{"committed_per_s", committed_per_s}, {"seed", 1}, {"latency_us", {{"p50", p50_us}, {"p99", 20}}}};
}

TEST(Explain, WhatGainsMostComesFirstAndIsNamed) {
  const std::string text = render_explanation({result_with(100e6),
                                               {{"cores", result_with(110e6)},
                                                {"receive engines", result_with(131e6)},
                                                {"links", result_with(100e6)},
                                                {"PCIe rate", result_with(101e6)},
                                                {"coroutines", result_with(90e6, 30)},
                                                {kOtherSeed, result_with(100.5e6)}}});
  EXPECT_LT(text.find("receive engines"), text.find("cores"));
  EXPECT_LT(text.find("PCIe rate"), text.find("coroutines"));
  EXPECT_THAT(text, HasSubstr("no difference         links\n"));
  EXPECT_THAT(text,
              HasSubstr("limit        Held back by receive engines (+31.0 %), cores (+10.0 %), each\n"));
  EXPECT_THAT(text, HasSubstr("Nothing else alone brings more than 3.0\n             %."));
}

TEST(Explain, WhatAnotherSeedMakesIsChance) {
  const std::string text =
      render_explanation({result_with(100), {{"cores", result_with(110)}, {kOtherSeed, result_with(93)}}});
  EXPECT_THAT(
      text,
      HasSubstr("Nothing alone brings more than 14.0 % (twice what another seed\n             changes)"));
  EXPECT_THAT(text, Not(HasSubstr("Held back by")));
}

TEST(Explain, WhereNothingAloneHelpsWhatIsNearlyFullIsNamed) {
  Explanation explanation{result_with(100), {{"cores", result_with(101)}}};
  const auto text = [&] {
    std::string all = render_explanation(explanation);
    for (std::size_t at; (at = all.find("\n             ")) != std::string::npos;)
      all.replace(at, 14, 1, ' ');
    return all;
  };
  EXPECT_THAT(text(), HasSubstr("several parts hold it back in turn, or its own waiting does"));
  explanation.base["resources"] = {{{"name", "core"}, {"utilization_max", 0.998}},
                                   {{"name", "link"}, {"utilization_max", 0.95}},
                                   {{"name", "qp_cache"}, {"hit_ratio", 0.5}},
                                   {{"name", "nic_recv"}, {"utilization_max", 0.97}}};
  EXPECT_THAT(text(), HasSubstr("in turn (core 99.8 %, nic_recv 97.0 % in use), or its own waiting does"));
}

TEST(Explain, SmallerStepsAreOfTheFewPartsThatGainMost) {
  const std::vector<Trial> trials = {{"links", result_with(104)},        {"cores", result_with(110)},
                                     {"send engines", result_with(165)}, {"PCIe rate", result_with(90)},
                                     {"PCIe latency", result_with(120)}, {kOtherSeed, result_with(101)}};
  EXPECT_THAT(worth_a_smaller_step(result_with(100), trials),
              testing::ElementsAre("send engines", "PCIe latency", "cores"));
  EXPECT_THAT(worth_a_smaller_step(result_with(100), {{"cores", result_with(102)}}), testing::IsEmpty());
}

/// What is a little better may fill up another part.
TEST(Explain, WhereASmallerStepLosesItSaysSo) {
  Explanation explanation{result_with(100),
                          {{"send engines", result_with(165)}, {"cores", result_with(110)}}};
  explanation.smaller_steps = {{"send engines", result_with(74)}, {"cores", result_with(99)}};
  EXPECT_THAT(render_explanation(explanation),
              HasSubstr("\nstep         A smaller one loses: send engines (-26.0 %), 1.25 times as good.\n"));
  const json step = explanation_json(explanation).at("smaller_steps").at(0);
  EXPECT_EQ(step.at("part"), "send engines");
  EXPECT_EQ(step.at("times_as_good"), 1.25);
  EXPECT_DOUBLE_EQ(step.at("gain"), 0.74 - 1);
  explanation.smaller_steps[0].result["warning"] = {"the rate is not steady"};
  EXPECT_THAT(render_explanation(explanation),
              testing::ContainsRegex("1.25 times as good[ \n]+.with a warning"));
  explanation.smaller_steps = {{"send engines", result_with(110)}};
  EXPECT_THAT(render_explanation(explanation), Not(HasSubstr("\nstep")));
}

TEST(Explain, WhatConflictsTakeIsInTheVerdict) {
  Explanation explanation{result_with(100), {{"cores", result_with(133)}}};
  EXPECT_THAT(render_explanation(explanation), Not(HasSubstr("Conflicts")));
  explanation.base["bottleneck"] = {{"resource", "locks"}, {"retry_share", 0.57}};
  EXPECT_THAT(render_explanation(explanation),
              testing::ContainsRegex("Conflicts[ \n]+hold[ \n]+it[ \n]+back[ \n]+too:[ \n]+57.0[ \n]+%"));
}

TEST(Explain, ChanceIsTheLargerOfTwoSeeds) {
  const std::string text = render_explanation(
      {result_with(100),
       {{"cores", result_with(108)}, {kOtherSeed, result_with(100)}, {kThirdSeed, result_with(95)}}});
  EXPECT_THAT(text, HasSubstr("Nothing alone brings more than 10.0 %"));
}

/// A limit may be among what was not tried.
TEST(Explain, OnlyWhatWasTriedIsJudged) {
  Explanation explanation{result_with(100), {{"cores", result_with(102)}}, {"links (the platform file's)"}};
  EXPECT_THAT(render_explanation(explanation),
              testing::ContainsRegex(
                  "Nothing that was tried alone brings more than 3.0 %: what was not[ \n]+may hold"));
  explanation.not_tried = {"atomic unit" + std::string(kAsGoodAsCanBe)};
  EXPECT_THAT(render_explanation(explanation), HasSubstr("Nothing alone brings more than 3.0 %"));
  explanation.trials[0].result = result_with(150);
  explanation.not_tried.clear();
  explanation.cut_off = {"links"};
  EXPECT_THAT(render_explanation(explanation), HasSubstr("Nothing else that was tried"));
}

TEST(Explain, ATrialWithAWarningIsMarked) {
  json warned = result_with(60);
  warned["warning"] = {"the rate is not steady"};
  const std::string text =
      render_explanation({result_with(100), {{"cores", warned}, {"links", result_with(101)}}});
  EXPECT_THAT(text, testing::ContainsRegex("cores [^\n]* \\*\n"));
  EXPECT_THAT(text, HasSubstr("\n* with a warning, which explanation.json has"));
  EXPECT_THAT(text, Not(testing::ContainsRegex("links [^\n]* \\*\n")));
}

TEST(Explain, NothingTriedIsNothingKnown) {
  Explanation explanation{result_with(100), {}};
  explanation.cut_off = {"links"};
  EXPECT_THAT(render_explanation(explanation), HasSubstr("limit        Not known: nothing was tried"));
}

TEST(Explain, WhatDoesTheLoadIsNamedWhereItIsNotDone) {
  const auto at = [](double rate, bool done) {
    json result = result_with(rate);
    result["scenario"]["run"]["offered_per_s"] = 101;
    result["bottleneck"] = {{"resource", done ? "offered_load" : "core"}};
    return result;
  };
  const std::string text =
      render_explanation({at(100, false), {{"cores", at(101, true)}, {"links", at(100, false)}}});
  EXPECT_THAT(text, HasSubstr("More is asked for than the cluster does."));
  EXPECT_THAT(text, testing::ContainsRegex("itself:[ \n]+cores\\."));
}

TEST(Explain, WhatIsMissingOrNotRightIsSaid) {
  Explanation explanation{result_with(100), {{"cores", result_with(110)}}};
  explanation.not_tried = {"outstanding requests"};
  EXPECT_THAT(render_explanation(explanation), HasSubstr("not tried             outstanding requests\n"));
  EXPECT_EQ(explanation_json(explanation).at("partial"), false);
  explanation.cut_off = {"links", kOtherSeed};
  EXPECT_THAT(render_explanation(explanation), HasSubstr("cut off               links, another seed\n"));
  EXPECT_THAT(render_explanation(explanation), HasSubstr("\nPARTIAL: some were not run"));
  EXPECT_EQ(explanation_json(explanation).at("partial"), true);
  explanation.base["warning"] = {"the rate is not steady"};
  explanation.trials[0].result["checks"] = {{{"name", "serializable"}, {"violations", 2}}};
  EXPECT_THAT(render_explanation(explanation), HasSubstr("\n* warning    the rate is not steady\n"));
  EXPECT_THAT(render_explanation(explanation), HasSubstr("\nVIOLATED              cores\n"));
}

TEST(Explain, WhatDoesItsLoadGainsInLatency) {
  const auto at_load = [](double mean_us) {
    json result = result_with(100e6, mean_us);
    result["latency_us"]["mean"] = mean_us;
    result["bottleneck"] = {{"resource", "offered_load"}};
    return result;
  };
  const std::vector<Trial> trials = {
      {"links", at_load(10)}, {"PCIe latency", at_load(8)}, {"cores", at_load(9.9)}};
  const std::string text = render_explanation({at_load(10), trials});
  EXPECT_THAT(text, HasSubstr("gain   mean us    p50 us"));
  EXPECT_THAT(text, HasSubstr("PCIe latency             +25.0 %      8.00"));
  EXPECT_THAT(text, HasSubstr("its latency is made longest by PCIe latency"));
  EXPECT_THAT(text, HasSubstr("no difference         links\n"));
  EXPECT_EQ(explanation_json({at_load(10), trials}).at("gain_in"), "latency");
  EXPECT_EQ(explanation_json({result_with(1), {}}).at("gain_in"), "rate");
}

TEST(Explain, AMicroBenchmarksRateIsThatOfAllItsMachines) {
  const json base = {{"operations_per_s", 10.0}, {"machines", 4}};
  const json better = {{"operations_per_s", 15.0}, {"machines", 4}};
  EXPECT_DOUBLE_EQ(gain(base, better), 0.5);
}

}  // namespace
}  // namespace verbtwin::tools
