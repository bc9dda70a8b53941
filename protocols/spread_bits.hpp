// A fixed bijection of 64-bit words under which neighbours look unrelated: splitmix64's finaliser.
//
// A pure function, any thread.
#pragma once

#include <cstdint>

namespace verbtwin::protocols {

constexpr std::uint64_t spread_bits(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace verbtwin::protocols
