#include "sim/core.hpp"

#include <algorithm>

#include "backend/prefetch.hpp"
#include "models/pcie.hpp"
#include "models/turbo.hpp"
#include "sim/device.hpp"

namespace verbtwin::sim {

CpuPrices prices_of(const models::HostProfile& profile, int busy_cores) {
  CpuPrices prices;
  const double slowness = models::turbo_slowness(profile, busy_cores);
  const auto price = [&](Cost cost, double ns) {
    prices.cost_ps[static_cast<std::size_t>(cost)] = models::to_ps(ns * slowness);
  };
  price(Cost::kPostWr, profile.post_wr_ns);
  price(Cost::kDoorbell, profile.doorbell_ns);
  price(Cost::kBlueFlame, profile.blueflame_ns);
  price(Cost::kInlineBlock, profile.inline_block_ns);
  price(Cost::kPostRecv, profile.post_recv_ns);
  price(Cost::kPoll, profile.poll_ns);
  price(Cost::kPollCqe, profile.poll_cqe_ns);
  price(Cost::kCoroutineSwitch, profile.coroutine_switch_ns);
  price(Cost::kRpcSend, profile.rpc_send_ns);
  price(Cost::kPollSlot, profile.poll_slot_ns);
  price(Cost::kRpcReceive, profile.rpc_receive_ns);
  price(Cost::kIndexLookup, profile.index_lookup_ns);
  price(Cost::kCacheLookup, profile.cache_lookup_ns);
  price(Cost::kMemoryMiss, profile.memory_miss_ns);
  price(Cost::kLocalAtomic, profile.local_atomic_ns);
  price(Cost::kCopyBlock, profile.copy_block_ns);
  price(Cost::kTransactionBegin, profile.transaction_begin_ns);
  price(Cost::kTransactionEnd, profile.transaction_end_ns);
  prices.cycle_ps = models::to_ps(slowness / profile.clock_ghz);
  prices.last_level_cache_b = static_cast<std::uint64_t>(profile.last_level_cache_mib * (1 << 20));
  return prices;
}

void Core::drive(Steppable& worker) {
  worker_ = &worker;
  wake(calendar_.now_ps(), 0);
}

void Core::prefetch(int steps) const {
  if (steps == 3) {
    prefetch_lines(this, 128);
    return;
  }
  worker_->prefetch(next_wr_id_, steps);
  if (steps == 1) {
    for (const SimCompletionQueue* cq : filled_) cq->prefetch();
  }
  if (steps != 2) return;
  prefetch_lines(worker_, 256);
  for (const SimCompletionQueue* cq : filled_) prefetch_line(cq);
}

void Core::interrupt(std::int64_t now_ps, std::int64_t ps, std::int64_t backlog_until_ps) {
  busy_ps_ += ps;
  if (now_ps - ps > softirq_until_ps_) softirq_since_ps_ = now_ps - ps;
  softirq_until_ps_ = std::max({softirq_until_ps_, now_ps, backlog_until_ps});
  if (shares_with_ksoftirqd(now_ps)) return;  // the worker's steps take twice their time
  busy_until_ps_ = std::max(busy_until_ps_, now_ps - ps) + ps;
}

void Core::publish_word(std::byte* at, std::uint64_t value) {
  const std::int64_t at_ps = std::max(now_ps(), stored_ps_);
  const bool has_event = !stores_.empty() && stores_.back().at_ps == at_ps;
  stores_.push_back({at_ps, at, value});
  if (at_ps == calendar_.now_ps()) {
    store_due();
  } else if (!has_event) {
    calendar_.schedule(at_ps, handler_, index_);
  }
}

void Core::store_due() {
  for (; !stores_.empty() && stores_.front().at_ps <= calendar_.now_ps(); stores_.pop_front())
    Cpu::publish_word(stores_.front().at, stores_.front().value);
}

void Core::run() {
  if (!stores_.empty()) store_due();
  if (calendar_.now_ps() != scheduled_ps_) return;
  scheduled_ps_ = timer_ps_ = kNever;
  const bool shared = shares_with_ksoftirqd(calendar_.now_ps());
  if (busy_until_ps_ > calendar_.now_ps() && !shared) {  // interrupts came in between
    schedule(busy_until_ps_);
    return;
  }
  step_start_ps_ = calendar_.now_ps();
  charged_ps_ = 0;
  stepping_ = true;
  next_wr_id_ = 0;
  if (worker_->looks_next()) unseen_ps_ = kNever;
  const bool more = worker_->step();
  stepping_ = false;
  // A step takes time, or a worker that only ever retries would hold the clock still.
  if (more && charged_ps_ == 0) charged_ps_ = 1000;
  busy_until_ps_ = now_ps();
  busy_ps_ += charged_ps_;
  if (shared) {  // ksoftirqd had the other half of that time, instead of all of it
    busy_until_ps_ += charged_ps_;
    softirq_until_ps_ += charged_ps_;
    softirq_delay_ps_ += charged_ps_;
  }

  std::int64_t next_ps = kNever;
  if (more) {
    next_ps = busy_until_ps_;
    next_wr_id_ = worker_->next_wr_id();
  } else {
    for (const SimCompletionQueue* cq : filled_) {
      if (cq->first_visible_ps() >= next_ps) continue;
      next_ps = cq->first_visible_ps();
      next_wr_id_ = cq->first()->wr_id;
    }
    next_ps = std::min(next_ps, unseen_ps_);
    if (const std::int64_t wakes_at_ps = worker_->wakes_at_ps(); wakes_at_ps < next_ps) {
      next_ps = timer_ps_ = std::max(wakes_at_ps, busy_until_ps_);
    }
    next_ps = next_ps == kNever ? kNever : std::max(next_ps, busy_until_ps_);
  }
  if (next_ps != kNever) schedule(next_ps);
}

}  // namespace verbtwin::sim
