// Endpoint: one device as the suite uses it: a page-aligned buffer registered with every access, a completion
// queue for each direction, and short ways to name pieces of the buffer in work requests.
//
// Owned by a test. Words that a device writes are read with std::atomic_ref, as protocols must.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "backend/verbs.hpp"

namespace verbtwin::conformance {

class Endpoint {
 public:
  static constexpr std::size_t kBytes = 1 << 16;
  static constexpr std::uint32_t kCqe = 1024;

  explicit Endpoint(Device& its_device)
      : device(its_device),
        pages_(std::make_unique<Pages>()),
        region(device.register_memory(pages_->bytes, kAccessAll)),
        send_cq(device.create_cq(kCqe)),
        recv_cq(device.create_cq(kCqe)) {}

  std::byte* at(std::size_t offset) { return pages_->bytes.data() + offset; }
  std::uint64_t addr(std::size_t offset) { return reinterpret_cast<std::uint64_t>(at(offset)); }
  Sge sge(std::size_t offset, std::size_t length) {
    return {at(offset), static_cast<std::uint32_t>(length), region->lkey()};
  }

  std::uint64_t word(std::size_t offset) {
    return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(at(offset))).load(std::memory_order_acquire);
  }
  void set_word(std::size_t offset, std::uint64_t value) {
    std::atomic_ref(*reinterpret_cast<std::uint64_t*>(at(offset))).store(value, std::memory_order_release);
  }

  /// Bytes that only `seed` and their place explain.
  void fill(std::size_t offset, std::size_t length, unsigned seed) {
    for (std::size_t i = 0; i < length; ++i) *at(offset + i) = pattern(i, seed);
  }
  bool holds(std::size_t offset, std::size_t length, unsigned seed) {
    for (std::size_t i = 0; i < length; ++i) {
      if (*at(offset + i) != pattern(i, seed)) return false;
    }
    return true;
  }
  void clear(std::size_t offset, std::size_t length) {
    std::fill(at(offset), at(offset) + length, std::byte{0});
  }
  bool zero(std::size_t offset, std::size_t length) {
    return std::all_of(at(offset), at(offset) + length, [](std::byte b) { return b == std::byte{0}; });
  }

  Device& device;

 private:
  struct alignas(4096) Pages {
    std::array<std::byte, kBytes> bytes{};
  };
  static std::byte pattern(std::size_t place, unsigned seed) {
    return static_cast<std::byte>(1 + (place * 31 + place / 256 * 7 + seed * 101) % 255);  // never 0
  }
  std::unique_ptr<Pages> pages_;

 public:
  std::unique_ptr<MemoryRegion> region;
  std::unique_ptr<CompletionQueue> send_cq, recv_cq;
};

// ---- requests, signalled unless `flags` says otherwise

inline SendWr send(std::uint64_t wr_id, const Sge& sge, unsigned flags = kSignaled) {
  SendWr wr;
  wr.wr_id = wr_id;
  wr.sge = sge;
  wr.flags = static_cast<std::uint8_t>(flags);
  return wr;
}

inline SendWr one_sided(Opcode opcode, std::uint64_t wr_id, const Sge& local, Endpoint& remote,
                        std::size_t offset, unsigned flags = kSignaled) {
  SendWr wr = send(wr_id, local, flags);
  wr.opcode = opcode;
  wr.remote_addr = remote.addr(offset);
  wr.rkey = remote.region->rkey();
  return wr;
}
inline SendWr write(std::uint64_t wr_id, const Sge& local, Endpoint& remote, std::size_t offset,
                    unsigned flags = kSignaled) {
  return one_sided(Opcode::kRdmaWrite, wr_id, local, remote, offset, flags);
}
inline SendWr write_with_imm(std::uint64_t wr_id, const Sge& local, Endpoint& remote, std::size_t offset,
                             std::uint32_t imm_data) {
  SendWr wr = one_sided(Opcode::kRdmaWriteWithImm, wr_id, local, remote, offset);
  wr.imm_data = imm_data;
  return wr;
}
inline SendWr read(std::uint64_t wr_id, const Sge& local, Endpoint& remote, std::size_t offset,
                   unsigned flags = kSignaled) {
  return one_sided(Opcode::kRdmaRead, wr_id, local, remote, offset, flags);
}
inline SendWr compare_swap(std::uint64_t wr_id, const Sge& local, Endpoint& remote, std::size_t offset,
                           std::uint64_t expected, std::uint64_t desired, unsigned flags = kSignaled) {
  SendWr wr = one_sided(Opcode::kAtomicCmpAndSwp, wr_id, local, remote, offset, flags);
  wr.compare_add = expected;
  wr.swap = desired;
  return wr;
}
inline SendWr fetch_add(std::uint64_t wr_id, const Sge& local, Endpoint& remote, std::size_t offset,
                        std::uint64_t addend) {
  SendWr wr = one_sided(Opcode::kAtomicFetchAndAdd, wr_id, local, remote, offset);
  wr.compare_add = addend;
  return wr;
}

inline RecvWr recv(std::uint64_t wr_id, const Sge& sge) {
  RecvWr wr;
  wr.wr_id = wr_id;
  wr.sge = sge;
  return wr;
}

}  // namespace verbtwin::conformance
