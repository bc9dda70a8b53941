// AddressCache: where a client's node last saw each key's current version, for GET*.
//
// One word per key, shared by the node's workers through atomics: a stale address costs a READ, nothing else.
// Owned by the node's program.
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
  struct Address {
    std::uint64_t place = 0;
    std::uint32_t metadata_b = 0;  // of the version that was there, whose length a READ takes
  };

  /// `known`: every key's first version has been seen.
  AddressCache(const RampLayout& layout, bool known) : layout_(layout), known_(known) {
    words_.reset(static_cast<std::uint64_t*>(std::calloc(layout.keys, sizeof(std::uint64_t))));
    if (!words_) throw std::bad_alloc();
  }

  std::optional<Address> find(std::uint64_t key) const {
    const std::uint64_t word = std::atomic_ref(words_.get()[key]).load(std::memory_order_relaxed);
    if (word != 0) return Address{(word & kPlaceMask) - 1, static_cast<std::uint32_t>(word >> kPlaceBits)};
    if (known_) return Address{layout_.slot_of(key), 0};
    return std::nullopt;
  }
  void set(std::uint64_t key, const Address& address) {
    const std::uint64_t word =
        static_cast<std::uint64_t>(address.metadata_b) << kPlaceBits | ((address.place + 1) & kPlaceMask);
    std::atomic_ref(words_.get()[key]).store(word, std::memory_order_relaxed);
  }

 private:
  static constexpr int kPlaceBits = 40;
  static constexpr std::uint64_t kPlaceMask = (1ULL << kPlaceBits) - 1;

  struct Free {
    void operator()(std::uint64_t* words) const { std::free(words); }
  };
  const RampLayout& layout_;
  bool known_;
  std::unique_ptr<std::uint64_t, Free> words_;  // pages exist once touched
};

}  // namespace verbtwin::protocols
