#include "calibration/csv_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/user_error.hpp"

namespace verbtwin::calibration {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kText =
    "# source: a paper\n"
    "# unit: M/s\n"
    "what,value,unit\n"
    "\"rate, one core\",1.5 / 2.5,us\n"
    "read,93.7,Mops\n";

std::string refusal(const std::string& text) {
  try {
    CsvTable::parse("x.csv", text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(CsvTable, ReadsHeaderColumnsAndRows) {
  const CsvTable table = CsvTable::parse("x.csv", kText);
  EXPECT_THAT(table.header(), ElementsAre("source: a paper", "unit: M/s"));
  EXPECT_THAT(table.columns(), ElementsAre("what", "value", "unit"));
  ASSERT_EQ(table.rows().size(), 2U);
  EXPECT_EQ(table.rows()[0].line, 4U);
  EXPECT_EQ(table.cell(table.rows()[0], "what"), "rate, one core");
  EXPECT_DOUBLE_EQ(table.number(table.rows()[0], "value", 1), 2.5);
  EXPECT_DOUBLE_EQ(table.number(table.rows()[1], "value"), 93.7);
}

TEST(CsvTable, TwoQuotesInAQuotedCellAreOne) {
  const CsvTable table = CsvTable::parse("x.csv", "# s\na,b,c\n\"the \"\"fast\"\" one, \"\"\",\"\"\"\",1\n");
  EXPECT_EQ(table.cell(table.rows()[0], "a"), "the \"fast\" one, \"");
  EXPECT_EQ(table.cell(table.rows()[0], "b"), "\"");
  EXPECT_EQ(table.cell(table.rows()[0], "c"), "1");
}

TEST(CsvTable, AByteOrderMarkIsNoPartOfTheFirstName) {
  const CsvTable table = CsvTable::parse("x.csv", "\xef\xbb\xbfpoint,b\n1,2\n", CsvTable::Kind::kPlain);
  EXPECT_EQ(table.number(table.rows().at(0), "point"), 1);
}

TEST(CsvTable, AnEmptyFileHasNoRowsInItsFirstLine) {
  try {
    CsvTable::parse("x.csv", "", CsvTable::Kind::kPlain);
    ADD_FAILURE() << "accepted";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "x.csv:1: no rows");
  }
}

TEST(CsvTable, RefusesMalformedLinesWithTheirPlace) {
  EXPECT_EQ(refusal("# s\na,b\n1,2\n3\n"), "x.csv:4: 1 field; allowed: 2, as many as columns");
  EXPECT_EQ(refusal("# s\na,b\n1,2,3\n"), "x.csv:3: 3 fields; allowed: 2, as many as columns");
  EXPECT_EQ(refusal("# s\na,b\n1,\n"), "x.csv:3: an empty field");
  EXPECT_EQ(refusal("# s\na,b\n\n"), "x.csv:3: an empty field");
  EXPECT_EQ(refusal("# s\na,b\n\"1,2\n"), "x.csv:3: a quote is not closed");
  EXPECT_EQ(refusal("# s\na,b\n\"1\"\",2\n"), "x.csv:3: a quote is not closed");
  EXPECT_EQ(refusal("# s\na,a\n1,2\n"), "x.csv:2: column \"a\" stands twice");
  EXPECT_EQ(refusal("# s\na,b\n# late\n1,2\n"), "x.csv:3: a comment behind the column names");
  EXPECT_EQ(refusal("a,b\n1,2\n"), "x.csv:1: no '#' line that names the source");
  EXPECT_EQ(refusal("# s\na,b\n"), "x.csv:2: no rows");
}

TEST(CsvTable, RefusesWhatIsNoNumber) {
  const CsvTable table = CsvTable::parse("x.csv", "# s\na,b\n1,1e\n2,nan\n");
  EXPECT_THROW(
      {
        try {
          table.number(table.rows()[0], "b");
        } catch (const UserError& error) {
          EXPECT_STREQ(error.what(), "x.csv:3: column \"b\": \"1e\" is no number");
          throw;
        }
      },
      UserError);
  EXPECT_THROW(table.number(table.rows()[1], "b"), UserError);
  EXPECT_THROW(table.number(table.rows()[0], "a", 1), UserError);
  EXPECT_THROW(table.number(table.rows()[0], "c"), UserError);
}

TEST(CsvTable, SaysWhatANumberThatIsNotThereShouldBe) {
  const CsvTable table = CsvTable::parse("x.csv", "a,b\n1,\n", CsvTable::Kind::kPlain);
  const auto refused = [&](const char* column, std::size_t part) -> std::string {
    try {
      table.number(table.rows()[0], column, part);
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refused("b", 0), "x.csv:2: column \"b\": \"\"; allowed: a number");
  EXPECT_EQ(refused("a", 1), "x.csv:2: column \"a\": \"1\"; allowed: 2 numbers, as in \"1 / 2\"");
}

TEST(NumberOf, IsAllOfATextOrNothing) {
  EXPECT_EQ(number_of("-1.5e3"), -1500);
  for (const char* name : {"", "nan", "inf", "0x10", "1 ", "+1", "1e999", "8B"})
    EXPECT_FALSE(number_of(name)) << name;
}

}  // namespace
}  // namespace verbtwin::calibration
