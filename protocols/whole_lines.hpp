// Sizes in whole words, so that what follows is aligned, and in whole cache lines, so that what different
// workers or NICs write begins in lines of its own.
//
// Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbtwin::protocols {

inline constexpr std::uint32_t kCacheLineBytes = 64;

constexpr std::size_t whole_words(std::size_t bytes) {
  return (bytes + 7) & ~std::size_t{7};
}

constexpr std::size_t whole_lines(std::size_t bytes) {
  return (bytes + kCacheLineBytes - 1) & ~std::size_t{kCacheLineBytes - 1};
}

}  // namespace verbtwin::protocols
