// RF-RPC's client: when it fetches and when it asks for replies, and which results count.
#include "protocols/micro/remote_fetch.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "protocols/fake_backend_for_test.hpp"

namespace verbtwin::protocols {
namespace {

TEST(FetchMode, TwoSlowCallsInARowChangeItToReplies) {
  FetchMode mode(5);
  mode.fetched(6, 10);
  EXPECT_TRUE(mode.fetches()) << "one";
  mode.fetched(5, 10);
  mode.fetched(6, 10);
  EXPECT_TRUE(mode.fetches()) << "not in a row";
  mode.fetched(6, 10);
  EXPECT_FALSE(mode.fetches());
}

TEST(FetchMode, AFasterServerChangesItBack) {
  FetchMode mode(0);
  mode.fetched(1, 12);
  mode.fetched(1, 10);
  ASSERT_FALSE(mode.fetches());
  mode.replied(11);
  mode.replied(10);
  EXPECT_FALSE(mode.fetches()) << "no faster than the faster of both slow calls";
  mode.replied(9);
  EXPECT_TRUE(mode.fetches());
  mode.fetched(1, 9);
  EXPECT_TRUE(mode.fetches()) << "counts from the beginning";
}

/// Node 1 is the server; what it answers is what a test writes into its memory.
class RemoteFetchClient : public testing::Test {
 protected:
  static constexpr int kCoroutines = 2, kCoroutine = 1;

  RemoteFetchClient() {
    options_.transport = EchoOptions::Transport::kRemoteFetch;
    options_.issuing_threads = 1;
    options_.payload_b = 32;
    options_.reply_b = 100;
    options_.fetch_tries = 3;
  }

  static Task<void> record(RemoteFetch& echo, std::vector<WcStatus>& ended) {
    auto call = echo.call(1, kCoroutine);
    const WcStatus status = co_await call;
    ended.push_back(status);
  }

  struct Side {
    Side(FakeCluster& cluster, int node, const EchoOptions& options)
        : worker(cluster.port(node), 256, echo_needs(options, {2, 1, 1, 1}, kCoroutines).queue_pairs),
          echo(options, kCoroutines, worker, cluster.memory(node).local()) {}
    Worker worker;
    RemoteFetch echo;
  };

  void start(std::uint32_t fetch_b) {
    options_.fetch_b = fetch_b;
    cluster_ =
        std::make_unique<FakeCluster>(shape_, RemoteFetch::memory_bytes(options_, shape_, kCoroutines));
    client_ = std::make_unique<Side>(*cluster_, 0, options_);
    server_ = std::make_unique<Side>(*cluster_, 1, options_);
    client_->echo.connect();
    server_->echo.connect();
    call();
  }
  void call() { client_->worker.spawn(record(client_->echo, ended_)); }
  void step_client() {
    for (int i = 0; i < 50; ++i) client_->worker.step();
  }
  void step_both() {
    for (int i = 0; i < 50; ++i) {
      client_->worker.step();
      server_->worker.step();
    }
  }
  std::size_t reads() const {
    std::size_t sum = 0;
    for (const FakeQueuePair* qp : cluster_->fabric().connected_queue_pairs) {
      sum += static_cast<std::size_t>(std::ranges::count(qp->posted, Opcode::kRdmaRead, &SendWr::opcode));
    }
    return sum;
  }
  /// Where the coroutine's result begins in the server's memory: the only word that is its frame's.
  std::byte* result() {
    const std::size_t result_b = 8 + 104 + 8;
    const std::size_t place_b = whole_lines(std::max<std::size_t>(result_b, options_.fetch_b));
    return cluster_->memory(1).local().data() + ConnectedEchoLayout(options_, shape_, kCoroutines).total_b +
           kCoroutine * place_b;
  }
  static std::uint64_t word(const std::byte* at) {
    std::uint64_t value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }

  const ClusterShape shape_{2, 1, 1, 1};
  EchoOptions options_;
  std::unique_ptr<FakeCluster> cluster_;
  std::unique_ptr<Side> client_, server_;
  std::vector<WcStatus> ended_;
};

TEST_F(RemoteFetchClient, FetchesUntilTheResultIsThere) {
  start(256);
  step_client();
  const std::size_t in_vain = reads();
  EXPECT_GT(in_vain, 3U);
  EXPECT_TRUE(ended_.empty()) << "nobody has served it";
  step_both();
  EXPECT_EQ(ended_, std::vector{WcStatus::kSuccess});
  EXPECT_NE(word(result()), 0U);
}

TEST_F(RemoteFetchClient, HalfAResultIsNone) {
  for (const std::uint32_t fetch_b : {256U, 64U}) {
    start(fetch_b);
    for (int i = 0; i < 20; ++i) server_->worker.step();
    step_client();
    for (int i = 0; i < 20; ++i) server_->worker.step();
    std::byte* tail = result() + 8 + 104;
    const std::uint64_t frame = word(result());
    ASSERT_NE(frame, 0U);
    ASSERT_EQ(word(tail), frame);
    step_client();
    ASSERT_EQ(ended_.size(), 1U);

    // The next call's: the head has landed, the tail has not.
    call();
    step_client();
    const std::uint64_t next = frame + (std::uint64_t{1} << 16);
    std::memcpy(result(), &next, sizeof next);
    step_client();
    EXPECT_EQ(ended_.size(), 1U) << fetch_b;
    std::memcpy(tail, &next, sizeof next);
    step_client();
    EXPECT_EQ(ended_.size(), 2U) << fetch_b;
    ended_.clear();
    client_.reset();
    server_.reset();
  }
}

TEST_F(RemoteFetchClient, AFailedReadEndsTheCall) {
  start(256);
  step_client();
  cluster_->fabric().next_status = WcStatus::kRetryExcErr;
  step_client();
  EXPECT_EQ(ended_, std::vector{WcStatus::kRetryExcErr});
}

TEST_F(RemoteFetchClient, AfterTwoSlowCallsTheServerRepliesUntilItIsFaster) {
  options_.process_ps = 5'000'000;
  start(256);
  for (int slow = 0; slow < 2; ++slow) {
    step_client();
    step_both();
    ASSERT_EQ(ended_.size(), static_cast<std::size_t>(slow + 1));
    call();
  }
  const std::size_t before = reads();
  step_client();
  EXPECT_EQ(ended_.size(), 2U);
  step_both();
  EXPECT_EQ(ended_.size(), 3U);
  EXPECT_EQ(reads(), before);
  options_.process_ps = 4'000'000;
  call();
  step_both();
  EXPECT_EQ(ended_.size(), 4U);
  EXPECT_EQ(reads(), before) << "this reply says so";
  call();
  step_both();
  EXPECT_EQ(ended_.size(), 5U);
  EXPECT_GT(reads(), before);
}

/// A reply has 16 bits for it.
TEST_F(RemoteFetchClient, AServerThatTakesLongerThanAReplyCanSayIsNoFastOne) {
  options_.process_ps = 5'000'000;
  start(256);
  for (int slow = 0; slow < 2; ++slow) {
    step_client();
    step_both();
    call();
  }
  const std::size_t before = reads();
  options_.process_ps = 65'537'000'000;  // 2^16 us and one
  step_both();
  ASSERT_EQ(ended_.size(), 3U);
  call();
  step_both();
  EXPECT_EQ(ended_.size(), 4U);
  EXPECT_EQ(reads(), before) << "replies are asked for still";
}

}  // namespace
}  // namespace verbtwin::protocols
