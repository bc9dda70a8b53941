#include "models/doorbell.hpp"

#include <gtest/gtest.h>

#include "models/profiles_for_test.hpp"

namespace verbtwin::models {
namespace {

constexpr std::int64_t kNs = 1000;

NicProfile registers(double dedicated, double shared) {
  NicProfile nic = round_nic();
  nic.doorbell_registers_dedicated = dedicated;
  nic.doorbell_registers_shared = shared;
  return nic;
}

HostProfile two_sockets() {
  HostProfile host = free_host();
  host.cores_per_socket = 4;
  host.lock_ns = 10;
  host.lock_handover_ns = 40;
  host.lock_handover_far_ns = 150;
  host.lock_waiter_ns = 7;
  return host;
}

TEST(Doorbell, TheFirstQueuePairsHaveARegisterEach) {
  DoorbellRegisters r(registers(2, 3), two_sockets());
  EXPECT_EQ(r.assign(), DoorbellRegisters::kOwn);
  EXPECT_EQ(r.assign(), DoorbellRegisters::kOwn);
  for (const std::uint32_t expected : {0U, 1U, 2U, 0U}) EXPECT_EQ(r.assign(), expected);
}

TEST(Doorbell, AHeldLockIsWaitedFor) {
  DoorbellRegisters r(registers(0, 1), two_sockets());
  const auto first = r.ring(0, 0, 0, 100 * kNs);
  EXPECT_EQ(first.wait_ps, 0);
  EXPECT_EQ(first.lock_ps, 10 * kNs);
  const auto second = r.ring(0, 1, 20 * kNs, 100 * kNs);
  EXPECT_EQ(second.wait_ps, 90 * kNs);
  EXPECT_EQ(second.lock_ps, 50 * kNs) << "the lock comes from another core";
  EXPECT_EQ(r.held_ps(0, 1000 * kNs), 260 * kNs);
}

TEST(Doorbell, EachWhoWaitsSlowsTheHandover) {
  DoorbellRegisters r(registers(0, 1), two_sockets());
  const auto lock_ns = [&](std::uint32_t core) { return r.ring(0, core, 0, 100 * kNs).lock_ps / kNs; };
  EXPECT_EQ(lock_ns(0), 10);
  EXPECT_EQ(lock_ns(1), 10 + 40) << "one holds it";
  EXPECT_EQ(lock_ns(2), 10 + 40 + 7) << "and one waits";
  EXPECT_EQ(lock_ns(4), 10 + 150 + 2 * 7) << "two wait";
  EXPECT_EQ(r.ring(0, 0, 10'000 * kNs, 100 * kNs).lock_ps, 160 * kNs) << "nobody waits any more";
}

TEST(Doorbell, AFreeLockCostsByWhoHeldItLast) {
  DoorbellRegisters r(registers(0, 2), two_sockets());
  r.ring(0, 3, 0, 100 * kNs);
  EXPECT_EQ(r.ring(0, 3, 1000 * kNs, 100 * kNs).lock_ps, 10 * kNs);
  EXPECT_EQ(r.ring(0, 4, 2000 * kNs, 100 * kNs).lock_ps, 160 * kNs) << "core 4 is on the other socket";
  EXPECT_EQ(r.ring(1, 4, 2000 * kNs, 100 * kNs).wait_ps, 0) << "another register";
}

TEST(Doorbell, BuffersAreFlushedUnderTheLock) {
  HostProfile host = two_sockets();
  host.locked_flush_ns = 300;
  DoorbellRegisters r(registers(0, 1), host);
  EXPECT_EQ(r.ring(0, 0, 0, 100 * kNs).lock_ps, 310 * kNs);
  EXPECT_EQ(r.ring(0, 1, 0, 100 * kNs).wait_ps, 410 * kNs);
}

TEST(Doorbell, Mlx4LocksBlueFlameAlone) {
  NicProfile mlx4 = registers(0, 1);
  mlx4.doorbell_locked = 0;
  EXPECT_TRUE(DoorbellRegisters(mlx4, two_sockets()).takes_lock(true));
  EXPECT_FALSE(DoorbellRegisters(mlx4, two_sockets()).takes_lock(false));
  EXPECT_TRUE(DoorbellRegisters(registers(0, 1), two_sockets()).takes_lock(false));
}

}  // namespace
}  // namespace verbtwin::models
