// Real TCP connections over the loopback interface: the conformance suite, and who is let in.
#include "backend/ibverbs/sockets.hpp"

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <functional>
#include <future>
#include <memory>
#include <thread>

#include "backend/conformance/sockets.hpp"
#include "backend/ibverbs/proof.hpp"
#include "backend/ibverbs/rendezvous.hpp"

namespace verbtwin::ibverbs {
namespace {

using namespace std::chrono_literals;
using boost::asio::ip::tcp;
using conformance::SocketBinding;
using conformance::SocketCase;
using testing::HasSubstr;

constexpr const char* kToken = "0123456789abcdef";

/// Nodes of one process, connected as those of many are.
struct Nodes {
  explicit Nodes(int nodes, int threads = 1) {
    for (int node = 0; node < nodes; ++node) {
      const ClusterShape shape{.nodes = nodes, .threads = threads};
      all.push_back(std::make_unique<NodeSockets>(shape, node, "127.0.0.1"));
      addresses.push_back(all.back()->address());
    }
  }
  /// What went wrong at a node; empty: nothing.
  std::future<std::string> connecting(
      std::size_t node, const std::string& token = kToken, std::chrono::milliseconds timeout = 20s,
      const std::function<void()>& check = [] {}) {
    return std::async(std::launch::async, [this, node, token, timeout, check]() -> std::string {
      try {
        all[node]->connect(addresses, token, timeout, check);
        return "";
      } catch (const std::runtime_error& error) {
        return error.what();
      }
    });
  }
  void connect() {
    std::vector<std::future<std::string>> running;
    for (std::size_t node = 0; node < all.size(); ++node) running.push_back(connecting(node));
    for (auto& one : running) EXPECT_EQ(one.get(), "");
  }
  std::vector<std::unique_ptr<NodeSockets>> all;
  std::vector<SocketAddress> addresses;
};

class LoopbackBinding final : public SocketBinding {
 public:
  LoopbackBinding() : nodes_(kEndpoints) { nodes_.connect(); }
  Sockets& sockets(int endpoint) override { return nodes_.all[static_cast<std::size_t>(endpoint)]->of(0); }
  bool run_until(const std::function<bool()>& done) override {
    const auto limit = std::chrono::steady_clock::now() + 30s;
    while (!done()) {
      if (std::chrono::steady_clock::now() >= limit) return false;
      std::this_thread::yield();
    }
    return true;
  }
  void settle() override { std::this_thread::sleep_for(50ms); }

 private:
  Nodes nodes_;
};

TEST(TcpSockets, EveryWorkerHasItsOwnConnections) {
  Nodes nodes(3, 2);
  nodes.connect();
  for (int from = 0; from < 3; ++from) {
    for (int to = 0; to < 3; ++to) {
      if (from == to) continue;
      for (int thread = 0; thread < 2; ++thread) {
        const std::array<std::byte, 1> mark{static_cast<std::byte>(from * 16 + to * 4 + thread)};
        ASSERT_EQ(nodes.all[static_cast<std::size_t>(from)]->of(thread).send(to, mark), 1U);
        std::array<std::byte, 2> got{};
        TcpSockets& theirs = nodes.all[static_cast<std::size_t>(to)]->of(thread);
        std::size_t length = 0;
        for (int i = 0; i < 1000 && length == 0; ++i, std::this_thread::sleep_for(1ms)) {
          length = theirs.receive(from, got);
        }
        EXPECT_EQ(length, 1U);
        EXPECT_EQ(got[0], mark[0]);
      }
    }
  }
}

TEST(TcpSockets, APeerThatGoesIsAnErrorThatNamesIt) {
  Nodes nodes(2);
  nodes.connect();
  nodes.all[1].reset();
  Sockets& sockets = nodes.all[0]->of(0);
  std::array<SocketReady, 4> ready;
  std::array<std::byte, 4> buffer{};
  std::size_t count = 0;
  for (int i = 0; i < 1000 && count == 0; ++i, std::this_thread::sleep_for(1ms)) count = sockets.poll(ready);
  ASSERT_EQ(count, 1U);
  EXPECT_TRUE(ready[0].readable);
  try {
    sockets.receive(1, buffer);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "the TCP connection to rank 1 was closed by it");
  }
  const auto write = [&] {
    for (int i = 0; i < 100; ++i, std::this_thread::sleep_for(1ms)) sockets.send(1, buffer);
  };
  EXPECT_THROW(write(), std::runtime_error);
}

tcp::socket connection_to(const SocketAddress& address, boost::asio::io_context& io) {
  tcp::socket socket(io);
  socket.connect({boost::asio::ip::make_address(address.host), address.port});
  return socket;
}

/// As NodeSockets says it.
struct TestHello {
  Nonce nonce{};
  std::int32_t from = 0, to = 1, thread = 0;
};

/// Says `bytes` to the node, and shows this token where it is asked for it; whether it is hung up on, and not
/// let in.
bool is_hung_up_on(const SocketAddress& address, std::string_view bytes, const std::string& token = kToken) {
  boost::asio::io_context io;
  tcp::socket socket = connection_to(address, io);
  boost::system::error_code error;
  boost::asio::write(socket, boost::asio::buffer(bytes), error);
  Challenge challenge;
  boost::asio::read(socket, boost::asio::buffer(&challenge, sizeof challenge), error);
  if (error) return true;
  EXPECT_EQ(challenge.proof, proof(Side::kTcpCalled, kToken, bytes, challenge.nonce));
  const Digest shown = proof(Side::kTcpCaller, token, bytes, challenge.nonce);
  boost::asio::write(socket, boost::asio::buffer(shown), error);
  char answer = 0;
  socket.read_some(boost::asio::buffer(&answer, 1), error);
  return error.failed();
}

TEST(TcpSockets, StrangersAreHungUpOnAndTheMeetingGoesOn) {
  Nodes nodes(2);
  auto waiting = nodes.connecting(1);
  const SocketAddress& address = nodes.addresses[1];
  EXPECT_TRUE(is_hung_up_on(address, "GET / HTTP/1.1\r\nHost: here\r\n" + std::string(64, ' ')));
  EXPECT_TRUE(is_hung_up_on(address, bytes_of(TestHello{}), "0123456789abcdeg")) << "a wrong token";
  const auto refused = [&](TestHello hello) { return is_hung_up_on(address, bytes_of(hello)); };
  EXPECT_TRUE(refused({.from = 1})) << "itself";
  EXPECT_TRUE(refused({.from = 7}));
  EXPECT_TRUE(refused({.from = -1}));
  EXPECT_TRUE(refused({.to = 0})) << "it is node 1";
  EXPECT_TRUE(refused({.thread = 1})) << "there is one thread";
  EXPECT_EQ(nodes.connecting(0).get(), "");
  EXPECT_EQ(waiting.get(), "");
}

TEST(TcpSockets, ConnectionsThatSayNothingKeepNobodyOut) {
  Nodes nodes(2);
  boost::asio::io_context io;
  std::vector<tcp::socket> idle;
  for (int i = 0; i < 900; ++i) idle.push_back(connection_to(nodes.addresses[1], io));
  const auto begin = std::chrono::steady_clock::now();
  auto waiting = nodes.connecting(1);
  EXPECT_EQ(nodes.connecting(0).get(), "");
  EXPECT_EQ(waiting.get(), "");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 4s) << "before those would have had their time";
}

