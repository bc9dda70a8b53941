// SpinLock: a lock that cores of one machine spin on.
//
// It costs lock_ns where it is free and was last held by the same core. One that another core held last
// brings its cache line with it: lock_handover_ns from the same socket, lock_handover_far_ns from another.
// Those who find it held wait in the order in which they came. They spin on that line, which passes them
// before it reaches the next holder: each who waits adds lock_waiter_ns (Boyd-Wickizer et al., "Non-scalable
// locks are dangerous", Linux Symposium 2012: such locks slow down with those who wait).
//
// Owned by what it guards; one thread. Times in picoseconds.
#pragma once

#include <cstdint>
#include <deque>

#include "models/pcie.hpp"
#include "models/profile.hpp"
#include "models/server.hpp"

namespace verbtwin::models {

class SpinLock {
 public:
  struct Prices {
    std::uint32_t cores_per_socket = 1;
    std::int64_t take_ps = 0, handover_ps = 0, handover_far_ps = 0, waiter_ps = 0;

    explicit Prices(const HostProfile& host)
        : cores_per_socket(static_cast<std::uint32_t>(host.cores_per_socket)),
          take_ps(to_ps(host.lock_ns)),
          handover_ps(to_ps(host.lock_handover_ns)),
          handover_far_ps(to_ps(host.lock_handover_far_ns)),
          waiter_ps(to_ps(host.lock_waiter_ns)) {}
  };

  struct Hold {
    std::int64_t wait_ps = 0;  // until the lock is had
    std::int64_t lock_ps = 0;  // to take it and give it back
  };
  /// Core number `core` of the machine asks for it at `now_ps`; give_back() comes before the next take().
  Hold take(const Prices& prices, std::uint32_t core, std::int64_t now_ps) {
    while (!held_until_ps_.empty() && held_until_ps_.front() <= now_ps) held_until_ps_.pop_front();
    std::int64_t lock_ps = prices.take_ps;
    if (last_core_ != kNobody) lock_ps += handover_ps(prices, last_core_, core);
    if (!held_until_ps_.empty())
      lock_ps += static_cast<std::int64_t>(held_until_ps_.size() - 1) * prices.waiter_ps;
    last_core_ = core;
    asked_ps_ = now_ps;
    return last_ = {server_.serve_behind({now_ps, 0, 0}, 0).at() - now_ps, lock_ps};
  }
  /// It has been held for `held_ps` beyond what the lock itself takes.
  void give_back(std::int64_t held_ps) {
    held_until_ps_.push_back(server_.serve_behind({asked_ps_, 0, 0}, last_.lock_ps + held_ps).at());
  }

  /// How long it has been held by `at_ps`.
  std::int64_t held_ps(std::int64_t at_ps) const { return server_.done_ps(at_ps); }

 private:
  static constexpr std::uint32_t kNobody = ~0U;

  static std::int64_t handover_ps(const Prices& prices, std::uint32_t from, std::uint32_t to) {
    if (from == to) return 0;
    const bool near = from / prices.cores_per_socket == to / prices.cores_per_socket;
    return near ? prices.handover_ps : prices.handover_far_ps;
  }

  Server server_;
  std::deque<std::int64_t> held_until_ps_;  // by who has it, and behind it those who wait
  std::uint32_t last_core_ = kNobody;
  std::int64_t asked_ps_ = 0;  // by the last one, and
  Hold last_;                  // what it was told
};

}  // namespace verbtwin::models
