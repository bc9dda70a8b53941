#include "sim/memory.hpp"

#include <sys/mman.h>

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

LazyMapping::~LazyMapping() {
  munmap(bytes_.data(), bytes_.size());
}

}  // namespace verbtwin::sim
