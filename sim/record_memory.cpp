#include "sim/record_memory.hpp"

#include <cassert>

namespace verbtwin::sim {

namespace {
constexpr std::size_t kPoolMaxBytes = (RecordPool::kUnitBytes << 32) - LazyMapping::kHugePageBytes;
}

RecordPool::RecordPool(std::size_t bytes) : mapping_(std::min(bytes, kPoolMaxBytes)) {
  mapping_.prefer_huge_pages(0, mapping_.bytes().size());
}

void RecordMemory::add(std::size_t offset, std::size_t length, std::size_t stride_b) {
  assert(stride_b % 32 == 0 && stride_b <= kStrideMaxBytes);
  const std::size_t block_b = std::max(stride_b, kBlockBytes / stride_b * stride_b);
  const std::size_t end = offset + (length + block_b - 1) / block_b * block_b;
  parts_.pop_back();
  if (!parts_.empty() && parts_.back().end == offset && parts_.back().block_b.value() == block_b) {
    parts_.back().end = end;
  } else {
    std::size_t blocks = 0;
    if (!parts_.empty()) {
      const Part& last = parts_.back();
      assert(offset >= last.end);
      blocks = last.first_block + last.block_b.quotient(last.end - last.begin);
    }
    parts_.push_back({offset, end, models::Divisor(block_b), static_cast<std::uint32_t>(blocks)});
  }
  parts_.push_back(kBehindAll);
  index_parts();
}

void RecordMemory::index_parts() {
  const std::uint64_t end = parts_[parts_.size() - 2].end;
  granule_shift_ = 0;
  while (end >> granule_shift_ >= kGranules) ++granule_shift_;
  std::uint16_t part = 0;
  for (std::size_t granule = 0; granule <= kGranules; ++granule) {
    while (parts_[part].end <= granule << granule_shift_) ++part;
    first_part_[granule] = part;
  }
}

}  // namespace verbtwin::sim
