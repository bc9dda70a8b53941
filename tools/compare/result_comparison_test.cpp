#include "tools/compare/result_comparison.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tools/tests/command_line_for_test.hpp"

namespace verbtwin::tools {
namespace {

using nlohmann::json;
using scenarios::Document;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

json measured() {
  return json::parse(R"({
    "format": "verbtwin-result", "version": 1, "backend": "ibverbs", "seed": 1, "partial": false,
    "scenario": {"name": "mine", "cluster": {"nodes": 3, "nic": "connectx-4"}, "backend": "ibverbs"},
    "window_us": 1000, "committed": 100, "committed_per_s": 100000, "abort_ratio": 0.02,
    "latency_us": {"mean": 10, "p50": 8, "p90": 20, "p99": 40, "p999": 50, "max": 60},
    "phases": {"execution": {"mean_us": 6, "p50_us": 5}},
    "aborts": {"record_locked": 2, "lock_failed": 0},
    "transactions": {"balance": {"committed": 100, "latency_us": {"p50": 8, "p99": 40}}},
    "verbs": {"read": {"count": 250, "bytes": 5000}, "send": {"count": 0, "bytes": 0}},
    "resources": [{"name": "core", "utilization_mean": 0.5, "utilization_max": 0.6}],
    "checks": [{"name": "serializable", "transactions": 100, "violations": 0}],
    "measured_on": [{"host": "one", "devices": [{"device": "mlx5_0"}]}]
  })");
}

/// Twice as fast over twice the window, with a NIC of its own.
json twin() {
  json result = measured();
  result.erase("measured_on");
  result["backend"] = result["scenario"]["backend"] = "sim";
  result["scenario"]["cluster"]["nic"] = "mine.json";
  result["window_us"] = 2000;
  result["committed"] = 400;
  result["committed_per_s"] = 200000;
  result["latency_us"]["p50"] = 4;
  result["verbs"]["read"]["count"] = 1000;
  result["resources"] = json::parse(R"([{"name": "nic_send", "utilization_mean": 0.9},
    {"name": "core", "utilization_mean": 0.4}, {"name": "qp_cache", "hit_ratio": null}])");
  return result;
}

Document document(const std::string& label, const json& result) {
  return Document::parse(label, result.dump(1));
}

ResultComparison compared(const json& a, const json& b) {
  return compare_results(document("a.json", a), document("b.json", b));
}

ComparedQuantity quantity(const ResultComparison& comparison, const std::string& name) {
  const auto found = std::ranges::find(comparison.quantities, name, &ComparedQuantity::name);
  if (found != comparison.quantities.end()) return *found;
  ADD_FAILURE() << "no " << name;
  return {};
}

std::string refusal(const json& a, const json& b) {
  return refusal_of([&] { compared(a, b); });
}

TEST(ResultComparison, CountsAreOfOneCommit) {
  const ResultComparison comparison = compared(measured(), twin());
  EXPECT_EQ(quantity(comparison, "verbs.read.per_commit").a, 2.5);
  EXPECT_EQ(quantity(comparison, "verbs.read.per_commit").b, 2.5);
  EXPECT_EQ(quantity(comparison, "aborts.record_locked.per_commit").a, 0.02);
  EXPECT_EQ(quantity(comparison, "committed_per_s").b, 200000);
  EXPECT_EQ(quantity(comparison, "transactions.balance.latency_us.p99").b, 40);
}

TEST(ResultComparison, ResourcesAreFoundByName) {
  const ResultComparison comparison = compared(measured(), twin());
  EXPECT_EQ(quantity(comparison, "resources.core.utilization_mean").a, 0.5);
  EXPECT_EQ(quantity(comparison, "resources.core.utilization_mean").b, 0.4);
  EXPECT_EQ(quantity(comparison, "resources.nic_send.utilization_mean").a, std::nullopt);
  EXPECT_EQ(quantity(comparison, "resources.nic_send.utilization_mean").b, 0.9);
}

TEST(ResultComparison, WhatNeverHappenedIsLeftOut) {
  const auto quantities = compared(measured(), twin()).quantities;
  ASSERT_FALSE(quantities.empty());
  for (const ComparedQuantity& one : quantities) {
    EXPECT_THAT(one.name, testing::Not(HasSubstr("lock_failed")));
    EXPECT_THAT(one.name, testing::Not(HasSubstr("verbs.send")));
    EXPECT_THAT(one.name, testing::Not(HasSubstr("qp_cache")));
  }
}

TEST(ResultComparison, WhatTheScenariosDifferInIsNamed) {
  json other = twin();
  other["scenario"]["name"] = "words do not count";
  const auto differences = compared(measured(), other).differences;
  std::vector<std::string> paths;
  for (const ScenarioDifference& one : differences) paths.push_back(one.path);
  EXPECT_THAT(paths, ElementsAre("backend", "cluster.nic"));
  EXPECT_EQ(differences[1].a, "connectx-4");
  EXPECT_EQ(differences[1].b, "mine.json");
  EXPECT_THAT(compared(measured(), measured()).differences, IsEmpty());
}

