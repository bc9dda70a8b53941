#include "sim/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <system_error>

#include "backend/prefetch.hpp"
#include "sim/record_memory.hpp"

namespace verbtwin::sim {

LazyMapping::LazyMapping(std::size_t bytes) {
  void* base =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    throw std::runtime_error("cannot reserve " + std::to_string(bytes >> 20) +
                             " MiB of address space for one node (" + std::strerror(errno) +
                             "): use fewer nodes or less data, or allow more (`ulimit -v`, overcommit)");
  }
  // A huge page would commit 2 MiB for one touched record.
  madvise(base, bytes, MADV_NOHUGEPAGE);
  bytes_ = {static_cast<std::byte*>(base), bytes};
}

void LazyMapping::prefer_huge_pages(std::size_t offset, std::size_t length) {
  // Only whole ones: the rest of a huge page that reaches beyond would be committed without being used.
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes_.data()) + offset;
  const std::uintptr_t first = (begin + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  const std::uintptr_t last = (begin + length) / kHugePageBytes * kHugePageBytes;
  if (first >= last) return;
  madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);  // a wish: nothing depends on it
}

void LazyMapping::forbid(std::size_t offset, std::size_t length) {
  if (mprotect(bytes_.data() + offset, length, PROT_NONE) != 0)
    throw std::system_error(errno, std::generic_category(), "memory that nobody may touch");
}

LazyMapping::~LazyMapping() {
  munmap(bytes_.data(), bytes_.size());
}

void Memory::read(std::uint32_t key, std::uint64_t addr, std::byte* to, std::uint32_t length) const {
  const Region& region = regions_[key - 1];
  while (length > 0) {
    RecordMemory::Piece piece{false, nullptr, length};
    if (region.records != nullptr) piece = region.records->find(region.offset_of(addr));
    const std::size_t bytes = std::min<std::size_t>(length, piece.run_b);
    if (!piece.is_record) {
      std::memcpy(to, reinterpret_cast<const void*>(addr), bytes);
    } else if (piece.at != nullptr) {
      std::memcpy(to, piece.at, bytes);
    } else {
      std::memset(to, 0, bytes);
    }
    to += bytes;
    addr += bytes;
    length -= static_cast<std::uint32_t>(bytes);
  }
}

void Memory::write(std::uint32_t key, std::uint64_t addr, const std::byte* from, std::uint32_t length) {
  const Region& region = regions_[key - 1];
  while (length > 0) {
    RecordMemory::Piece piece{false, nullptr, length};
    if (region.records != nullptr) piece = region.records->use(region.offset_of(addr));
    const std::size_t bytes = std::min<std::size_t>(length, piece.run_b);
    std::memcpy(piece.is_record ? piece.at : reinterpret_cast<std::byte*>(addr), from, bytes);
    from += bytes;
    addr += bytes;
    length -= static_cast<std::uint32_t>(bytes);
  }
}

std::uint64_t& Memory::word(std::uint32_t key, std::uint64_t addr) {
  const Region& region = regions_[key - 1];
  RecordMemory::Piece piece{false, nullptr, 0};
  if (region.records != nullptr) piece = region.records->use(region.offset_of(addr));
  return *reinterpret_cast<std::uint64_t*>(piece.is_record ? piece.at : reinterpret_cast<std::byte*>(addr));
}

void Memory::prefetch(std::uint32_t key, std::uint64_t addr, int steps) const {
  if (key == 0 || key > regions_.size()) return;
  const Region& region = regions_[key - 1];
  const std::uint64_t offset = region.offset_of(addr);
  if (region.records == nullptr || offset >= region.length) {
    if (steps == 1) prefetch_line(reinterpret_cast<const void*>(addr));
  } else if (steps == 1) {
    region.records->prefetch_find(offset);
  } else {
    const RecordMemory::Piece piece = region.records->find(offset);
    prefetch_line(piece.is_record ? piece.at : reinterpret_cast<const std::byte*>(addr));
  }
}

}  // namespace verbtwin::sim
