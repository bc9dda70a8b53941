#include "protocols/ramp/lock_table.hpp"

#include <algorithm>

#include "protocols/ramp/version_store.hpp"

namespace verbtwin::protocols {

LockTable::Verdict LockTable::lock(std::uint64_t slot, const LockClaim& request) {
  Lock& lock = locks_[slot];
  const SpinLock spin(lock.spin);
  bool free = true, waits = deadlock_ == RampOptions::Deadlock::kWaitDie;
  for (const auto* others : {&lock.holders, &lock.waiters}) {
    for (const LockClaim& other : *others) {
      if (!conflict(request, other)) continue;
      free = false;
      waits = waits && older(request, other);
    }
  }
  if (free) {
    lock.holders.push_back(request);
    return Verdict::kGranted;
  }
  if (!waits) return Verdict::kRefused;
  lock.waiters.push_back(request);
  return Verdict::kWaits;
}

void LockTable::release(std::uint64_t slot, std::uint64_t client, std::vector<LockClaim>& granted) {
  Lock& lock = locks_[slot];
  const SpinLock spin(lock.spin);
  std::erase_if(lock.holders, [&](const LockClaim& holder) { return holder.client == client; });
  while (!lock.waiters.empty()) {
    const LockClaim next = lock.waiters.front();
    const auto in_the_way = [&](const LockClaim& holder) { return conflict(next, holder); };
    if (std::ranges::any_of(lock.holders, in_the_way)) return;
    lock.waiters.erase(lock.waiters.begin());
    lock.holders.push_back(next);
    granted.push_back(next);
  }
}

std::vector<std::uint64_t> LockTable::claimed_keys() const {
  std::vector<std::uint64_t> keys;
  for (const Lock& lock : locks_) {
    const auto& claims = lock.holders.empty() ? lock.waiters : lock.holders;
    if (!claims.empty()) keys.push_back(claims.front().key);
  }
  return keys;
}

}  // namespace verbtwin::protocols
