#include "protocols/checks/losses.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace verbtwin::protocols {
namespace {

using testing::ElementsAre;

constexpr int kNodes = 4;
constexpr RecordId kX = RecordId::make(0, 3, 10);  // backed up by nodes 0 and 1

CheckReport judge(const std::vector<std::uint64_t>& versions, const std::vector<LoggedWrite>& waiting,
                  MadeUpBy by = MadeUpBy::kItsLog) {
  const RecordId records[] = {RecordId::make(0, 0, 1), kX};
  std::vector<std::uint64_t> all = {1, 1, 1};
  all.insert(all.end(), versions.begin(), versions.end());
  Findings losses;
  find_losses(records, all, waiting, kNodes, by, losses);
  return losses.report("losses", 0);
}

LoggedWrite x_at(std::uint64_t version, std::uint32_t node) {
  return {{kX, version, 0}, node};
}

TEST(Losses, ABackupHasItOrItsLogDoes) {
  EXPECT_EQ(judge({5, 5, 5}, {}).violations, 0U);
  EXPECT_EQ(judge({5, 4, 3}, {x_at(5, 0), x_at(4, 1), x_at(6, 1)}).violations, 0U);
  EXPECT_EQ(judge({5, 5, 4}, {x_at(5, 1)}).violations, 0U);
}

TEST(Losses, WhatOnlyAPrimaryHasIsOne) {
  const CheckReport report = judge({5, 4, 4}, {x_at(5, 0), x_at(4, 1), x_at(5, 2), {{{}, 5, 0}, 1}});
  EXPECT_EQ(report.violations, 1U);
  EXPECT_THAT(report.examples,
              ElementsAre("seen before it was logged: 0/3/10@5, of which node 1 has version 4 "
                          "and no log more"));
  EXPECT_EQ(judge({5, 4, 4}, {}).violations, 2U);
}

/// Backups apply a log at their leisure, and that may be before the primary installs.
TEST(Losses, APrimaryMayBeBehind) {
  EXPECT_EQ(judge({4, 5, 5}, {}).violations, 0U);
  EXPECT_EQ(judge({4, 5, 4}, {x_at(5, 1)}).violations, 0U);
  EXPECT_EQ(judge({4, 5, 4}, {}).violations, 1U);
}

TEST(Losses, ACoordinatorLogsAtAsManyNodesAsThereAreBackups) {
  const std::vector<LoggedWrite> both = {x_at(5, 2), x_at(5, 3)}, one = {x_at(5, 2), x_at(5, 2)};
  EXPECT_EQ(judge({5, 4, 4}, both, MadeUpBy::kCoordinatorsLogs).violations, 0U);
  EXPECT_EQ(judge({5, 4, 4}, both).violations, 2U);
  EXPECT_EQ(judge({5, 5, 4}, one, MadeUpBy::kCoordinatorsLogs).violations, 1U);
}

}  // namespace
}  // namespace verbtwin::protocols
