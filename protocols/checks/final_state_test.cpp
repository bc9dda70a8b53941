#include "protocols/checks/final_state.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "protocols/checks/histories_for_test.hpp"

namespace verbtwin::protocols {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

class FinalState : public testing::Test {
 protected:
  FinalState() : histories_(2) {
    histories_.add({{}, {at(kX, 2)}}, 0).add({{}, {at(kX, 1), at(kY, 1)}}, 1);
    histories_.add({{at(RecordId::make(0, 0, 1), 0)}, {}}, 1);  // only read: not asked for
    primary_ = {{kX, {2, digest_of(kX, 2), false}}, {kY, {1, digest_of(kY, 1), false}}};
  }

  CheckReport check() const {
    return check_final_state(histories_.view(), 1,
                             [&](std::span<const RecordId> records, std::span<RecordCopy> copies) {
                               for (std::size_t i = 0; i < records.size(); ++i) {
                                 copies[i] = primary_.at(records[i]);
                               }
                             })
        .final_state;
  }

  TestHistories histories_;
  std::map<RecordId, RecordCopy> primary_;
};

TEST_F(FinalState, AcceptsTheLastCommittedVersions) {
  const CheckReport report = check();
  EXPECT_EQ(report.name, "final_state");
  EXPECT_EQ(report.transactions, 3u);
  EXPECT_EQ(report.violations, 0u);
}

TEST_F(FinalState, FindsALostWrite) {
  primary_[kX] = {1, digest_of(kX, 1), false};
  const CheckReport report = check();
  EXPECT_EQ(report.violations, 1u);
  EXPECT_THAT(report.examples,
              ElementsAre("wrong final version: 0/1/10@2 was committed last, the primary holds version 1"));
}

TEST_F(FinalState, FindsAWriteThatNobodyCommitted) {
  primary_[kY] = {2, digest_of(kY, 2), false};
  EXPECT_EQ(check().violations, 1u);
}

TEST_F(FinalState, FindsATornValue) {
  primary_[kX].digest ^= 1;
  const CheckReport report = check();
  EXPECT_EQ(report.violations, 1u);
  EXPECT_THAT(report.examples, ElementsAre(StartsWith("wrong final value: the primary holds 0/1/10@2 as ")));
}

TEST_F(FinalState, FindsAnOlderValueUnderTheLastVersion) {
  primary_[kX].digest = digest_of(kX, 1);
  EXPECT_EQ(check().violations, 1u);
}

TEST_F(FinalState, FindsALockLeftBehind) {
  primary_[kY].locked = true;
  EXPECT_THAT(check().examples, ElementsAre("left locked: 1/2/20"));
}

TEST_F(FinalState, FindsWhatAnAbortedAttemptLeftBehind) {
  const RecordId first = RecordId::make(0, 0, 2), between = RecordId::make(0, 1, 11),
                 last = RecordId::make(2, 0, 0);
  for (const RecordId record : {last, first, between, first}) {
    histories_.abort(record, record == last ? 0 : 1);
    primary_[record] = {0, 0, false};
  }
  histories_.abort(kX);  // somebody else committed it
  EXPECT_THAT(check().examples, ElementsAre());
  primary_[first].locked = true;
  primary_[last].locked = true;
  EXPECT_THAT(check().examples, ElementsAre("left locked: 0/0/2 (and 1 more)"));
  primary_[between].version = 1;
  EXPECT_THAT(check().examples, testing::Contains("wrong final version: 0/1/11@0 was committed last, the "
                                                  "primary holds version 1"));
}

// More records than are read at a time, of which some were only read; three replicas, in which one copy each
// is wrong.
TEST(FinalStates, JudgesEveryCopyOfEveryRecord) {
  constexpr std::uint32_t kRecords = 1000;
  TestHistories histories(3);
  for (std::uint32_t key = 0; key < kRecords; ++key) {
    const RecordId record = RecordId::make(key % 3, key % 7, key);
    histories.add({{at(record, 0)}, {at(record, 1)}}, key % 3);
    histories.add({{at(RecordId::make(1, 2, kRecords + key), 0)}, {}}, key % 2);
  }
  std::set<RecordId> asked;
  const auto read = [&](std::span<const RecordId> records, std::span<RecordCopy> copies) {
    ASSERT_EQ(copies.size(), records.size() * 3);
    for (std::size_t i = 0; i < copies.size(); ++i) {
      const RecordId record = records[i / 3];
      asked.insert(record);
      copies[i] = {1, digest_of(record, 1), false};
      if (record.key() == 600 + i % 3) copies[i].locked = true;
    }
  };
  const FinalStateReports reports = check_final_state(histories.view(), 3, read);
  EXPECT_EQ(asked.size(), kRecords);
  EXPECT_EQ(reports.final_state.name, "final_state");
  EXPECT_EQ(reports.backups.name, "backups");
  EXPECT_EQ(reports.backups.transactions, std::uint64_t{2 * kRecords});
  EXPECT_THAT(reports.final_state.examples, ElementsAre("left locked: 0/5/600"));
  EXPECT_THAT(reports.backups.examples, ElementsAre("left locked: 1/6/601 (and 1 more)"));
}

}  // namespace
}  // namespace verbtwin::protocols
