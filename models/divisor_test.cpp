#include "models/divisor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <pcg_random.hpp>

namespace verbtwin::models {
namespace {

TEST(Divisor, DividesAsADivisionDoes) {
  pcg64 random(7);
  for (const std::uint64_t value :
       {1ULL, 2ULL, 3ULL, 7ULL, 41ULL, 64ULL, 96ULL, 255ULL, 704ULL, 1000ULL, 4095ULL, 4096ULL,
        (1ULL << 21) - 1, 1ULL << 21, (1ULL << 31) + 11, 1ULL << 32}) {
    const Divisor divisor(value);
    EXPECT_EQ(divisor.value(), value);
    const std::uint64_t end = (1ULL << 63) / value;
    const auto expect_exact = [&](std::uint64_t number) {
      ASSERT_EQ(divisor.quotient(number), number / value) << number << " / " << value;
      ASSERT_EQ(divisor.remainder(number), number % value) << number << " % " << value;
    };
    for (int i = 0; i < 1000; ++i) {
      expect_exact(random() % end);
      // Where a product that is a little too large would show.
      const std::uint64_t multiple = random() % std::max<std::uint64_t>(1, end / value) * value;
      expect_exact(multiple);
      if (multiple > 0) expect_exact(multiple - 1);
    }
    for (const std::uint64_t number : {std::uint64_t{0}, end - 1}) expect_exact(number);
  }
}

}  // namespace
}  // namespace verbtwin::models
