#include "protocols/checks/logs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "protocols/checks/histories_for_test.hpp"

namespace verbtwin::protocols {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

constexpr int kReplicas = 3;
constexpr int kNodes = 4;

// X (partition 1) is backed up by nodes 2 and 3, Y (partition 2) by nodes 3 and 0: who writes both has all of
// it in the logs of all three.
class Logs : public testing::Test {
 protected:
  Logs() : histories_(2) {
    histories_.add({{at(kX, 0)}, {at(kX, 1), at(kY, 1)}}, 0).add({{at(kX, 1)}, {at(kX, 2)}}, 1);
    logged_ = {{at(kY, 1), 0}, {at(kX, 1), 2}, {at(kX, 2), 2}, {at(kX, 2), 3},
               {at(kX, 1), 3}, {at(kY, 1), 3}, {at(kX, 1), 0}, {at(kY, 1), 2}};
  }

  CheckReport check(int replicas = kReplicas) const {
    // In parts, as nodes have them, one of which is empty.
    const std::span<const LoggedWrite> all(logged_);
    const std::span<const LoggedWrite> parts[] = {all.first(2), {}, all.subspan(2)};
    return check_logs(histories_.view(), parts, replicas, kNodes);
  }

  TestHistories histories_;
  std::vector<LoggedWrite> logged_;
};

TEST_F(Logs, AcceptsATransactionOnceAtEachBackupOfItsRecords) {
  const CheckReport report = check();
  EXPECT_EQ(report.name, "backup_logs");
  EXPECT_EQ(report.transactions, 2u);
  EXPECT_EQ(report.violations, 0u);
}

TEST_F(Logs, WithoutBackupsNothingIsLogged) {
  EXPECT_EQ(check_logs(histories_.view(), {}, 1, kNodes).violations, 0u);
  EXPECT_EQ(check(1).violations, 8u);
}

/// Worker 0 is at node 0 and worker 1 at node 3: behind them are nodes 1 and 2, 0 and 1.
TEST_F(Logs, AreThoseBehindTheCoordinatorTooWhereItSaysSo) {
  const LoggedBehind both{.coordinator_of = [](std::size_t worker) { return worker == 0 ? 0U : 3U; }};
  const auto violations = [&] {
    const std::span<const LoggedWrite> parts[] = {logged_};
    return check_logs(histories_.view(), parts, kReplicas, kNodes, both).violations;
  };
  EXPECT_EQ(violations(), 4u);
  logged_.insert(logged_.end(), {{at(kX, 1), 1}, {at(kY, 1), 1}, {at(kX, 2), 0}, {at(kX, 2), 1}});
  EXPECT_EQ(violations(), 0u);
  EXPECT_GT(check().violations, 0u);
}

TEST_F(Logs, FindsAMissingEntry) {
  logged_.erase(logged_.begin() + 3);
  const CheckReport report = check();
  EXPECT_EQ(report.violations, 1u);
  EXPECT_THAT(report.examples, ElementsAre("committed but not logged: 0/1/10@2 in the log of node 3"));
}

TEST_F(Logs, FindsAnEntryTooMany) {
  logged_.push_back({at(kX, 3), 2});
  const CheckReport report = check();
  EXPECT_EQ(report.violations, 1u);
  EXPECT_THAT(report.examples, ElementsAre("logged but not committed: 0/1/10@3 in the log of node 2"));
}

TEST_F(Logs, FindsAnEntryAtTheWrongBackup) {
  logged_[1].backup = 1;
  EXPECT_THAT(check().examples, ElementsAre("logged but not committed: 0/1/10@1 in the log of node 1",
                                            "committed but not logged: 0/1/10@1 in the log of node 2"));
}

TEST_F(Logs, FindsADifferentValue) {
  logged_[2].write = torn(kX, 2);
  const CheckReport report = check();
  EXPECT_EQ(report.violations, 1u);
  EXPECT_THAT(report.examples,
              ElementsAre(StartsWith("logged value differs: 0/1/10@2 in the log of node 2: ")));
}

TEST_F(Logs, FindsADifferentValueOfWhatTheLogsNodeDoesNotBackUp) {
  logged_[6].write = torn(kX, 1);
  EXPECT_THAT(check().examples,
              ElementsAre(StartsWith("logged value differs: 0/1/10@1 in the log of node 0: ")));
}

TEST_F(Logs, FindsAnEntryLoggedTwice) {
  logged_.push_back(logged_[0]);
  logged_.push_back(logged_[0]);
  const CheckReport report = check();
  EXPECT_EQ(report.violations, 2u);
  EXPECT_THAT(report.examples, ElementsAre("logged twice: 1/2/20@1 in the log of node 0 (and 1 more)"));
}

TEST_F(Logs, FindsAnEntryLoggedAgainWithAnotherValue) {
  logged_.push_back({torn(kX, 1), 3});
  const CheckReport report = check();
  EXPECT_EQ(report.violations, 1u);
  EXPECT_THAT(report.examples, ElementsAre("logged but not committed: 0/1/10@1 in the log of node 3"));
}

}  // namespace
}  // namespace verbtwin::protocols
