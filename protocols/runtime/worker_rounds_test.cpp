// What is left at the end of a worker's round: who may let it sleep has to be told.
#include <gtest/gtest.h>

#include <array>

#include "protocols/fake_backend_for_test.hpp"
#include "protocols/runtime/worker.hpp"

namespace verbtwin::protocols {
namespace {

class WorkerRounds : public testing::Test {
 protected:
  FakeCluster cluster{ClusterShape{.nodes = 2}, 4096};
  Worker worker{cluster.port(0), 1024};
};

struct Messages final : MessageLayer {
  void on_recv(const WorkCompletion&) override {}
  void on_sent(const WorkCompletion&) override {}
  bool flush() override { return left-- > 0; }
  int left = 1;
};

struct Memory final : PolledMemory {
  bool poll_memory() override { return left-- > 0; }
  int left = 1;
};

TEST_F(WorkerRounds, MessagesThatCouldNotBeTakenAreToldOf) {
  Messages messages;
  worker.set_messages(messages);
  EXPECT_TRUE(worker.step());
  EXPECT_FALSE(worker.step());
}

TEST_F(WorkerRounds, PolledMemoryThatMayHaveMoreIsToldOf) {
  Memory memory;
  worker.set_polled_memory(memory);
  EXPECT_TRUE(worker.step());
  EXPECT_FALSE(worker.step());
}

/// Even where its queue pair has room again that nobody has heard of.
TEST_F(WorkerRounds, ARequestDoesNotOvertakeThoseThatWaitForRoom) {
  Channel& channel = worker.channel(1, 0);
  const auto& queue_pair = static_cast<const FakeQueuePair&>(*channel.queue_pair);
  alignas(8) std::byte word[8] = {};
  const auto write = [&](std::uint64_t offset) {
    SendWr wr;
    wr.opcode = Opcode::kRdmaWrite;
    wr.flags = kInline;
    wr.sge = {word, 8, 1};
    wr.remote_addr = offset;
    wr.rkey = 1;
    worker.stage(channel, wr, nullptr);
  };
  for (int i = 0; i < 129; ++i) write(0);
  worker.ring(true);
  ASSERT_EQ(queue_pair.posted.size(), 128U);
  std::array<WorkCompletion, 1> completion;
  ASSERT_EQ(worker.cq().poll(completion), 1U);
  write(8);
  worker.ring(true);
  EXPECT_EQ(queue_pair.posted.size(), 128U);
  for (int i = 0; i < 100; ++i) worker.step();
  ASSERT_EQ(queue_pair.posted.size(), 130U);
  EXPECT_EQ(queue_pair.posted.back().remote_addr, 8U);
}

}  // namespace
}  // namespace verbtwin::protocols
