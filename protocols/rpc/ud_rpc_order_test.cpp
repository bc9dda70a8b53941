// In what order UdRpc sends what is ready together, and takes what has waited for room.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "protocols/fake_backend_for_test.hpp"
#include "protocols/rpc/ud_rpc.hpp"

namespace verbtwin::protocols {
namespace {

constexpr std::uint8_t kAnswer = 1;
constexpr int kCoroutines = 4, kCalls = 40;  // that may be under way, and of each

struct Counted final : ReplyTarget {
  void on_reply(std::span<const std::byte>) override { ++count; }
  int count = 0;
};

struct Peer {
  Peer(FakeCluster& cluster, int node, const RpcOptions& options)
      : worker(cluster.port(node), UdRpc::completions(cluster.port(node).shape(), kCoroutines, options)),
        rpc(worker, kCoroutines, options, cluster.memory(node).local(), 1),
        queue_pair(*cluster.fabric().datagram_queue_pairs.back()) {
    rpc.set_handler(
        kAnswer, [](void* self, const RpcCall& call) { static_cast<Peer*>(self)->serve(call); }, this);
  }
  /// With as much as a packet holds.
  void serve(const RpcCall& call) {
    std::uint64_t word = 0;
    std::memcpy(&word, call.arguments().data(), sizeof word);
    served.emplace_back(call.origin().node, word);
    rpc.reply(call.origin(), rpc.payload_max_b());
  }
  void step(int times = 50) {
    for (int i = 0; i < times; ++i) worker.step();
  }
  void call(int node) { std::memcpy(rpc.call(node, kAnswer, 8, replies).data(), &calls, 8), ++calls; }

  Worker worker;
  UdRpc rpc;
  FakeQueuePair& queue_pair;
  Counted replies;
  std::uint64_t calls = 0;
  std::vector<std::pair<int, std::uint64_t>> served;  // whose, and which of its calls
};

class UdRpcOrder : public testing::Test {
 protected:
  void start(int nodes, const RpcOptions& options) {
    const ClusterShape shape{.nodes = nodes};
    cluster = std::make_unique<FakeCluster>(shape, UdRpc::memory_bytes(shape, kCoroutines, options));
    for (int node = 0; node < nodes; ++node) peers.push_back(std::make_unique<Peer>(*cluster, node, options));
  }
  Peer& operator[](int node) { return *peers[static_cast<std::size_t>(node)]; }

  std::unique_ptr<FakeCluster> cluster;
  std::vector<std::unique_ptr<Peer>> peers;
};

/// Their callers wait. Packets that all share a doorbell go as they were written.
TEST_F(UdRpcOrder, AnswersGoBeforeRequestsThatAreReadyWithThem) {
  for (const Shared batching : {Shared::kByCoroutine, Shared::kByRound}) {
    peers.clear();
    RpcOptions options;
    options.request_batching = batching;
    start(3, options);
    (*this)[1].call(0);
    (*this)[1].step();
    (*this)[0].call(2);
    (*this)[0].step();
    std::vector<std::uint32_t> to;
    for (const SendWr& wr : (*this)[0].queue_pair.posted) to.push_back(wr.remote_qpn);
    const std::uint32_t caller = (*this)[1].queue_pair.address().qp_num,
                        asked = (*this)[2].queue_pair.address().qp_num;
    if (batching == Shared::kByRound) {
      EXPECT_THAT(to, testing::ElementsAre(asked, caller));
    } else {
      EXPECT_THAT(to, testing::ElementsAre(caller, asked));
    }
  }
}

/// Where there is no room for the answers to one packet, none overtakes it that would have room.
TEST_F(UdRpcOrder, APacketThatWaitsIsNotOvertaken) {
  constexpr int kNodes = 10, kTogether = 5;
  RpcOptions options;
  options.packets_per_call = UdRpc::packets_for(options.packet_b, kCalls, 8, kCalls * std::size_t{8});
  options.calls_max = kCalls;
  options.passive_calls = false;
  start(kNodes, options);
  Peer& server = (*this)[0];
  server.queue_pair.hold();  // its packets are not sent, and its room becomes less with every answer
  const auto calls = [&](Peer& caller, int count) {
    for (int i = 0; i < count; ++i) caller.call(0);
    caller.step();
    server.step();
  };
  std::size_t asked = 0;
  const auto all_served = [&] { return server.served.size() == asked; };
  for (int n = 0; n < kCoroutines * kCalls / (kTogether + 1); ++n) {
    for (int node = 1; node < kNodes && all_served(); ++node) {
      calls((*this)[node], kTogether);
      calls((*this)[node], 1);
      asked += kTogether + 1;
    }
  }
  const auto in_order = [&] {
    std::vector<std::uint64_t> next(kNodes);
    return std::ranges::all_of(server.served, [&](const auto& one) {
      return one.second == next[static_cast<std::size_t>(one.first)]++;
    });
  };
  ASSERT_FALSE(all_served()) << "some wait for room";
  EXPECT_TRUE(in_order());
  server.queue_pair.release();
  for (int i = 0; i < 50; ++i) {
    for (auto& peer : peers) peer->step();
  }
  EXPECT_TRUE(all_served());
  EXPECT_TRUE(in_order());
  for (int node = 1; node < kNodes; ++node)
    EXPECT_EQ(static_cast<std::uint64_t>((*this)[node].replies.count), (*this)[node].calls);
  EXPECT_EQ(cluster->fabric().dropped, 0U);
}

}  // namespace
}  // namespace verbtwin::protocols
