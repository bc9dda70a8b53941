#include "protocols/rpc/tcp_rpc.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "protocols/fake_backend_for_test.hpp"
#include "protocols/fake_sockets_for_test.hpp"

namespace verbtwin::protocols {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint8_t kEcho = 1;   // answers with its arguments
constexpr std::uint8_t kLater = 2;  // answers when the test says so
constexpr std::uint8_t kNobody = 3;

std::vector<std::byte> pattern(std::size_t length, std::size_t seed) {
  std::vector<std::byte> bytes(length);
  for (std::size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::byte>((i * 31 + seed) & 0xFF);
  return bytes;
}

struct Server final : MessageLayer, PolledMemory {
  Server(FakeCluster& cluster, int node) : worker(cluster.port(node), 16), rpc(worker) {
    rpc.set_handler(kEcho, echo, this);
    rpc.set_handler(kLater, later, this);
    worker.set_messages(*this);
    worker.set_polled_memory(*this);
  }
  void on_recv(const WorkCompletion&) override {}
  void on_sent(const WorkCompletion&) override {}
  bool flush() override {
    rpc.flush();
    return false;
  }
  bool poll_memory() override { return rpc.poll(); }

  static void echo(void* self, const RpcCall& call) {
    auto& server = *static_cast<Server*>(self);
    server.sources.push_back(call.origin().node);
    const std::span<std::byte> reply = server.rpc.reply(call.origin(), call.arguments().size());
    std::ranges::copy(call.arguments(), reply.begin());
  }
  static void later(void* self, const RpcCall& call) {
    static_cast<Server*>(self)->owed.push_back(call.origin());
  }
  Worker worker;
  TcpRpc rpc;
  std::vector<int> sources;
  std::vector<RpcOrigin> owed;
};

struct Servers {
  explicit Servers(int nodes, FakeSockets::Limits limits = {})
      : cluster(ClusterShape{.nodes = nodes}), sockets(FakeSockets::mesh(nodes, limits)) {
    for (int node = 0; node < nodes; ++node) {
      cluster.give_sockets(node, 0, *sockets[static_cast<std::size_t>(node)]);
    }
    for (int node = 0; node < nodes; ++node) all.push_back(std::make_unique<Server>(cluster, node));
  }
  Server& operator[](int node) { return *all[static_cast<std::size_t>(node)]; }

  void run(int rounds_max = 1'000'000) {
    for (int round = 0; round < rounds_max; ++round) {
      bool more = false;
      for (auto& server : all) more = server->worker.step() || more;
      const bool quiet = std::ranges::all_of(sockets, [](const auto& one) { return one->quiet(); });
      if (!more && quiet) return;
    }
    FAIL() << "never quiet";
  }

  FakeCluster cluster;
  std::vector<std::unique_ptr<FakeSockets>> sockets;
  std::vector<std::unique_ptr<Server>> all;
};

/// Calls `node` once for each length, all at once; counts the answers that are what was sent.
Task<void> call_with(Server& server, int node, std::vector<std::size_t> lengths, std::size_t& right) {
  std::vector<std::vector<std::byte>> answers;
  std::vector<Reply> replies(lengths.size());
  WaitGroup group(server.worker);
  for (const std::size_t length : lengths) answers.emplace_back(length);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    replies[i] = Reply(group, answers[i]);
    const std::span<std::byte> arguments = server.rpc.call(node, kEcho, lengths[i], replies[i]);
    std::ranges::copy(pattern(lengths[i], i), arguments.begin());
  }
  co_await group;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    right += replies[i].bytes().size() == lengths[i] && answers[i] == pattern(lengths[i], i) ? 1 : 0;
  }
}

TEST(TcpRpc, ACallIsAnswered) {
  Servers servers(2);
  std::size_t right = 0;
  servers[0].worker.spawn(call_with(servers[0], 1, {8}, right));
  servers.run();
  EXPECT_EQ(right, 1U);
  EXPECT_THAT(servers[1].sources, ElementsAre(0));
}

TEST(TcpRpc, MessagesThatAreReadyTogetherLeaveInOneCall) {
  Servers servers(3);
  std::size_t right = 0;
  servers[0].worker.spawn(call_with(servers[0], 1, {8, 0, 1000, 64, 8}, right));
  servers[0].worker.spawn(call_with(servers[0], 1, {8, 8}, right));
  servers[0].worker.spawn(call_with(servers[0], 2, {8}, right));
  servers.run();
  EXPECT_EQ(right, 8U);
  EXPECT_EQ(servers.sockets[0]->sends, 2U) << "one to each peer";
  EXPECT_EQ(servers.sockets[1]->sends, 1U);
}

/// Every way to cut the stream gives the same messages.
TEST(TcpRpc, PiecesOfAnySize) {
  for (const std::size_t send_b : {1, 3, 7, 8, 9, 100, 5000}) {
    for (const std::size_t receive_b : {1, 2, 8, 11, 4096}) {
      Servers servers(2, {send_b, receive_b, 1 << 30});
      std::size_t right = 0;
      servers[0].worker.spawn(call_with(servers[0], 1, {0, 8, 1, 3000, 0, 64, 17}, right));
      servers[1].worker.spawn(call_with(servers[1], 0, {5, 0, 700}, right));
      servers.run();
      EXPECT_EQ(right, 10U) << send_b << " sent, " << receive_b << " received at once";
    }
  }
}

