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

#include "backend/number_map.hpp"
#include "backend/prefetch.hpp"
#include "sim/memory.hpp"

namespace verbtwin::sim {

class RecordPool {
 public:
  static constexpr std::size_t kUnitBytes = 64;

  /// Room for `bytes` of blocks, at most 256 GiB; nothing of it exists before it is used.
  explicit RecordPool(std::size_t bytes);

  /// A new block of zeros, in units from the pool's start.
  std::uint32_t take(std::size_t bytes) {
    bytes = (bytes + kUnitBytes - 1) / kUnitBytes * kUnitBytes;
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
  explicit RecordMemory(RecordPool& pool) : pool_(pool) {}

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
    const std::uint32_t* unit = units_.find(place.block);
    std::byte* at = unit == nullptr ? nullptr : pool_.at(*unit) + place.within_b;
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
    prefetch_line(units_.near(place_of(*part, offset).block));
  }

 private:
  static constexpr std::size_t kBlockBytes = 128;  // of short records

  struct Part {
    std::uint64_t begin, end;
    std::uint32_t block_b, first_block;
  };
  struct Place {
    std::uint32_t block;  // number, counted over all parts
    std::uint32_t within_b;
  };
  /// The part that holds `offset`, or else the next one.
  const Part* part_behind(std::uint64_t offset) const {
    const Part* part = parts_.data();
    for (std::size_t left = parts_.size(); left > 1;) {  // without a branch that nobody could foresee
      const std::size_t half = left / 2;
      part += part[half - 1].end <= offset ? half : 0;
      left -= half;
    }
    return parts_.empty() || part->end <= offset ? nullptr : part;
  }
  static Place place_of(const Part& part, std::uint64_t offset) {
    const std::uint64_t from_begin = offset - part.begin;
    return {part.first_block + static_cast<std::uint32_t>(from_begin / part.block_b),
            static_cast<std::uint32_t>(from_begin % part.block_b)};
  }
  std::byte* make(std::uint64_t offset);

  RecordPool& pool_;
  std::vector<Part> parts_;
  NumberMap<std::uint32_t> units_;  // of the pool, by block
};

}  // namespace verbtwin::sim
