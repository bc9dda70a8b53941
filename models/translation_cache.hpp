// TranslationCache: which pages' address translations a NIC holds on chip (its MTT cache).
//
// Owned by a Nic; one thread. Pages are those of the node's registered memory, by offset from its start, so
// that nothing depends on where it is mapped. Why large pages matter: FaRM (NSDI 2014, section 3.1) saw its
// READ rate collapse with 4 KiB pages and gave its memory 2 GiB ones.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "models/divisor.hpp"
#include "models/lru_cache.hpp"
#include "models/profile.hpp"

namespace verbtwin::models {

class TranslationCache {
 public:
  explicit TranslationCache(const NicProfile& profile)
      : page_b_(static_cast<std::uint64_t>(profile.translation_page_b)),
        lru_(static_cast<std::uint32_t>(profile.translation_cache_entries)) {}

  /// Uses the page at `offset`; returns true on a hit. A page's first use is a miss.
  bool touch(std::uint64_t offset) {
    const std::uint64_t page =
        is_power_of_two(page_b_) ? offset >> std::countr_zero(page_b_) : offset / page_b_;
    if (page >= numbers_.size()) numbers_.resize(page + 1, kUnused);
    if (numbers_[page] != kUnused) return lru_.touch(numbers_[page]);
    numbers_[page] = lru_.add();
    lru_.touch(numbers_[page]);
    return false;
  }

 private:
  static constexpr std::uint32_t kUnused = ~0U;
  std::uint64_t page_b_;
  std::vector<std::uint32_t> numbers_;  // by page: its number in the cache
  LruCache lru_;
};

}  // namespace verbtwin::models
