// The rendezvous over the loopback interface: who is let in, what is exchanged, what happens when one goes.
#include "backend/ibverbs/rendezvous.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "backend/ibverbs/proof.hpp"
#include "backend/user_error.hpp"

using namespace std::chrono_literals;

static std::atomic<int> made_up_error{0};  // of accept(2), as long as it is not 0

extern "C" int accept(int socket, sockaddr* address, socklen_t* length) {
  static const auto original = reinterpret_cast<decltype(&accept)>(dlsym(RTLD_NEXT, "accept"));
  if (made_up_error == 0) return original(socket, address, length);
  errno = made_up_error;
  return -1;
}

namespace verbtwin::ibverbs {
namespace {

using boost::asio::ip::tcp;
using testing::HasSubstr;

std::uint16_t free_port() {
  boost::asio::io_context io;
  return tcp::acceptor(io, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0)).local_endpoint().port();
}

class RendezvousTest : public testing::Test {
 protected:
  RendezvousOptions options(int rank, int ranks = 3) const {
    RendezvousOptions o;
    o.rank = rank;
    o.ranks = ranks;
    o.port = port;
    o.token = "0123456789abcdef";
    o.version = "1.2.3";
    o.digest = 42;
    o.timeout = 10s;
    return o;
  }
  /// What a rank with these options says of why it cannot join; empty where it can.
  static std::future<std::string> joining(const RendezvousOptions& o) {
    return std::async(std::launch::async, [o]() -> std::string {
      try {
        Rendezvous rendezvous(o);
        rendezvous.share("ending", "", 10s);
        return "";
      } catch (const std::exception& error) {
        return error.what();
      }
    });
  }
  std::uint16_t port = free_port();
};

TEST_F(RendezvousTest, EveryRankGetsWhatEachHasForIt) {
  std::vector<std::future<std::vector<std::string>>> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(std::async(std::launch::async, [this, rank] {
      Rendezvous rendezvous(options(rank));
      std::vector<std::string> mine;
      for (int to = 0; to < 3; ++to)
        mine.push_back(std::string(static_cast<std::size_t>(to), 'x') + std::to_string(rank));
      auto all = rendezvous.exchange("a", mine, 10s);
      const auto shared =
          rendezvous.share("b", std::string(std::size_t{3} << 20, static_cast<char>('0' + rank)), 10s);
      for (const std::string& one : shared) all.push_back(std::to_string(one.size()) + one.back());
      return all;
    }));
  }
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const std::string prefix(rank, 'x');
    EXPECT_THAT(ranks[rank].get(), testing::ElementsAre(prefix + "0", prefix + "1", prefix + "2", "31457280",
                                                        "31457281", "31457282"));
  }
}

TEST_F(RendezvousTest, OneRankNeedsNoNetwork) {
  RendezvousOptions alone = options(0, 1);
  alone.host = "no.such.host.invalid";
  Rendezvous rendezvous(alone);
  EXPECT_THAT(rendezvous.share("a", "me", 1s), testing::ElementsAre("me"));
}

TEST_F(RendezvousTest, AWrongTokenIsRefusedAndTheRunGoesOn) {
  auto hub = joining(options(0, 2));
  RendezvousOptions stranger = options(1, 2);
  stranger.token = "0123456789abcdeg";
  EXPECT_THAT(joining(stranger).get(), HasSubstr("the token (VERBTWIN_TOKEN) is not this run's"));
  auto friendly = joining(options(1, 2));
  EXPECT_EQ(friendly.get(), "");
  EXPECT_EQ(hub.get(), "");
}

TEST_F(RendezvousTest, WhatDiffersIsRefusedByName) {
  const auto refused = [this](const std::function<void(RendezvousOptions&)>& change) {
    port = free_port();
    auto hub = joining(options(0, 2));
    RendezvousOptions other = options(1, 2);
    change(other);
    const std::string theirs = joining(other).get();
    const std::string ours = hub.get();
    EXPECT_THAT(theirs, HasSubstr(ours));
    return ours;
  };
  EXPECT_EQ(refused([](RendezvousOptions& o) { o.version = "1.3.0"; }),
            "rank 1 runs verbtwin 1.3.0, rank 0 runs 1.2.3; allowed: one program on all machines");
  EXPECT_THAT(refused([](RendezvousOptions& o) { o.digest = 43; }), HasSubstr("another scenario"));
  EXPECT_EQ(refused([](RendezvousOptions& o) { o.ranks = 4; }), "rank 1 was told of 4 ranks, rank 0 of 2");
}

