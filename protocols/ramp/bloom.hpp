// Bloom filter over keys, as RAMP-Hybrid's versions carry it (Bailis et al., SIGMOD 2014, section 4.4; Bloom,
// CACM 1970). The hash functions are two, combined (Kirsch and Mitzenmacher, 2006).
//
// Pure functions over the caller's bytes, which hold `bits` bits; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "protocols/workloads/draws.hpp"

namespace verbtwin::protocols {

/// What a bit takes a core, in cycles: these functions, in a loop over keys, on a recent Xeon (7.8 to 8.5).
inline constexpr std::uint64_t kBloomBitCycles = 8;

namespace detail {
template <typename Visit>
bool all_bloom_bits(std::uint32_t bits, std::uint32_t hashes, std::uint64_t key, const Visit& visit) {
  const std::uint64_t first = spread(key), step = spread(first) | 1;
  for (std::uint64_t i = 0; i < hashes; ++i) {
    const std::uint64_t bit = (first + i * step) % bits;
    if (!visit(bit / 8, static_cast<std::byte>(1U << bit % 8))) return false;
  }
  return true;
}
}  // namespace detail

inline void bloom_add(std::span<std::byte> filter, std::uint32_t bits, std::uint32_t hashes,
                      std::uint64_t key) {
  detail::all_bloom_bits(bits, hashes, key, [&](std::size_t at, std::byte bit) {
    filter[at] |= bit;
    return true;
  });
}

/// False: the key was not added. True: it probably was.
inline bool bloom_holds(std::span<const std::byte> filter, std::uint32_t bits, std::uint32_t hashes,
                        std::uint64_t key) {
  return detail::all_bloom_bits(
      bits, hashes, key, [&](std::size_t at, std::byte bit) { return (filter[at] & bit) != std::byte{0}; });
}

}  // namespace verbtwin::protocols
