#include "tools/compare/comparison.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "backend/temporary_directory.hpp"
#include "backend/user_error.hpp"
#include "tools/report/sweep_table.hpp"

namespace verbtwin::tools {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

calibration::PublishedPoint published(const char* protocol, int coroutines, double mtps) {
  return {"smallbank", protocol, coroutines, 16, mtps, 10};
}
SimulatedPoint simulated(const char* protocol, int coroutines, double mtps) {
  return {"smallbank", protocol, coroutines, 16, mtps, 20};
}

TEST(Comparison, PairsPointsOfOneSystemAndConcurrency) {
  const auto pairs =
      pair_points({published("farm", 1, 1), published("farm", 2, 2), published("drtmh", 1, 3)},
                  {simulated("drtmh", 1, 4), simulated("farm", 2, 5), simulated("fasst", 1, 6)});
  ASSERT_EQ(pairs.size(), 2U);
  EXPECT_EQ(pairs[0].published.coroutines, 2);
  EXPECT_EQ(pairs[0].simulated.per_machine_mtps, 5);
  EXPECT_EQ(pairs[1].published.protocol, "drtmh");
}

TEST(Comparison, TellsErrorsPeaksAndWhoWins) {
  const std::string text =
      render_comparison("T", pair_points({published("farm", 1, 1), published("drtmh", 1, 2),
                                          published("farm", 2, 2), published("drtmh", 2, 4)},
                                         {simulated("farm", 1, 1.5), simulated("drtmh", 1, 2),
                                          simulated("farm", 2, 5), simulated("drtmh", 2, 3)}));
  EXPECT_THAT(text, HasSubstr("right at 1 of 2 concurrencies"));
  EXPECT_THAT(text, HasSubstr("2 coroutines: published drtmh > farm; simulated farm > drtmh"));
  EXPECT_THAT(text, Not(HasSubstr("1 coroutine: published")));
  EXPECT_THAT(text, HasSubstr("| smallbank, farm | 2.000 | 5.000 | +150 % |"));
  EXPECT_THAT(text, HasSubstr("| 1.000 | 1.500 | +50 % | 10.0 | 20.0 | +100 % |"));
}

TEST(Comparison, SaysWhichPointsHadAWarning) {
  const auto warnings = [](const std::string& rows) {
    return render_point_warnings(
        calibration::CsvTable::parse("p.csv", "point,warning\n" + rows, calibration::CsvTable::Kind::kPlain));
  };
  EXPECT_EQ(warnings("0,\n1,\n"), "");
  EXPECT_EQ(warnings("0,\n1,not steady\n"), "\nRuns that ended with a warning: point 1 (not steady).\n");
  EXPECT_THAT(warnings("0,a\n1,b\n2,c\n3,d\n4,e\n"),
              testing::EndsWith("point 2 (c); and 2 more, in the column warning.\n"));
}

TEST(Comparison, AReportHasOneOfEachTitle) {
  const std::string report = "# Fit\n\n## A\n\nfitted\n";
  EXPECT_EQ(comparisons_of(report), "");
  std::string with = with_comparison(report, "A", "## A\n\nfirst\n");
  with = with_comparison(with, "B", "## B\n\nother\n");
  EXPECT_THAT(with, testing::StartsWith(report)) << "the section of the fit with this title is another";
  with = with_comparison(with, "A", "## A\n\nsecond\n");
  EXPECT_THAT(with, Not(HasSubstr("first")));
  EXPECT_THAT(with, testing::EndsWith("## A\n\nsecond\n\n## B\n\nother\n"));
  EXPECT_EQ(report + comparisons_of(with), with);
}

TEST(Comparison, AReportsListHasTheValuesOfEachTitleOnce) {
  using nlohmann::json;
  const json fitted = {{"set", "train"}, {"experiment", "A"}, {"x", 1}};
  Comparison a{"A", "", {}, {{"farm", "8", 2, 3}, {"farm", "16", 4, 3}}};
  const Comparison b{"B", "", {}, {{"drtmh", "8", 1, 1}}};
  json report = with_compared_values(with_compared_values(json::array({fitted}), a), b);
  ASSERT_EQ(report.size(), 4U);
  EXPECT_EQ(report[0], fitted);
  EXPECT_EQ(report[1], json({{"set", "validation"},
                             {"experiment", "A"},
                             {"series", "farm"},
                             {"x", 8.0},
                             {"published", 2.0},
                             {"simulated", 3.0},
                             {"error", 0.5}}));
  a.values.pop_back();
  report = with_compared_values(report, a);
  ASSERT_EQ(report.size(), 3U);
  EXPECT_EQ(report[0], fitted) << "an experiment of the fit with this title is another";
  EXPECT_EQ(report[1].at("experiment"), "A") << "where it stood";
  EXPECT_EQ(compared_values_of(report).size(), 2U);
  EXPECT_EQ(compared_values_of(json::array({1, "x", json::object()})), json::array()) << "by hand";
}

TEST(Comparison, ThePublishedFilesAreRead) {
  const auto end_to_end = calibration::published_end_to_end();
  EXPECT_EQ(end_to_end.size(), 68U);
  for (const auto& point : end_to_end) {
    EXPECT_THAT(point.protocol, testing::AnyOf("drtmh", "drtmr", "farm", "fasst-occ"));
    EXPECT_GT(point.per_machine_mtps, 0);
    EXPECT_GT(point.latency_p50_us, 0);
  }
  const auto scale_out = calibration::published_scale_out();
  EXPECT_EQ(scale_out.size(), 28U);
  EXPECT_NEAR(scale_out[0].per_machine_mtps, 1.735 / 3, 1e-9);
}

json result(int coroutines, double per_s) {
  return {{"scenario",
           {{"name", "x, \"y\""},
            {"protocol", {{"name", "farm"}}},
            {"workload", {{"name", "smallbank"}}},
            {"cluster", {{"nodes", 16}, {"threads", 2}, {"coroutines", coroutines}}},
            {"run", {{"seed", 1}}}}},
          {"committed_per_s", per_s},
          {"abort_ratio", 0.5},
          {"latency_us", {{"p50", 3.5}, {"p99", 9}}},
          {"phases", {{"execution", {{"p50_us", 1.5}}}}},
          {"verbs", {{"read", {{"count", 7}, {"bytes", 70}}}}},
          {"resources", {{{"name", "core"}, {"utilization_mean", 0.5}}}},
          {"checks", {{{"name", "serializable"}, {"violations", coroutines == 2 ? 3 : 0}}}},
          {"bottleneck", {{"resource", "core"}}}};
}

class Csv : public testing::Test {
 protected:
  static calibration::CsvTable read(const std::string& text) {
    return calibration::CsvTable::parse("DIR/points.csv", text, calibration::CsvTable::Kind::kPlain);
  }
};

TEST_F(Csv, PointsGoOutAndComeBack) {
  const std::vector<SweepRow> rows = {{{{"cluster.coroutines", 1}}, result(1, 32e6)},
                                      {{{"cluster.coroutines", 2}}, result(2, 48e6)}};
  const calibration::CsvTable table = read(sweep_csv(rows));
  ASSERT_EQ(table.rows().size(), 2U);
  const auto& first = table.rows()[0];
  const auto& second = table.rows()[1];
  EXPECT_EQ(table.cell(first, "name"), "x, \"y\"") << "quoted";
  EXPECT_EQ(table.cell(second, "point"), "1");
  EXPECT_EQ(table.number(second, "execution_p50_us"), 1.5);
  EXPECT_EQ(table.number(second, "read_b"), 70);
  EXPECT_EQ(table.number(second, "core_utilization_mean"), 0.5);
  EXPECT_EQ(table.number(second, "violations"), 3);
  const auto points = simulated_points(table);
  EXPECT_EQ(points[1].coroutines, 2);
  EXPECT_DOUBLE_EQ(points[1].per_machine_mtps, 3);
  EXPECT_DOUBLE_EQ(points[1].latency_p50_us, 3.5);
}

TEST_F(Csv, TheTableShowsWhatVariesAndWhatIsWrong) {
  const SweepRow row{{{"cluster.coroutines", 2}}, result(2, 48e6)};
  EXPECT_THAT(sweep_table_head(row.settings), HasSubstr("coroutines"));
  EXPECT_THAT(sweep_table_line(row),
              testing::AllOf(HasSubstr("48.0 M"), HasSubstr("3.00 M"), HasSubstr("VIOLATED")));
}

TEST_F(Csv, APointThatWasCutShortIsMarked) {
  SweepRow row{{{"cluster.coroutines", 2}}, result(2, 48e6)};
  EXPECT_THAT(sweep_table_line(row), Not(HasSubstr("PARTIAL")));
  row.result["partial"] = true;
  EXPECT_THAT(sweep_table_line(row), HasSubstr("PARTIAL"));
}

TEST_F(Csv, LongNamesShowTheirEnds) {
  SweepRow row{{{"cluster.host", ""}}, result(2, 48e6)};
  const auto shown = [&row](const std::string& name) {
    row.result["scenario"]["cluster"]["host"] = name;
    const std::string line = sweep_table_line(row);
    return line.substr(0, line.find(' '));
  };
  EXPECT_EQ(shown("thirteen-wide"), "thirteen-wide");
  EXPECT_EQ(shown("fasst-connect-ib-host"), "~nect-ib-host");
  EXPECT_EQ(shown("fasst-connectx-3-host"), "~nectx-3-host");
  EXPECT_EQ(shown("\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4-two"),
            "~\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4-two")
      << "characters are whole";
}

TEST_F(Csv, WarningsAreBelowTheTable) {
  std::vector<SweepRow> rows;
  for (int i = 0; i < 8; ++i) {
    rows.push_back({{{"cluster.coroutines", nullptr}}, result(i, 48e6)});  // the row says what that came to
    rows.back().result["scenario"]["cluster"]["coroutines"] = i;
    if (i > 0) rows.back().result["warning"] = {"not steady", "too short"};
  }
  EXPECT_THAT(sweep_table_line(rows[0]), Not(HasSubstr("*")));
  EXPECT_THAT(sweep_table_line(rows[2]), HasSubstr(" *  VIOLATED"));
  const std::string text = render_warnings(sweep_warnings(rows));
  EXPECT_THAT(text, testing::StartsWith("* warning    coroutines=1: not steady; too short\n"));
  EXPECT_THAT(text, testing::EndsWith("* warning    and of 3 points more: the column warning has them\n"));
  EXPECT_EQ(render_warnings(sweep_warnings({rows[0]})), "");
}

TEST_F(Csv, ARateIsOfTheMachinesThatItCounts) {
  SweepRow row{{{"workload.payload_b", 32}}, result(1, 0)};
  row.result.erase("committed_per_s");
  row.result["operations_per_s"] = 182e6;
  row.result["machines"] = 1;  // of 16: the others write into it
  EXPECT_THAT(sweep_table_line(row), HasSubstr("     182 M       182 M "));
  EXPECT_DOUBLE_EQ(rate_per_s(row.result), 182e6) << "plotted";
  row.result["machines"] = 16;
  EXPECT_THAT(sweep_table_line(row), HasSubstr("    2.91 G       182 M "));
}

/// A points.csv of SmallBank with FaRM: threads, nodes, coroutines, NICs a node and their profile.
struct Row {
  const char *threads = "24", *nodes = "16", *coroutines = "1", *nics = "2", *nic = "connectx-4";
};
std::string points_of(const std::vector<Row>& rows) {
  std::string text =
      "point,protocol.name,workload.name,cluster.threads,cluster.nodes,cluster.coroutines,"
      "cluster.nics_per_node,cluster.nic,committed_per_s,latency_p50_us\n";
  for (const Row& row : rows) {
    text += fmt::format("{},farm,smallbank,{},{},{},{},{},1e6,5\n",
                        std::count(text.begin(), text.end(), '\n') - 1, row.threads, row.nodes,
                        row.coroutines, row.nics, row.nic);
  }
  return text;
}

TEST_F(Csv, PointsOfAnotherClusterAreLeftOutAndNamed) {
  const Comparison comparison = compare_curves(read(points_of({{},
                                                               {.threads = "1"},
                                                               {.coroutines = "2"},
                                                               {.coroutines = "3"},
                                                               {.coroutines = "4", .nics = "1"},
                                                               {.coroutines = "6", .nic = "connectx-5"},
                                                               {.coroutines = "8", .nic = "mine/nic.json"},
                                                               {.threads = "1", .coroutines = "4"}})));
  EXPECT_THAT(comparison.text,
              testing::EndsWith("\nLeft out: points 1, 7 (1 thread, published with 24); point 4 (1 NIC, "
                                "published with 2); point 5 (connectx-5, published with connectx-4); "
                                "point 3 (figure 14 has no such point).\n"));
  EXPECT_THAT(comparison.text, HasSubstr("\n| smallbank | farm | 16 | 1 | "));
  EXPECT_THAT(comparison.text, HasSubstr("\n| smallbank | farm | 16 | 8 | ")) << "a profile of one's own";
  EXPECT_THAT(comparison.text, Not(HasSubstr("| farm | 16 | 4 | ")));
  EXPECT_THAT(compare_curves(read(points_of({{}}))).text, Not(HasSubstr("Left out")));
}

TEST_F(Csv, RunsThatAreNoPublishedOnesAreLeftOut) {
  std::string text =
      "point,protocol.name,workload.name,cluster.nodes,cluster.coroutines,run.offered_per_s,committed_per_s,"
      "latency_p50_us,violations,partial\n";
  for (const char* row : {"0,farm,smallbank,16,1,,1e6,5,0,false", "1,farm,smallbank,16,2,20e6,1e6,5,0,false",
                          "2,farm,smallbank,16,4,,1e6,5,0,true", "3,farm,smallbank,16,6,,1e6,5,7,false"})
    text += std::string(row) + "\n";
  const std::string compared = compare_curves(read(text)).text;
  EXPECT_THAT(compared,
              HasSubstr("point 1 (an offered load, published as fast as it goes); point 2 (ended early)"));
  EXPECT_THAT(compared, HasSubstr("\nChecks were violated: point 3.\n"));
  EXPECT_THAT(compared, HasSubstr("| farm | 16 | 1 | "));
}

TEST_F(Csv, WhatProtocolsAreSetToIsSaid) {
  std::string text =
      "point,protocol.name,protocol.phases.commit.passive_ack,workload.name,cluster.nodes,cluster.coroutines,"
      "committed_per_s,latency_p50_us\n";
  for (const char* row : {"0,farm,false,smallbank,16,1,1e6,5", "1,drtmr,false,smallbank,16,1,1e6,5",
                          "2,drtmh,true,smallbank,16,1,1e6,5", "3,drtmh,true,smallbank,16,2,1e6,5"})
    text += std::string(row) + "\n";
  const std::string compared = compare_curves(read(text)).text;
  EXPECT_THAT(compared, HasSubstr("\nfarm, drtmr with phases.commit.passive_ack false.\n"));
  EXPECT_THAT(compared, HasSubstr("\ndrtmh with phases.commit.passive_ack true.\n"));
  EXPECT_THAT(compare_curves(read(points_of({{}}))).text, Not(HasSubstr(" with ")));
}

TEST_F(Csv, WhatHasNothingPublishedIsRefused) {
  const auto refused = [](const std::vector<Row>& rows) {
    try {
      compare_curves(read(points_of(rows)));
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(refused({{.threads = "1"}}), StartsWith("DIR/points.csv: no point of it has been published: "
                                                      "point 0 (1 thread, published with 24); allowed: "));
  EXPECT_THAT(refused({{}, {.threads = "1"}}), testing::Eq("accepted")) << "not two of one point";
  EXPECT_THAT(refused({{}, {}}), HasSubstr("two points of smallbank, farm, 16 machines, 1 coroutine;"));
  EXPECT_THAT(refused({{.nodes = "3"}, {.nodes = "4"}, {.nodes = "3", .coroutines = "2"}}),
              HasSubstr("two points of smallbank, farm, 3 machines;"));
  EXPECT_THAT(
      refused({{}, {.nodes = "16.7"}}),
      testing::EndsWith("points.csv:3: column \"cluster.nodes\": 16.7; allowed: a whole number, 1 to 4096"));
  EXPECT_THAT(refused({{.nodes = "1e30"}}),
              HasSubstr("\"cluster.nodes\": 1e30; allowed: a whole number, 1 to"));
  EXPECT_THAT(refused({{.nodes = "0"}}), HasSubstr("\"cluster.nodes\": 0; allowed: a whole number, 1 to"));
  EXPECT_THAT(refused({{.coroutines = "-1"}}), HasSubstr("\"cluster.coroutines\": -1; allowed: "));
  EXPECT_THAT(refused({{.threads = "1e30"}}), HasSubstr("\"cluster.threads\": 1e30; allowed: "));
}

TEST_F(Csv, OtherTablesAreRefused) {
  EXPECT_THROW(simulated_points(read("a,b\n1,2\n")), UserError);
  EXPECT_THROW(read("# nothing\n"), UserError);
  const auto refused = [](const char* rate) {
    std::string csv = sweep_csv({{{{"cluster.coroutines", 1}}, result(1, 32e6)}});
    csv.replace(csv.find("32000000.0"), 10, rate);
    try {
      simulated_points(read(csv));
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refused("32000000"), "accepted");
  EXPECT_THAT(refused("-5"), testing::EndsWith(":2: column \"committed_per_s\": -5; allowed: more than 0"));
  EXPECT_THAT(refused("0"), testing::EndsWith(":2: column \"committed_per_s\": 0; allowed: more than 0"));
}

}  // namespace
}  // namespace verbtwin::tools