TEST_F(RendezvousTest, TwoRanksWithOneNumber) {
  auto hub = joining(options(0));
  auto first = joining(options(1));
  std::this_thread::sleep_for(200ms);
  EXPECT_THAT(joining(options(1)).get(), HasSubstr("there is a rank 1 already"));
  auto last = joining(options(2));
  EXPECT_EQ(last.get() + first.get() + hub.get(), "");
}

TEST_F(RendezvousTest, WhoNeverComesIsNamed) {
  RendezvousOptions hurried = options(0);
  hurried.timeout = 500ms;
  auto hub = joining(hurried);
  auto one = joining(options(1));
  EXPECT_THAT(hub.get(), HasSubstr("rank 2 did not join within"));
  EXPECT_THAT(one.get(), HasSubstr("rank 2 did not join within")) << "who has come hears of it";
}

/// What it hears then is its own hello.
TEST_F(RendezvousTest, WhoEchoesIsNotRankZero) {
  boost::asio::io_context io;
  tcp::acceptor acceptor(io, tcp::endpoint(boost::asio::ip::address_v4::loopback(), port));
  auto one = joining(options(1));
  tcp::socket socket = acceptor.accept();
  std::array<char, 1024> heard{};
  for (boost::system::error_code over; !over;) {
    const std::size_t bytes = socket.read_some(boost::asio::buffer(heard), over);
    if (!over) boost::asio::write(socket, boost::asio::buffer(heard, bytes), over);
  }
  EXPECT_EQ(one.get(),
            "--rendezvous 127.0.0.1:" + std::to_string(port) + ": rank 0 does not answer as a verbtwin run");
}

TEST_F(RendezvousTest, ARankThatFindsNobody) {
  RendezvousOptions hurried = options(1);
  hurried.timeout = 300ms;
  EXPECT_THAT(joining(hurried).get(), HasSubstr("rank 0 does not answer"));
}

TEST_F(RendezvousTest, APortInUse) {
  boost::asio::io_context io;
  const tcp::acceptor other(io, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0));
  port = other.local_endpoint().port();
  EXPECT_THAT(joining(options(0)).get(), HasSubstr("cannot listen: Address already in use"));
}

TEST_F(RendezvousTest, ALostRankEndsAllWaiting) {
  auto hub = joining(options(0));
  auto one = joining(options(1));
  { Rendezvous two(options(2)); }
  EXPECT_EQ(hub.get(), "rank 2 was lost while ending");
  EXPECT_EQ(one.get(), "rank 2 was lost while ending");
}

TEST_F(RendezvousTest, ALostHubEndsAllWaiting) {
  auto one = joining(options(1, 2));
  { Rendezvous hub(options(0, 2)); }
  EXPECT_EQ(one.get(), "rank 0 was lost while ending");
}

TEST_F(RendezvousTest, WhoGivesUpSaysWhy) {
  auto hub = joining(options(0));
  auto one = joining(options(1));
  Rendezvous two(options(2));
  two.give_up("rank 2: no RDMA device");
  EXPECT_EQ(hub.get(), "rank 2: no RDMA device");
  EXPECT_EQ(one.get(), "rank 2: no RDMA device");
}

TEST_F(RendezvousTest, CheckSeesALossWithoutWaiting) {
  for (const int frames : {0, 1, 2}) {  // before it: its part of an exchange, and why it gives up
    auto one = std::async(std::launch::async, [this, frames] {
      Rendezvous rendezvous(options(1, 2));
      if (frames > 0) {
        EXPECT_THROW(rendezvous.share("finishing", "", 100ms), RankFailure);
      }
      if (frames > 1) rendezvous.give_up("rank 1: no memory");
    });
    Rendezvous hub(options(0, 2));
    one.get();
    const auto lost = [&] {
      for (int i = 0; i < 1000; ++i, std::this_thread::sleep_for(5ms)) hub.check("measuring");
    };
    EXPECT_THAT(lost, testing::ThrowsMessage<RankFailure>(frames > 1 ? "rank 1: no memory"
                                                                     : "rank 1 was lost while measuring"));
  }
}

