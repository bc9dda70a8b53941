// What calls of a queue pair take of the core that makes them.
#include <gtest/gtest.h>

#include <functional>

#include "sim/actor_for_test.hpp"

namespace verbtwin::sim {
namespace {

ClusterParameters priced() {
  ClusterParameters p = round_cluster(2);
  p.host.post_wr_ns = 10;
  p.host.doorbell_ns = 100;
  p.host.blueflame_ns = 7;
  p.host.inline_block_ns = 3;
  p.host.post_recv_ns = 5;
  p.host.memory_miss_ns = 80;
  return p;
}

std::int64_t taken_ns(const std::function<void(Actor&)>& call) {
  Cluster cluster(priced());
  Actor actor(cluster, 0), target(cluster, 1);
  std::int64_t ps = 0;
  actor.begin = [&](Actor& a) {
    a.queue_pair(1);
    const std::int64_t before_ps = a.port.cpu().now_ps();
    call(a);
    ps = a.port.cpu().now_ps() - before_ps;
  };
  run_until_us(cluster, 100);
  return ps / 1000;
}

TEST(PostingCosts, AreTheSumOfTheirParts) {
  EXPECT_EQ(taken_ns([](Actor& a) { a.post(Opcode::kRdmaWrite, 8, 1, 3); }), 3 * 10 + 100);
  EXPECT_EQ(taken_ns([](Actor& a) { a.post(Opcode::kRdmaWrite, 8, 1); }), 10 + 100 + 7) << "BlueFlame";
  EXPECT_EQ(taken_ns([](Actor& a) { a.post(Opcode::kRdmaWrite, 65, 1, 1, kInline); }),
            10 + 2 * 3 + 100 + 2 * 7);
  EXPECT_EQ(taken_ns([](Actor& a) { a.post_recvs(a.queue_pair(1), 4); }), 4 * 5);
}

TEST(PostingCosts, ADoorbellLeavesBehindTheStores) {
  EXPECT_EQ(taken_ns([](Actor& a) {
              a.port.cpu().store_cold(4);
              a.post(Opcode::kRdmaWrite, 8, 1, 2);
            }),
            4 * 80 + 100);
}

/// One register for all threads of a machine, whose cores stand on sockets of two.
TEST(PostingCosts, AThreadWaitsForASharedDoorbellsLock) {
  ClusterParameters p = round_cluster(2, 3);
  p.shared_contexts = true;
  p.nic.doorbell_registers_dedicated = 0;
  p.nic.doorbell_registers_shared = 1;
  p.host.cores_per_socket = 2;
  p.host.blueflame_ns = 1000;
  p.host.lock_handover_ns = 50;
  p.host.lock_handover_far_ns = 300;
  for (int node = 0; node < 2; ++node) {
    Cluster cluster(p);
    Actor actors[] = {{cluster, node, {}, 0},     {cluster, node, {}, 1},     {cluster, node, {}, 2},
                      {cluster, 1 - node, {}, 0}, {cluster, 1 - node, {}, 1}, {cluster, 1 - node, {}, 2}};
    std::vector<std::int64_t> rung_ns;
    for (int thread = 0; thread < 3; ++thread) {
      actors[thread].begin = [&, node](Actor& a) {
        a.post(Opcode::kRdmaWrite, 8, 1 - node);
        rung_ns.push_back(a.port.cpu().now_ps() / 1000);
      };
    }
    run_until_us(cluster, 100);
    EXPECT_EQ(rung_ns, (std::vector<std::int64_t>{1000, 2050, 3350})) << node;
    const Usage usage = cluster.usage();
    EXPECT_EQ(usage.lock_wait_ps.at(static_cast<std::size_t>(3 * node + 1)), 1'000'000);
    EXPECT_EQ(usage.resources[0].busy_ps.at(static_cast<std::size_t>(3 * node + 1)) / 1000, 1050);
  }
}

/// Threads fill one socket after the other; two busy cores of the second have its highest clock.
TEST(PostingCosts, ASocketsClockIsOfItsOwnThreads) {
  ClusterParameters p = round_cluster(1, 14);
  p.host.turbo_few_ghz = 2;
  p.host.turbo_all_ghz = 1;
  p.host.turbo_cores = 12;
  p.host.last_level_cache_mib = 2;
  p.host.post_recv_ns = 8;
  Cluster cluster(p);
  const auto cycles_ps = [&](int thread) {
    Cpu& cpu = cluster.port(0, thread).cpu();
    const std::int64_t before_ps = cpu.now_ps();
    cpu.charge_cycles(1000);
    cpu.charge(Cost::kPostRecv);
    return cpu.now_ps() - before_ps;
  };
  EXPECT_EQ(cycles_ps(11), 1'000'000 + 8000);
  EXPECT_EQ(cycles_ps(12), 500'000 + 4000);
  EXPECT_EQ(cycles_ps(13), 500'000 + 4000);
  EXPECT_EQ(cluster.port(0, 0).cpu().last_level_cache_b(), 2U << 20);
}

}  // namespace
}  // namespace verbtwin::sim
