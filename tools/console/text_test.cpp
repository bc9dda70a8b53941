#include "tools/console/text.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

namespace verbtwin::tools {
namespace {

TEST(Text, CountsHaveSeparators) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(format_counted(0, "point"), "0 points");
  EXPECT_EQ(format_counted(1, "point"), "1 point");
  EXPECT_EQ(format_counted(1000, "point"), "1,000 points");
}

TEST(Text, RatesHaveThreeDigitsAndAPrefix) {
  EXPECT_EQ(format_si(0), "0");
  EXPECT_EQ(format_si(950), "950");
  EXPECT_EQ(format_si(1.5), "1.50");
  EXPECT_EQ(format_si(999.6), "1.00 k");
  EXPECT_EQ(format_si(62312), "62.3 k");
  EXPECT_EQ(format_si(999'700), "1.00 M");
  EXPECT_EQ(format_si(3.9e6), "3.90 M");
  EXPECT_EQ(format_si(std::nan("")), "-");
  EXPECT_EQ(format_si(std::numeric_limits<double>::infinity()), "-");
}

TEST(Text, TimesKeepThreeDigits) {
  EXPECT_EQ(format_us(0), "0.00");
  EXPECT_EQ(format_us(9.996), "10.0");
  EXPECT_EQ(format_us(123.4), "123");
  EXPECT_EQ(format_us(12345.4), "12,345");
  EXPECT_EQ(format_us(-1), "-");
  EXPECT_EQ(format_seconds(0.034), "34 ms");
  EXPECT_EQ(format_seconds(1.234), "1.23 s");
  EXPECT_EQ(format_seconds(42.4), "42 s");
  EXPECT_EQ(format_seconds(200), "3 min 20 s");
  EXPECT_EQ(format_seconds(7260), "2 h 1 min");
}

TEST(Text, RatiosAreInPercent) {
  EXPECT_EQ(format_percent(0), "0.0 %");
  EXPECT_EQ(format_percent(0.0012), "0.12 %");
  EXPECT_EQ(format_percent(0.9312), "93.1 %");
}

TEST(Text, RatiosKeepTwoDigits) {
  EXPECT_EQ(format_ratio(0), "0");
  EXPECT_EQ(format_ratio(1.018), "1.02");
  EXPECT_EQ(format_ratio(12.3), "12.30");
  EXPECT_EQ(format_ratio(0.000512), "0.00051");
}

TEST(Text, BarsAreClamped) {
  EXPECT_EQ(format_bar(0.4, 10), "####------");
  EXPECT_EQ(format_bar(7, 4), "####");
  EXPECT_EQ(format_bar(-1, 4), "----");
  EXPECT_EQ(format_bar(std::nan(""), 4), "----");
}

TEST(Text, WrapsAtSpaces) {
  EXPECT_EQ(wrap("one two three", 4, 11), "one two\n    three");
  EXPECT_EQ(wrap("unbreakable", 0, 4), "unbreakable");
  EXPECT_EQ(wrap("", 3, 10), "");
}

RC_GTEST_PROP(Text, WrappingKeepsWordsAndWidth, ()) {
  const auto lengths = *rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 12));
  const auto indent = *rc::gen::inRange<std::size_t>(0, 8);
  std::string text;
  for (const int length : lengths)
    text.append(text.empty() ? 0 : 1, ' ').append(static_cast<std::size_t>(length), 'x');
  const std::string wrapped = std::string(indent, ' ') + wrap(text, indent, 20);
  std::istringstream lines(wrapped);
  for (std::string line; std::getline(lines, line);) RC_ASSERT(line.size() <= 20U);
  std::string word, rejoined;
  for (std::istringstream words(wrapped); words >> word;) rejoined += (rejoined.empty() ? "" : " ") + word;
  RC_ASSERT(rejoined == text);
}

}  // namespace
}  // namespace verbtwin::tools
