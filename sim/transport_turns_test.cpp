// Turns at the target's NIC: atomics of one queue pair, those that wait for one lock, and what comes behind
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "sim/actor_for_test.hpp"

namespace verbtwin::sim {
namespace {

using testing::SizeIs;

constexpr std::int64_t kHeldUs = 20;

/// Node 0 serves. One lock for all words, which an atomic holds for 20 us.
class OneLock {
 public:
  explicit OneLock(int nodes) {
    ClusterParameters p = round_cluster(nodes);
    p.nic.atomic_locks = 1;
    p.nic.dma_read_ns = kHeldUs * 1000;
    cluster = std::make_unique<Cluster>(p);
    for (int node = 0; node < nodes; ++node)
      actors.push_back(std::make_unique<Actor>(*cluster, node, QpInitAttributes{.max_recv_wr = 8}));
    std::memset(actors[0]->memory().data(), 0, 64);
  }
  /// At `at_us`, of actor `node`: adds one to a word of its own.
  void add_at(int node, std::uint64_t at_us, int times = 1) {
    actors[static_cast<std::size_t>(node)]->begin = [=](Actor& a) {
      a.charge_us(at_us);
      for (int i = 0; i < times; ++i) a.post(a.queue_pair(0), addition(a));
    };
  }
  static SendWr addition(Actor& a) {
    SendWr wr = a.request(Opcode::kAtomicFetchAndAdd, 8, 0);
    wr.remote_addr += static_cast<std::uint64_t>(a.port.node()) * 8;
    wr.compare_add = 1;
    return wr;
  }
  std::uint64_t word(int node) const {
    std::uint64_t value = 0;
    std::memcpy(&value, actors[0]->memory().data() + node * 8, sizeof value);
    return value;
  }
  double done_us(int node) const {
    return static_cast<double>(actors[static_cast<std::size_t>(node)]->done_ps.at(0)) / 1e6;
  }

  std::unique_ptr<Cluster> cluster;
  std::vector<std::unique_ptr<Actor>> actors;
};

TEST(TransportTurns, AtomicsTakeTheirLockInTheOrderInWhichTheyCame) {
  OneLock c(5);
  const std::vector<int> order = {3, 1, 4, 2};
  for (std::size_t i = 0; i < order.size(); ++i) c.add_at(order[i], 10 + i);
  run_until_us(*c.cluster, 500);
  for (std::size_t i = 1; i < order.size(); ++i)
    EXPECT_NEAR(c.done_us(order[i]) - c.done_us(order[i - 1]), kHeldUs + 0.04, 0.1) << i;
}

/// A lock's next holder is who has waited longest, not who has asked most often.
TEST(TransportTurns, AtomicsOfOneQueuePairStandInTheLineOneAtATime) {
  OneLock c(3);
  c.add_at(1, 10, 6);
  c.add_at(2, 15);
  run_until_us(*c.cluster, 500);
  EXPECT_THAT(c.actors[1]->done, SizeIs(6));
  EXPECT_LT(c.done_us(2), 15 + 2 * kHeldUs + 5) << "behind one of six";
  EXPECT_EQ(c.word(1), 6U);
}

TEST(TransportTurns, WhatComesBehindAnAtomicThatWaitsKeepsItsOrder) {
  OneLock c(3);
  c.add_at(1, 10);
  constexpr std::uint64_t kWritten = 100;
  Actor& server = *c.actors[0];
  server.begin = [](Actor& a) { a.post_recvs(a.queue_pair(2), 1); };
  std::uint64_t when_received = 0;
  server.on_completion = [&](const WorkCompletion&) { when_received = c.word(2); };
  c.actors[2]->begin = [&](Actor& a) {
    std::memcpy(a.memory().data() + 128, &kWritten, sizeof kWritten);
    a.charge_us(12);
    SendWr write = a.request(Opcode::kRdmaWrite, 8, 0), read = a.request(Opcode::kRdmaRead, 8, 0);
    write.remote_addr += 16;
    write.sge.addr += 128;
    read.remote_addr += 16;
    read.sge.addr += 256;
    a.post(a.queue_pair(0), OneLock::addition(a));
    a.post(a.queue_pair(0), write);
    a.post(a.queue_pair(0), read);
    a.post(a.queue_pair(0), a.request(Opcode::kSend, 8, 0));
  };
  run_until_us(*c.cluster, 500);
  const Actor& two = *c.actors[2];
  ASSERT_THAT(two.done, SizeIs(4));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(two.done[i].wr_id, i);
  EXPECT_GT(c.done_us(2), 12 + kHeldUs) << "it did not wait";
  EXPECT_EQ(c.word(2), kWritten) << "added to behind the WRITE";
  EXPECT_EQ(when_received, kWritten);
  std::uint64_t seen = 0;
  std::memcpy(&seen, c.actors[2]->memory().data() + 256, sizeof seen);
  EXPECT_EQ(seen, kWritten);
}

TEST(TransportTurns, WhoIsResetLeavesTheLineOfALockToTheOthers) {
  for (const std::uint64_t reset_us : {15, 25, 35, 60}) {
    OneLock c(4);
    for (int node = 1; node < 4; ++node) c.add_at(node, 9 + static_cast<std::uint64_t>(node));
    Actor &server = *c.actors[0], &two = *c.actors[2];
    run_until_us(*c.cluster, static_cast<std::int64_t>(reset_us));
    QueuePair &mine = two.queue_pair(0), &theirs = server.queue_pair(2);
    mine.reset();
    theirs.reset();
    mine.connect(theirs.address());
    theirs.connect(mine.address());
    two.begin = [](Actor& a) { a.post(a.queue_pair(0), OneLock::addition(a), 2); };
    c.cluster->drive(2, 0, two);
    run_until_us(*c.cluster, 500);
    EXPECT_THAT(c.actors[1]->done, SizeIs(1)) << reset_us;
    EXPECT_THAT(c.actors[3]->done, SizeIs(1)) << reset_us;
    EXPECT_THAT(two.done, SizeIs(reset_us < 60 ? 2 : 3)) << reset_us;
    EXPECT_EQ(c.word(3), 1U);
  }
}

/// What others write stands in front of PCIe when its turn has come: a read does not pass it.
TEST(TransportTurns, WhatIsReadForOthersWaitsForWhatTheyWrite) {
  const auto last_us = [](Opcode opcode, int writes) {
    ClusterParameters p = round_cluster(4);
    p.nic.link_gbps = 80;
    p.nic.recv_packet_ns = 1;
    Cluster cluster(p);
    Actor server(cluster, 0), reader(cluster, 1), left(cluster, 2), right(cluster, 3);
    reader.begin = [opcode](Actor& a) {
      a.charge_us(60);
      a.post(opcode, 8, 0, 8);
    };
    for (Actor* writer : {&left, &right})
      writer->begin = [writes](Actor& a) {
        if (writes > 0) a.post(Opcode::kRdmaWrite, 1024, 0, writes);
      };
    run_until_us(cluster, 1000);
    return static_cast<double>(reader.done_ps.at(7)) / 1e6;
  };
  // Two slots' worth of WRITEs for one: by then half of what 60 of each take is there.
  EXPECT_GT(last_us(Opcode::kRdmaRead, 60), last_us(Opcode::kRdmaRead, 0) + 40);
  EXPECT_GT(last_us(Opcode::kAtomicFetchAndAdd, 60), last_us(Opcode::kAtomicFetchAndAdd, 0) + 50);
}

}  // namespace
}  // namespace verbtwin::sim