TEST(TcpRpc, LongMessagesCrossANarrowWindow) {
  Servers servers(2, {1 << 30, 1 << 30, 1000});
  std::size_t right = 0;
  const std::size_t most = TcpRpc::kPayloadMaxBytes;
  servers[0].worker.spawn(call_with(servers[0], 1, {most, 10, 50'000}, right));
  servers[1].worker.spawn(call_with(servers[1], 0, {100'000, 1}, right));
  servers.run();
  EXPECT_EQ(right, 5U);
}

TEST(TcpRpc, AFullConnectionIsNotAskedAgainBeforeThereIsRoom) {
  Servers servers(2, {1 << 30, 1 << 30, 100});
  std::size_t right = 0;
  servers[0].worker.spawn(call_with(servers[0], 1, {500}, right));
  for (int i = 0; i < 50; ++i) servers[0].worker.step();
  EXPECT_EQ(servers.sockets[0]->sends, 2U) << "100 bytes, then none";
  servers[0].worker.spawn(call_with(servers[0], 1, {8}, right));
  for (int i = 0; i < 50; ++i) servers[0].worker.step();
  EXPECT_EQ(servers.sockets[0]->sends, 2U) << "what comes behind waits too";
  servers.run();
  EXPECT_EQ(right, 2U);
}

TEST(TcpRpc, AReplyMayComeLaterAndInAnyOrder) {
  Servers servers(2);
  std::uint64_t answers[2] = {};
  const auto caller = [](Server& server, std::uint64_t* to) -> Task<void> {
    WaitGroup group(server.worker);
    Reply first(group, std::as_writable_bytes(std::span(&to[0], 1)));
    Reply second(group, std::as_writable_bytes(std::span(&to[1], 1)));
    server.rpc.call(1, kLater, 0, first);
    server.rpc.call(1, kLater, 0, second);
    co_await group;
  };
  servers[0].worker.spawn(caller(servers[0], answers));
  servers.run();
  ASSERT_EQ(servers[1].owed.size(), 2U);
  EXPECT_EQ(servers[0].worker.unfinished(), 1U);
  for (std::uint64_t i : {1U, 0U}) {
    const std::uint64_t answer = 70 + i;
    const auto bytes = std::as_bytes(std::span(&answer, 1));
    std::ranges::copy(bytes, servers[1].rpc.reply(servers[1].owed[i], 8).begin());
  }
  servers.run();
  EXPECT_EQ(servers[0].worker.unfinished(), 0U);
  EXPECT_THAT(answers, ElementsAre(70, 71));
}

// ---- peers that send what no program of ours does

std::vector<std::byte> header(std::uint32_t bytes, std::uint16_t slot, std::uint8_t handler,
                              std::uint8_t kind) {
  std::vector<std::byte> made(8);
  std::memcpy(made.data(), &bytes, 4);
  std::memcpy(made.data() + 4, &slot, 2);
  made[6] = static_cast<std::byte>(handler);
  made[7] = static_cast<std::byte>(kind);
  return made;
}

/// What server 0 of `servers` says of these bytes from node 1; empty: nothing.
std::string objection(Servers& servers, std::span<const std::byte> bytes, std::size_t piece) {
  try {
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      servers.sockets[0]->put(1, bytes.subspan(at, std::min(piece, bytes.size() - at)));
      for (int i = 0; i < 10; ++i) servers[0].worker.step();
    }
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

TEST(TcpRpc, HostileHeadersEndTheRunWithoutTakingMemory) {
  for (const std::size_t piece : {1, 8, 1000}) {
    const auto said = [&](const std::vector<std::byte>& bytes) {
      Servers servers(2);
      return objection(servers, bytes, piece);
    };
    constexpr std::uint32_t kHuge = std::numeric_limits<std::uint32_t>::max();
    EXPECT_THAT(said(header(kHuge, 0, kEcho, 1)),
                HasSubstr("a message of node 1 on its TCP connection is longer"));
    EXPECT_THAT(said(header(TcpRpc::kPayloadMaxBytes + 1, 0, kEcho, 1)), HasSubstr("longer"));
    EXPECT_THAT(said(header(kHuge, 0, kEcho, 2)), HasSubstr("longer"));
    EXPECT_THAT(said(header(0, 0, kNobody, 1)), HasSubstr("a handler that there is not"));
    EXPECT_THAT(said(header(0, 0, 16, 1)), HasSubstr("a handler that there is not"));
    EXPECT_THAT(said(header(0, 0, 255, 1)), HasSubstr("a handler that there is not"));
    EXPECT_THAT(said(header(0, 0, 0, 2)), HasSubstr("a call that was not made"));
    EXPECT_THAT(said(header(0, 65'535, 0, 2)), HasSubstr("a call that was not made"));
    EXPECT_THAT(said(header(0, 0, 0, 0)), HasSubstr("neither call nor reply"));
    EXPECT_THAT(said(header(0, 0, 0, 3)), HasSubstr("neither call nor reply"));
    EXPECT_EQ(said(header(4, 0, kEcho, 1)), "") << "the rest may still come";
  }
}

TEST(TcpRpc, OnlyTheCalledNodeMayAnswerAndOnlyOnce) {
  Servers servers(3);
  std::size_t right = 0;
  servers[0].worker.spawn(call_with(servers[0], 2, {8}, right));
  for (int i = 0; i < 5; ++i) servers[0].worker.step();
  EXPECT_THAT(objection(servers, header(0, 0, 0, 2), 8), HasSubstr("a call that was not made"));

  Servers twice(2);
  twice[0].worker.spawn(call_with(twice[0], 1, {0}, right));
  for (int i = 0; i < 5; ++i) twice[0].worker.step();
  EXPECT_EQ(objection(twice, header(0, 0, 0, 2), 8), "");
  EXPECT_THAT(objection(twice, header(0, 0, 0, 2), 8), HasSubstr("a call that was not made"));
}

}  // namespace
}  // namespace verbtwin::protocols
