// LockTable: a server's shared and exclusive locks for strict two-phase locking, shared by its workers.
//
// no_wait refuses whoever meets a conflict. wait_die (Rosenkrantz et al., TODS 1978) lets a transaction wait
// that is older than all it conflicts with, holders and those who wait before it, and refuses it otherwise;
// who waits is older than whom it waits for, so no circle can close. A transaction that is run again keeps
// its age.
//
// Owned by its node. A spin lock per key; any worker of the node may call anything. Ages in picoseconds.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "protocols/ramp/options.hpp"
#include "protocols/rpc/rpc.hpp"

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

  LockTable(std::uint64_t slots, RampOptions::Deadlock deadlock) : deadlock_(deadlock), locks_(slots) {}

  /// kWaits: release() will return it.
  Verdict lock(std::uint64_t slot, const LockClaim& request);
  /// Appends to `granted` whoever holds the lock now and waited for it.
  void release(std::uint64_t slot, std::uint64_t client, std::vector<LockClaim>& granted);
  /// The keys that somebody holds or waits for; every worker has stopped.
  std::vector<std::uint64_t> claimed_keys() const;

 private:
  struct Lock {
    std::uint32_t spin = 0;
    std::vector<LockClaim> holders, waiters;
  };
  static bool conflict(const LockClaim& a, const LockClaim& b) { return a.exclusive || b.exclusive; }
  static bool older(const LockClaim& a, const LockClaim& b) {
    return a.since_ps != b.since_ps ? a.since_ps < b.since_ps : a.client < b.client;
  }

  RampOptions::Deadlock deadlock_;
  std::vector<Lock> locks_;  // by slot
};

}  // namespace verbtwin::protocols
