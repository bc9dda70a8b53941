// HERD's replies are datagrams, which anybody may send who knows the queue pair.
#include "protocols/micro/connected_echo.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "protocols/fake_backend_for_test.hpp"

namespace verbtwin::protocols {
namespace {

class HerdClient : public testing::Test {
 protected:
  static constexpr int kCoroutines = 2;

  struct Side {
    Side(FakeCluster& cluster, int node, const EchoOptions& options, std::size_t memory_b)
        : worker(cluster.port(node), 256, echo_needs(options, {2, 1, 1, 1}, kCoroutines).queue_pairs),
          echo(options, kCoroutines, worker, cluster.memory(node).local().first(memory_b)) {}
    Worker worker;
    ConnectedEcho echo;
  };
  static Task<void> record(ConnectedEcho& echo, int& ended) {
    auto call = echo.call(1, 0);
    const WcStatus status = co_await call;
    ended += status == WcStatus::kSuccess;
  }

  HerdClient() {
    options_.transport = EchoOptions::Transport::kHerd;
    options_.issuing_threads = 1;
    const std::size_t memory_b = ConnectedEchoLayout(options_, {2, 1, 1, 1}, kCoroutines).total_b;
    cluster_ = std::make_unique<FakeCluster>(ClusterShape{2, 1, 1, 1}, memory_b);
    client_ = std::make_unique<Side>(*cluster_, 0, options_, memory_b);
    server_ = std::make_unique<Side>(*cluster_, 1, options_, memory_b);
    client_->echo.connect();
    server_->echo.connect();
  }
  void strange_datagrams() {
    FakeDevice device(cluster_->fabric());
    const auto cq = device.create_cq(1);
    QpInitAttributes attributes;
    attributes.type = QpType::kUd;
    attributes.max_send_wr = 1 << 20;
    attributes.send_cq = attributes.recv_cq = cq.get();
    const auto queue_pair = device.create_qp(attributes);
    std::byte nothing{};
    for (const std::uint32_t what : {0U, 1U, 1U << 31 | 1U, 1U << 31 | kCoroutines, ~0U}) {
      SendWr wr;
      wr.opcode = Opcode::kSendWithImm;
      wr.sge = {&nothing, 0, 1};
      wr.imm_data = what;
      for (wr.remote_qpn = 1; wr.remote_qpn <= 2; ++wr.remote_qpn) queue_pair->post_send({&wr, 1});
      step(*client_);
      step(*server_);
    }
  }
  static void step(Side& side) {
    for (int i = 0; i < 50; ++i) side.worker.step();
  }

  EchoOptions options_;
  std::unique_ptr<FakeCluster> cluster_;
  std::unique_ptr<Side> client_, server_;
};

TEST_F(HerdClient, OnlyTheReplyToACallIsTaken) {
  strange_datagrams();
  int ended = 0;
  client_->worker.spawn(record(client_->echo, ended));
  client_->worker.step();
  strange_datagrams();
  step(*client_);
  step(*server_);
  step(*client_);
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(client_->worker.unfinished(), 0U);
  EXPECT_EQ(cluster_->fabric().dropped, 0U);
}

}  // namespace
}  // namespace verbtwin::protocols
