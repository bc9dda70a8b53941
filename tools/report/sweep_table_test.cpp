// A sweep's points.csv, read again as the comparisons read it.
#include "tools/report/sweep_table.hpp"

#include <gtest/gtest.h>

#include <string>

#include "calibration/csv_table.hpp"

namespace verbtwin::tools {
namespace {

using nlohmann::json;

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

TEST(SweepTable, RatesAreReadInMillions) {
  const SweepRow closed{{{"run.offered_per_s", nullptr}}, {{"scenario", {{"run", json::object()}}}}, 0};
  EXPECT_EQ(point_text(closed, "run.offered_per_s"), "null") << "another value of the sweep, and has a name";
  EXPECT_EQ(setting_text("run.offered_per_s", 20e6), "20.0 M");
  EXPECT_EQ(setting_text("cluster.coroutines", 8), "8");
  EXPECT_EQ(setting_text("protocol.name", "farm"), "farm");
}

}  // namespace
}  // namespace verbtwin::tools