TEST(TcpSockets, WhoSaysNothingIsHungUpOn) {
  Nodes nodes(2);
  auto waiting = nodes.connecting(1);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(is_hung_up_on(nodes.addresses[1], "0123"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 2 * NodeSockets::kHelloTimeout);
  EXPECT_EQ(nodes.connecting(0).get(), "");
  EXPECT_EQ(waiting.get(), "");
}

TEST(TcpSockets, WhoNeverConnectsIsNamed) {
  Nodes nodes(2);
  EXPECT_EQ(nodes.connecting(1, kToken, 300ms).get(), "rank 0 did not connect by TCP in time");
}

/// Two ranks that have met; the second one is to be waited for no more.
struct Met {
  explicit Met(const std::atomic<bool>* stop = nullptr) {
    RendezvousOptions options;
    options.ranks = 2;
    boost::asio::io_context io;
    options.port = tcp::acceptor(io, {boost::asio::ip::address_v4::loopback(), 0}).local_endpoint().port();
    options.token = kToken;
    options.stop = stop;
    auto zero = std::async(std::launch::async, [options] { return std::make_unique<Rendezvous>(options); });
    options.rank = 1;
    one = std::make_unique<Rendezvous>(options);
    hub = zero.get();
  }
  std::unique_ptr<Rendezvous> hub, one;
};

TEST(TcpSockets, WhoeverConnectsHearsOfARankThatIsLost) {
  Met met;
  Nodes nodes(2);
  const auto start = std::chrono::steady_clock::now();
  auto waiting = nodes.connecting(1, kToken, 20s, [&] { met.one->check_meeting("connecting by TCP"); });
  std::this_thread::sleep_for(200ms);
  met.hub.reset();
  EXPECT_EQ(waiting.get(), "rank 0 was lost while connecting by TCP");
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
}

TEST(TcpSockets, AStopEndsConnectingAtOnce) {
  std::atomic<bool> stop{false};
  Met met(&stop);
  Nodes nodes(2);
  const auto start = std::chrono::steady_clock::now();
  auto waiting = nodes.connecting(1, kToken, 20s, [&] { met.one->check_meeting("connecting by TCP"); });
  std::this_thread::sleep_for(200ms);
  stop = true;
  EXPECT_EQ(waiting.get(), "stopped while connecting by TCP");
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
}

TEST(TcpSockets, ANodeOfAnotherRunIsNoPeer) {
  Nodes nodes(2);
  auto other = nodes.connecting(1, "another run's", 2s);
  EXPECT_THAT(nodes.connecting(0).get(), HasSubstr("rank 1 at 127.0.0.1:"));
  EXPECT_EQ(other.get(), "rank 0 did not connect by TCP in time");
}

TEST(TcpSockets, ANodeThatIsNotThereIsNamed) {
  Nodes nodes(2);
  nodes.all[1].reset();
  EXPECT_THAT(nodes.connecting(0).get(), HasSubstr("cannot be reached by TCP: Connection refused"));
}

}  // namespace
}  // namespace verbtwin::ibverbs

namespace verbtwin::conformance {
INSTANTIATE_TEST_SUITE_P(Loopback, SocketsConformance,
                         testing::Values(SocketCase{
                             "tcp", [] { return std::make_unique<ibverbs::LoopbackBinding>(); }}),
                         socket_case_name);
}  // namespace verbtwin::conformance
