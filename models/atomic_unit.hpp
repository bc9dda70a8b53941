// AtomicUnit: where a NIC executes CAS and FAA on host memory. An operation holds a lock, picked by the low
// bits of its address, from before it reads the word until its write is posted: a PCIe round trip.
// ConnectX-3 has one lock for all words, Connect-IB 4,096 picked by the low 12 address bits (Kalia et al.,
// ATC 2016, section 3.4).
//
// Owned by a Nic; one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "models/pcie.hpp"

namespace verbtwin::models {

class AtomicUnit {
 public:
  explicit AtomicUnit(const NicProfile& profile)
      : service_ps_(to_ps(profile.atomic_engine_ns)),
        locks_(static_cast<std::size_t>(profile.atomic_locks)) {}

  /// When the operation on the word at `addr` has taken effect and its old value is at hand.
  Moment execute(Moment ready, std::uint64_t addr, Pcie& pcie) {
    Lock& lock = locks_[addr % locks_.size()];
    const std::int64_t wait_ps = lock.server.serve(ready, 0).queue_ps - ready.queue_ps;
    const Moment started = engine_.serve(ready.not_before(ready.at() + wait_ps), service_ps_);
    const Moment old = pcie.dma_read(started, 8).done;
    // A later read of the word cannot pass the write on PCIe: the lock may go when the write is posted.
    pcie.dma_write_quietly(8);
    const std::int64_t held_ps = old.at() - (started.at() - service_ps_);
    lock.server.owe(held_ps);
    lock.held_ps += held_ps;
    longest_held_ps_ = std::max(longest_held_ps_, lock.held_ps);
    return old;
  }

  const Server& engine() const { return engine_; }
  /// How long the lock that has been held longest has been, since begin_window().
  std::int64_t longest_held_ps() const { return longest_held_ps_; }
  /// Another lock may be the hottest from here on than was before.
  void begin_window() {
    for (Lock& lock : locks_) lock.held_ps = 0;
    longest_held_ps_ = 0;
  }

 private:
  std::int64_t service_ps_;
  struct Lock {
    Server server;
    std::int64_t held_ps = 0;
  };
  std::vector<Lock> locks_;
  std::int64_t longest_held_ps_ = 0;
  Server engine_;
};

}  // namespace verbtwin::models
