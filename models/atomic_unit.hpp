// AtomicUnit: where a NIC executes CAS and FAA on host memory. An operation holds a lock, picked by the low bits of its
// address, from before it reads the word until after it has written it: a PCIe round trip. ConnectX-3 has one lock for
// all words, Connect-IB 4,096 picked by the low 12 address bits (Kalia et al., ATC 2016, section 3.4).
//
// Owned by a Nic; one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "models/pcie.hpp"

namespace verbtwin::models {

class AtomicUnit {
 public:
  explicit AtomicUnit(const NicProfile& profile)
      : service_ps_(to_ps(profile.atomic_engine_ns)), lock_free_ps_(static_cast<std::size_t>(profile.atomic_locks), 0) {}

  struct Result {
    std::int64_t touch_ps;  // the instant at which the operation takes effect
    std::int64_t done_ps;   // when the old value is at hand
  };

  Result execute(std::int64_t ready_ps, std::uint64_t addr, Pcie& pcie) {
    std::int64_t& lock_free_ps = lock_free_ps_[addr % lock_free_ps_.size()];
    const std::int64_t start_ps = engine_.reserve(std::max(ready_ps, lock_free_ps), service_ps_);
    const Pcie::Read read = pcie.dma_read(start_ps + service_ps_, 8);
    lock_free_ps = pcie.dma_write(read.done_ps, 8);
    return {read.done_ps, read.done_ps};
  }

  const Server& engine() const { return engine_; }

 private:
  std::int64_t service_ps_;
  std::vector<std::int64_t> lock_free_ps_;
  Server engine_;
};

}  // namespace verbtwin::models
