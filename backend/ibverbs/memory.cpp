#include "backend/ibverbs/memory.hpp"

#include <fmt/format.h>
#include <linux/mman.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "backend/user_error.hpp"

namespace verbtwin::ibverbs {

NodeArea::NodeArea(std::size_t bytes) {
  constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
  constexpr int kProtection = PROT_READ | PROT_WRITE;
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS;
  const std::size_t pages = (bytes + kHugePageBytes - 1) / kHugePageBytes;
  mapped_b_ = pages * kHugePageBytes;
  void* base = mmap(nullptr, mapped_b_, kProtection, kFlags | MAP_HUGETLB | MAP_HUGE_2MB, -1, 0);
  if (base == MAP_FAILED) {
    warning_ = fmt::format(
        "no huge pages for registered memory ({}): using small ones; `sysctl vm.nr_hugepages={}` makes them, "
        "for one rank on this machine",
        std::strerror(errno), pages);
    base = mmap(nullptr, mapped_b_, kProtection, kFlags, -1, 0);
  }
  if (base == MAP_FAILED) {
    throw UserError("", fmt::format("cannot have {} MiB of memory for one node ({}): use less data",
                                    mapped_b_ >> 20, std::strerror(errno)));
  }
  bytes_ = {static_cast<std::byte*>(base), bytes};
}

NodeArea::~NodeArea() {
  munmap(bytes_.data(), mapped_b_);
}

}  // namespace verbtwin::ibverbs
