#include "sim/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "backend/user_error.hpp"

namespace verbtwin::sim {

LazyMapping::LazyMapping(std::size_t bytes) {
  void* base =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    throw UserError("", "cannot reserve " + std::to_string(bytes >> 20) +
                            " MiB of address space for one node (" + std::strerror(errno) +
                            "): use fewer nodes or less data, or allow overcommit");
  }
  // A huge page would commit 2 MiB for one touched record.
  madvise(base, bytes, MADV_NOHUGEPAGE);
  bytes_ = {static_cast<std::byte*>(base), bytes};
}

void LazyMapping::prefer_huge_pages(std::size_t offset, std::size_t length) {
  constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
  // Only whole ones: the rest of a huge page that reaches beyond would be committed without being used.
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes_.data()) + offset;
  const std::uintptr_t first = (begin + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  const std::uintptr_t last = (begin + length) / kHugePageBytes * kHugePageBytes;
  if (first >= last) return;
  madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);  // a wish: nothing depends on it
}

LazyMapping::~LazyMapping() {
  munmap(bytes_.data(), bytes_.size());
}

}  // namespace verbtwin::sim
