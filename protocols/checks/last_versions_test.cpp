#include "protocols/checks/last_versions.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocols/checks/ramp_histories_for_test.hpp"

namespace verbtwin::protocols {
namespace {

using testing::ElementsAre;

constexpr std::uint64_t kX = 10, kY = 20, kZ = 30;

LastVersion version(std::uint64_t key, std::uint64_t timestamp) {
  return {key, timestamp, ramp_digest(key, timestamp)};
}

class LastVersions : public testing::Test {
 protected:
  LastVersions() : histories_(2) {
    histories_.write(5, {kX, kY}).write(9, {kX}, 1).read({{kX, 9}, {kZ, 0}});
    histories_.add(12, {}, {{kY, ramp_digest(kY, 12)}}, false);  // aborted
  }
  CheckReport check(std::vector<LastVersion> last) const {
    return check_last_versions(histories_.view(), std::move(last));
  }

  TestRampHistories histories_;
};

TEST_F(LastVersions, TheNewestOfEachKeyThatWasWritten) {
  const CheckReport report = check({version(kY, 5), version(kX, 9)});
  EXPECT_EQ(report.name, "final_state");
  EXPECT_EQ(report.transactions, 3U);
  EXPECT_EQ(report.violations, 0U);
}

TEST_F(LastVersions, AnOlderOneWasNotReplaced) {
  EXPECT_THAT(check({version(kX, 5), version(kY, 5)}).examples,
              ElementsAre("not the newest that was committed: 10@5 where 10@9 should be"));
}

TEST_F(LastVersions, OneThatIsMissing) {
  for (const auto& left : {version(kX, 9), version(kY, 5)}) EXPECT_EQ(check({left}).violations, 1U);
  EXPECT_EQ(check({}).violations, 2U);
}

TEST_F(LastVersions, OneThatNobodyCommitted) {
  EXPECT_THAT(check({version(kX, 9), version(kY, 12)}).examples,
              ElementsAre("not the newest that was committed: 20@12 where 20@5 should be"));
  EXPECT_THAT(check({version(kX, 9), version(kY, 5), version(kZ, 9)}).examples,
              ElementsAre("not the newest that was committed: 30@9 where 30@0 should be"));
}

TEST_F(LastVersions, AKeyThatIsStillLocked) {
  const std::vector<std::uint64_t> locked = {kZ, kX};
  const CheckReport report = check_last_versions(histories_.view(), {version(kX, 9), version(kY, 5)}, locked);
  EXPECT_THAT(report.examples, ElementsAre("left locked: 30 (and 1 more)"));
}

TEST_F(LastVersions, OneThatWasTorn) {
  LastVersion torn = version(kX, 9);
  ++torn.digest;
  const CheckReport report = check({torn, version(kY, 5)});
  EXPECT_EQ(report.violations, 1U);
  EXPECT_THAT(report.examples, ElementsAre(testing::StartsWith("differs from what was written: 10@9 as ")));
}

}  // namespace
}  // namespace verbtwin::protocols
