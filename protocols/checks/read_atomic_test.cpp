// The read-atomic check on histories written by hand.
#include "protocols/checks/read_atomic.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocols/checks/ramp_histories_for_test.hpp"
#include "protocols/checks/serializability.hpp"
#include "protocols/ramp/messages.hpp"

namespace verbtwin::protocols {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint64_t kX = 10, kY = 20, kZ = 30;

CheckReport check(const TestRampHistories& histories) {
  return check_read_atomic(histories.view(), initial_ramp_digest);
}

TEST(ReadAtomic, AcceptsWholeTransactionsAndTheInitialState) {
  TestRampHistories histories(2);
  histories.write(5, {kX, kY})
      .read({{kX, 5}, {kY, 5}, {kZ, 0}})
      .write(9, {kX, kY}, 1)
      .read({{kX, 0}, {kY, 0}}, 1);
  histories.add(0, {{kX, 0, 0, 1}, {kY, 9, 9, ramp_digest(kY, 9)}}, {}, false);  // aborted: not judged
  const CheckReport report = check(histories);
  // Client 1 wrote under 9 and then found nothing: it went back, twice.
  EXPECT_THAT(report.examples, ElementsAre(HasSubstr("client went back: 1.1 found 10@0")));
  EXPECT_EQ(report.violations, 2U);
  EXPECT_EQ(report.transactions, 4U);
  EXPECT_EQ(report.name, "read-atomic");
}

TEST(ReadAtomic, FindsAFracturedRead) {
  TestRampHistories histories(2);
  histories.write(5, {kX, kY}).write(7, {kX, kZ}).read({{kX, 7}, {kY, 0}}, 1);
  EXPECT_EQ(check(histories).violations, 0U) << "7 did not write y";
  histories.read({{kX, 5}, {kY, 0}}, 1);  // as of before 7
  const CheckReport report = check(histories);
  EXPECT_THAT(report.examples,
              testing::Contains(HasSubstr("fractured read: 1.1 read what 0.0 wrote under 5, but 20@0")));
}

TEST(ReadAtomic, ANewerSiblingIsNoFracture) {
  TestRampHistories histories(2);
  histories.write(5, {kX, kY}).write(8, {kY}).read({{kX, 5}, {kY, 8}}, 1);
  EXPECT_EQ(check(histories).violations, 0U);
}

TEST(ReadAtomic, OneKeyAtTwoVersionsIsFractured) {
  TestRampHistories histories(2);
  histories.write(5, {kX}).read({{kX, 0}, {kX, 5}}, 1);
  EXPECT_THAT(check(histories).examples, ElementsAre(HasSubstr("fractured read")));
}

/// With the values that clients write and servers have at first, of any size.
TEST(ReadAtomic, FindsAnotherKeysValue) {
  for (const std::size_t value_b : {8, 9, 64}) {
    std::vector<std::byte> value(value_b);
    const auto digest = [&](std::uint64_t key, std::uint64_t timestamp) {
      fill_value(key, timestamp, value);
      return value_digest(value);
    };
    const auto violations = [&](const RampRead& read, std::uint64_t x, std::uint64_t y,
                                std::uint64_t timestamp) {
      RampHistory writer, reader;
      const RampWrite writes[] = {{x, digest(x, timestamp)}, {y, digest(y, timestamp)}};
      writer.add(timestamp, true, {}, writes);
      reader.add(0, true, std::span(&read, 1), {});
      const RampHistory* histories[] = {&writer, &reader};
      return check_read_atomic(histories, [&](std::uint64_t key) { return digest(key, 0); }).violations;
    };
    for (std::uint64_t i = 0; i < 1000; ++i) {
      const std::uint64_t x = 2 * i, y = x + 1, timestamp = (i + 1) << 30;
      ASSERT_EQ(violations({x, timestamp, timestamp, digest(x, timestamp)}, x, y, timestamp), 0U);
      ASSERT_GT(violations({x, timestamp, timestamp, digest(y, timestamp)}, x, y, timestamp), 0U) << value_b;
      ASSERT_EQ(violations({x, 0, 0, digest(x, 0)}, x, y, timestamp), 0U);
      ASSERT_GT(violations({x, 0, 0, digest(y, 0)}, x, y, timestamp), 0U) << value_b;
    }
  }
}

TEST(ReadAtomic, FindsReadsOfWhatIsNotThere) {
  TestRampHistories histories(3);
  histories.write(5, {kX}).add(6, {}, {{kX, ramp_digest(kX, 6)}}, false);
  histories.read({{kX, 4}}, 1).read({{kX, 6}}, 1).read({{kY, 5}}, 2);
  const CheckReport report = check(histories);
  EXPECT_EQ(report.violations, 3U);
  EXPECT_THAT(report.examples, ElementsAre(HasSubstr("nobody committed: 1.0 read 10@4"),
                                           HasSubstr("aborted version: 1.1 read 10@6, written by 0.1"),
                                           HasSubstr("did not write: 2.0 read 20@5, the timestamp of 0.0")));
}

TEST(ReadAtomic, FindsWrongValues) {
  TestRampHistories histories(2);
  histories.write(5, {kX}).add(0, {{kX, 5, 5, 1}, {kY, 0, 0, 2}}, {}, true, 1);
  const CheckReport report = check(histories);
  EXPECT_THAT(report.examples, ElementsAre(HasSubstr("differs from what was written: 1.0 read 10@5"),
                                           HasSubstr("differs from the initial value: 1.0 read 20@0")));
}

TEST(ReadAtomic, WithoutInitialDigestsReadersMustAgree) {
  TestRampHistories histories(1);
  histories.add(0, {{kX, 0, 0, 1}}, {}, true).add(0, {{kX, 0, 0, 1}}, {}, true);
  EXPECT_EQ(check_read_atomic(histories.view()).violations, 0U);
  histories.add(0, {{kX, 0, 0, 2}}, {}, true);
  EXPECT_EQ(check_read_atomic(histories.view()).violations, 1U);
}

TEST(ReadAtomic, TimestampsAreUniqueAndNotZero) {
  TestRampHistories histories(2);
  histories.write(5, {kX}).write(5, {kY}, 1).write(0, {kZ}, 1);
  const CheckReport report = check(histories);
  EXPECT_THAT(report.examples, ElementsAre(HasSubstr("timestamp given twice: 0.0 and 1.0 wrote under 5"),
                                           HasSubstr("initial values: 1.1")));
  TestRampHistories readers;
  readers.read({{kX, 0}}).read({{kX, 0}});
  EXPECT_EQ(check(readers).violations, 0U) << "readers need none";
}

TEST(ReadAtomic, TakesManyTimestampsThatDifferInTheirHighBitsOnly) {
  TestRampHistories histories(2);
  for (std::uint64_t i = 1; i <= 100'000; ++i) {
    histories.write(i << 32, {i % 7}).read({{i % 7, i << 32}}, 1);
  }
  const CheckReport report = check(histories);
  EXPECT_EQ(report.violations, 0U);
  EXPECT_EQ(report.transactions, 200'000U);
}

TEST(ReadAtomic, WhatAClientIsToldNeverGoesBack) {
  TestRampHistories histories(2);
  histories.write(5, {kX}).write(7, {kX});
  histories.read({{kX, 7}}, 1).read({{kX, 5}}, 1);
  EXPECT_THAT(check(histories).examples,
              ElementsAre(HasSubstr("client went back: 1.1 found 10@5, having seen or written 10@7")));
}

TEST(ReadAtomic, ARepairedReadMayRunAheadOfTheServer) {
  TestRampHistories histories(2);
  histories.write(5, {kX, kY});
  // The second round fetched x before its COMMIT; the next transaction's first round comes before it too.
  histories.add(0, {at_ramp(kX, 5, 0), at_ramp(kY, 5)}, {}, true, 1).read({{kX, 0}}, 1);
  EXPECT_EQ(check(histories).violations, 0U);
  histories.add(0, {at_ramp(kX, 0, 5)}, {}, true, 1);
  EXPECT_THAT(check(histories).examples, ElementsAre(HasSubstr("older than what is committed")));
}

std::vector<std::uint64_t> allowed(const TestRampHistories& histories) {
  const CheckReport report = check(histories);
  EXPECT_EQ(report.violations, 0U);
  std::vector<std::uint64_t> counts;
  for (const AllowedCount& one : report.allowed) counts.push_back(one.count);
  return counts;
}

TEST(ReadAtomic, CountsLostUpdates) {
  TestRampHistories histories(3);
  histories.update(5, {{kX, 0}}, {kX}).update(6, {{kX, 0}}, {kX}, 1).update(8, {{kX, 0}}, {kX}, 2);
  EXPECT_THAT(allowed(histories), ElementsAre(2U, 0U));
  TestRampHistories one_by_one(2);
  one_by_one.update(5, {{kX, 0}}, {kX}).update(6, {{kX, 5}}, {kX}, 1);
  EXPECT_THAT(allowed(one_by_one), ElementsAre(0U, 0U));
  one_by_one.add(7, {at_ramp(kX, 5)}, {{kX, ramp_digest(kX, 7)}}, /*committed=*/false);
  EXPECT_THAT(allowed(one_by_one), ElementsAre(0U, 0U)) << "an aborted one updates nothing";
}

TEST(ReadAtomic, CountsWriteSkews) {
  TestRampHistories histories(2);
  histories.update(5, {{kX, 0}, {kY, 0}}, {kX}).update(6, {{kX, 0}, {kY, 0}}, {kY}, 1);
  EXPECT_THAT(allowed(histories), ElementsAre(0U, 1U));
  TestRampHistories ordered(2);
  ordered.update(5, {{kX, 0}, {kY, 0}}, {kX}).update(6, {{kX, 5}, {kY, 0}}, {kY}, 1);
  EXPECT_THAT(allowed(ordered), ElementsAre(0U, 0U));
  TestRampHistories in_one_place(2);  // a skew needs two places: who writes the same one loses an update
  in_one_place.update(5, {{kX, 0}, {kY, 0}}, {kX, kZ}).update(6, {{kX, 0}, {kY, 0}}, {kY, kZ}, 1);
  EXPECT_THAT(allowed(in_one_place), ElementsAre(0U, 0U));
}

TEST(NumberedVersions, OfASerialExecutionAreSerializable) {
  TestRampHistories histories(2);
  histories.write(50, {kX, kY}).update(70, {{kX, 50}}, {kX}, 1).read({{kX, 70}, {kY, 50}});
  const auto initial = [](RecordId record) { return initial_ramp_digest(record.packed); };
  const auto judged = [&](const TestRampHistories& all) {
    const std::vector<History> numbered = number_versions(all.view());
    std::vector<const History*> view;
    for (const History& history : numbered) view.push_back(&history);
    return check_serializable(Histories(view), initial);
  };
  EXPECT_EQ(judged(histories).violations, 0U);
  EXPECT_EQ(judged(histories).transactions, 3U);
  TestRampHistories skewed(2);
  skewed.update(5, {{kX, 0}, {kY, 0}}, {kX}).update(6, {{kX, 0}, {kY, 0}}, {kY}, 1);
  EXPECT_THAT(judged(skewed).examples, ElementsAre(HasSubstr("cycle")));
  // Who reads what was there before a write that had ended when it began.
  const auto stale = [&](std::int64_t begin_ps) {
    RampHistory writer, reader;
    writer.add(5, true, {}, std::vector<RampWrite>{{kX, ramp_digest(kX, 5)}}, {100, 200});
    reader.add(6, true, std::vector<RampRead>{{kX, 0, 0, initial_ramp_digest(kX)}}, {}, {begin_ps, 300});
    const std::vector<const RampHistory*> both = {&writer, &reader};
    const std::vector<History> numbered = number_versions(both);
    const std::vector<const History*> view = {&numbered[0], &numbered[1]};
    return check_serializable(Histories(view), initial).violations;
  };
  EXPECT_EQ(stale(150), 0U);
  EXPECT_EQ(stale(250), 1U);
  TestRampHistories unknown;
  unknown.read({{kX, 3}});
  EXPECT_THAT(judged(unknown).examples, ElementsAre(HasSubstr("nobody committed")));
}

}  // namespace
}  // namespace verbtwin::protocols
