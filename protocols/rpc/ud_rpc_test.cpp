#include "protocols/rpc/ud_rpc.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "protocols/fake_backend_for_test.hpp"

namespace verbtwin::protocols {
namespace {

using testing::ElementsAre;

constexpr std::uint8_t kEcho = 1;   // answers with its arguments
constexpr std::uint8_t kCount = 2;  // counts, in the order served
constexpr std::uint8_t kFetch = 3;  // answers with as much as a packet holds
constexpr int kCoroutines = 4;

std::span<std::byte> bytes_of(std::uint64_t& word) {
  return std::as_writable_bytes(std::span(&word, 1));
}

void put(std::span<std::byte> arguments, std::uint64_t word) {
  std::memcpy(arguments.data(), &word, sizeof word);
}

std::uint64_t get(std::span<const std::byte> bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data(), sizeof word);
  return word;
}

struct Server {
  Server(FakeCluster& cluster, int node, int coroutines, const RpcOptions& options)
      : port(cluster.port(node)),
        worker(port, UdRpc::completions(port.shape(), coroutines, options)),
        rpc(worker, coroutines, options, port.memory().local(), port.memory().lkey()) {
    rpc.set_handler(kEcho, serve_echo, this);
    rpc.set_handler(kCount, serve_count, this);
    rpc.set_handler(kFetch, serve_fetch, this);
  }

  static void serve_echo(void* self, const RpcCall& call) {
    auto& server = *static_cast<Server*>(self);
    server.sources.push_back(call.origin().node);
    EXPECT_FALSE(call.passive());
    const std::span<std::byte> reply = server.rpc.reply(call.origin(), call.arguments().size());
    std::ranges::copy(call.arguments(), reply.begin());
  }
  static void serve_fetch(void* self, const RpcCall& call) {
    UdRpc& rpc = static_cast<Server*>(self)->rpc;
    const std::span<std::byte> reply = rpc.reply(call.origin(), rpc.payload_max_b());
    std::ranges::fill(reply, std::byte{1});
    std::ranges::copy(call.arguments(), reply.begin());
  }
  static void serve_count(void* self, const RpcCall& call) {
    EXPECT_TRUE(call.passive());
    static_cast<Server*>(self)->counted.push_back(get(call.arguments()));
  }

  WorkerPort& port;
  Worker worker;
  UdRpc rpc;
  std::vector<int> sources;
  std::vector<std::uint64_t> counted;
};

/// Servers on every node, all of which can call all others.
struct Servers {
  explicit Servers(int nodes, const RpcOptions& options = {}, int coroutines = kCoroutines)
      : cluster(ClusterShape{.nodes = nodes},
                UdRpc::memory_bytes(ClusterShape{.nodes = nodes}, coroutines, options)) {
    for (int node = 0; node < nodes; ++node) {
      all.push_back(std::make_unique<Server>(cluster, node, coroutines, options));
    }
  }
  ~Servers() {
    EXPECT_EQ(cluster.fabric().dropped, 0U);
    EXPECT_EQ(cluster.fabric().refused, 0U);
    for (auto& server : all) EXPECT_FALSE(static_cast<FakeCompletionQueue&>(server->worker.cq()).overrun);
  }

  Server& operator[](int node) { return *all[static_cast<std::size_t>(node)]; }
  FakeQueuePair& queue_pair(int node) {
    return *cluster.fabric().datagram_queue_pairs[static_cast<std::size_t>(node)];
  }
  std::uint64_t packets() { return cluster.fabric().packets; }

  bool idle(Server& server) { return static_cast<FakeCompletionQueue&>(server.worker.cq()).size() == 0; }

  /// Steps all of them in turn until nobody has anything to do.
  void run(int rounds_max = 1'000'000) {
    for (int round = 0; round < rounds_max; ++round) {
      bool more = false;
      for (auto& server : all) more = server->worker.step() || more;
      if (!more && std::ranges::all_of(all, [&](auto& server) { return idle(*server); })) return;
    }
    FAIL() << "never quiet";
  }

  FakeCluster cluster;
  std::vector<std::unique_ptr<Server>> all;
};

Task<void> call_each(Server& server, std::vector<int> nodes, std::vector<std::uint64_t>& answers) {
  answers.assign(nodes.size(), 0);
  std::vector<Reply> replies(nodes.size());
  WaitGroup group(server.worker);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    replies[i] = Reply(group, bytes_of(answers[i]));
    put(server.rpc.call(nodes[i], kEcho, 8, replies[i]), 100 + i);
  }
  co_await group;
  for (const Reply& reply : replies) EXPECT_EQ(reply.bytes().size(), 8U);
}

