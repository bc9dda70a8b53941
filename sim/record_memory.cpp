#include "sim/record_memory.hpp"

#include <cassert>

namespace verbtwin::sim {

namespace {
constexpr std::size_t kPoolMaxBytes = RecordPool::kUnitBytes << 32;
}

RecordPool::RecordPool(std::size_t bytes) : mapping_(std::min(bytes, kPoolMaxBytes)) {
  mapping_.prefer_huge_pages(0, mapping_.bytes().size());
}

void RecordMemory::add(std::size_t offset, std::size_t length, std::size_t stride_b) {
  assert(stride_b % 32 == 0 && stride_b <= kStrideMaxBytes);
  const std::size_t block_b = std::max(stride_b, kBlockBytes / stride_b * stride_b);
  const std::size_t end = offset + (length + block_b - 1) / block_b * block_b;
  if (!parts_.empty()) {
    Part& last = parts_.back();
    assert(offset >= last.end);
    if (offset == last.end && block_b == last.block_b) {
      last.end = end;
      return;
    }
  }
  const std::size_t blocks =
      parts_.empty()
          ? 0
          : parts_.back().first_block + (parts_.back().end - parts_.back().begin) / parts_.back().block_b;
  parts_.push_back({offset, end, static_cast<std::uint32_t>(block_b), static_cast<std::uint32_t>(blocks)});
}

std::byte* RecordMemory::make(std::uint64_t offset) {
  const Part& part = *part_behind(offset);
  const Place place = place_of(part, offset);
  const std::uint32_t unit = pool_.take(part.block_b);
  units_[place.block] = unit;
  return pool_.at(unit) + place.within_b;
}

}  // namespace verbtwin::sim
