// LockTable: a server's shared and exclusive locks for strict two-phase locking, shared by its workers.
//
// no_wait refuses whoever meets a conflict. wait_die (Rosenkrantz et al., TODS 1978) lets a transaction wait
// that is older than all it conflicts with, holders and those who wait before it, and refuses it otherwise;
// who waits is older than whom it waits for, so no circle can close. A transaction that is run again keeps
// its age.
//
// Only keys that somebody holds or waits for take memory. Owned by its node. Any worker of the node may call
// anything: spin locks, one for many keys. Ages in picoseconds.
#pragma once

#include <tsl/robin_map.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "protocols/ramp/options.hpp"
#include "protocols/rpc/rpc.hpp"
#include "protocols/spread_bits.hpp"

namespace verbtwin::protocols {

/// Who wants a lock, and where the answer goes.
struct LockClaim {
  std::uint64_t key = 0;
  std::uint64_t client = 0;
  std::uint64_t since_ps = 0;
  bool exclusive = false;
  bool wants_value = false;
  int thread = 0;  // of this node, through which the request came
  Rpc* rpc = nullptr;
  RpcOrigin origin;
};

class LockTable {
 public:
  enum class Verdict : std::uint8_t { kGranted, kWaits, kRefused };

  explicit LockTable(RampOptions::Deadlock deadlock) : deadlock_(deadlock) {}

  /// kWaits: release() will return it.
  Verdict lock(const LockClaim& request);
  /// Appends to `granted` whoever holds the lock now and waited for it.
  void release(std::uint64_t key, std::uint64_t client, std::vector<LockClaim>& granted);
  /// The keys that somebody holds or waits for, ascending; every worker has stopped.
  std::vector<std::uint64_t> claimed_keys() const;

 private:
  struct Lock {
    std::vector<LockClaim> holders, waiters;
  };
  struct Shard {
    std::uint32_t spin = 0;
    tsl::robin_map<std::uint64_t, Lock> locks;  // by key
  };
  static constexpr std::size_t kShards = 64;
  Shard& shard_of(std::uint64_t key) { return shards_[spread_bits(key) % kShards]; }
  static bool conflict(const LockClaim& a, const LockClaim& b) { return a.exclusive || b.exclusive; }
  static bool older(const LockClaim& a, const LockClaim& b) {
    return a.since_ps != b.since_ps ? a.since_ps < b.since_ps : a.client < b.client;
  }

  RampOptions::Deadlock deadlock_;
  std::array<Shard, kShards> shards_;
};

}  // namespace verbtwin::protocols