TEST(UdRpc, ACallIsAnswered) {
  Servers servers(2);
  std::vector<std::uint64_t> answers;
  servers[0].worker.spawn(call_each(servers[0], {1}, answers));
  servers.run();
  EXPECT_THAT(answers, ElementsAre(100));
  EXPECT_THAT(servers[1].sources, ElementsAre(0));
  EXPECT_EQ(servers[0].worker.unfinished(), 0U);
}

TEST(UdRpc, ANodeMayCallItself) {
  Servers servers(1);
  std::vector<std::uint64_t> answers;
  servers[0].worker.spawn(call_each(servers[0], {0, 0}, answers));
  servers.run();
  EXPECT_THAT(answers, ElementsAre(100, 101));
}

TEST(UdRpc, MessagesToOneDestinationShareAPacket) {
  Servers servers(2);
  std::vector<std::uint64_t> answers;
  servers[0].worker.spawn(call_each(servers[0], {1, 1, 1}, answers));
  servers.run();
  EXPECT_THAT(answers, ElementsAre(100, 101, 102));
  EXPECT_EQ(servers.packets(), 2U) << "one there, one back";
}

TEST(UdRpc, CoroutinesSharePacketsAndDoorbellsByRoundOnly) {
  for (const Shared shared : {Shared::kByCoroutine, Shared::kByRound}) {
    RpcOptions options;
    options.coalescing = options.request_batching = shared;
    Servers servers(2, options);
    std::vector<std::uint64_t> first, second;
    servers[0].worker.spawn(call_each(servers[0], {1, 1}, first));
    servers[0].worker.spawn(call_each(servers[0], {1, 1}, second));
    servers.run();
    EXPECT_THAT(first, ElementsAre(100, 101));
    EXPECT_THAT(second, ElementsAre(100, 101));
    const bool by_round = shared == Shared::kByRound;
    EXPECT_EQ(servers.packets(), by_round ? 2U : 4U) << "answers share what their requests shared";
    EXPECT_EQ(servers.queue_pair(0).doorbells, by_round ? 1U : 2U);
    EXPECT_EQ(servers.queue_pair(1).doorbells, 1U) << "answers share a doorbell, whoever asked";
  }
}

TEST(UdRpc, WithoutCoalescingEachMessageIsAPacket) {
  RpcOptions options;
  options.coalescing = Shared::kByNone;
  Servers servers(2, options);
  std::vector<std::uint64_t> answers;
  servers[0].worker.spawn(call_each(servers[0], {1, 1, 1}, answers));
  servers.run();
  EXPECT_THAT(answers, ElementsAre(100, 101, 102));
  EXPECT_EQ(servers.packets(), 6U);
}

TEST(UdRpc, PacketsThatAreReadyTogetherShareADoorbell) {
  Servers servers(4);
  std::vector<std::uint64_t> answers;
  servers[0].worker.spawn(call_each(servers[0], {1, 2, 3}, answers));
  servers.run();
  EXPECT_EQ(servers.queue_pair(0).posted.size(), 3U);
  EXPECT_EQ(servers.queue_pair(0).doorbells, 1U);
}

TEST(UdRpc, WithoutBatchingEachPacketRingsItsOwnDoorbell) {
  RpcOptions options;
  options.request_batching = Shared::kByNone;
  options.response_batching = false;
  Servers servers(4, options);
  std::vector<std::uint64_t> answers;
  servers[0].worker.spawn(call_each(servers[0], {1, 2, 3}, answers));
  servers[1].worker.spawn(call_each(servers[1], {0, 0}, answers));
  servers.run();
  for (int node = 0; node < 4; ++node) {
    EXPECT_EQ(servers.queue_pair(node).doorbells, servers.queue_pair(node).posted.size()) << "node " << node;
  }
}

TEST(UdRpc, WithoutRequestBatchingACallDoesNotWaitForTheNext) {
  RpcOptions options;
  options.request_batching = Shared::kByNone;
  Servers servers(4, options);
  std::vector<std::uint64_t> answers;
  servers[0].worker.spawn(call_each(servers[0], {1, 2, 3}, answers));
  servers.run();
  EXPECT_EQ(servers.queue_pair(0).doorbells, 3U);
}

/// RECVs are reckoned with it.
TEST(UdRpc, WithoutRequestBatchingEachCallIsAPacket) {
  RpcOptions options;
  options.request_batching = Shared::kByNone;
  Servers servers(2, options);
  std::vector<std::uint64_t> answers;
  servers[0].worker.spawn(call_each(servers[0], {1, 1, 1}, answers));
  servers.run();
  EXPECT_EQ(servers.queue_pair(0).posted.size(), 3U);
}