/// A connection to the hub that is no Rendezvous of ours.
tcp::socket connection_to(std::uint16_t port, boost::asio::io_context& io) {
  tcp::socket socket(io);
  boost::system::error_code error;
  for (int i = 0; i < 100; ++i) {
    socket.connect({boost::asio::ip::address_v4::loopback(), port}, error);
    if (!error) break;
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_FALSE(error);
  return socket;
}

/// A frame's header and body (link.hpp), on a machine like this one.
std::string frame_of(std::uint32_t kind, const std::string& body) {
  struct {
    std::uint32_t magic = 0x31575456, kind = 0, phase = 0, reserved = 0;
    std::uint64_t bytes = 0;
  } header;
  header.kind = kind;
  header.bytes = body.size();
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + body;
}

/// Of rank 1, otherwise as RendezvousTest::options() has it, for two ranks.
struct TestHello {
  Nonce nonce{};
  std::array<char, 96> version = fixed_text<96>("1.2.3");
  std::uint64_t digest = 42;
  std::int32_t rank = 1, ranks = 2;
};
constexpr std::uint32_t kHello = 1, kWelcome = 2, kRefused = 3, kData = 4, kChallenge = 7, kProof = 8;

/// As rank 1, with this token, at the hub.
void show_token(tcp::socket& socket, const std::string& token) {
  const TestHello hello;
  boost::system::error_code ignored;
  boost::asio::write(socket, boost::asio::buffer(frame_of(kHello, std::string(bytes_of(hello)))), ignored);
  std::array<char, 24> header{};
  Challenge challenge;
  boost::asio::read(socket, boost::asio::buffer(header), ignored);
  boost::asio::read(socket, boost::asio::buffer(&challenge, sizeof challenge), ignored);
  const Digest shown = proof(Side::kJoining, token, bytes_of(hello), challenge.nonce);
  boost::asio::write(socket, boost::asio::buffer(frame_of(kProof, std::string(bytes_of(shown)))), ignored);
}

TEST_F(RendezvousTest, AFloodOfWrongTokensIsRefusedAndTheRunGoesOn) {
  auto hub = joining(options(0, 2));
  boost::asio::io_context io;
  boost::system::error_code ignored;
  const std::string wrong =
      frame_of(kHello, std::string(bytes_of(TestHello{}))) + frame_of(kProof, std::string(32, 'x'));
  for (int round = 0; round < 20; ++round) {  // all at once, so that some are let in while others are refused
    std::vector<tcp::socket> strangers;
    for (int i = 0; i < 40; ++i) {
      strangers.push_back(connection_to(port, io));
      boost::asio::write(strangers.back(), boost::asio::buffer(wrong), ignored);
    }
  }
  tcp::socket guess = connection_to(port, io);
  show_token(guess, "another token");
  EXPECT_EQ(joining(options(1, 2)).get(), "");
  EXPECT_EQ(hub.get(), "");
}

TEST_F(RendezvousTest, StrangersAreNamedWhereARankDoesNotCome) {
  for (const bool with_hello : {false, true}) {
    port = free_port();
    RendezvousOptions hurried = options(0, 2);
    hurried.timeout = 1s;
    auto hub = joining(hurried);
    boost::asio::io_context io;
    const std::string said =
        with_hello ? frame_of(kHello, std::string(bytes_of(TestHello{}))) : "GET /" + std::string(24, ' ');
    {
      tcp::socket stranger = connection_to(port, io);
      boost::asio::write(stranger, boost::asio::buffer(said));
      std::this_thread::sleep_for(200ms);
    }
    EXPECT_THAT(hub.get(),
                HasSubstr(std::string("rank 1 did not join within 1 s; ") +
                          (with_hello ? "a wrong token" : "a stranger") + " from 127.0.0.1 was refused"));
  }
}

/// A program without the token, at rank 0's address.
class StrangerAsRankZero : public RendezvousTest {
 protected:
  tcp::socket accept() {
    tcp::socket socket = acceptor_->accept();
    acceptor_.reset();
    return socket;
  }
  /// All that a rank says to one that answers so, until it hangs up.
  std::string heard(const std::string& answer) {
    tcp::socket socket = accept();
    std::string bytes(24 + sizeof(TestHello), '\0');
    boost::asio::read(socket, boost::asio::buffer(bytes));
    boost::system::error_code over;
    boost::asio::write(socket, boost::asio::buffer(answer), over);
    std::string rest;
    boost::asio::read(socket, boost::asio::dynamic_buffer(rest), over);
    return bytes + rest;
  }
  std::future<std::string> one() {
    port = free_port();
    acceptor_ =
        std::make_unique<tcp::acceptor>(io_, tcp::endpoint(boost::asio::ip::address_v4::loopback(), port));
    RendezvousOptions hurried = options(1, 2);
    hurried.timeout = 1s;
    return joining(hurried);
  }
  std::string place() const { return "--rendezvous 127.0.0.1:" + std::to_string(port) + ": "; }

 private:
  boost::asio::io_context io_;
  std::unique_ptr<tcp::acceptor> acceptor_;
};

TEST_F(StrangerAsRankZero, IsNotBelievedAndHearsNoToken) {
  const std::string made_up = frame_of(kChallenge, std::string(sizeof(Challenge), 'x'));
  for (const auto& [answer, why] :
       {std::pair{frame_of(kWelcome, ""), "rank 0 does not answer as a verbtwin run"},
        std::pair{frame_of(kRefused, "go"), "rank 0 does not answer as a verbtwin run"},
        std::pair{frame_of(kChallenge, ""), "rank 0 does not answer as a verbtwin run"},
        std::pair{made_up, "the token (VERBTWIN_TOKEN) is not this run's"}}) {
    auto running = one();
    const std::string said = heard(answer);
    EXPECT_EQ(running.get(), place() + why);
    EXPECT_EQ(said.size(), 24 + sizeof(TestHello)) << "nothing more";
    EXPECT_THAT(said, testing::Not(HasSubstr(options(1).token)));
  }
}

TEST_F(StrangerAsRankZero, FillsNoMemory) {
  auto running = one();
  tcp::socket socket = accept();
  std::string header = frame_of(kData, "");
  const std::uint64_t claimed = std::uint64_t{60} << 30;
  header.replace(16, 8, reinterpret_cast<const char*>(&claimed), 8);
  boost::asio::write(socket, boost::asio::buffer(header));
  const std::string much(1 << 20, 'x');
  boost::system::error_code over;
  int written = 0;
  while (!over && written < 200) {
    boost::asio::write(socket, boost::asio::buffer(much), over);
    ++written;
  }
  EXPECT_TRUE(over) << "MiB taken";
  EXPECT_THAT(running.get(), testing::StartsWith(place() + "rank 0 does not answer"));
}

TEST_F(RendezvousTest, ConnectionsThatSayNothingKeepNobodyOut) {
  auto hub = joining(options(0, 2));
  boost::asio::io_context io;
  std::vector<tcp::socket> idle;
  for (int i = 0; i < 900; ++i) idle.push_back(connection_to(port, io));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(joining(options(1, 2)).get(), "");
  EXPECT_EQ(hub.get(), "");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 4s) << "before those would have had their time";
}

