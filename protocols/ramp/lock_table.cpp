#include "protocols/ramp/lock_table.hpp"

#include <algorithm>

#include "protocols/ramp/version_store.hpp"

namespace verbtwin::protocols {

LockTable::Verdict LockTable::lock(const LockClaim& request) {
  Shard& shard = shard_of(request.key);
  const SpinLock spin(shard.spin);
  Lock& lock = shard.locks[request.key];
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

void LockTable::release(std::uint64_t key, std::uint64_t client, std::vector<LockClaim>& granted) {
  Shard& shard = shard_of(key);
  const SpinLock spin(shard.spin);
  const auto found = shard.locks.find(key);
  if (found == shard.locks.end()) return;
  Lock& lock = found.value();
  std::erase_if(lock.holders, [&](const LockClaim& holder) { return holder.client == client; });
  while (!lock.waiters.empty()) {
    const LockClaim next = lock.waiters.front();
    const auto in_the_way = [&](const LockClaim& holder) { return conflict(next, holder); };
    if (std::ranges::any_of(lock.holders, in_the_way)) return;
    lock.waiters.erase(lock.waiters.begin());
    lock.holders.push_back(next);
    granted.push_back(next);
  }
  if (lock.holders.empty()) shard.locks.erase(found);
}

std::vector<std::uint64_t> LockTable::claimed_keys() const {
  std::vector<std::uint64_t> keys;
  for (const Shard& shard : shards_) {
    for (const auto& [key, lock] : shard.locks) keys.push_back(key);
  }
  std::ranges::sort(keys);
  return keys;
}

}  // namespace verbtwin::protocols
