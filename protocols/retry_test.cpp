#include "protocols/retry.hpp"

#include <gtest/gtest.h>

namespace verbtwin::protocols {
namespace {

constexpr std::int64_t kAttemptPs = 1'000'000, kNever = std::numeric_limits<std::int64_t>::max() / 2;

/// The longest of many waits after so many attempts, the last of which took `last_ps`, the others kAttemptPs.
/// Each ends at time 0.
std::int64_t longest_ps(int aborted, std::int64_t last_ps = kAttemptPs, std::int64_t end_ps = kNever) {
  pcg32 random(1, 1);
  std::int64_t longest = 0;
  for (int i = 0; i < 1000; ++i) {
    Retries retries;
    for (int k = 1; k < aborted; ++k) retries.next_ps(-kAttemptPs, 0, end_ps, random);
    longest = std::max(longest, retries.next_ps(-last_ps, 0, end_ps, random));
  }
  return longest;
}

TEST(Retries, BeginAtOnceThenWithinAnAttemptAndLaterOnlyAfterMany) {
  EXPECT_EQ(longest_ps(1), 0);
  for (const int aborted : {2, 8}) {
    EXPECT_LT(longest_ps(aborted), kAttemptPs);
    EXPECT_GT(longest_ps(aborted), kAttemptPs * 95 / 100);
  }
  EXPECT_GT(longest_ps(9), kAttemptPs * 19 / 10);
  EXPECT_LT(longest_ps(16), kAttemptPs * 256);
  EXPECT_GT(longest_ps(1000), kAttemptPs * 240);
  EXPECT_LT(longest_ps(1000), kAttemptPs * 256) << "no longer and longer for ever";
}

/// A time-out of 67 ms in one attempt of 1 us would else make a transaction sleep for 17 s.
TEST(Retries, DoNotTakeAnAttemptThatStoodStillForTheTimeThatLocksAreHeld) {
  EXPECT_LT(longest_ps(2, 67'000 * kAttemptPs), kAttemptPs * 8);
  EXPECT_GT(longest_ps(2, 67'000 * kAttemptPs), kAttemptPs * 7);
  EXPECT_LT(longest_ps(1000, 67'000 * kAttemptPs), kAttemptPs * 256 * 8);
}

TEST(Retries, StayShortBehindTheEnd) {
  EXPECT_LT(longest_ps(1000, kAttemptPs, 0), kAttemptPs * 16);
  EXPECT_GT(longest_ps(1000, kAttemptPs, 0), kAttemptPs * 15);
  EXPECT_LT(longest_ps(8, kAttemptPs, 0), kAttemptPs);
  const std::int64_t soon = 20 * kAttemptPs;
  EXPECT_LT(longest_ps(1000, kAttemptPs, soon), soon + kAttemptPs * 16) << "nobody sleeps far beyond it";
}

}  // namespace
}  // namespace verbtwin::protocols
