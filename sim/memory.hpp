// Memory of a simulated node: registered regions with their keys, and mappings that cost nothing until
// touched.
//
// A Memory belongs to one simulated node; one thread. Regions do not own what they describe. LazyMapping owns
// pages that read as zero and exist only once touched, so that a node may register far more than the machine
// has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/verbs.hpp"

namespace verbtwin::sim {

class Core;
class RecordMemory;

/// Anonymous memory reserved but not committed. Throws std::runtime_error where the system refuses the
/// reservation: no fault of the input, as another system may grant it.
class LazyMapping {
 public:
  static constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

  explicit LazyMapping(std::size_t bytes);
  ~LazyMapping();
  LazyMapping(const LazyMapping&) = delete;
  LazyMapping& operator=(const LazyMapping&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }

  /// This part stands for addresses only: whoever touches it is wrong, and faults.
  void forbid(std::size_t offset, std::size_t length);

  /// Most of this part will be touched.
  void prefer_huge_pages(std::size_t offset, std::size_t length);

 private:
  std::span<std::byte> bytes_;
};

class Memory {
 public:
  /// Returns the key of the new region; lkey and rkey are one number here. `records`: where the parts of the
  /// region are that hold records; not owned.
  std::uint32_t add(std::span<std::byte> bytes, unsigned access, RecordMemory* records = nullptr) {
    regions_.push_back({bytes.data(), bytes.size(), access, records});
    return static_cast<std::uint32_t>(regions_.size());
  }
  /// Core `core` polls `bytes`.
  void watch(std::span<const std::byte> bytes, Core& core) { watches_.push_back({bytes, &core}); }
  /// The core that polls the byte at `addr`, or null.
  Core* watcher_of(const std::byte* addr) const {
    for (const Watch& watch : watches_) {
      if (addr >= watch.bytes.data() && addr < watch.bytes.data() + watch.bytes.size()) return watch.core;
    }
    return nullptr;
  }

  void remove(std::uint32_t key) { regions_[key - 1] = {}; }

  /// True if `key` names a region that holds [addr, addr + length) and grants all of `access`.
  bool allows(std::uint32_t key, std::uint64_t addr, std::uint64_t length, unsigned access) const {
    if (key == 0 || key > regions_.size()) return false;
    const Region& region = regions_[key - 1];
    const std::uint64_t base = reinterpret_cast<std::uint64_t>(region.base);
    return region.base != nullptr && (region.access & access) == access && addr >= base &&
           length <= region.length && addr - base <= region.length - length;
  }

  /// How far behind the start of `key`'s region `addr` is; 0 if it is not in it.
  std::uint64_t offset(std::uint32_t key, std::uint64_t addr) const {
    if (key == 0 || key > regions_.size()) return 0;
    const std::uint64_t from_base = addr - reinterpret_cast<std::uint64_t>(regions_[key - 1].base);
    return from_base < regions_[key - 1].length ? from_base : 0;
  }

  // What a NIC does to memory that it is allowed to access.
  void read(std::uint32_t key, std::uint64_t addr, std::byte* to, std::uint32_t length) const;
  void write(std::uint32_t key, std::uint64_t addr, const std::byte* from, std::uint32_t length);
  std::uint64_t& word(std::uint32_t key, std::uint64_t addr);
  /// Prefetches what an access will touch: with steps 1 and then 0.
  void prefetch(std::uint32_t key, std::uint64_t addr, int steps) const;

 private:
  struct Region {
    std::byte* base = nullptr;
    std::size_t length = 0;
    unsigned access = 0;
    RecordMemory* records = nullptr;
    std::uint64_t offset_of(std::uint64_t addr) const { return addr - reinterpret_cast<std::uint64_t>(base); }
  };
  struct Watch {
    std::span<const std::byte> bytes;
    Core* core;
  };
  std::vector<Region> regions_;
  std::vector<Watch> watches_;  // a few: one a worker at most
};

}  // namespace verbtwin::sim
