// A sweep's points.csv, read again as the comparisons read it.
#include "tools/report/sweep_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "calibration/csv_table.hpp"

namespace verbtwin::tools {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

std::string name_read_again(const std::string& name) {
  const json result = {{"scenario", {{"name", name}, {"run", {{"seed", 7}}}}}};
  const auto table = calibration::CsvTable::parse("points.csv", sweep_csv({{{}, result, 0}}),
                                                  calibration::CsvTable::Kind::kPlain);
  EXPECT_EQ(table.rows().size(), 1U);
  EXPECT_EQ(table.number(table.rows().at(0), "run.seed"), 7);
  return table.cell(table.rows().at(0), "name");
}

TEST(Sweep, ANameIsReadAsItWasWritten) {
  for (const char* name : {"plain", "a, b", "the \"fast\" one", "\"", "\"a\",\"b\"", "a,\"\""}) {
    EXPECT_EQ(name_read_again(name), name);
  }
}

TEST(Sweep, APointIsALineWhateverIsInItsName) {
  EXPECT_EQ(name_read_again("two\nlines, \"of\" two"), "two\\nlines, \"of\" two");
  EXPECT_EQ(name_read_again("a\rb"), "a\\u000db");
}

TEST(Sweep, APointHasWhatItsRateIsOverAndWhatIsWrongWithIt) {
  const json result = {{"machines", 2}, {"datagrams_dropped", 5}, {"warning", {"one thing", "another"}}};
  const auto table = calibration::CsvTable::parse("points.csv", sweep_csv({{{}, result, 0}}),
                                                  calibration::CsvTable::Kind::kPlain);
  EXPECT_EQ(table.number(table.rows().at(0), "machines"), 2);
  EXPECT_EQ(table.number(table.rows().at(0), "datagrams_dropped"), 5);
  EXPECT_EQ(table.cell(table.rows().at(0), "warning"), "one thing; another");
}

TEST(SweepTable, AFieldThatDoesNothingIsToldOf) {
  const auto point = [](int coroutines, int payload_b, double p50_us) {
    return SweepRow{
        {{"cluster.coroutines", coroutines}, {"workload.payload_b", payload_b}},
        {{"operations", 10}, {"operations_per_s", 1e6}, {"machines", 1}, {"latency_us", {{"p50", p50_us}}}}};
  };
  const std::vector<SweepRow> idle = {point(1, 8, 2.5), point(1, 64, 2.75), point(8, 8, 2.5),
                                      point(8, 64, 2.75)};
  const std::vector<std::string> told = {
      "cluster.coroutines does nothing here: points that differ in it alone are the same to the last digit"};
  EXPECT_EQ(sweep_warnings(idle), told);
  std::vector<SweepRow> busy = idle;
  busy[3].result["latency_us"]["p50"] = 2.7500001;
  EXPECT_TRUE(sweep_warnings(busy).empty()) << "at 64 B it does";
  EXPECT_TRUE(sweep_warnings({idle[0], idle[3]}).empty()) << "who knows which of the two it was";
  std::vector<SweepRow> cut = idle;
  cut[2].result["partial"] = true;
  EXPECT_TRUE(sweep_warnings(cut).empty());
}

/// A table of these values of two fields, on lines of so many columns.
std::string table(const std::vector<std::pair<std::string, std::string>>& values, std::size_t width) {
  std::vector<scenarios::SweepPoint> points;
  std::vector<SweepRow> rows;
  for (const auto& [nic, protocol] : values) {
    scenarios::SweepPoint point;
    point.settings = {{"cluster.nic", nic}, {"protocol.name", protocol}};
    point.scenario.resolved = {{"cluster", {{"nic", nic}, {"nodes", 1}}}, {"protocol", {{"name", protocol}}}};
    const json latency = {{"p50", 1}, {"p99", 1}};
    rows.push_back(
        {point.settings,
         {{"scenario", point.scenario.resolved}, {"committed_per_s", 1}, {"latency_us", latency}}});
    points.push_back(std::move(point));
  }
  const std::vector<std::size_t> columns = setting_columns(points, width);
  std::string text = sweep_table_head(points.front().settings, columns);
  for (const SweepRow& row : rows) text += sweep_table_line(row, columns);
  return text;
}

TEST(SweepTable, NamesAreCutWhereThereIsNoRoomForThem) {
  EXPECT_THAT(table({{"connectx-4", "farm"}, {"connectx-4-roce", "drtmh"}}, 80),
              testing::AllOf(StartsWith("nic             protocol       per s "),
                             HasSubstr("\nconnectx-4      farm               1 "),
                             HasSubstr("\nconnectx-4-roce drtmh              1 ")));
  EXPECT_THAT(table({{"connectx-4", "farm"}, {"connectx-5", "drtmh"}}, 80),
              StartsWith("nic           protocol            per s "))
      << "as wide as it is where nothing is cut";
  const std::string path(60, 'x');
  const std::vector<std::pair<std::string, std::string>> both = {{path, "farm"},
                                                                 {"connectx-4", "tpce_customer_position"}};
  EXPECT_THAT(table(both, 80), testing::AllOf(HasSubstr("\n~xxxxxxxxxxxx farm          "),
                                              HasSubstr("\nconnectx-4    ~mer_position ")));
  EXPECT_THAT(table(both, 100), testing::AllOf(HasSubstr("\n~xxxxxxxxxxxx farm "),
                                               HasSubstr("\nconnectx-4    tpce_customer_position ")))
      << "one has room, the other has not";
  EXPECT_THAT(table(both, 200), HasSubstr("\n" + path + " farm "));
}

TEST(SweepTable, WhatEndsByTheApplicationsOwnRulesIsTold) {
  const auto point = [](int committed, int user_aborts) {
    return SweepRow{{}, {{"committed", committed}, {"user_aborts", user_aborts}}};
  };
  EXPECT_EQ(render_own_rules({point(9900, 100), point(0, 0), {{}, {{"operations", 5}}}}), "") << "1 %";
  EXPECT_EQ(render_own_rules({point(760, 240), point(76, 24)}),
            "own rules    24.0 % of the transactions that ended did so by the application's\n"
            "             own rules: per s counts those that committed\n");
  EXPECT_EQ(render_own_rules({point(760, 240), point(100, 0), point(98, 2)}),
            "own rules    2.0 % to 24.0 % of the transactions that ended did so by the\n"
            "             application's own rules at 2 of 3 points: per s counts those that\n"
            "             committed\n");
}

TEST(SweepTable, RatesAreReadInMillions) {
  const SweepRow closed{{{"run.offered_per_s", nullptr}}, {{"scenario", {{"run", json::object()}}}}, 0};
  EXPECT_EQ(point_text(closed, "run.offered_per_s"), "null") << "another value of the sweep, and has a name";
  EXPECT_EQ(setting_text("run.offered_per_s", 20e6), "20.0 M");
  EXPECT_EQ(setting_text("cluster.coroutines", 8), "8");
  EXPECT_EQ(setting_text("protocol.name", "farm"), "farm");
}

}  // namespace
}  // namespace verbtwin::tools
