#include "protocols/checks/history.hpp"

#include <gtest/gtest.h>

#include <array>

#include "protocols/checks/accesses.hpp"
#include "protocols/checks/histories_for_test.hpp"
#include "protocols/checks/report.hpp"

namespace verbtwin::protocols {
namespace {

TEST(History, GivesBackWhatWasCommitted) {
  History history;
  const std::vector<Access> reads = {at(kX, 1), at(kY, 2)};
  const std::vector<Access> writes = {at(kX, 2)};
  history.commit(reads, writes, -5);
  history.commit({}, {}, 0);
  history.commit({}, writes, 7);

  ASSERT_EQ(history.size(), 3u);
  ASSERT_EQ(history[0].reads.size(), 2u);
  EXPECT_EQ(history[0].reads[1].record, kY);
  ASSERT_EQ(history[0].writes.size(), 1u);
  EXPECT_EQ(history[0].writes[0].version, 2u);
  EXPECT_EQ(history[0].effect, -5);
  EXPECT_TRUE(history[1].reads.empty());
  EXPECT_TRUE(history[1].writes.empty());
  EXPECT_TRUE(history[2].reads.empty());
  EXPECT_EQ(history[2].writes.size(), 1u);
}

TEST(History, DigestTellsOneFlippedBit) {
  std::array<std::byte, 40> value{};
  const std::uint64_t before = value_digest(value);
  EXPECT_EQ(before, value_digest(std::array<std::byte, 40>{}));
  EXPECT_NE(before, value_digest(std::span(value).first(39)));
  value[39] = std::byte{1};
  EXPECT_NE(before, value_digest(value));
}

TEST(TransactionNumbers, NamesWorkerAndIndex) {
  TestHistories histories(4);
  histories.add({}, 0).add({}, 0).add({}, 2).add({}, 3);  // worker 1 committed nothing
  const TransactionNumbers numbers(histories.view());
  EXPECT_EQ(numbers.count(), 4u);
  EXPECT_EQ(numbers.name(0), "0.0");
  EXPECT_EQ(numbers.name(1), "0.1");
  EXPECT_EQ(numbers.name(2), "2.0");
  EXPECT_EQ(numbers.name(3), "3.0");
}

TEST(Findings, GivesTheFirstOfEachKindAndTheirNumber) {
  Findings findings;
  findings.add("a", [] { return "first"; });
  findings.add("b", [] { return "other"; });
  findings.add(
      "a", [] { return "second"; }, 3);
  const CheckReport report = findings.report("name", 9);
  EXPECT_EQ(report.name, "name");
  EXPECT_EQ(report.transactions, 9u);
  EXPECT_EQ(report.violations, 5u);
  EXPECT_EQ(report.examples, (std::vector<std::string>{"a: first (and 3 more)", "b: other"}));
}

}  // namespace
}  // namespace verbtwin::protocols