TEST(UdRpc, RequestsAndRepliesHaveLimitsOfTheirOwnForWhatIsInline) {
  for (const bool requests : {false, true}) {
    RpcOptions options;
    (requests ? options.reply_inline_max_b : options.request_inline_max_b) = 0;
    Servers servers(2, options);
    std::vector<std::uint64_t> answers;
    servers[0].worker.spawn(call_each(servers[0], {1}, answers));
    servers.run();
    EXPECT_EQ((servers.queue_pair(0).posted.at(0).flags & kInline) != 0, requests);
    EXPECT_EQ((servers.queue_pair(1).posted.at(0).flags & kInline) != 0, !requests);
  }
}

/// 8,192 RECVs of a worker's are for passive calls.
TEST(UdRpc, PeersOfALargeClusterShareThePassiveCredit) {
  const auto credit = [](int nodes) {
    RpcOptions with, without;
    without.passive_calls = false;
    const ClusterShape shape{.nodes = nodes};
    return (UdRpc::completions(shape, 1, with) - UdRpc::completions(shape, 1, without)) /
           static_cast<std::uint32_t>(nodes);
  };
  EXPECT_EQ(credit(2), UdRpc::kPassiveCredit);
  EXPECT_EQ(credit(4096), 2U);
  EXPECT_EQ(credit(10'000), 1U);
}

TEST(UdRpc, WithoutResponseBatchingAnAnswerDoesNotWaitForTheNext) {
  RpcOptions options;
  options.response_batching = false;
  Servers servers(2, options);
  std::vector<std::uint64_t> answers;
  servers[0].worker.spawn(call_each(servers[0], {1, 1, 1}, answers));
  servers.run();
  EXPECT_EQ(servers.queue_pair(0).doorbells, 1U);
  EXPECT_EQ(servers.queue_pair(1).doorbells, 3U);
}

Task<void> call_large(Server& server, std::size_t bytes, int calls, int& good) {
  std::vector<std::vector<std::byte>> buffers(static_cast<std::size_t>(calls), std::vector<std::byte>(bytes));
  std::vector<Reply> replies(buffers.size());
  WaitGroup group(server.worker);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    replies[i] = Reply(group, buffers[i]);
    std::ranges::fill(server.rpc.call(1, kEcho, bytes, replies[i]), static_cast<std::byte>(i + 1));
  }
  co_await group;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const auto right = [&](std::byte b) { return b == static_cast<std::byte>(i + 1); };
    if (replies[i].bytes().size() == bytes && std::ranges::all_of(buffers[i], right)) ++good;
  }
}

TEST(UdRpc, MessagesOfEverySizeArriveWhole) {
  Servers servers(2);
  const std::uint32_t max_b = servers[0].rpc.payload_max_b();
  EXPECT_LT(max_b, RpcOptions{}.packet_b);
  EXPECT_GT(max_b, RpcOptions{}.packet_b - 64);
  for (std::uint32_t bytes = 1; bytes <= max_b; bytes += bytes < 40 ? 1 : 37) {
    int good = 0;
    servers[0].worker.spawn(call_large(servers[0], bytes, 5, good));
    servers.run();
    EXPECT_EQ(good, 5) << bytes << " B";
  }
  int good = 0;
  servers[0].worker.spawn(call_large(servers[0], max_b, 3, good));
  servers.run();
  EXPECT_EQ(good, 3);
}

TEST(UdRpc, PassiveCallsAreServedInOrderAndNotAnswered) {
  Servers servers(2);
  for (std::uint64_t i = 0; i < 10; ++i) put(servers[0].rpc.call_passive(1, kCount, 8), i);
  servers.run();
  std::vector<std::uint64_t> all(10);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(servers[1].counted, all);
  EXPECT_EQ(servers.queue_pair(1).posted.size(), 0U);
}

TEST(UdRpc, PassiveCreditIsBoundedPerPeer) {
  Servers servers(3);
  for (std::uint32_t i = 0; i < UdRpc::kPassiveCredit; ++i) {
    ASSERT_TRUE(servers[0].rpc.has_credit(1));
    put(servers[0].rpc.call_passive(1, kCount, 8), i);
  }
  EXPECT_FALSE(servers[0].rpc.has_credit(1));
  EXPECT_TRUE(servers[0].rpc.has_credit(2));
  servers.run();
  EXPECT_TRUE(servers[0].rpc.has_credit(1)) << "a peer that has nothing to say acknowledges all the same";
}

