#include "protocols/rpc/buffer_rpc.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "protocols/fake_backend_for_test.hpp"
#include "protocols/rpc/local_rpc.hpp"
#include "protocols/store/record.hpp"

namespace verbtwin::protocols {
namespace {

constexpr BufferRpc::Shape kShape{200, 4};
constexpr ClusterShape kTwoNodes{2, 1, 1, 1, 1};

struct Answer final : ReplyTarget {
  void on_reply(std::span<const std::byte> reply) override { bytes.emplace(reply.begin(), reply.end()); }
  std::optional<std::vector<std::byte>> bytes;
};

/// Doubles every byte of its arguments; what `later` is told waits until it is asked for.
struct Doubler {
  Rpc* rpc = nullptr;
  bool later = false;
  std::vector<std::pair<RpcOrigin, std::vector<std::byte>>> waiting;

  static void handle(void* context, const RpcCall& call) {
    auto& self = *static_cast<Doubler*>(context);
    std::vector<std::byte> arguments(call.arguments().begin(), call.arguments().end());
    self.waiting.emplace_back(call.origin(), std::move(arguments));
    if (!self.later) self.answer();
  }
  void answer() {
    const auto [origin, arguments] = waiting.back();
    waiting.pop_back();
    const std::span<std::byte> reply = rpc->reply(origin, arguments.size());
    for (std::size_t i = 0; i < reply.size(); ++i) reply[i] = arguments[i] << 1;
  }
};

class BufferRpcTest : public testing::Test {
 protected:
  BufferRpcTest() {
    for (int node = 0; node < 2; ++node) {
      workers_.push_back(std::make_unique<Worker>(cluster_.port(node), 256));
      rpcs_.push_back(std::make_unique<BufferRpc>(*workers_.back(), kShape, std::vector<int>{1 - node},
                                                  cluster_.memory(node).local().first(kBytes)));
    }
    doubler_.rpc = &server();
    server().set_handler(3, Doubler::handle, &doubler_);
  }
  BufferRpc& client() { return *rpcs_[0]; }
  BufferRpc& server() { return *rpcs_[1]; }
  void call(Answer& answer, std::size_t bytes, std::byte with) {
    std::ranges::fill(client().call(1, 3, bytes, answer), with);
  }
  void exchange() {
    client().flush();
    while (server().poll()) {
    }
    server().flush();
    while (client().poll()) {
    }
    // Completions give the send queues' places back.
    for (const auto& worker : workers_) worker->step();
  }
  /// Where message `number` of the client lands.
  std::byte* landing(std::uint32_t number) {
    return cluster_.memory(1).local().data() + kBytes / 2 + (number % kShape.ring()) * kShape.place_b();
  }

  const std::size_t kBytes = BufferRpc::memory_bytes(kTwoNodes, kShape);
  FakeCluster cluster_{kTwoNodes, BufferRpc::memory_bytes(kTwoNodes, kShape)};
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<BufferRpc>> rpcs_;
  Doubler doubler_;
};

TEST_F(BufferRpcTest, CallsAreAnsweredRoundAndRound) {
  for (std::size_t i = 0; i < 100; ++i) {
    Answer empty, some, full;
    call(empty, 0, {});
    call(some, 1 + i % 60, std::byte{3});
    call(full, 200, std::byte{5});
    exchange();
    ASSERT_TRUE(empty.bytes && some.bytes && full.bytes);
    EXPECT_EQ(some.bytes->size(), 1 + i % 60);
    EXPECT_EQ(some.bytes->front(), std::byte{6});
    EXPECT_EQ(full.bytes->back(), std::byte{10});
  }
  EXPECT_EQ(cluster_.fabric().refused, 0U);
}

TEST_F(BufferRpcTest, AnAnswerMayComeLaterAndInAnotherOrder) {
  doubler_.later = true;
  Answer first, second;
  call(first, 8, std::byte{1});
  call(second, 8, std::byte{2});
  exchange();
  EXPECT_FALSE(first.bytes || second.bytes);
  doubler_.answer();
  exchange();
  EXPECT_FALSE(first.bytes);
  EXPECT_TRUE(second.bytes);
  doubler_.answer();
  exchange();
  EXPECT_EQ(first.bytes->front(), std::byte{2});
}

/// Their answers then leave together.
TEST_F(BufferRpcTest, ARoundTakesAllThatAPeerHasWritten) {
  Answer first, second, third;
  for (Answer* answer : {&first, &second, &third}) call(*answer, 8, std::byte{1});
  client().flush();
  const auto doorbells = [this] {
    std::uint64_t sum = 0;
    for (const FakeQueuePair* queue_pair : cluster_.fabric().connected_queue_pairs)
      sum += queue_pair->doorbells;
    return sum;
  };
  const std::uint64_t before = doorbells();
  EXPECT_TRUE(server().poll());
  server().flush();
  EXPECT_EQ(doorbells(), before + 1);
  EXPECT_TRUE(client().poll());
  EXPECT_TRUE(first.bytes && second.bytes && third.bytes);
}

TEST_F(BufferRpcTest, HalfAMessageDoesNotCountAndATakenOneIsCleared) {
  Answer answer;
  call(answer, 100, std::byte{7});
  client().flush();
  std::vector<std::byte> whole(landing(0), landing(0) + kShape.place_b());
  for (std::size_t line = 0; line < 3; ++line) {
    std::memset(landing(0) + line * 64, 0, 64);  // this line has not landed
    EXPECT_FALSE(server().poll()) << line;
    std::memcpy(landing(0) + line * 64, whole.data() + line * 64, 64);
  }
  EXPECT_TRUE(server().poll());
  EXPECT_EQ(load_word(landing(0)), 0U);
  EXPECT_FALSE(server().poll());
}

/// Who is called and who is answered stands between head and body.
TEST_F(BufferRpcTest, TheDigestIsOfTheHeadToo) {
  Answer answer;
  call(answer, 8, std::byte{7});
  client().flush();
  for (const std::size_t at : {16, 17, 18}) {  // handler, flags, slot
    landing(0)[at] ^= std::byte{1};
    EXPECT_FALSE(server().poll()) << at;
    landing(0)[at] ^= std::byte{1};
  }
  EXPECT_TRUE(server().poll());
}

TEST(LocalRpc, DeliversInRounds) {
  LocalRpc rpc(0);
  Doubler doubler;
  doubler.rpc = &rpc;
  rpc.set_handler(1, Doubler::handle, &doubler);
  Answer answer;
  rpc.call(0, 1, 3, answer)[0] = std::byte{4};
  EXPECT_TRUE(rpc.deliver());  // the call; its reply waits
  EXPECT_FALSE(answer.bytes);
  EXPECT_FALSE(rpc.deliver());
  EXPECT_EQ(answer.bytes->front(), std::byte{8});
}

}  // namespace
}  // namespace verbtwin::protocols
