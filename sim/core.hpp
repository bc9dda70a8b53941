// Core: the simulated core of one worker. It runs the worker's steps one after another, each for as long as
// it charged, and sleeps without events while there is nothing to do.
//
// Interrupts interrupt: their work goes first. But the kernel bounds that: __do_softirq (kernel/softirq.c)
// stops after MAX_SOFTIRQ_TIME, 2 ms, or ten rounds, of which each ends after net.core.netdev_budget_usecs, 2
// ms too (Documentation/admin-guide/sysctl/net.rst), and leaves the rest to the thread ksoftirqd. To the
// scheduler that is a thread like the worker, of the same weight
// (Documentation/scheduler/sched-design-CFS.rst): each gets half of the core until no interrupt's work is
// left.
//
// Owned by the Cluster; one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <utility>
#include <vector>

#include "backend/cpu.hpp"
#include "models/profile.hpp"
#include "sim/calendar.hpp"

namespace verbtwin::sim {

class SimCompletionQueue;

/// Prices of a core on a socket with `busy_cores` of them in use.
CpuPrices prices_of(const models::HostProfile& profile, int busy_cores);

class Core final : public Cpu {
 public:
  Core(const CpuPrices& prices, Calendar& calendar, Calendar::HandlerId handler, std::uint32_t index)
      : Cpu(prices), calendar_(calendar), handler_(handler), index_(index) {}

  std::int64_t now_ps() const override { return step_start_ps_ + charged_ps_; }
  std::int64_t step_start_ps() const { return step_start_ps_; }
  std::uint32_t index() const { return index_; }

  void charge_ps(std::int64_t ps) override { charged_ps_ += ps; }
  void publish_word(std::byte* at, std::uint64_t value) override;
  /// Time spent waiting for a lock: it passes, but is no work.
  void wait_ps(std::int64_t ps) {
    charged_ps_ += ps;
    busy_ps_ -= ps;
    waited_ps_ += ps;
  }

  /// For what leaves the core behind its stores.
  void wait_for_stores() {
    if (stored_ps_ > now_ps()) charged_ps_ = stored_ps_ - step_start_ps_;
  }

  void drive(Steppable& worker);  // from now on; not owned
  /// A completion queue of this core's worker has something in it, or has not any more.
  void add_filled(SimCompletionQueue& cq) { filled_.push_back(&cq); }
  void remove_filled(SimCompletionQueue& cq) { std::erase(filled_, &cq); }

  /// There will be something to do at `at_ps`: a completion with this wr_id.
  void wake(std::int64_t at_ps, std::uint64_t wr_id) {
    next_wr_id_ = wr_id;
    unseen_ps_ = std::min(unseen_ps_, at_ps);
    if (stepping_) return;  // the end of the step looks for itself
    if (at_ps < busy_until_ps_) at_ps = busy_until_ps_;
    if (at_ps < scheduled_ps_) schedule(at_ps);
  }

  /// Nothing to do before a time that it set itself, if any: a thread that waits here has given its core
  /// away.
  bool asleep_at(std::int64_t now_ps) const {
    return (scheduled_ps_ == kNever || scheduled_ps_ == timer_ps_) && busy_until_ps_ <= now_ps;
  }

  /// An interrupt took `ps` of this core's time up to now, or takes them next if the core is at work. What is
  /// left for interrupts keeps a core busy until `backlog_until_ps`.
  void interrupt(std::int64_t now_ps, std::int64_t ps, std::int64_t backlog_until_ps);

  /// What the worker got of the core, since the last call, while interrupts' work was waiting: that is later
  /// by as much.
  std::int64_t take_softirq_delay_ps() { return std::exchange(softirq_delay_ps_, 0); }

  /// run() is coming up (Calendar).
  void prefetch(int steps) const;

  /// The calendar's event for this core.
  void run();

  std::int64_t busy_ps() const { return busy_ps_; }
  std::int64_t waited_ps() const { return waited_ps_; }

 private:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  static constexpr std::int64_t kSoftirqBudgetPs = 2'000'000'000;  // MAX_SOFTIRQ_TIME

  /// The soft interrupt has had its budget and work is left: ksoftirqd does it.
  bool shares_with_ksoftirqd(std::int64_t now_ps) const {
    return softirq_until_ps_ > now_ps && now_ps - softirq_since_ps_ >= kSoftirqBudgetPs;
  }

  /// What it stores when a step has come so far.
  struct Store {
    std::int64_t at_ps;
    std::byte* at;
    std::uint64_t value;
  };
  void store_due();

  void schedule(std::int64_t at_ps) {
    scheduled_ps_ = at_ps;
    calendar_.schedule(at_ps, handler_, index_);
  }

  Calendar& calendar_;
  Steppable* worker_ = nullptr;
  std::vector<SimCompletionQueue*> filled_;
  Calendar::HandlerId handler_;
  std::uint32_t index_;
  bool stepping_ = false;
  std::int64_t step_start_ps_ = 0;
  std::int64_t busy_until_ps_ = 0;
  std::int64_t softirq_since_ps_ = 0, softirq_until_ps_ = 0;  // one piece of work after another
  std::int64_t softirq_delay_ps_ = 0;
  std::int64_t scheduled_ps_ = kNever;  // an event that fires at another time is stale
  std::int64_t unseen_ps_ = kNever;     // the first wake behind the worker's last look
  std::int64_t timer_ps_ = kNever;      // what is scheduled is what the worker itself waits for
  std::int64_t busy_ps_ = 0;
  std::int64_t waited_ps_ = 0;    // for locks
  std::uint64_t next_wr_id_ = 0;  // at the head of a completion queue, as far as known; 0: none
  std::deque<Store> stores_;      // to come, in order
};

}  // namespace verbtwin::sim