TEST_F(RendezvousTest, WhoIsHungUpOnAsksAgain) {
  std::future<std::string> one;
  {
    boost::asio::io_context io;
    tcp::acceptor rude(io, tcp::endpoint(boost::asio::ip::address_v4::loopback(), port));
    one = joining(options(1, 2));
    for (int i = 0; i < 3; ++i) rude.accept().close();
  }
  auto hub = joining(options(0, 2));
  EXPECT_EQ(one.get() + hub.get(), "");
}

TEST_F(RendezvousTest, WhatComesSlowlyComes) {
  auto hub = std::async(std::launch::async, [this] {
    Rendezvous rendezvous(options(0, 2));
    return rendezvous.share("a", "", 500ms).back();
  });
  boost::asio::io_context io;
  tcp::socket slow = connection_to(port, io);
  show_token(slow, options(1).token);
  boost::system::error_code error;
  std::array<char, 24> welcome{};
  slow.read_some(boost::asio::buffer(welcome), error);
  // A piece of four bytes for rank 0, none for rank 1.
  const std::string body("\4\0\0\0\0\0\0\0SLOW\0\0\0\0\0\0\0\0", 20);
  std::string bytes = frame_of(4, body);
  const std::uint32_t phase = (2166136261U ^ 'a') * 16777619U;
  bytes.replace(8, 4, reinterpret_cast<const char*>(&phase), 4);
  for (const char byte : bytes.substr(0, 24)) boost::asio::write(slow, boost::asio::buffer(&byte, 1));
  for (const char byte : bytes.substr(24)) {
    std::this_thread::sleep_for(100ms);
    boost::asio::write(slow, boost::asio::buffer(&byte, 1), error);
    ASSERT_FALSE(error) << error.message();
  }
  EXPECT_EQ(hub.get(), "SLOW");
}

