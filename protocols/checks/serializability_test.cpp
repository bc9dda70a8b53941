#include "protocols/checks/serializability.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "protocols/checks/histories_for_test.hpp"

namespace verbtwin::protocols {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

CheckReport check(const std::vector<TestTransaction>& transactions) {
  TestHistories histories;
  for (const TestTransaction& transaction : transactions) histories.add(transaction);
  return check_serializable(histories.view(), initial_digest_of);
}

TEST(Serializable, AcceptsNothing) {
  const CheckReport report = check({});
  EXPECT_EQ(report.name, "serializable");
  EXPECT_EQ(report.transactions, 0u);
  EXPECT_EQ(report.violations, 0u);
}

TEST(Serializable, AcceptsReadsUpdatesAndBlindWrites) {
  const CheckReport report = check({
      {{at(kX, 0), at(kY, 0)}, {at(kX, 1)}},
      {{}, {at(kX, 2), at(kY, 1)}},
      {{at(kX, 2), at(kX, 2), at(kY, 1)}, {}},
      {{at(kX, 1), at(kY, 0)}, {}},
  });
  EXPECT_EQ(report.transactions, 4u);
  EXPECT_EQ(report.violations, 0u);
  EXPECT_THAT(report.examples, IsEmpty());
}

TEST(Serializable, FindsAVersionInstalledTwice) {
  const CheckReport report = check({{{}, {at(kX, 1)}}, {{}, {at(kX, 1)}}, {{}, {at(kX, 1)}}});
  EXPECT_EQ(report.violations, 2u);
  EXPECT_THAT(report.examples,
              ElementsAre("version installed twice: 0.0 and 0.1 wrote 0/1/10@1 (and 1 more)"));
}

TEST(Serializable, FindsALostUpdate) {
  const CheckReport report = check({{{at(kX, 0)}, {at(kX, 1)}}, {{at(kX, 0)}, {at(kX, 2)}}});
  EXPECT_EQ(report.violations, 2u);  // as a write that does not follow its read, and as a cycle
  EXPECT_THAT(report.examples,
              ElementsAre("write does not follow its read: 0.1 read 0/1/10@0 and wrote 0/1/10@2",
                          "dependency cycle: 0.0 -ww 0/1/10@1-> 0.1 -rw 0/1/10@0-> 0.0"));
}

TEST(Serializable, FindsAVersionNotBumped) {
  const CheckReport report = check({{{at(kX, 0)}, {at(kX, 0)}}});
  EXPECT_THAT(report.examples,
              ElementsAre("write does not follow its read: 0.0 read 0/1/10@0 and wrote 0/1/10@0",
                          "initial version overwritten: 0.0 wrote 0/1/10@0"));
}

TEST(Serializable, FindsAGap) {
  const CheckReport report = check({{{}, {at(kX, 1)}}, {{}, {at(kX, 5)}}, {{}, {at(kY, 2)}}});
  EXPECT_EQ(report.violations, 2u);
  EXPECT_THAT(report.examples,
              ElementsAre("version missing: nobody wrote 0/1/10@2, but 0.1 wrote 0/1/10@5 (and 1 more)"));
}

TEST(Serializable, FindsADirtyRead) {
  const CheckReport report = check({{{at(kX, 0)}, {at(kX, 1)}}, {{at(kX, 2)}, {}}});
  EXPECT_EQ(report.violations, 1u);
  EXPECT_THAT(report.examples, ElementsAre("read of a version nobody committed: 0.1 read 0/1/10@2"));
}

/// Nor does the value tell: a writer that aborted may have put back what was there.
TEST(Serializable, FindsADirtyReadOfTheFirstVersion) {
  const CheckReport report = check({{{{kX, 1, initial_digest_of(kX)}}, {}}});
  EXPECT_EQ(report.violations, 1u);
  EXPECT_THAT(report.examples, ElementsAre("read of a version nobody committed: 0.0 read 0/1/10@1"));
}

TEST(Serializable, FindsATornRead) {
  const CheckReport report = check({{{at(kX, 0)}, {at(kX, 1)}}, {{torn(kX, 1)}, {}}});
  EXPECT_EQ(report.violations, 1u);
  EXPECT_THAT(report.examples,
              ElementsAre(StartsWith("read differs from what was written: 0.1 read 0/1/10@1")));
}

TEST(Serializable, FindsAnInitialValueThatIsNone) {
  const CheckReport report = check({{{torn(kX, 0)}, {}}});
  EXPECT_EQ(report.violations, 1u);
  EXPECT_THAT(report.examples,
              ElementsAre(StartsWith("read differs from the initial value: 0.0 read 0/1/10@0")));
}

TEST(Serializable, ComparesReadersOfAnInitialValueWithEachOther) {
  TestHistories agreeing;
  agreeing.add({{torn(kX, 0)}, {}}).add({{torn(kX, 0)}, {}});
  EXPECT_EQ(check_serializable(agreeing.view()).violations, 0u);
  EXPECT_EQ(check_serializable(agreeing.view(), initial_digest_of).violations, 2u);

  TestHistories torn_once;
  torn_once.add({{at(kX, 0)}, {}}).add({{torn(kX, 0)}, {}}).add({{at(kX, 0)}, {}});
  EXPECT_EQ(check_serializable(torn_once.view()).violations, 1u);
}

TEST(Serializable, FindsARecordReadAtTwoVersions) {
  const CheckReport report = check({{{at(kX, 0)}, {at(kX, 1)}}, {{at(kX, 1), at(kX, 0)}, {}}});
  EXPECT_THAT(report.examples, ElementsAre("read at two versions: 0.1 read 0/1/10@0 and 0/1/10@1",
                                           "dependency cycle: 0.0 -wr 0/1/10@1-> 0.1 -rw 0/1/10@0-> 0.0"));
}

TEST(Serializable, FindsAFracturedRead) {
  const CheckReport report = check({{{}, {at(kX, 1), at(kY, 1)}}, {{at(kX, 1), at(kY, 0)}, {}}});
  EXPECT_EQ(report.violations, 1u);
  EXPECT_THAT(report.examples, ElementsAre("dependency cycle: 0.0 -wr 0/1/10@1-> 0.1 -rw 1/2/20@0-> 0.0"));
}

TEST(Serializable, FindsAWriteCycle) {  // Adya's G0
  const CheckReport report = check({{{}, {at(kX, 1), at(kY, 2)}}, {{}, {at(kX, 2), at(kY, 1)}}});
  EXPECT_EQ(report.violations, 1u);
  EXPECT_THAT(report.examples, ElementsAre("dependency cycle: 0.0 -ww 0/1/10@1-> 0.1 -ww 1/2/20@1-> 0.0"));
}

TEST(Serializable, FindsAnIntermediateRead) {  // Adya's G1b
  const CheckReport report = check({{{}, {at(kX, 1), at(kX, 2)}}, {{at(kX, 1)}, {}}});
  EXPECT_EQ(report.violations, 1u);
  EXPECT_THAT(report.examples, ElementsAre("dependency cycle: 0.0 -wr 0/1/10@1-> 0.1 -rw 0/1/10@1-> 0.0"));
}

TEST(Serializable, FindsCircularInformationFlow) {  // Adya's G1c
  const CheckReport report = check({{{at(kY, 1)}, {at(kX, 1)}}, {{at(kX, 1)}, {at(kY, 1)}}});
  EXPECT_THAT(report.examples,
              testing::Contains("dependency cycle: 0.0 -wr 0/1/10@1-> 0.1 -wr 1/2/20@1-> 0.0"));
}

TEST(Serializable, FindsWriteSkew) {  // Adya's G2
  const CheckReport report =
      check({{{at(kX, 0), at(kY, 0)}, {at(kX, 1)}}, {{at(kX, 0), at(kY, 0)}, {at(kY, 1)}}});
  EXPECT_EQ(report.violations, 1u);
  EXPECT_THAT(report.examples, ElementsAre("dependency cycle: 0.0 -rw 1/2/20@0-> 0.1 -rw 0/1/10@0-> 0.0"));
}

// The second one reads what the first has overwritten, and the third is the witness.
TEST(Serializable, FindsWhoComesBeforeOneThatHadEnded) {
  const auto violations = [](std::int64_t reader_begins_ps) {
    TestHistories histories(3);
    histories.add({{}, {at(kX, 1)}, {0, 2'000'000}}, 0);
    histories.add({{at(kX, 0)}, {}, {reader_begins_ps, 5'000'000}}, 1);
    histories.add({{at(kX, 1)}, {}, {1'000'000, 3'000'000}}, 2);
    return check_serializable(histories.view(), initial_digest_of);
  };
  EXPECT_EQ(violations(2'000'000).violations, 0u) << "at the same time is no order";
  const CheckReport report = violations(2'500'000);
  EXPECT_EQ(report.violations, 1u);
  EXPECT_THAT(report.examples, ElementsAre("order against real time: 1.0 -rw 0/1/10@0-> 0.0, which had ended "
                                           "0.500 us before the first began"));
  EXPECT_EQ(violations(3'500'000).violations, 1u) << "one, however many had ended";
}

TEST(Serializable, ComparesTimesOfOneClockOnly) {
  TestHistories histories(2);
  histories.add({{}, {at(kX, 1)}, {0, 1}}, 0).add({{at(kX, 0)}, {}, {2, 3}}, 1);
  EXPECT_EQ(check_serializable(histories.view(), initial_digest_of, 2).violations, 1u);
  EXPECT_EQ(check_serializable(histories.view(), initial_digest_of, 1).violations, 0u);
  histories.add({{at(kX, 0)}, {}, {2, 3}}, 0);
  EXPECT_EQ(check_serializable(histories.view(), initial_digest_of, 1).violations, 1u);
}

// What store buffers let through: each writes one record, then reads the other as it was before. No two of
// one clock are out of order, and yet no order agrees with both clocks.
TEST(Serializable, FindsCyclesThroughTheTimesOfSeveralClocks) {
  const auto checked = [](std::int64_t second_reader_begins_ps) {
    TestHistories histories(2);
    histories.add({{}, {at(kX, 1)}, {0, 1}}, 0).add({{at(kY, 0)}, {}, {2, 3}}, 0);
    histories.add({{}, {at(kY, 1)}, {0, 1}}, 1).add({{at(kX, 0)}, {}, {second_reader_begins_ps, 3}}, 1);
    return check_serializable(histories.view(), initial_digest_of, 1);
  };
  const CheckReport report = checked(2);
  EXPECT_EQ(report.violations, 1u);
  EXPECT_THAT(report.examples,
              ElementsAre("cycle of dependencies and real time: 0.0 -ended before-> 0.1 -rw 1/2/20@0-> 1.0 "
                          "-ended before-> 1.1 -rw 0/1/10@0-> 0.0"));
  EXPECT_EQ(checked(1).violations, 0u) << "at the same time is no order";
}

TEST(Serializable, NamesWorkersAndCountsComponents) {
  TestHistories histories(3);
  const RecordId z = RecordId::make(2, 0, 0);
  const RecordId w = RecordId::make(3, 0, 0);
  histories.add({{at(kX, 0), at(kY, 0)}, {at(kX, 1)}}, 0).add({{at(kX, 0), at(kY, 0)}, {at(kY, 1)}}, 2);
  histories.add({{at(z, 0), at(w, 0)}, {at(z, 1)}}, 0).add({{at(z, 0), at(w, 0)}, {at(w, 1)}}, 2);
  const CheckReport report = check_serializable(histories.view());
  EXPECT_EQ(report.violations, 2u);
  EXPECT_THAT(report.examples,
              ElementsAre("dependency cycle: 0.0 -rw 1/2/20@0-> 2.0 -rw 0/1/10@0-> 0.0 (and 1 more)"));
}

// A chain of 200,000 dependencies, dealt so that no worker's order is the chain's: recursion would end the
// program.
TEST(Serializable, TakesALongChain) {
  constexpr std::uint64_t kLength = 200'000;
  constexpr std::size_t kWorkers = 7;
  TestHistories histories(kWorkers);
  for (std::uint64_t i = kLength; i-- > 0;) {
    histories.add({{at(kX, i)}, {at(kX, i + 1)}}, i % kWorkers);
  }
  const CheckReport report = check_serializable(histories.view(), initial_digest_of);
  EXPECT_EQ(report.transactions, kLength);
  EXPECT_EQ(report.violations, 0u);
}

TEST(Serializable, TakesALongCycle) {
  constexpr std::uint64_t kLength = 200'000;
  TestHistories histories;
  for (std::uint64_t i = 0; i < kLength; ++i) {
    // Each reads its predecessor's record and writes its own; the first reads the last one's.
    const RecordId own = RecordId::make(0, 0, i);
    const RecordId previous = RecordId::make(0, 0, (i + kLength - 1) % kLength);
    histories.add({{at(previous, 1)}, {at(own, 1)}});
  }
  const CheckReport report = check_serializable(histories.view());
  EXPECT_EQ(report.violations, 1u);
  EXPECT_THAT(report.examples, ElementsAre(HasSubstr("0.7 -wr 0/0/7@1-> 0.8 ... (200000 dependencies)")));
}

// Every version of a hot record installed by thousands and read by thousands: must not take their product.
TEST(Serializable, TakesManyWritersOfOneVersion) {
  constexpr std::uint64_t kWriters = 50'000;
  TestHistories histories;
  for (std::uint64_t i = 0; i < kWriters; ++i) histories.add({{at(kX, 1)}, {{kX, 1, i}}});
  const CheckReport report = check_serializable(histories.view());
  EXPECT_GT(report.violations, 2 * kWriters);
}

}  // namespace
}  // namespace verbtwin::protocols
