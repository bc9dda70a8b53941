#include "tools/compare/sweep_comparison.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "tools/tests/command_line_for_test.hpp"

namespace verbtwin::tools {
namespace {

using nlohmann::json;
using scenarios::Document;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// With what follows from the settings in a real scenario: a phase from the protocol, a length from the
/// coroutines.
json point(const std::string& protocol, int coroutines, double rate_per_s) {
  return {
      {"format", "verbtwin-result"},
      {"version", 1},
      {"backend", "sim"},
      {"partial", false},
      {"scenario",
       {{"name", "mine"},
        {"description", protocol + std::to_string(coroutines)},
        {"cluster", {{"nodes", 4}, {"coroutines", coroutines}, {"nic", "connectx-4"}}},
        {"protocol", {{"name", protocol}, {"phases", {{"commit", protocol == "farm" ? "rpc" : "write"}}}}},
        {"run", {{"measure_us", 1000 / coroutines}}}}},
      {"committed", 100},
      {"committed_per_s", rate_per_s},
      {"abort_ratio", 0.02},
      {"latency_us", {{"p50", 10}, {"p99", 40}}}};
}

json sweep_of(const std::vector<json>& points) {
  return {{"format", "verbtwin-sweep"}, {"version", 1}, {"points", points}};
}

json before() {
  return sweep_of(
      {point("drtmh", 1, 1e6), point("drtmh", 2, 2e6), point("farm", 1, 9e5), point("farm", 2, 2.5e6)});
}

/// In another order, another NIC, one point faster and one as fast as another.
json after() {
  json sweep = sweep_of(
      {point("farm", 2, 1.5e6), point("farm", 1, 9e5), point("drtmh", 2, 2e6), point("drtmh", 1, 1.1e6)});
  for (json& one : sweep["points"]) one["scenario"]["cluster"]["nic"] = "connectx-5";
  return sweep;
}

SavedSweep saved(const std::string& label, const json& sweep) {
  return read_saved_sweep(Document::parse(label, sweep.dump(1)));
}

SweepComparison compared(const json& a, const json& b) {
  return compare_sweeps(saved("a.json", a), saved("b.json", b));
}

std::string refusal(const json& a, const json& b) {
  return refusal_of([&] { compared(a, b); });
}

TEST(SweepComparison, WhatFollowsFromAnotherSettingIsNone) {
  EXPECT_THAT(saved("a.json", before()).varied, ElementsAre("/protocol/name", "/cluster/coroutines"));
  json lengths =
      sweep_of({point("farm", 1, 1), point("farm", 2, 1), point("farm", 1, 1), point("farm", 2, 1)});
  for (int at = 0; at < 4; ++at) lengths["points"][at]["scenario"]["run"]["measure_us"] = at / 2;
  EXPECT_THAT(saved("a.json", lengths).varied, ElementsAre("/cluster/coroutines", "/run/measure_us"));
}

TEST(SweepComparison, WhatALaterSettingTellsTooIsNone) {
  json sweep = sweep_of({point("farm", 1, 1), point("farm", 2, 1), point("farm", 4, 1)});
  for (json& one : sweep["points"])
    one["scenario"]["cluster"]["big"] = one["scenario"]["cluster"]["coroutines"] == 4;
  EXPECT_THAT(saved("a.json", sweep).varied, ElementsAre("/cluster/coroutines"));
  sweep["points"][2]["scenario"]["protocol"]["name"] = "drtmh";
  EXPECT_THAT(saved("a.json", sweep).varied, ElementsAre("/protocol/name", "/cluster/coroutines"));
}

TEST(SweepComparison, WhatTheSweepNamesGoesFirst) {
  json sweep = before();
  sweep["settings"] = {"cluster.coroutines", "protocol"};
  EXPECT_THAT(saved("a.json", sweep).varied, ElementsAre("/cluster/coroutines", "/protocol/name"));
  sweep["settings"] = {"protocol", "cluster.coroutines"};
  EXPECT_THAT(saved("a.json", sweep).varied, ElementsAre("/protocol/name", "/cluster/coroutines"));
  sweep["settings"] = {"protocol.phases.commit", "cluster.coroutines"};
  EXPECT_THAT(saved("a.json", sweep).varied, ElementsAre("/protocol/phases/commit", "/cluster/coroutines"));
}

TEST(SweepComparison, PointsAreMatchedByTheirSettings) {
  const SweepComparison comparison = compared(before(), after());
  ASSERT_EQ(comparison.points.size(), 4U);
  const PointComparison& last = comparison.points[3];
  EXPECT_EQ(last.settings, (Settings{{"protocol.name", "farm"}, {"cluster.coroutines", 2}}));
  EXPECT_EQ(last.quantities[0].a, 2.5e6);
  EXPECT_EQ(last.quantities[0].b, 1.5e6);
  ASSERT_EQ(comparison.differences.size(), 1U);
  EXPECT_EQ(comparison.differences[0].values.path, "cluster.nic");
  EXPECT_EQ(comparison.differences[0].points, 4U);
}

TEST(SweepComparison, AnotherGridSharesWhatBothRan) {
  json other = sweep_of({point("farm", 2, 5e6), point("farm", 4, 7e6)});
  const SweepComparison comparison = compared(before(), other);
  ASSERT_EQ(comparison.points.size(), 1U);
  EXPECT_EQ(comparison.points[0].quantities[0].b, 5e6);
  EXPECT_EQ(comparison.only_a.size(), 3U);
  EXPECT_THAT(comparison.only_b, ElementsAre(Settings{{"protocol.name", "farm"}, {"cluster.coroutines", 4}}));
  EXPECT_THAT(render_comparison(comparison, {}),
              HasSubstr("only in B    1 point: protocol farm, coroutines 4\n"));
}

TEST(SweepComparison, TheMedianAndTheFurthestAreTold) {
  const SweepComparison comparison = compared(before(), after());
  ASSERT_EQ(comparison.ratios.size(), 3U);
  EXPECT_EQ(comparison.ratios[0].name, "rate_per_s");
  EXPECT_DOUBLE_EQ(comparison.ratios[0].median, 1);
  EXPECT_DOUBLE_EQ(comparison.ratios[0].furthest, 0.6);
  EXPECT_EQ(comparison.ratios[0].point, 3U);
  EXPECT_THAT(render_comparison(comparison, {}),
              HasSubstr("median 1.00, furthest from 1: 0.60 (protocol farm, coroutines\n             2)\n"));
}

TEST(SweepComparison, TheOrderIsOfSystemsAtTheSameNumbers) {
  const SweepComparison comparison = compared(before(), after());
  EXPECT_THAT(comparison.order.same, ElementsAre("cluster.coroutines"));
  EXPECT_EQ(comparison.order.pairs, 2U);
  EXPECT_EQ(comparison.order.swapped, 1U);
  EXPECT_THAT(
      render_comparison(comparison, {}),
      testing::ContainsRegex("coroutines 2:[ \n]+protocol[ \n]+farm[ \n]+is[ \n]+ahead[ \n]+in[ \n]+A,"));
  json close = after();  // less than 1 % apart is no order
  close["points"][0]["committed_per_s"] = 1.99e6;
  EXPECT_EQ(compared(before(), close).order.pairs, 1U);
}

TEST(SweepComparison, TheOrderOfOneCurveIsOfAllItsPoints) {
  const json curve = sweep_of({point("farm", 1, 1e6), point("farm", 2, 2e6), point("farm", 4, 3e6)});
  json other = curve;
  other["points"][2]["committed_per_s"] = 1.5e6;
  const RateOrder order = compared(curve, other).order;
  EXPECT_THAT(order.same, IsEmpty());
  EXPECT_EQ(order.pairs, 3U);
  EXPECT_THAT(order.examples, ElementsAre(std::pair(std::size_t{2}, std::size_t{1})));
}

TEST(SweepComparison, ARateIsOfAllMachinesThatCount) {
  json micro = point("read", 1, 0);
  micro.erase("committed");
  micro.erase("committed_per_s");
  micro["operations"] = 50;
  micro["operations_per_s"] = 100;
  EXPECT_EQ(saved("a.json", sweep_of({micro})).points[0].rate_per_s, 400);
  micro["machines"] = 2;
  EXPECT_EQ(saved("a.json", sweep_of({micro})).points[0].rate_per_s, 200);
}

TEST(SweepComparison, ReadsAsATable) {
  const std::string text = render_comparison(compared(before(), after()), {});
  EXPECT_THAT(text, HasSubstr("A            a.json: mine, simulated on connectx-4, 4 points\n"));
  EXPECT_THAT(text, HasSubstr("scenario     cluster.nic \"connectx-4\", \"connectx-5\"\n"));
  EXPECT_THAT(text, HasSubstr("protocol coroutines       A   B/A      A   B/A      A   B/A      A      B\n"));
  EXPECT_THAT(text, HasSubstr("farm     2           2.50 M  0.60   10.0  1.00   40.0  1.00  2.0 %  2.0 %\n"));
}

TEST(SweepComparison, LongSettingsHaveTheirOwnLine) {
  json a = before();
  for (json& one : a["points"])
    one["scenario"]["protocol"]["name"] =
        one["scenario"]["protocol"]["name"].get<std::string>() + std::string(20, 'x');
  const std::string text = render_comparison(compared(a, a), {});
  EXPECT_THAT(text, HasSubstr("protocol farmxxxxxxxxxxxxxxxxxxxx, coroutines 2\n     2.50 M  1.00"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
}

TEST(SweepComparison, WhatDidNotGoWellIsInNoRatio) {
  json partial = after();
  partial["points"][0]["partial"] = true;
  partial["points"][1]["failure"] = "rank 1 was lost";
  partial["points"][2]["checks"] = {{{"violations", 3}}};
  const SweepComparison comparison = compared(before(), partial);
  EXPECT_DOUBLE_EQ(comparison.ratios[0].median, 1.1);
  EXPECT_DOUBLE_EQ(comparison.ratios[0].furthest, 1.1);
  EXPECT_EQ(comparison.order.pairs, 0U);
  const std::string text = render_comparison(comparison, {});
  EXPECT_THAT(text, HasSubstr("farm     2          not compared: B PARTIAL\n"));
  EXPECT_THAT(text, HasSubstr("farm     1          not compared: B FAILED: rank 1 was lost\n"));
  EXPECT_THAT(text, HasSubstr("drtmh    2          not compared: B CHECKS FAILED: 3 violations\n"));
  EXPECT_THAT(text, HasSubstr("compared     1 of 4 points that both have\n"));
  EXPECT_EQ(comparison_json(comparison).at("points")[3].at("compared"), false);
}

TEST(SweepComparison, NoPointInCommonIsRefused) {
  json other = sweep_of({point("farm", 8, 1), point("farm", 9, 1)});
  EXPECT_EQ(refusal(before(), other),
            "b.json: varies cluster.coroutines and shares no point with a.json, which varies protocol.name, "
            "cluster.coroutines; allowed: sweeps with points of the same settings");
  EXPECT_THAT(refusal(before(), sweep_of({point("occ", 1, 1)})),
              HasSubstr("b.json: varies nothing and shares"));
}

TEST(SweepComparison, HostileSweepsAreRefusedWithTheirPlace) {
  const auto with = [](const char* pointer, const json& value) {
    json sweep = before();
    sweep[json::json_pointer(pointer)] = value;
    return refusal(sweep, after());
  };
  EXPECT_THAT(with("/version", 2), HasSubstr("/version: a sweep of another version; allowed: 1"));
  EXPECT_THAT(with("/points", 3), HasSubstr("/points: wrong; allowed: a list of 1 to 10000 results"));
  EXPECT_THAT(with("/points", json::array()), HasSubstr("/points: wrong"));
  EXPECT_THAT(with("/points/1", 3), HasSubstr("/points/1: no result; allowed: a result.json"));
  EXPECT_THAT(with("/points/1/latency_us/p50", "x"),
              HasSubstr("/points/1/latency_us/p50: wrong type; allowed: a number"));
  EXPECT_THAT(with("/points/1/scenario", 7), HasSubstr("/points/1/scenario: wrong type; allowed: an object"));
  EXPECT_THAT(with("/settings", 7), HasSubstr("/settings: wrong; allowed: a list of paths"));
  EXPECT_THAT(with("/settings", json::array({7})), HasSubstr("/settings: wrong"));
  EXPECT_THAT(with("/points/1", point("drtmh", 1, 5)),
              HasSubstr("a.json: points 0 and 1 are of one scenario; allowed: points that differ"));
  json operations = point("farm", 2, 1);
  operations["operations"] = 5;
  EXPECT_EQ(
      refusal(before(), sweep_of({operations})),
      "b.json: point 0 is of operations, point 3 of a.json is of transactions; allowed: two of one kind");
  EXPECT_EQ(with("/points/1/committed_per_s", nullptr), "accepted");
}

TEST(SweepComparison, HostileValuesAreShownAndNoMore) {
  json a = before(), b = after();
  a["points"][3]["committed_per_s"] = 1e-300;
  b["points"][0]["committed_per_s"] = 1e15;
  a["points"][0]["committed_per_s"] = nullptr;
  for (json* sweep : {&a, &b}) {
    for (json& one : (*sweep)["points"])
      one["scenario"]["a\nb\x1b[31m~/"] = one["committed"] = one["scenario"];
  }
  EXPECT_THAT(refusal(a, b), HasSubstr("committed: wrong type"));
  for (json* sweep : {&a, &b}) {
    for (json& one : (*sweep)["points"]) one["committed"] = 1;
  }
  const SweepComparison comparison = compared(a, b);
  EXPECT_THAT(render_comparison(comparison, {}), Not(HasSubstr("\x1b")));
  EXPECT_NO_THROW(comparison_json(comparison).dump());
}

TEST(SweepComparison, NumbersThatNoRunGivesAreRefused) {
  json a = before();
  a["points"][1]["latency_us"]["p50"] = -1;
  EXPECT_THAT(refusal(a, after()), HasSubstr("/points/1/latency_us/p50: out of range: -1"));
  a = before();
  a.erase("version");
  EXPECT_THAT(refusal(a, after()), HasSubstr("a.json:1:1: missing key \"version\"; allowed: 1"));
}

TEST(SweepComparison, OfManyWarningsTheFirstFourAreTold) {
  json a = before(), b = before();
  json one = b["points"][0];
  a["points"] = b["points"] = json::array();
  for (int coroutines = 1; coroutines <= 7; ++coroutines) {
    one["scenario"]["cluster"]["coroutines"] = coroutines;
    a["points"].push_back(one);
    b["points"].push_back(one);
    b["points"].back()["warning"] = {"the rate is not steady", "and something else"};
  }
  const std::string text = render_comparison(compared(a, b), {});
  EXPECT_THAT(text, HasSubstr("\nB warns      coroutines 4: the rate is not steady; and something else\n"));
  EXPECT_THAT(text, Not(HasSubstr("coroutines 5: ")));
  EXPECT_THAT(text, HasSubstr("\nB warns      and of 3 points more: --json has them\n"));
}

TEST(SweepComparison, AsJsonAbsentIsNull) {
  json a = before();
  a["points"][3].erase("abort_ratio");
  const json comparison = comparison_json(compared(a, after()));
  EXPECT_EQ(comparison.at("format"), "verbtwin-sweep-comparison");
  EXPECT_EQ(comparison.at("a").at("varied"), json({"protocol.name", "cluster.coroutines"}));
  const json& last = comparison.at("points")[3];
  EXPECT_EQ(last.at("settings"), json({{"protocol.name", "farm"}, {"cluster.coroutines", 2}}));
  EXPECT_EQ(last.at("quantities")[0],
            json({{"name", "rate_per_s"}, {"a", 2.5e6}, {"b", 1.5e6}, {"ratio", 0.6}}));
  EXPECT_TRUE(last.at("quantities")[3].at("a").is_null());
  EXPECT_EQ(comparison.at("order").at("examples"), json::array({{3, 1}}));
}

TEST(SweepComparison, TellsWhatPointsWarnOfAndFilesThatAreNotTheSame) {
  json a = before(), b = before();
  EXPECT_THAT(render_comparison(compared(a, b), {}), Not(HasSubstr("warns")));
  b["points"][1]["warning"] = {"the rate is not steady"};
  for (json& one : a["points"]) one["simulator"] = {{"files", {{"cluster.nic", "1a"}}}};
  for (json& one : b["points"]) one["simulator"] = {{"files", {{"cluster.nic", "2b"}}}};
  const std::string text = render_comparison(compared(a, b), {});
  EXPECT_THAT(text, HasSubstr("B warns      protocol drtmh, coroutines 2: the rate is not steady\n"));
  EXPECT_THAT(text, Not(HasSubstr("A warns")));
  EXPECT_THAT(text, HasSubstr("scenario     cluster.nic (what is in it) \"1a\", \"2b\"\n"));
}

class CompareSweeps : public CommandLine {
 protected:
  std::string path(const char* name) const { return (directory_ / name).string(); }
};

TEST_F(CompareSweeps, TakesWhatRunKeepsAndPrints) {
  const std::string sweep = write("sweep.json", with_sweep(R"([{"protocol.name": ["drtmh", "fasst-occ"]},
                     {"cluster.coroutines": [1, 2], "run.measure_us": [100, 50]}])"));
  ASSERT_EQ(verbtwin({"run", sweep, "--quiet", "--out", path("a")}).exit_code, 0);
  const Ended printed = verbtwin({"run", sweep, "--json", "--quiet", "--seed", "2"});
  ASSERT_EQ(printed.exit_code, 0) << printed.err;
  EXPECT_EQ(json::parse(printed.out).at("settings"),
            json({"protocol.name", "cluster.coroutines", "run.measure_us"}));
  const std::string b = write("b.json", printed.out);
  for (const char* a : {"a", "a/points.csv"}) {
    const Ended ended = verbtwin({"compare", path(a), b});
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("scenario     run.seed 1, 2\n"));
    EXPECT_THAT(ended.out, HasSubstr("\nprotocol  coroutines  "));
    EXPECT_THAT(ended.out, testing::ContainsRegex("\nfasst-occ 2 +[0-9.]+ [kM]  [01]\\."));
    EXPECT_THAT(ended.out, Not(HasSubstr("only in")));
  }
  EXPECT_EQ(json::parse(verbtwin({"compare", path("a"), b, "--json"}).out).at("points").size(), 4U);

  std::filesystem::create_directories(path("killed/points/000"));
  EXPECT_EQ(refusal({"compare", path("killed"), b}),
            "DIR/killed: has points of a sweep that did not come to its end; allowed: a points.csv or "
            "result.json in "
            "it");
  EXPECT_EQ(refusal({"compare", path("a"), path("a/points/000")}),
            "DIR/a/points/000: one result, and DIR/a is a sweep; allowed: two results or two sweeps");
  std::filesystem::copy(path("a/points/001/result.json"), path("a/result.json"));
  EXPECT_EQ(refusal({"compare", path("a"), b}),
            "DIR/a: has a sweep and a result; allowed: its points.csv or result.json");
}

TEST_F(CompareSweeps, HostileTablesAreRefusedWithTheirPlace) {
  std::filesystem::create_directory(path("a"));
  const auto with = [&](const std::string& table) {
    write("a/points.csv", table);
    return refusal({"compare", path("a"), path("a")});
  };
  EXPECT_EQ(with("points\n1\n"),
            "DIR/a/points.csv: no column \"point\"; there are points; did you mean \"points\"?");
  EXPECT_EQ(with("point\nx\n"), "DIR/a/points.csv:2: column \"point\": \"x\" is no number");
  EXPECT_EQ(with("point\n1e300\n"), "DIR/a/points.csv:2: 1e300 is no point's number; allowed: 0 to 9999");
  EXPECT_EQ(with("point\n-1\n"), "DIR/a/points.csv:2: -1 is no point's number; allowed: 0 to 9999");
  EXPECT_EQ(with("point\n0.5\n"), "DIR/a/points.csv:2: 0.5 is no point's number; allowed: 0 to 9999");
  EXPECT_EQ(with("point\n12\n"), "DIR/a/points/012/result.json: no such file");
  EXPECT_EQ(with("point\n1,2\n"), "DIR/a/points.csv:2: 2 fields; allowed: 1, as many as columns");
  std::string many = "point\n";
  for (int i = 0; i <= 10'000; ++i) many += "0\n";
  EXPECT_EQ(with(many), "DIR/a/points.csv: 10001 points; allowed: 10000");
}

}  // namespace
}  // namespace verbtwin::tools
