// DoorbellRegisters: the doorbell registers of a device context that threads share. A queue pair rings one
// register for life. The first queue pairs have one each; the others are dealt to the rest in turn and take
// that register's lock around every doorbell (rdma-core providers/mlx5: 16 registers, 4 of them for one queue
// pair each; MLX5_TOTAL_UUARS, MLX5_NUM_LOW_LAT_UUARS) or, with mlx4, around BlueFlame alone: its 8 B
// doorbells go to a register that needs none.
//
// A lock costs lock_ns where it is free and was last held by the same core. One that another core held last
// brings its cache line with it: lock_handover_ns from the same socket, lock_handover_far_ns from another.
// Those who find it held wait in the order in which they came. They spin on that line, which passes them
// before it reaches the next holder: each who waits adds lock_waiter_ns (Boyd-Wickizer et
// al., "Non-scalable locks are dangerous", Linux Symposium 2012: such locks slow down with those who wait).
//
// One per port, one thread. Times in picoseconds.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "models/pcie.hpp"
#include "models/profile.hpp"
#include "models/server.hpp"

namespace verbtwin::models {

class DoorbellRegisters {
 public:
  static constexpr std::uint32_t kOwn = ~0U;  // a register of its own, without a lock

  DoorbellRegisters(const NicProfile& nic, const HostProfile& host)
      : dedicated_(static_cast<std::uint32_t>(nic.doorbell_registers_dedicated)),
        shared_(static_cast<std::size_t>(nic.doorbell_registers_shared)),
        always_locked_(nic.doorbell_locked > 0),
        cores_per_socket_(static_cast<std::uint32_t>(host.cores_per_socket)),
        lock_ps_(to_ps(host.lock_ns)),
        handover_ps_(to_ps(host.lock_handover_ns)),
        handover_far_ps_(to_ps(host.lock_handover_far_ns)),
        waiter_ps_(to_ps(host.lock_waiter_ns)) {}

  /// The register of a new queue pair.
  std::uint32_t assign() {
    const std::uint32_t place = assigned_++;
    return place < dedicated_ ? kOwn : (place - dedicated_) % static_cast<std::uint32_t>(shared_.size());
  }

  /// Of a doorbell to a shared register.
  bool takes_lock(bool blueflame) const { return blueflame || always_locked_; }

  struct Hold {
    std::int64_t wait_ps = 0;  // until the lock is had
    std::int64_t lock_ps = 0;  // to take it and give it back
  };
  /// Core number `core` of the machine rings a shared register from `now_ps` on, which takes it `ring_ps`.
  Hold ring(std::uint32_t shared, std::uint32_t core, std::int64_t now_ps, std::int64_t ring_ps) {
    Register& r = shared_[shared];
    while (!r.held_until_ps.empty() && r.held_until_ps.front() <= now_ps) r.held_until_ps.pop_front();
    std::int64_t lock_ps = lock_ps_;
    if (r.last_core != kNobody) lock_ps += handover_ps(r.last_core, core);
    if (!r.held_until_ps.empty())
      lock_ps += static_cast<std::int64_t>(r.held_until_ps.size() - 1) * waiter_ps_;
    r.last_core = core;
    const std::int64_t held_ps = lock_ps + ring_ps;
    const std::int64_t until_ps = r.lock.serve({now_ps, 0, 0}, held_ps).at();
    r.held_until_ps.push_back(until_ps);
    return {until_ps - held_ps - now_ps, lock_ps};
  }

  std::size_t shared() const { return shared_.size(); }
  std::int64_t busy_ps(std::size_t shared) const { return shared_[shared].lock.busy_ps(); }

 private:
  static constexpr std::uint32_t kNobody = ~0U;
  struct Register {
    Server lock;
    std::deque<std::int64_t> held_until_ps;  // by who has it, and behind it those who wait
    std::uint32_t last_core = kNobody;
  };

  std::int64_t handover_ps(std::uint32_t from, std::uint32_t to) const {
    if (from == to) return 0;
    return from / cores_per_socket_ == to / cores_per_socket_ ? handover_ps_ : handover_far_ps_;
  }

  std::uint32_t dedicated_;
  std::vector<Register> shared_;
  bool always_locked_;
  std::uint32_t cores_per_socket_;
  std::int64_t lock_ps_, handover_ps_, handover_far_ps_, waiter_ps_;
  std::uint32_t assigned_ = 0;
};

}  // namespace verbtwin::models
