// RecordMemory: the records of a simulated node, kept by the block of neighbours that are in use instead of
// by the page. A cluster touches records all over its tables: a page for each would be most of a run's
// memory, and a page fault for each a good part of its time.
//
// RecordPool is the cluster's: blocks of zeros, handed out in the order of their first use, so that records
// in use stand together, in huge pages, whatever node they are of. A RecordMemory is one node's: which of its
// offsets are records, and where the block of each is. One thread. Lengths and offsets in bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "backend/number_map.hpp"
#include "backend/prefetch.hpp"
#include "models/divisor.hpp"
#include "sim/memory.hpp"

namespace verbtwin::sim {

class RecordPool {
 public:
  static constexpr std::size_t kUnitBytes = 64;

  /// Room for `bytes` of blocks, at most 256 GiB; nothing of it exists before it is used.
  explicit RecordPool(std::size_t bytes);

  /// A new block of zeros, in units from the pool's start; never ~0.
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
  explicit RecordMemory(RecordPool& pool) : pool_(pool), parts_(1, kBehindAll) {}

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
    const Part& part = part_behind(offset);
    if (offset < part.begin) return {false, nullptr, part.begin - offset};
    const Place place = place_of(part, offset);
    const std::uint32_t* number = units_.find(place.block);
    std::byte* at = number == nullptr || *number == 0 ? nullptr : pool_.at(*number - 1) + place.within_b;
    return {true, at, part.block_b.value() - place.within_b};
  }
  /// The same, made where there was nothing.
  Piece use(std::uint64_t offset) {
    const Part& part = part_behind(offset);
    if (offset < part.begin) return {false, nullptr, part.begin - offset};
    const Place place = place_of(part, offset);
    std::uint32_t& number = units_[place.block];
    if (number == 0) number = pool_.take(part.block_b.value()) + 1;
    return {true, pool_.at(number - 1) + place.within_b, part.block_b.value() - place.within_b};
  }
  /// Prefetches what find() will look at first.
  void prefetch_find(std::uint64_t offset) const {
    const Part& part = part_behind(offset);
    if (offset >= part.begin) prefetch_line(units_.near(place_of(part, offset).block));
  }

 private:
  static constexpr std::size_t kBlockBytes = 128;  // of short records
  static constexpr std::size_t kGranules = 256;

  struct Part {
    std::uint64_t begin, end;
    models::Divisor block_b;
    std::uint32_t first_block;
  };
  struct Place {
    std::uint32_t block;  // number, counted over all parts
    std::uint32_t within_b;
  };
  static constexpr Part kBehindAll = {~std::uint64_t{0}, ~std::uint64_t{0}, models::Divisor(1), 0};

  /// The part that holds `offset`, or else the next one; kBehindAll is the last.
  const Part& part_behind(std::uint64_t offset) const {
    const std::uint64_t granule = std::min<std::uint64_t>(offset >> granule_shift_, kGranules);
    const Part* part = &parts_[first_part_[granule]];
    while (part->end <= offset) ++part;
    return *part;
  }
  static Place place_of(const Part& part, std::uint64_t offset) {
    const std::uint64_t from_begin = offset - part.begin;
    const std::uint64_t block = part.block_b.quotient(from_begin);
    return {part.first_block + static_cast<std::uint32_t>(block),
            static_cast<std::uint32_t>(from_begin - block * part.block_b.value())};
  }
  void index_parts();

  RecordPool& pool_;
  std::vector<Part> parts_;
  /// By offset >> granule_shift_: the number of the first part that ends behind there.
  std::array<std::uint16_t, kGranules + 1> first_part_ = {};
  int granule_shift_ = 0;
  NumberMap<std::uint32_t> units_;  // of the pool, by block, counted from 1; 0: none yet
};

}  // namespace verbtwin::sim
