// AtomicUnit: where a NIC executes CAS and FAA on host memory. An operation holds a lock, picked by the low
// bits of its address, from before it reads the word until after it has written it: a PCIe round trip.
// ConnectX-3 has one lock for all words, Connect-IB 4,096 picked by the low 12 address bits (Kalia et al.,
// ATC 2016, section 3.4).
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
      : service_ps_(to_ps(profile.atomic_engine_ns)),
        lock_free_ps_(static_cast<std::size_t>(profile.atomic_locks), 0) {}

  /// When the operation on the word at `addr` has taken effect and its old value is at hand.
  Moment execute(Moment ready, std::uint64_t addr, Pcie& pcie) {
    std::int64_t& lock_free_ps = lock_free_ps_[addr % lock_free_ps_.size()];
    const Moment started = engine_.serve(ready.not_before(lock_free_ps), service_ps_);
    const Moment old = pcie.dma_read(started, 8).done;
    lock_free_ps = pcie.dma_write(old, 8).at();
    return old;
  }

  const Server& engine() const { return engine_; }

 private:
  std::int64_t service_ps_;
  std::vector<std::int64_t> lock_free_ps_;
  Server engine_;
};

}  // namespace verbtwin::models