TEST(UdRpc, TheAcknowledgementRidesOnOtherMessages) {
  Servers servers(2);
  for (std::uint32_t i = 0; i < UdRpc::kPassiveCredit / 2 - 1; ++i)
    put(servers[0].rpc.call_passive(1, kCount, 8), i);
  servers.run();
  EXPECT_EQ(servers.queue_pair(1).posted.size(), 0U) << "too few for a packet of their own";
  std::vector<std::uint64_t> answers;
  servers[0].worker.spawn(call_each(servers[0], {1}, answers));
  servers.run();
  ASSERT_EQ(servers.queue_pair(1).posted.size(), 1U);
  std::uint32_t credit = 0;
  for (; servers[0].rpc.has_credit(1); ++credit) put(servers[0].rpc.call_passive(1, kCount, 8), credit);
  EXPECT_EQ(credit, UdRpc::kPassiveCredit) << "the answer gave all of the credit back";
  servers.run();
}

Task<void> call_passive_often(Server& server, int node, std::uint64_t times) {
  for (std::uint64_t i = 0; i < times;) {
    if (server.rpc.has_credit(node)) {
      put(server.rpc.call_passive(node, kCount, 8), i++);
    } else {
      auto yield = server.worker.yield();
      co_await yield;
    }
  }
}

TEST(UdRpc, PassiveCallsOnlyForALongTimeAreAllServed) {
  constexpr std::uint64_t kTimes = 20'000;
  for (const Shared coalescing : {Shared::kByRound, Shared::kByCoroutine, Shared::kByNone}) {
    RpcOptions options;
    options.coalescing = coalescing;
    Servers servers(2, options);
    servers[0].worker.spawn(call_passive_often(servers[0], 1, kTimes));
    servers[1].worker.spawn(call_passive_often(servers[1], 0, kTimes));
    servers.run();
    ASSERT_EQ(servers[0].counted.size(), kTimes);
    ASSERT_EQ(servers[1].counted.size(), kTimes);
    EXPECT_TRUE(std::ranges::is_sorted(servers[1].counted));
  }
}

Task<void> call_often(Server& server, int times, std::uint64_t& good) {
  const int nodes = server.port.shape().nodes;
  for (int i = 0; i < times; ++i) {
    const int node = (server.port.node() + 1 + i % (nodes - 1)) % nodes;
    std::uint64_t answer = 0;
    WaitGroup group(server.worker);
    Reply reply(group, bytes_of(answer));
    const auto sent = static_cast<std::uint64_t>(i) << 8 | static_cast<std::uint64_t>(server.port.node());
    put(server.rpc.call(node, kEcho, 8, reply), sent);
    co_await group;
    if (answer == sent) ++good;
  }
}

TEST(UdRpc, ManyCallsInAllDirectionsNeverRunOutOfRecvs) {
  constexpr int kNodes = 4, kTimes = 3000;
  Servers servers(kNodes);
  const std::size_t recvs = servers.queue_pair(0).recvs();
  std::uint64_t good = 0;
  for (int node = 0; node < kNodes; ++node) {
    for (int coroutine = 0; coroutine < kCoroutines; ++coroutine) {
      servers[node].worker.spawn(call_often(servers[node], kTimes, good));
    }
  }
  servers.run();
  EXPECT_EQ(good, static_cast<std::uint64_t>(kNodes * kCoroutines * kTimes));
  for (int node = 0; node < kNodes; ++node) {
    EXPECT_GE(servers.queue_pair(node).recvs() + 8, recvs)
        << "consumed RECVs are posted again, eight at a time";
    EXPECT_LE(servers.queue_pair(node).recvs(), recvs);
    EXPECT_GT(servers.queue_pair(node).posted.size(), recvs) << "or the test would not show it";
  }
}

TEST(UdRpc, OneRoundMayCarryMoreCallsThanTheSendQueueHolds) {
  constexpr int kCalls = 700;  // more packets than the send queue's 512
  RpcOptions options;
  options.coalescing = Shared::kByNone;
  Servers servers(2, options, 64);
  std::vector<std::uint64_t> answers;
  servers[0].worker.spawn(call_each(servers[0], std::vector<int>(kCalls, 1), answers));
  servers.run();
  ASSERT_EQ(answers.size(), static_cast<std::size_t>(kCalls));
  for (std::uint64_t i = 0; i < kCalls; ++i) ASSERT_EQ(answers[i], 100 + i);
}

