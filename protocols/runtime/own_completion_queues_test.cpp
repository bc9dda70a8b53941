// A worker whose channels complete each at a queue of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "protocols/fake_backend_for_test.hpp"
#include "protocols/runtime/worker.hpp"

namespace verbtwin::protocols {
namespace {

class OwnCompletionQueues : public testing::Test {
 protected:
  Channel& channel(int node) { return worker.channel(node, 0); }
  FakeCompletionQueue& queue_of(int node) {
    return static_cast<FakeCompletionQueue&>(*channel(node).own_send_cq);
  }
  FakeQueuePair& queue_pair(int node) { return static_cast<FakeQueuePair&>(*channel(node).queue_pair); }
  SendWr request(Opcode opcode) {
    SendWr wr;
    wr.opcode = opcode;
    wr.sge = {word.data(), 8, 1};
    wr.rkey = 1;
    return wr;
  }
  void run(int steps = 200) {
    for (int i = 0; i < steps; ++i) worker.step();
  }

  static constexpr int kNodes = 4;
  FakeCluster cluster{ClusterShape{.nodes = kNodes, .own_send_cqs = true}, 4096};
  Worker worker{cluster.port(0), 1024};
  alignas(8) std::array<std::byte, 8> word{};
};

Task<void> read_from(Worker& worker, std::vector<int> nodes, SendWr read, WcStatus& status) {
  WaitGroup group(worker);
  for (const int node : nodes) worker.stage(worker.channel(node, 0), read, &group);
  worker.ring(true);
  co_await group;
  status = group.status();
}

TEST_F(OwnCompletionQueues, EachChannelCompletesAtItsOwnAndItsWaiterGoesOn) {
  WcStatus status = WcStatus::kWrFlushErr;
  worker.spawn(read_from(worker, {1, 2, 3, 1, 3}, request(Opcode::kRdmaRead), status));
  worker.step();
  EXPECT_EQ(queue_of(1).size(), 2U);
  EXPECT_EQ(queue_of(2).size(), 1U);
  EXPECT_EQ(queue_of(3).size(), 2U);
  EXPECT_EQ(static_cast<FakeCompletionQueue&>(worker.cq()).size(), 0U);
  run();
  EXPECT_EQ(worker.unfinished(), 0U);
  EXPECT_EQ(status, WcStatus::kSuccess);
}

TEST_F(OwnCompletionQueues, OnlyThoseAreLookedAtFromWhichSomethingIsAwaited) {
  WcStatus status{};
  for (int node = 1; node < kNodes; ++node) queue_pair(node).hold();
  worker.stage(channel(2), request(Opcode::kRdmaWrite), nullptr);
  worker.spawn(read_from(worker, {1, 3}, request(Opcode::kRdmaRead), status));
  run(10);
  const std::uint64_t first = queue_of(1).polls, third = queue_of(3).polls;
  EXPECT_GT(first, 5U);
  EXPECT_GT(third, 5U);
  EXPECT_EQ(queue_of(2).polls, 0U) << "nothing signalled is out on it";
  queue_pair(1).release();
  run(10);
  EXPECT_LE(queue_of(1).polls, first + 1) << "its completion came";
  EXPECT_GT(queue_of(3).polls, third + 5);
  queue_pair(3).release();
  run();
  EXPECT_EQ(worker.unfinished(), 0U);
}

/// More completions than a round takes: those that are left come next, whichever channel they are of.
TEST_F(OwnCompletionQueues, NobodyIsLeftBehindABusyChannel) {
  std::array<WcStatus, 60> status;
  for (WcStatus& each : status) {
    each = WcStatus::kWrFlushErr;
    worker.spawn(read_from(worker, {1, 1, 2, 3}, request(Opcode::kRdmaRead), each));
  }
  run(1000);
  EXPECT_EQ(worker.unfinished(), 0U);
  EXPECT_THAT(status, testing::Each(WcStatus::kSuccess));
}

/// A queue pair that fails completes its unsignalled requests, too, in front of what is awaited: here a round
/// takes as many of them as completions were awaited, and these come behind.
TEST_F(OwnCompletionQueues, AFailedChannelIsLookedAtUntilItsWaitersKnow) {
  constexpr int kOfARound = 16;
  for (int i = 0; i < kOfARound; ++i) {
    cluster.fabric().next_status = i == 0 ? WcStatus::kRemAccessErr : WcStatus::kWrFlushErr;
    worker.stage(channel(1), request(Opcode::kRdmaWrite), nullptr);
    worker.ring(true);
  }
  WcStatus status{};
  cluster.fabric().next_status = WcStatus::kWrFlushErr;
  worker.spawn(read_from(worker, std::vector<int>(kOfARound, 1), request(Opcode::kRdmaRead), status));
  run();
  EXPECT_EQ(worker.unfinished(), 0U);
  EXPECT_EQ(status, WcStatus::kWrFlushErr);
}

/// One in 32 unsignalled requests asks for a completion, or the send queue would never be free again.
TEST_F(OwnCompletionQueues, PassiveRequestsFreeTheirSendQueue) {
  for (int i = 0; i < 1000; ++i) {
    worker.stage(channel(1), request(Opcode::kRdmaWrite), nullptr);
    worker.ring(true);
    worker.step();
  }
  run();
  EXPECT_EQ(queue_pair(1).posted.size(), 1000U);
  EXPECT_LT(queue_pair(1).in_queue(), 32U);
}

}  // namespace
}  // namespace verbtwin::protocols
