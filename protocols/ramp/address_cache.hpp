// AddressCache: the places a client's node READs keys in, for GET*, and how much a READ takes.
//
// A READ of a key that is about to be overwritten is in vain. A key is then asked for before it is READ
// again: the number of answers waited for doubles with each READ in vain and falls by one with each other. So
// keys of which one READ in ten or more would be in vain are mostly asked for, and all others READ. Not
// chosen: one answer (of YCSB B's hottest keys half of the READs are in vain, and GET* is slower than GET+).
//
// One word per key, shared by the node's workers through atomics. A lost update costs a READ in vain or a
// question, nothing else. Owned by the node's program.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>

#include "protocols/ramp/layout.hpp"

namespace verbtwin::protocols {

class AddressCache {
 public:
  /// `known`: all places have been told before.
  AddressCache(const RampLayout& layout, bool known) : layout_(layout), known_(known) {
    keys_.reset(static_cast<std::uint64_t*>(std::calloc(layout.keys, sizeof(std::uint64_t))));
    if (!keys_) throw std::bad_alloc();
  }

  /// Nothing: the server is to be asked.
  std::optional<std::uint64_t> find(std::uint64_t key) const {
    const Known known = load(key);
    if (known.waits > 0) return std::nullopt;
    if (known.place != kUnknown) return known.place;
    return known_ ? std::optional(layout_.slot_of(key)) : std::nullopt;
  }
  /// The server says that a READ of the place would succeed now, and how much metadata is there.
  void set(std::uint64_t key, std::uint64_t place, std::uint32_t metadata_b) {
    Known known = load(key);
    known.place = place;
    if (known.waits > 0) --known.waits;
    store(key, known);
    std::uint32_t longest_b = metadata_b_.load(std::memory_order_relaxed);
    while (longest_b < metadata_b && !metadata_b_.compare_exchange_weak(longest_b, metadata_b)) {
    }
  }
  /// What was READ was not the key's last version.
  void read_in_vain(std::uint64_t key) {
    Known known = load(key);
    known.penalty = std::min<std::uint64_t>(2 * known.penalty + 1, kPenaltyMax);
    known.waits = known.penalty;
    store(key, known);
  }
  void read_well(std::uint64_t key) {
    Known known = load(key);
    if (known.penalty == 0) return;
    --known.penalty;
    store(key, known);
  }
  /// The longest that this node has met: the next READ of any key may find as much.
  std::uint32_t metadata_b() const { return metadata_b_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::uint64_t kPenaltyMax = 4095;
  static constexpr std::uint64_t kUnknown = (1ULL << 40) - 1;

  /// In a word: place + 1, penalty, waits; so 0 is a key that was never heard of.
  struct Known {
    std::uint64_t place, penalty, waits;  // answers to wait for after the next READ in vain; now
  };
  Known load(std::uint64_t key) const {
    const std::uint64_t word = std::atomic_ref(keys_.get()[key]).load(std::memory_order_relaxed);
    return {((word >> 24) - 1) & kUnknown, word >> 12 & kPenaltyMax, word & kPenaltyMax};
  }
  void store(std::uint64_t key, const Known& known) {
    std::atomic_ref(keys_.get()[key])
        .store(((known.place + 1) & kUnknown) << 24 | known.penalty << 12 | known.waits,
               std::memory_order_relaxed);
  }

  struct Free {
    void operator()(std::uint64_t* words) const { std::free(words); }
  };
  const RampLayout& layout_;
  bool known_;
  std::unique_ptr<std::uint64_t, Free> keys_;  // pages exist once touched
  std::atomic<std::uint32_t> metadata_b_{0};
};

}  // namespace verbtwin::protocols
