#include "backend/ibverbs/memory.hpp"

#include <fmt/format.h>
#include <linux/mman.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "backend/user_error.hpp"

namespace verbtwin::ibverbs {

namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
constexpr int kProtection = PROT_READ | PROT_WRITE;
constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS;

/// Of the pages that root has reserved; null, with errno, where there are not as many.
std::byte* map_reserved(std::size_t length_b) {
  void* base = mmap(nullptr, length_b, kProtection, kFlags | MAP_HUGETLB | MAP_HUGE_2MB, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  // A limit of the control group shows when a page is touched, as SIGBUS. Kernels before 5.14 do not know how
  // to ask (EINVAL).
  if (madvise(base, length_b, MADV_POPULATE_WRITE) == 0 || errno == EINVAL)
    return static_cast<std::byte*>(base);
  munmap(base, length_b);
  errno = ENOMEM;
  return nullptr;
}

/// Where the kernel may put huge pages of its own, which takes no root: it does with `madvise` or `always` in
/// /sys/kernel/mm/transparent_hugepage/enabled. Null where there is no memory.
std::byte* map_aligned(std::size_t length_b) {
  void* base = mmap(nullptr, length_b + kHugePageBytes, kProtection, kFlags, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  auto* const first = static_cast<std::byte*>(base);
  const std::size_t past_b = reinterpret_cast<std::uintptr_t>(base) % kHugePageBytes;
  const std::size_t before_b = past_b == 0 ? 0 : kHugePageBytes - past_b;
  std::byte* const aligned = first + before_b;
  if (before_b > 0) munmap(first, before_b);
  munmap(aligned + length_b, kHugePageBytes - before_b);
  madvise(aligned, length_b, MADV_HUGEPAGE);
  return aligned;
}

}  // namespace

NodeArea::NodeArea(std::size_t bytes) : bytes_(bytes) {
  const std::size_t pages = (bytes + kHugePageBytes - 1) / kHugePageBytes;
  const std::size_t length_b = pages * kHugePageBytes;
  std::byte* base = map_reserved(length_b);
  if (base == nullptr) {
    warning_ = fmt::format(
        "no huge pages are reserved for registered memory ({}): using what the kernel gives; `sysctl "
        "vm.nr_hugepages={}` reserves them, for one rank on this machine",
        std::strerror(errno), pages);
    base = map_aligned(length_b);
  }
  if (base == nullptr) {
    throw UserError("", fmt::format("cannot have {} MiB of memory for one node ({}): use less data",
                                    length_b >> 20, std::strerror(errno)));
  }
  mapping_ = {base, length_b};
}

NodeArea::~NodeArea() {
  munmap(mapping_.data(), mapping_.size());
}

}  // namespace verbtwin::ibverbs
