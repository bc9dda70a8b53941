// Sizes in whole words, so that what follows is aligned, and in whole cache lines, so that what different
// workers or NICs write begins in lines of its own.
//
// Pure functions, any thread.
#pragma once

#include <cstddef>

namespace verbtwin::protocols {

constexpr std::size_t whole_words(std::size_t bytes) {
  return (bytes + 7) & ~std::size_t{7};
}

constexpr std::size_t whole_lines(std::size_t bytes) {
  return (bytes + 63) & ~std::size_t{63};
}

}  // namespace verbtwin::protocols
