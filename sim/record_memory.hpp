// RecordMemory: the records of a simulated node, kept by the block of neighbours that are in use instead of
// by the page. A cluster touches records all over its tables: a page for each would be most of a run's
// memory, and a page fault for each a good part of its time.
//
// RecordPool is the cluster's: blocks of zeros, handed out in the order of their first use, so that records
// in use stand together, in huge pages, whatever node they are of. A RecordMemory is one node's: which of its
// offsets are records, and where the block of each is. One thread. Lengths and offsets in bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "sim/memory.hpp"

namespace verbtwin::sim {

class RecordPool {
 public:
  static constexpr std::size_t kUnitBytes = 64;

  /// Room for `bytes` of blocks, at most 256 GiB; nothing of it exists before it is used.
  explicit RecordPool(std::size_t bytes);

  /// A new block of zeros, in units from the pool's start.
  std::uint32_t take(std::size_t bytes) {
    if (used_b_ + bytes > mapping_.bytes().size()) throw std::bad_alloc();
    const auto unit = static_cast<std::uint32_t>(used_b_ / kUnitBytes);
    used_b_ += bytes;
    return unit;
  }
  std::byte* at(std::uint32_t unit) const { return mapping_.bytes().data() + unit * kUnitBytes; }

 private:
  LazyMapping mapping_;
  std::size_t used_b_ = 0;
};

class RecordMemory {
 public:
  /// The pool is not owned and outlives it.
  explicit RecordMemory(RecordPool& pool) : pool_(pool), table_(kFirstPlaces) {}

  /// Records that are longer are better kept by the page.
  static constexpr std::size_t kStrideMaxBytes = 1024;

  /// [offset, offset + length) holds records `stride_b` apart, a multiple of 32 up to kStrideMaxBytes. Parts
  /// are added in ascending order.
  void add(std::size_t offset, std::size_t length, std::size_t stride_b);

  /// What a NIC or a CPU finds at an offset.
  struct Piece {
    bool is_record;
    std::byte* at;      // of records; null: nobody has used it yet, all zeros
    std::size_t run_b;  // so many bytes from there on lie together
  };
  Piece find(std::uint64_t offset) const {
    const Part* part = part_behind(offset);
    if (part == nullptr) return {false, nullptr, ~std::size_t{0}};
    if (offset < part->begin) return {false, nullptr, part->begin - offset};
    const Place place = place_of(*part, offset);
    const Entry& entry = table_[slot_of(place.block)];
    std::byte* at = entry.block == kNone ? nullptr : pool_.at(entry.unit) + place.within_b;
    return {true, at, part->block_b - place.within_b};
  }
  /// The same, made where there was nothing.
  Piece use(std::uint64_t offset) {
    Piece piece = find(offset);
    if (piece.is_record && piece.at == nullptr) piece.at = make(offset);
    return piece;
  }
  /// Prefetches what find() will look at first.
  void prefetch_find(std::uint64_t offset) const {
    const Part* part = part_behind(offset);
    if (part == nullptr || offset < part->begin) return;
    __builtin_prefetch(&table_[first_slot(place_of(*part, offset).block)]);
  }

 private:
  static constexpr std::uint32_t kNone = ~0U;
  static constexpr std::size_t kFirstPlaces = 64;
  static constexpr std::size_t kBlockBytes = 128;  // of short records

  struct Part {
    std::uint64_t begin, end;
    std::uint32_t block_b, first_block;
  };
  struct Place {
    std::uint32_t block;  // number, counted over all parts
    std::uint32_t within_b;
  };
  struct Entry {
    std::uint32_t block = kNone;
    std::uint32_t unit = 0;
  };

  /// The part that holds `offset`, or else the next one.
  const Part* part_behind(std::uint64_t offset) const {
    for (const Part& part : parts_) {
      if (offset < part.end) return &part;
    }
    return nullptr;
  }
  static Place place_of(const Part& part, std::uint64_t offset) {
    const std::uint64_t from_begin = offset - part.begin;
    return {part.first_block + static_cast<std::uint32_t>(from_begin / part.block_b),
            static_cast<std::uint32_t>(from_begin % part.block_b)};
  }
  std::size_t first_slot(std::uint32_t block) const {
    return (block * 0x9E3779B97F4A7C15ULL >> 32) & (table_.size() - 1);
  }
  /// The block's slot, or the free one where it belongs.
  std::size_t slot_of(std::uint32_t block) const {
    std::size_t slot = first_slot(block);
    while (table_[slot].block != block && table_[slot].block != kNone)
      slot = (slot + 1) & (table_.size() - 1);
    return slot;
  }
  std::byte* make(std::uint64_t offset);
  void grow();

  RecordPool& pool_;
  std::vector<Part> parts_;
  std::vector<Entry> table_;  // open addressing; a power of two
  std::size_t blocks_ = 0;    // in use
};

}  // namespace verbtwin::sim
