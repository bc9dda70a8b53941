#include "models/spin_lock.hpp"

#include <gtest/gtest.h>

namespace verbtwin::models {
namespace {

constexpr std::int64_t kNs = 1000;

SpinLock::Prices prices() {
  HostProfile host;
  host.cores_per_socket = 2;
  host.lock_ns = 20;
  host.lock_handover_ns = 5;
  host.lock_handover_far_ns = 100;
  host.lock_waiter_ns = 7;
  return SpinLock::Prices(host);
}

TEST(SpinLock, CostsMoreFromAnotherCoreAndFromAnotherSocket) {
  SpinLock lock;
  std::int64_t now_ps = 0;
  const auto lock_ns = [&](std::uint32_t core) {
    const SpinLock::Hold hold = lock.take(prices(), core, now_ps += 10'000 * kNs);
    EXPECT_EQ(hold.wait_ps, 0);
    lock.give_back(0);
    return hold.lock_ps / kNs;
  };
  EXPECT_EQ(lock_ns(0), 20) << "nobody had it";
  EXPECT_EQ(lock_ns(0), 20);
  EXPECT_EQ(lock_ns(1), 25);
  EXPECT_EQ(lock_ns(2), 120);
}

TEST(SpinLock, WhoFindsItHeldWaitsAndSlowsTheHandover) {
  SpinLock lock;
  lock.take(prices(), 0, 1000 * kNs);
  lock.give_back(80 * kNs);  // until 1,100
  SpinLock::Hold hold = lock.take(prices(), 1, 1010 * kNs);
  EXPECT_EQ(hold.wait_ps, 90 * kNs);
  EXPECT_EQ(hold.lock_ps, 25 * kNs);
  lock.give_back(0);  // until 1,125
  hold = lock.take(prices(), 0, 1020 * kNs);
  EXPECT_EQ(hold.wait_ps, 105 * kNs);
  EXPECT_EQ(hold.lock_ps, (25 + 7) * kNs) << "another waits";
}

/// Cores' clocks are apart by what their steps charge. The order in which they ask holds, however long the
/// lock was free before.
TEST(SpinLock, WhoAsksLaterWithAnEarlierClockWaitsTheSame) {
  SpinLock lock;
  lock.take(prices(), 0, 5000 * kNs);
  lock.give_back(80 * kNs);
  EXPECT_EQ(lock.take(prices(), 1, 4000 * kNs).wait_ps, 100 * kNs);
  lock.give_back(0);
  EXPECT_EQ(lock.take(prices(), 0, 6000 * kNs).wait_ps, 0);
}

}  // namespace
}  // namespace verbtwin::models
