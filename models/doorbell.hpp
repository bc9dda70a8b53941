// DoorbellRegisters: the doorbell registers of a device context that threads share. A queue pair rings one
// register for life. The first queue pairs have one each; the others are dealt to the rest in turn and take
// that register's lock around every doorbell (rdma-core providers/mlx5: of 16 registers the first is not
// dealt and 4 are for one queue pair each; MLX5_TOTAL_UUARS, MLX5_NUM_LOW_LAT_UUARS) or, with mlx4, around
// BlueFlame alone: its 8 B doorbells go to a register that needs none.
//
// One per port, one thread. Times in picoseconds.
#pragma once

#include <cstdint>
#include <vector>

#include "models/profile.hpp"
#include "models/spin_lock.hpp"

namespace verbtwin::models {

class DoorbellRegisters {
 public:
  static constexpr std::uint32_t kOwn = ~0U;  // a register of its own, without a lock

  DoorbellRegisters(const NicProfile& nic, const HostProfile& host)
      : dedicated_(static_cast<std::uint32_t>(nic.doorbell_registers_dedicated)),
        shared_(static_cast<std::size_t>(nic.doorbell_registers_shared)),
        always_locked_(nic.doorbell_locked > 0),
        prices_(host),
        flush_ps_(to_ps(host.locked_flush_ns)) {}

  /// The register of a new queue pair.
  std::uint32_t assign() {
    const std::uint32_t place = assigned_++;
    return place < dedicated_ ? kOwn : (place - dedicated_) % static_cast<std::uint32_t>(shared_.size());
  }

  /// Of a doorbell to a shared register.
  bool takes_lock(bool blueflame) const { return blueflame || always_locked_; }

  /// Core number `core` of the machine rings a shared register from `now_ps` on, which takes it `ring_ps` and
  /// what the hold says.
  SpinLock::Hold ring(std::uint32_t shared, std::uint32_t core, std::int64_t now_ps, std::int64_t ring_ps) {
    SpinLock::Hold hold = shared_[shared].take(prices_, core, now_ps);
    shared_[shared].give_back(ring_ps + flush_ps_);
    hold.lock_ps += flush_ps_;
    return hold;
  }

  std::size_t shared() const { return shared_.size(); }
  /// How long the lock of that one has been held by `at_ps`.
  std::int64_t held_ps(std::size_t shared, std::int64_t at_ps) const {
    return shared_[shared].held_ps(at_ps);
  }

 private:
  std::uint32_t dedicated_;
  std::vector<SpinLock> shared_;
  bool always_locked_;
  SpinLock::Prices prices_;
  std::int64_t flush_ps_;
  std::uint32_t assigned_ = 0;
};

}  // namespace verbtwin::models
