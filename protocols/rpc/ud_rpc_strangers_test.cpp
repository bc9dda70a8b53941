// Datagrams of strangers: UdRpc passes over what is no packet, and serves on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "protocols/fake_backend_for_test.hpp"
#include "protocols/rpc/ud_rpc.hpp"

namespace verbtwin::protocols {
namespace {

constexpr std::uint8_t kEcho = 1;
constexpr int kNodes = 3;

struct Answers final : ReplyTarget {
  void on_reply(std::span<const std::byte> reply) override {
    for (const std::byte byte : reply) bytes += static_cast<char>(byte);
    ++count;
  }
  std::string bytes;
  int count = 0;
};

struct Node {
  Node(FakeCluster& cluster, int node)
      : worker(cluster.port(node), UdRpc::completions(cluster.port(node).shape(), 1, {})),
        rpc(worker, 1, {}, cluster.memory(node).local(), 1) {
    rpc.set_handler(
        kEcho, [](void* self, const RpcCall& call) { static_cast<Node*>(self)->serve(call); }, this);
  }
  void serve(const RpcCall& call) {
    ++served;
    std::memcpy(rpc.reply(call.origin(), call.arguments().size()).data(), call.arguments().data(),
                call.arguments().size());
  }
  void call(int node, char what) { rpc.call(node, kEcho, 1, answers).front() = static_cast<std::byte>(what); }

  Worker worker;
  UdRpc rpc;
  Answers answers;
  int served = 0;
};

/// As UdRpc writes it.
struct Packet {
  std::uint16_t source = 0;
  std::uint8_t served = 0, kind = kEcho;
  std::uint16_t slot = 0, body_b = 8;
  std::array<std::byte, 8> body{};
};
static_assert(sizeof(Packet) == 16);
constexpr std::uint8_t kAnswer = 0x10, kNothing = 0x40;

class UdRpcStrangers : public testing::Test {
 protected:
  UdRpcStrangers() {
    for (int node = 0; node < kNodes; ++node) nodes_.push_back(std::make_unique<Node>(cluster_, node));
    QpInitAttributes attributes;
    attributes.type = QpType::kUd;
    attributes.max_send_wr = 1 << 20;
    cq_ = device_.create_cq(1);
    attributes.send_cq = attributes.recv_cq = cq_.get();
    queue_pair_ = device_.create_qp(attributes);
  }
  ~UdRpcStrangers() override { EXPECT_EQ(cluster_.fabric().dropped, 0U) << "no RECV was left"; }

  void run() {
    for (int i = 0; i < 20; ++i) {
      for (const auto& node : nodes_) node->worker.step();
    }
  }
  /// Often enough that no RECV would be left if one of them kept its own.
  void send(Packet packet, std::uint32_t bytes = sizeof(Packet)) {
    SendWr wr;
    wr.opcode = Opcode::kSend;
    wr.sge = {reinterpret_cast<std::byte*>(&packet), bytes, 1};
    wr.remote_qpn = 2;  // node 1's
    for (int i = 0; i < 1000; ++i) {
      queue_pair_->post_send({&wr, 1});
      run_one();
    }
  }
  void run_one() { nodes_[1]->worker.step(); }
  void expect_service() {
    const int before = nodes_[0]->answers.count, served_before = nodes_[1]->served;
    nodes_[0]->call(1, 'a');
    run();
    EXPECT_EQ(nodes_[0]->answers.count, before + 1);
    EXPECT_EQ(nodes_[1]->served, served_before + 1);
    EXPECT_EQ(nodes_[0]->answers.bytes.back(), 'a');
  }

  FakeCluster cluster_{{.nodes = kNodes}, UdRpc::memory_bytes({.nodes = kNodes}, 1, {})};
  std::vector<std::unique_ptr<Node>> nodes_;
  FakeDevice device_{cluster_.fabric()};
  std::unique_ptr<CompletionQueue> cq_;
  std::unique_ptr<QueuePair> queue_pair_;
};

TEST_F(UdRpcStrangers, WhatIsNoPacketIsPassedOver) {
  const std::vector<Packet> strange = {
      {.kind = 15},  // nobody's
      {.kind = 9},
      {.kind = kNothing | kEcho},
      {.source = kNodes},
      {.source = 0xFFFF},
      {.served = 255, .kind = 9},
      {.body_b = 9},  // more than has come
      {.body_b = 0xFFFF},
      {.kind = kAnswer, .slot = 0},  // an answer to nothing
      {.kind = kAnswer, .slot = 0xFFFF},
  };
  for (const Packet& packet : strange) {
    SCOPED_TRACE(&packet - strange.data());
    send(packet);
    EXPECT_EQ(nodes_[1]->served, 0);
    expect_service();
    nodes_[1]->served = 0;
  }
  send({}, 0);
  send({}, 7);
  send({}, 12);
  EXPECT_EQ(nodes_[1]->served, 0);
  expect_service();
}

TEST_F(UdRpcStrangers, AMessageThatIsCutOffIsPassedOverBehindAWholeOne) {
  std::array<Packet, 2> two;
  two[1].body_b = 9;
  SendWr wr;
  wr.opcode = Opcode::kSend;
  wr.sge = {reinterpret_cast<std::byte*>(two.data()), sizeof two, 1};
  wr.remote_qpn = 2;
  queue_pair_->post_send({&wr, 1});
  run();
  EXPECT_EQ(nodes_[1]->served, 1);
  two[1].body_b = 8;
  queue_pair_->post_send({&wr, 1});
  run();
  EXPECT_EQ(nodes_[1]->served, 3);
}

TEST_F(UdRpcStrangers, OnlyWhoWasCalledAnswers) {
  nodes_[1]->call(2, 'b');
  nodes_[1]->worker.step();
  for (const std::uint16_t source : {std::uint16_t{0}, std::uint16_t{1}})
    send({.source = source, .kind = kAnswer, .slot = 0});
  EXPECT_EQ(nodes_[1]->answers.count, 0);
  run();
  EXPECT_EQ(nodes_[1]->answers.bytes, "b");
}

}  // namespace
}  // namespace verbtwin::protocols
