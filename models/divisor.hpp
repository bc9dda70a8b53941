// Divisor: a number that divides others again and again. A multiplication stands for the division, which
// takes a core several times as long.
//
// A value, const use from any thread.
#pragma once

#include <cassert>
#include <cstdint>

namespace verbtwin::models {

/// Of a divisor that may be one mostly: std::has_single_bit counts bits, where there is no instruction for
/// that by a call.
constexpr bool is_power_of_two(std::uint64_t number) {
  return (number & (number - 1)) == 0;
}

class Divisor {
 public:
  /// Not 0. A number and its divisor together have less than 63 bits.
  explicit constexpr Divisor(std::uint64_t value) : value_(value), inverse_((kOne + value - 1) / value) {}

  constexpr std::uint64_t value() const { return value_; }
  /// number / value(): the inverse is too large by less than value() / 2^63 of itself, and the product by
  /// less than what is missing to the next quotient.
  constexpr std::uint64_t quotient(std::uint64_t number) const {
    assert(number < kOne / value_ && "no room for the product");
    return static_cast<std::uint64_t>(Wide{number} * inverse_ >> kShift);
  }
  /// number % value()
  constexpr std::uint64_t remainder(std::uint64_t number) const { return number - quotient(number) * value_; }

 private:
  __extension__ using Wide = unsigned __int128;
  static constexpr int kShift = 63;
  static constexpr std::uint64_t kOne = std::uint64_t{1} << kShift;

  std::uint64_t value_;
  std::uint64_t inverse_;  // kOne / value_, rounded up
};

}  // namespace verbtwin::models
