// Who goes on when, and who hears of it: requests that wait for others, for the way out of a port or between
// two links.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "sim/actor_for_test.hpp"

namespace verbtwin::sim {
namespace {

using testing::ElementsAre;

std::vector<std::uint64_t> ids(const Actor& actor) {
  std::vector<std::uint64_t> all;
  for (const WorkCompletion& wc : actor.done) all.push_back(wc.wr_id);
  return all;
}

/// The answer that a fence waits for is known before it is there: who is posted in between is woken by it.
TEST(TransportOrder, AFencedRequestPostedAtAnyTimeBehindAReadIsSent) {
  for (std::uint64_t us = 0; us < 60; us += 2) {
    Cluster cluster(round_cluster(2));
    Actor sender(cluster, 0), target(cluster, 1);
    sender.begin = [us](Actor& a) {
      a.post(Opcode::kRdmaRead, 16384, 1);
      a.charge_us(us);
      a.post(Opcode::kRdmaWrite, 8, 1, 1, kSignaled | kFence);
    };
    run_until_us(cluster, 1000);
    EXPECT_THAT(ids(sender), ElementsAre(0, 1)) << us;
  }
}

/// Its data wait for a port that has much to send; so does the ACK behind them.
TEST(TransportOrder, NoAnswerOvertakesOneThatWaitsForItsPort) {
  Cluster cluster(round_cluster(2));
  Actor sender(cluster, 0), target(cluster, 1);
  target.begin = [](Actor& a) { a.post(Opcode::kRdmaWrite, 65536, 0, 60); };
  sender.begin = [](Actor& a) {
    a.charge_us(20);
    a.post(Opcode::kRdmaRead, 64, 1);
    a.post(Opcode::kRdmaWrite, 8, 1);
  };
  run_until_us(cluster, 5000);
  EXPECT_THAT(ids(sender), ElementsAre(0, 1));
  EXPECT_EQ(sender.done.front().byte_len, 64U);
}

/// As AnAnswerDoesNotWaitForAllThatIsPosted, the other way round.
TEST(TransportOrder, ARequestDoesNotWaitForAllThatIsAnswered) {
  const auto write_us = [](bool with_reads) {
    ClusterParameters p = round_cluster(2);
    p.nic.pcie_gbps = 126;
    Cluster cluster(p);
    Actor reader(cluster, 0), target(cluster, 1);
    if (with_reads) reader.begin = [](Actor& a) { a.post(Opcode::kRdmaRead, 65536, 1, 16); };
    target.begin = [](Actor& a) {
      a.charge_us(100);
      a.post(Opcode::kRdmaWrite, 8, 0, 1, kSignaled | kInline);
    };
    run_until_us(cluster, 3000);
    EXPECT_EQ(reader.done.size(), with_reads ? 16U : 0U);
    return static_cast<double>(target.done_ps.at(0)) / 1e6;
  };
  const double read_us = 65536.0 / 1000;
  EXPECT_LT(write_us(true), write_us(false) + 8 * read_us);
  EXPECT_GT(write_us(true), write_us(false) + read_us / 2) << "some are under way";
}

/// Two leaves with one cable between them, at which two senders meet.
TEST(TransportOrder, WhatStopsBetweenTwoLinksGoesOn) {
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    ClusterParameters p = round_cluster(4);
    p.topology = FatTree{.leaf_ports = 2, .spines = 1};
    Cluster cluster(p);
    const QpInitAttributes attributes{.type = type, .max_send_wr = 128, .max_recv_wr = 1};
    Actor first(cluster, 0, attributes), second(cluster, 1, attributes);
    Actor targets[] = {{cluster, 2, attributes}, {cluster, 3, attributes}};
    first.begin = [](Actor& a) { a.post(Opcode::kRdmaWrite, 4096, 2, 100); };
    second.begin = [](Actor& a) { a.post(Opcode::kRdmaWrite, 4096, 3, 100); };
    run_until_us(cluster, 2000);
    EXPECT_EQ(first.done.size(), 100U);
    EXPECT_EQ(second.done.size(), 100U);
    EXPECT_GE(std::max(first.done_ps.back(), second.done_ps.back()), 2 * 100 * 4096 * 1000LL - 131'072'000)
        << "but for what there is room for, all have passed the cable";
  }
}

/// Both are writes of one NIC's, in whatever order they were asked for.
TEST(TransportOrder, ACompletionComesBehindWhatOthersWroteBeforeIt) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    ClusterParameters p = round_cluster(3);
    p.tear = {20'000'000, seed};
    Cluster cluster(p);
    Actor reader(cluster, 0), writer(cluster, 1), target(cluster, 2);
    writer.memory()[0] = std::byte{1};
    writer.begin = [](Actor& a) { a.post(Opcode::kRdmaWrite, 8, 0); };
    reader.begin = [](Actor& a) {
      a.charge_us(2);
      SendWr read = a.request(Opcode::kRdmaRead, 8, 2);
      read.sge.addr += 64;
      a.post(a.queue_pair(2), read);
    };
    reader.on_completion = [&](const WorkCompletion&) {
      EXPECT_EQ(reader.memory()[0], std::byte{1}) << seed;
    };
    run_until_us(cluster, 100);
    EXPECT_EQ(reader.done.size(), 1U);
  }
}

TEST(TransportOrder, WhoWatchesMemoryIsWokenByAWrite) {
  for (const std::int64_t tear_ps : {0, 5'000'000}) {
    ClusterParameters p = round_cluster(2);
    p.tear = {tear_ps, 1};
    Cluster cluster(p);
    Actor sender(cluster, 0), target(cluster, 1);
    sender.memory()[0] = std::byte{1};
    bool seen = false;
    target.begin = [](Actor& a) { a.port.watch(a.memory().first(64)); };
    target.on_step = [&] {
      std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(target.memory().data()));
      seen = seen || word.load(std::memory_order_acquire) != 0;
    };
    sender.begin = [](Actor& a) {
      a.charge_us(10);
      a.post(Opcode::kRdmaWrite, 8, 1);
    };
    run_until_us(cluster, 100);
    EXPECT_TRUE(seen) << tear_ps;
  }
}

}  // namespace
}  // namespace verbtwin::sim