/// A profile that was fitted anew has its old name.
TEST(ResultComparison, WhatIsInFilesOfOneNameCounts) {
  json before = twin(), after = twin();
  before["simulator"]["files"] = {{"cluster.nic", "0001"}, {"cluster.host", "0002"}};
  after["simulator"]["files"] = {{"cluster.nic", "0003"}, {"cluster.host", "0002"}};
  const auto differences = compared(before, after).differences;
  ASSERT_EQ(differences.size(), 1U);
  EXPECT_EQ(words_of(differences[0]), "cluster.nic (what is in it) \"0001\", \"0003\"");
  after["scenario"]["cluster"]["nic"] = "other.json";
  EXPECT_EQ(compared(before, after).differences.size(), 1U) << "the name says so";
}

TEST(ResultComparison, WhatSimGridWasToldCounts) {
  json told = twin();
  told["simulator"]["simgrid_cfg"] = {"network/latency-factor:10"};
  const auto differences = compared(twin(), told).differences;
  ASSERT_EQ(differences.size(), 1U);
  EXPECT_EQ(words_of(differences[0]), "--cfg null, [\"network/latency-factor:10\"]");
  EXPECT_THAT(compared(told, told).differences, IsEmpty());
  told["simulator"]["simgrid_cfg"] = {1};
  EXPECT_THAT(refusal(twin(), told), HasSubstr("/simulator/simgrid_cfg/0"));
}

TEST(ResultComparison, OfAnOfferedLoadBothLatenciesAreCompared) {
  json offered = twin();
  offered["latency_uncorrected_us"] = {{"p50", 3.0}};
  EXPECT_EQ(quantity(compared(twin(), offered), "latency_uncorrected_us.p50").b, 3.0);
}

