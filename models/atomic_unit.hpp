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

#include "models/divisor.hpp"
#include "models/pcie.hpp"

namespace verbtwin::models {

class AtomicUnit {
 public:
  explicit AtomicUnit(const NicProfile& profile)
      : service_ps_(to_ps(profile.atomic_engine_ns)),
        number_of_(static_cast<std::size_t>(profile.atomic_locks)) {}

  /// Of `locks`, the one that an operation at any address takes.
  static std::uint64_t lock_of(std::uint64_t addr, std::uint64_t locks) {
    return is_power_of_two(locks) ? addr & (locks - 1) : addr % locks;
  }

  /// When an operation has taken effect and its old value is at hand, and how long it held its lock.
  struct Executed {
    Moment old;
    std::int64_t held_ps;
  };
  Executed execute(Moment ready, std::uint64_t addr, Pcie& pcie) {
    std::uint32_t& number = number_of_[lock_of(addr, number_of_.size())];
    if (number == 0) {
      locks_.emplace_back();
      number = static_cast<std::uint32_t>(locks_.size());
    }
    Lock& lock = locks_[number - 1];
    const std::int64_t wait_ps = lock.server.serve(ready, 0).queue_ps - ready.queue_ps;
    const Moment started = engine_.serve(ready.not_before(ready.at() + wait_ps), service_ps_);
    const Moment old = pcie.dma_read(started, 8).done;
    // A later read of the word cannot pass the write on PCIe: the lock may go when the write is posted.
    pcie.dma_write_quietly(8);
    const std::int64_t held_ps = old.at() - (started.at() - service_ps_);
    lock.server.owe(held_ps);
    return {old, held_ps};
  }

  /// How long one that comes at `ready` waits for its lock, as far as that is known.
  std::int64_t wait_ps(Moment ready, std::uint64_t addr) const {
    const std::uint32_t number = number_of_[lock_of(addr, number_of_.size())];
    return number == 0 ? 0 : locks_[number - 1].server.wait_ps(ready);
  }

  const Server& engine() const { return engine_; }
  /// How long the lock that has been held longest since begin_window() has been, by `at_ps`.
  std::int64_t longest_held_ps(std::int64_t at_ps) const {
    std::int64_t longest_ps = 0;
    for (const Lock& lock : locks_)
      longest_ps = std::max(longest_ps, lock.server.done_ps(at_ps) - lock.held_before_ps);
    return longest_ps;
  }
  /// Another lock may be the hottest from here on than was before.
  void begin_window(std::int64_t at_ps) {
    for (Lock& lock : locks_) lock.held_before_ps = lock.server.done_ps(at_ps);
  }

 private:
  std::int64_t service_ps_;
  struct Lock {
    Server server;
    std::int64_t held_before_ps = 0;  // the window
  };
  std::vector<std::uint32_t> number_of_;  // each lock's in `locks_`, from 1
  std::vector<Lock> locks_;               // that have been taken: few of all, as addresses are of words
  Server engine_;
};

}  // namespace verbtwin::models
