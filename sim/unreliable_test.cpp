// UC and UD: nobody answers, a completion says that a message has left its port.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "sim/actor_for_test.hpp"

namespace verbtwin::sim {
namespace {

using testing::Each;

constexpr QpInitAttributes kUc{.type = QpType::kUc, .max_send_wr = 4096, .max_recv_wr = 1};

/// What has left the port is no more in the sender's buffer.
TEST(Unreliable, ABufferIsFreeOnceItsMessageIsDone) {
  for (const QpType type : {QpType::kUc, QpType::kUd}) {
    ClusterParameters p = round_cluster(2);
    p.cable_ps = 5'000'000;
    Cluster cluster(p);
    Actor sender(cluster, 0, kUc), receiver(cluster, 1, kUc);
    Datagrams from(sender), to(receiver);
    receiver.post_recvs(*to.queue_pair, 1);
    std::ranges::fill(sender.memory().first(4096), std::byte{1});
    sender.begin = [&](Actor& a) {
      if (type == QpType::kUc) {
        a.post(Opcode::kRdmaWrite, 1000, 1);
      } else {
        a.post(*from.queue_pair, from.to(to, 1000));
      }
    };
    sender.on_completion = [&](const WorkCompletion&) {
      std::ranges::fill(sender.memory().first(4096), std::byte{2});
    };
    run_until_us(cluster, 50);
    ASSERT_EQ(sender.done.size(), 1U);
    const std::size_t header_b = type == QpType::kUd ? kGrhBytes : 0;
    EXPECT_THAT(receiver.memory().subspan(header_b, 1000), Each(std::byte{1}));
  }
}

/// The engine deals with the first for 10 us; until then the second has no need of one.
TEST(Unreliable, ADatagramTakesItsRecvInItsTurn) {
  ClusterParameters p = round_cluster(2);
  p.nic.recv_packet_ns = 10'000;
  for (const std::int64_t posted_us : {8, 15}) {
    Cluster cluster(p);
    Actor sender(cluster, 0), receiver(cluster, 1);
    Datagrams from(sender), to(receiver, 2);
    receiver.post_recvs(*to.queue_pair, 1);
    sender.begin = [&](Actor& a) { a.post(*from.queue_pair, from.to(to, 8), 2); };
    run_until_us(cluster, posted_us);
    receiver.post_recvs(*to.queue_pair, 1);
    run_until_us(cluster, 100);
    EXPECT_EQ(receiver.done.size(), posted_us < 10 ? 2U : 1U) << posted_us;
  }
}

/// Behind 128 KiB at the receiver's port.
TEST(Unreliable, ASenderIsHeldBackByANicThatTakesInNoMore) {
  constexpr int kMessages = 1000;
  for (const QpType type : {QpType::kUc, QpType::kUd}) {
    const auto sent_in_300_us = [type](double recv_packet_ns) {
      ClusterParameters p = round_cluster(2);
      p.nic.pcie_gbps = 126;
      p.nic.recv_packet_ns = recv_packet_ns;
      Cluster cluster(p);
      Actor sender(cluster, 0, kUc), receiver(cluster, 1, kUc);
      Datagrams from(sender), to(receiver);
      sender.begin = [&](Actor& a) {
        if (type == QpType::kUc) {
          a.post(Opcode::kRdmaWrite, 200, 1, kMessages);
        } else {
          a.post(*from.queue_pair, from.to(to, 200), kMessages);
        }
      };
      run_until_us(cluster, 300);
      return sender.done.size();
    };
    EXPECT_EQ(sent_in_300_us(7), kMessages);
    EXPECT_NEAR(static_cast<double>(sent_in_300_us(1000)), 512 + 300, 25) << "of four blocks each";
  }
}

}  // namespace
}  // namespace verbtwin::sim
