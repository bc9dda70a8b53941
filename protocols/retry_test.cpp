#include "protocols/retry.hpp"

#include <gtest/gtest.h>

namespace verbtwin::protocols {
namespace {

std::int64_t longest_ps(int aborted) {
  pcg32 random(1, 1);
  std::int64_t longest = 0;
  for (int i = 0; i < 1000; ++i) longest = std::max(longest, retry_delay_ps(aborted, 1'000'000, random));
  return longest;
}

TEST(RetryDelay, IsNoneAtFirstThenUpToAnAttemptAndLongerOnlyAfterMany) {
  EXPECT_EQ(longest_ps(1), 0);
  for (const int aborted : {2, 8}) {
    EXPECT_LT(longest_ps(aborted), 1'000'000);
    EXPECT_GT(longest_ps(aborted), 950'000);
  }
  EXPECT_GT(longest_ps(9), 1'900'000);
  EXPECT_LT(longest_ps(16), 256'000'000);
  EXPECT_GT(longest_ps(1'000'000), 240'000'000);
  EXPECT_LT(longest_ps(1'000'000), 256'000'000) << "no longer and longer for ever";
}

}  // namespace
}  // namespace verbtwin::protocols
