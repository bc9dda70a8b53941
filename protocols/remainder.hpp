// quotient_of() and remainder_of(): division by what is a power of two mostly, by a shift then. A division
// takes a core as long as a dozen other instructions.
//
// Pure functions of a divisor that is not 0; any thread.
#pragma once

#include <bit>
#include <concepts>

namespace verbtwin::protocols {

/// std::has_single_bit counts bits, where there is no instruction for that by a call.
template <std::unsigned_integral Number>
constexpr bool is_power_of_two(Number number) {
  return (number & (number - 1)) == 0;
}

template <std::unsigned_integral Number>
constexpr Number quotient_of(Number number, Number divisor) {
  return is_power_of_two(divisor) ? number >> std::countr_zero(divisor) : number / divisor;
}

template <std::unsigned_integral Number>
constexpr Number remainder_of(Number number, Number divisor) {
  return is_power_of_two(divisor) ? number & (divisor - 1) : number % divisor;
}

}  // namespace verbtwin::protocols
