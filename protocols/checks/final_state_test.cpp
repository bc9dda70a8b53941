#include "protocols/checks/final_state.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

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
    return check_final_state(histories_.view(), [&](RecordId record) { return primary_.at(record); });
  }

  TestHistories histories_;
  std::map<RecordId, PrimaryRecord> primary_;
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

}  // namespace
}  // namespace verbtwin::protocols
