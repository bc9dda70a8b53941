// AddressCache: the places a client's node READs keys in, for GET*, and how much a READ takes.
//
// One word per key, shared by the node's workers through atomics: a key that is not known costs a question,
// nothing else. Owned by the node's program.
#pragma once

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

  std::optional<std::uint64_t> find(std::uint64_t key) const {
    const std::uint64_t word = std::atomic_ref(keys_.get()[key]).load(std::memory_order_relaxed);
    if (word == 0) return known_ ? std::optional(layout_.slot_of(key)) : std::nullopt;
    return word == kForgotten ? std::nullopt : std::optional(word - 1);
  }
  /// The server says that a READ of the place would succeed now, and how much metadata is there.
  void set(std::uint64_t key, std::uint64_t place, std::uint32_t metadata_b) {
    std::atomic_ref(keys_.get()[key]).store(place + 1, std::memory_order_relaxed);
    std::uint32_t longest_b = metadata_b_.load(std::memory_order_relaxed);
    while (longest_b < metadata_b && !metadata_b_.compare_exchange_weak(longest_b, metadata_b)) {
    }
  }
  /// A READ was in vain: the key is asked for until an answer says that one would succeed.
  void forget(std::uint64_t key) {
    std::atomic_ref(keys_.get()[key]).store(kForgotten, std::memory_order_relaxed);
  }
  /// The longest that this node has met: the next READ of any key may find as much.
  std::uint32_t metadata_b() const { return metadata_b_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::uint64_t kForgotten = ~std::uint64_t{0};

  struct Free {
    void operator()(std::uint64_t* words) const { std::free(words); }
  };
  const RampLayout& layout_;
  bool known_;
  std::unique_ptr<std::uint64_t, Free> keys_;  // place + 1; 0: never heard of. Pages exist once touched
  std::atomic<std::uint32_t> metadata_b_{0};
};

}  // namespace verbtwin::protocols