TEST(ResultComparison, ReadsAsATable) {
  const std::string text = render_comparison(compared(measured(), twin()), {});
  EXPECT_THAT(
      text, HasSubstr("A            a.json: mine, measured on mlx5_0, seed 1, 100 committed in 1,000 us\n"));
  EXPECT_THAT(
      text,
      HasSubstr("scenario     backend \"ibverbs\", \"sim\"; cluster.nic \"connectx-4\", \"mine.json\"\n"));
  EXPECT_THAT(text, testing::ContainsRegex("committed_per_s +100 k +200 k +2.00\n"));
  EXPECT_THAT(text, testing::ContainsRegex("latency_us.p50 +8.00 +4.00 +0.50\n"));
  json slow = measured();
  slow["latency_us"]["p50"] = 8000;
  EXPECT_THAT(render_comparison(compared(slow, twin()), {}),
              testing::ContainsRegex("latency_us.p50 +8,000 +4.00 +0.0005\n"));
  EXPECT_THAT(text, testing::ContainsRegex("resources.nic_send.utilization_mean +- +90.0 % +-\n"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
}

TEST(ResultComparison, ANarrowTerminalWrapsTheTable) {
  EXPECT_THAT(render_comparison(compared(measured(), twin()), {.color = false, .width_columns = 20}),
              testing::ContainsRegex("latency_us.p50 +8.00 +4.00 +0.50\n"));
}

TEST(ResultComparison, ARunThatDidNotGoWellIsCalledSo) {
  json failed = measured();
  failed["failure"] = "rank 1 was lost";
  EXPECT_THAT(render_comparison(compared(failed, twin()), {}), HasSubstr("FAILED: rank 1 was lost"));
  json partial = measured();
  partial["partial"] = true;
  EXPECT_THAT(render_comparison(compared(partial, twin()), {}), HasSubstr("PARTIAL"));
  json wrong = measured();
  wrong["checks"][0]["violations"] = 3;
  EXPECT_THAT(render_comparison(compared(wrong, twin()), {}), HasSubstr("CHECKS FAILED: 3 violations"));
  json behind = measured();
  behind["warning"] = {"latencies grow with the length of the run"};
  const ResultComparison comparison = compared(behind, twin());
  EXPECT_THAT(render_comparison(comparison, {}), HasSubstr("WARNING: latencies grow"));
  EXPECT_EQ(comparison_json(comparison).at("a").at("warning"), behind["warning"]);
}

TEST(ResultComparison, ALongSeedKeepsItsDigits) {
  json result = measured();
  result["seed"] = 9223372036854775807;
  const ResultComparison comparison = compared(result, twin());
  EXPECT_THAT(render_comparison(comparison, {}), HasSubstr("seed 9223372036854775807, "));
  EXPECT_EQ(comparison_json(comparison).at("a").at("seed"), result["seed"]);
}

TEST(ResultComparison, AsJsonAbsentIsNull) {
  const json comparison = comparison_json(compared(measured(), twin()));
  EXPECT_EQ(comparison.at("format"), "verbtwin-comparison");
  EXPECT_EQ(comparison.at("quantities")[0],
            json({{"name", "committed_per_s"}, {"a", 1e5}, {"b", 2e5}, {"ratio", 2.0}}));
  const auto& all = comparison.at("quantities");
  const auto send = std::ranges::find_if(
      all, [](const json& one) { return one.at("name") == "resources.nic_send.utilization_mean"; });
  ASSERT_NE(send, all.end());
  EXPECT_TRUE(send->at("a").is_null());
  EXPECT_TRUE(send->at("ratio").is_null());
}

TEST(ResultComparison, HostileResultsAreRefusedWithTheirPlace) {
  EXPECT_THAT(refusal(json::object(), twin()), HasSubstr("a.json:1:1: no result; allowed: a result.json"));
  json nothing = twin();
  nothing.erase("scenario");
  EXPECT_THAT(refusal(nothing, twin()), HasSubstr("missing key \"scenario\"; allowed: a result with"));
  EXPECT_THAT(refusal(json::array(), twin()), HasSubstr("no result"));
  json other_version = measured();
  other_version["version"] = 2;
  EXPECT_THAT(refusal(other_version, twin()), HasSubstr("/version: a result of another version; allowed: 1"));
  other_version.erase("version");
  EXPECT_THAT(refusal(other_version, twin()), HasSubstr("a.json:1:1: missing key \"version\"; allowed: 1"));
  const auto with = [](const char* pointer, const json& value) {
    json result = measured();
    result[json::json_pointer(pointer)] = value;
    return refusal(result, twin());
  };
  EXPECT_THAT(with("/committed_per_s", "many"), HasSubstr("/committed_per_s: wrong type; allowed: a number"));
  EXPECT_THAT(with("/phases", 3), HasSubstr("/phases: wrong type; allowed: an object"));
  EXPECT_THAT(with("/resources", json::object()), HasSubstr("/resources: wrong type; allowed: a list"));
  EXPECT_THAT(with("/resources/0", 7), HasSubstr("/resources/0: wrong type; allowed: an object"));
  EXPECT_THAT(with("/scenario", "x"), HasSubstr("/scenario: wrong type; allowed: an object"));
  EXPECT_THAT(with("/partial", 1), HasSubstr("/partial: wrong type; allowed: true, false"));
  EXPECT_THAT(with("/checks", json::array({1})), HasSubstr("/checks/0: wrong type; allowed: an object"));
  EXPECT_THAT(with("/latency_us", json::array({1})),
              HasSubstr("/latency_us: wrong type; allowed: an object"));

  json operations = measured();
  operations.erase("committed");
  operations["operations"] = 5;
  EXPECT_THAT(refusal(measured(), operations),
              HasSubstr("b.json:1:1: a result of operations, the other is of transactions"));
}

TEST(ResultComparison, NumbersThatNoRunGivesAreRefused) {
  const auto with = [](const char* pointer, const json& value) {
    json result = measured();
    result[json::json_pointer(pointer)] = value;
    return refusal(result, twin());
  };
  EXPECT_THAT(with("/committed_per_s", -5),
              HasSubstr("/committed_per_s: out of range: -5; allowed: a number, 0 to 1e+15"));
  EXPECT_THAT(with("/latency_us/p99", -0.1), HasSubstr("/latency_us/p99: out of range: -0.1"));
  EXPECT_THAT(with("/verbs/read/count", -1), HasSubstr("/verbs/read/count: out of range: -1"));
  EXPECT_THAT(with("/committed_per_s", 1e308), HasSubstr("/committed_per_s: out of range: 1e+308"));
  EXPECT_THAT(with("/abort_ratio", 1.5), HasSubstr("out of range: 1.5; allowed: a number, 0 to 1"));
  EXPECT_THAT(with("/seed", -1), HasSubstr("/seed: out of range: -1"));
  EXPECT_EQ(with("/abort_ratio", 1), "accepted");
}

TEST(ResultComparison, HostileNamesStayOnTheirLine) {
  json result = measured();
  result["scenario"]["name"] = "a\nb\x1b[31m";
  result["transactions"]["x\ny/z~"] = {{"latency_us", {{"p50", 3}}}};
  const std::string text = render_comparison(compared(result, result), {});
  EXPECT_THAT(text, HasSubstr("transactions.x\\ny/z~.latency_us.p50"));
  EXPECT_THAT(text, testing::Not(HasSubstr("\x1b")));
}

class CompareCommand : public CommandLine {};

TEST_F(CompareCommand, TakesWhatRunKeeps) {
  for (const char* out : {"a", "b"}) {
    EXPECT_EQ(verbtwin({"run", scenario_, "--quiet", "--seed", out == std::string("a") ? "1" : "2", "--out",
                        (directory_ / out).string()})
                  .exit_code,
              0);
  }
  const Ended ended =
      verbtwin({"compare", (directory_ / "a").string(), (directory_ / "b/result.json").string()});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("scenario     run.seed 1, 2\n"));
  EXPECT_THAT(ended.out, HasSubstr("verbs.read.per_commit"));
  EXPECT_EQ(refusal({"compare", (directory_ / "a").string(), (directory_ / "c").string()}),
            "DIR/c: no such file");
}

}  // namespace
}  // namespace verbtwin::tools
