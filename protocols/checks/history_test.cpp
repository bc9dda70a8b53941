#include "protocols/checks/history.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>

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

// Enough records of several tables to need boxes, and one that most accesses are of.
TEST(GroupedAccesses, OrdersByRecordAndThenAsTheHistoriesHaveIt) {
  constexpr std::uint32_t kWorkers = 5, kTransactions = 4000;
  TestHistories histories(kWorkers);
  std::uint64_t state = 1;
  const auto record = [&state] {
    state = state * 6364136223846793005 + 1442695040888963407;
    const auto drawn = static_cast<std::uint32_t>(state >> 33);
    if (drawn % 3 == 0) return kX;
    return RecordId::make(drawn % 5 * 40, drawn % 7 * 3, drawn % 11 == 0 ? drawn : drawn % 1000);
  };
  struct Placed {
    RecordId record;
    std::uint32_t transaction;
    AccessKind kind;
    std::uint64_t version;
    auto operator<=>(const Placed&) const = default;
  };
  std::vector<Placed> expected;
  for (std::uint32_t i = 0; i < kTransactions; ++i) {
    const TestTransaction transaction{{at(record(), i), at(record(), i)}, {at(record(), i)}};
    histories.add(transaction, i * kWorkers / kTransactions);
    expected.push_back({transaction.writes[0].record, i, AccessKind::kWrite, i});
    for (const Access& read : transaction.reads) {
      expected.push_back({read.record, i, AccessKind::kRead, i});
    }
  }
  std::ranges::sort(expected);
  const GroupedAccesses grouped(histories.view());
  std::vector<Placed> found;
  std::vector<RecordId> written;
  grouped.for_each_record([&](std::span<const RecordAccess> accesses) {
    bool any_write = false;
    for (const RecordAccess& a : accesses) {
      EXPECT_EQ(a.access.record, accesses.front().access.record);
      found.push_back({a.access.record, a.transaction, a.kind, a.access.version});
      any_write |= a.kind == AccessKind::kWrite;
    }
    if (any_write) written.push_back(accesses.front().access.record);
  });
  EXPECT_EQ(found, expected);
  EXPECT_EQ(std::vector(grouped.written().begin(), grouped.written().end()), written);
  EXPECT_EQ(std::ranges::adjacent_find(written, std::greater_equal<>()), written.end());
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
