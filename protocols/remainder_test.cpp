#include "protocols/remainder.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace verbtwin::protocols {
namespace {

TEST(Remainder, IsThatOfADivisionByAnyDivisor) {
  for (std::uint64_t divisor = 1; divisor <= 130; ++divisor) {
    EXPECT_EQ(is_power_of_two(divisor), (divisor == 1 || divisor == 2 || divisor == 4 || divisor == 8 ||
                                         divisor == 16 || divisor == 32 || divisor == 64 || divisor == 128));
    for (const std::uint64_t base : {std::uint64_t{0}, ~std::uint64_t{0} - 1000}) {
      for (std::uint64_t number = base; number < base + 1000; ++number) {
        ASSERT_EQ(quotient_of(number, divisor), number / divisor) << number << " / " << divisor;
        ASSERT_EQ(remainder_of(number, divisor), number % divisor) << number << " % " << divisor;
      }
    }
  }
}

}  // namespace
}  // namespace verbtwin::protocols
