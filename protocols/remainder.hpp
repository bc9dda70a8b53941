// quotient_of() and remainder_of(): division by what is a power of two mostly, by a shift then. A division
// takes a core as long as a dozen other instructions.
//
// Pure functions, any thread.
#pragma once

#include <bit>
#include <concepts>

namespace verbtwin::protocols {

template <std::unsigned_integral Number>
constexpr Number quotient_of(Number number, Number divisor) {
  return std::has_single_bit(divisor) ? number >> std::countr_zero(divisor) : number / divisor;
}

template <std::unsigned_integral Number>
constexpr Number remainder_of(Number number, Number divisor) {
  return std::has_single_bit(divisor) ? number & (divisor - 1) : number % divisor;
}

}  // namespace verbtwin::protocols