TEST_F(RendezvousTest, WhoStopsTellsTheOthersAndTheyStillMeet) {
  std::vector<std::future<std::size_t>> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(std::async(std::launch::async, [this, rank] {
      Rendezvous rendezvous(options(rank));
      const auto limit = std::chrono::steady_clock::now() + 10s;
      bool stopping = rank == 1;
      if (stopping) rendezvous.tell_to_stop();
      while (!stopping && std::chrono::steady_clock::now() < limit) {
        rendezvous.check("measuring");
        stopping = rendezvous.told_to_stop();
        if (stopping) rendezvous.tell_to_stop();  // rank 0: to rank 2
        std::this_thread::sleep_for(1ms);
      }
      EXPECT_TRUE(stopping) << "rank " << rank;
      return rendezvous.share("finishing", "", 10s).size();
    }));
  }
  for (auto& rank : ranks) EXPECT_EQ(rank.get(), 3U);
}

TEST_F(RendezvousTest, AStopEndsTheMeetingAtOnce) {
  std::atomic<bool> stop{false};
  const auto stoppable = [&](int rank, std::uint16_t at, const char* host = "127.0.0.1") {
    RendezvousOptions o = options(rank);
    o.port = at;
    o.host = host;
    o.stop = &stop;
    return joining(o);
  };
  auto hub = stoppable(0, port);
  auto one = stoppable(1, port);
  auto lost = stoppable(1, free_port());
  auto asking = stoppable(1, free_port(), "slow.invalid");
  std::this_thread::sleep_for(300ms);
  stop = true;
  const auto limit = std::chrono::steady_clock::now() + 3s;
  EXPECT_THAT(hub.get(), testing::StartsWith("stopped before rank "));
  EXPECT_THAT(one.get(), testing::StartsWith("stopped before "));
  EXPECT_EQ(lost.get(), "stopped before all ranks had joined");
  EXPECT_EQ(asking.get(), "stopped before all ranks had joined");
  EXPECT_LT(std::chrono::steady_clock::now(), limit);
}

TEST_F(RendezvousTest, WhyNoConnectionIsTakenIsSaid) {
  for (const int error : {EMFILE, ENFILE, ENOBUFS, ENOMEM}) {
    made_up_error = error;
    EXPECT_THAT(joining(options(0, 2)).get(), testing::StartsWith("no more TCP connections (")) << error;
  }
  made_up_error = 0;
}

/// Sends bytes as no verbtwin would, and waits until the hub hangs up.
void send_rubbish(std::uint16_t port, const std::string& bytes) {
  boost::asio::io_context io;
  tcp::socket socket = connection_to(port, io);
  boost::system::error_code error;
  boost::asio::write(socket, boost::asio::buffer(bytes), error);
  char answer = 0;
  socket.read_some(boost::asio::buffer(&answer, 1), error);
  EXPECT_TRUE(error) << "the hub answers rubbish";
}

TEST_F(RendezvousTest, RubbishIsHungUpOnAndTheRunGoesOn) {
  auto hub = joining(options(0, 2));
  send_rubbish(port, "GET / HTTP/1.1\r\nHost: here\r\n\r\n");
  std::string huge("VTW1", 4);  // a frame that claims 2^60 bytes
  huge += std::string("\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10", 20);
  send_rubbish(port, huge);
  EXPECT_EQ(joining(options(1, 2)).get(), "");
  EXPECT_EQ(hub.get(), "");
}

}  // namespace
}  // namespace verbtwin::ibverbs