/// As a transaction that fetches many records, of `nodes` from `node` on in turn.
Task<void> fetch_many(Server& server, int node, std::uint64_t calls, std::uint64_t& good,
                      std::uint64_t nodes = 1) {
  std::vector<std::vector<std::byte>> buffers(calls, std::vector<std::byte>(server.rpc.payload_max_b()));
  std::vector<Reply> replies(calls);
  WaitGroup group(server.worker);
  for (std::uint64_t i = 0; i < calls; ++i) {
    replies[i] = Reply(group, buffers[i]);
    put(server.rpc.call(node + static_cast<int>(i % nodes), kFetch, 8, replies[i]), i);
  }
  co_await group;
  for (std::uint64_t i = 0; i < calls; ++i) good += get(buffers[i]) == i;
}

RpcOptions options_of_fetches(std::uint32_t calls) {
  RpcOptions options;
  options.packets_per_call = UdRpc::packets_for(options.packet_b, calls, 8, calls * std::size_t{8});
  options.calls_max = calls;
  options.passive_calls = false;
  return options;
}

TEST(UdRpc, AnswersThatFillAPacketEachAllFindARecv) {
  constexpr std::uint32_t kCalls = 40;
  for (const Shared batching : {Shared::kByRound, Shared::kByCoroutine, Shared::kByNone}) {
    RpcOptions options = options_of_fetches(kCalls);
    options.request_batching = batching;
    options.response_batching = batching != Shared::kByNone;
    Servers servers(2, options);
    std::uint64_t good = 0;
    for (int coroutine = 0; coroutine < kCoroutines; ++coroutine) {
      for (int node = 0; node < 2; ++node)
        servers[node].worker.spawn(fetch_many(servers[node], 1 - node, kCalls, good));
    }
    servers.run();
    EXPECT_EQ(good, 2U * kCoroutines * kCalls);
  }
}

TEST(UdRpc, PacketsWaitWhereThereIsNoRoomForTheirAnswers) {
  constexpr int kNodes = 10;
  constexpr std::uint32_t kCalls = 40;
  Servers servers(kNodes, options_of_fetches(kCalls));
  servers.queue_pair(0).hold();  // a NIC that does not get its packets sent
  std::uint64_t good = 0, own = 0;
  const std::uint64_t all = (kNodes - 1) * kCoroutines * kCalls;
  for (int node = 1; node < kNodes; ++node) {
    for (int coroutine = 0; coroutine < kCoroutines; ++coroutine)
      servers[node].worker.spawn(fetch_many(servers[node], 0, kCalls, good));
  }
  servers.run();
  EXPECT_LT(good, all);
  for (int coroutine = 0; coroutine < kCoroutines; ++coroutine)  // there is still room for its own calls
    servers[0].worker.spawn(fetch_many(servers[0], 1, kCalls, own, kNodes - 1));
  servers.run();
  servers.queue_pair(0).release();
  servers.run();
  EXPECT_EQ(good, all);
  EXPECT_EQ(own, std::uint64_t{kCoroutines} * kCalls);
}

TEST(UdRpc, AClusterTooLargeForTheDevicesQueuesIsRefused) {
  DeviceAttributes device = FakeCluster(ClusterShape{}).port().device().attributes();
  const auto refusal = [&](int nodes, int coroutines) -> std::string {
    try {
      UdRpc::check_device(ClusterShape{.nodes = nodes}, coroutines, {}, device);
    } catch (const UserError& error) {
      return error.pointer() + ": " + error.what();
    }
    return "";
  };
  const std::string line = refusal(100, 64);
  EXPECT_THAT(line, testing::StartsWith("/cluster/coroutines: 100 nodes with 64 coroutines may send"));
  const std::string before = "allowed are 1 to ";
  const int most = std::stoi(line.substr(line.find(before) + before.size()));
  EXPECT_EQ(refusal(100, most), "");
  EXPECT_NE(refusal(100, most + 1), "");
  EXPECT_THAT(refusal(6000, 64), testing::StartsWith("/cluster/nodes: "));
  device.max_qp_wr = 256;
  EXPECT_THAT(refusal(2, 1), testing::StartsWith(": a queue pair of 512 sends")) << "its sends do not fit";
}

TEST(UdRpc, PacketsAreReckonedByWhatFitsThem) {
  EXPECT_EQ(UdRpc::packets_for(512, 1, 8, 8), 1U);
  EXPECT_EQ(UdRpc::packets_for(512, 32, 8, 32 * 8), 1U);
  EXPECT_EQ(UdRpc::packets_for(512, 33, 8, 33 * 8), 2U);
  EXPECT_EQ(UdRpc::packets_for(512, 10, 400, 10 * 400), 10U);
  EXPECT_LE(UdRpc::packets_for(512, 10, 400, 400 + 9 * 8), 3U) << "one is long";
}

}  // namespace
}  // namespace verbtwin::protocols
