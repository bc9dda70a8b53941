// Who cannot join a run on real verbs: one line, an exit code, and the run goes on. Needs no device: ranks
// meet before they look for theirs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <string>
#include <vector>

#include "backend/temporary_directory.hpp"
#include "tools/ranks/launcher.hpp"
#include "tools/tests/child_process_for_test.hpp"

namespace verbtwin::tools {
namespace {

using testing::HasSubstr;

class Joining : public testing::Test {
 protected:
  struct Started {
    TemporaryDirectory directory;
    std::unique_ptr<ChildProcess> process;
    /// Its one line and exit code.
    std::string end() {
      const int code = process->wait();
      const std::string line = process->err();
      EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
      return std::to_string(code) + " " + line;
    }
  };

  std::unique_ptr<Started> start(int rank, const std::string& token = "0123456789abcdef0123456789abcdef",
                                 int files_max = 1024) const {
    auto started = std::make_unique<Started>();
    started->process = std::make_unique<ChildProcess>(
        started->directory.path(),
        std::vector<std::string>{"/usr/bin/prlimit", "--nofile=" + std::to_string(files_max), "/usr/bin/env",
                                 "VERBTWIN_TOKEN=" + token, VERBTWIN_BINARY, "run",
                                 VERBTWIN_SOURCE_DIR "/scenarios/smallbank-3-rxe.json", "--backend",
                                 "ibverbs", "--rank", std::to_string(rank), "--ranks", "3", "--rendezvous",
                                 "127.0.0.1:" + std::to_string(port_), "--quiet"});
    return started;
  }

  std::uint16_t port_ = free_port();
};

TEST_F(Joining, APortInUse) {
  using boost::asio::ip::tcp;
  boost::asio::io_context io;
  const tcp::acceptor other(io, tcp::endpoint(boost::asio::ip::address_v4::loopback(), port_));
  EXPECT_THAT(start(0)->end(), testing::ContainsRegex("^[12] .*cannot listen: Address already in use"));
}

TEST_F(Joining, ARankOutOfRange) {
  EXPECT_THAT(start(3)->end(), testing::StartsWith("2 --rank 3: out of range; allowed: 0 to 2"));
}

TEST_F(Joining, AStrangerAndASecondRankOne) {
  const auto first = start(0);
  EXPECT_THAT(start(1, "fedcba9876543210fedcba9876543210")->end(),
              testing::ContainsRegex("^[12] .*the token \\(VERBTWIN_TOKEN\\) is not this run's"));
  // Two with one number: whichever comes second is told, the other waits for rank 2 with rank 0.
  const auto one = start(1);
  const auto other = start(1);
  std::string told;
  for (int looks = 0; looks < 3000 && told.empty(); ++looks) {
    told = one->process->err() + other->process->err();
    usleep(10'000);
  }
  EXPECT_THAT(told, HasSubstr("there is a rank 1 already"));
  EXPECT_EQ(first->process->err(), "") << "the run goes on";
}

TEST_F(Joining, FilesThatRunOutAreSpokenOf) {
  using boost::asio::ip::tcp;
  const auto rank = start(0, "0123456789abcdef0123456789abcdef", 20);
  boost::asio::io_context io;
  std::vector<tcp::socket> strangers;
  for (int tries = 0; tries < 500 && rank->process->err().empty(); ++tries) {
    usleep(10'000);
    boost::system::error_code refused;
    tcp::socket stranger(io);
    stranger.connect({boost::asio::ip::address_v4::loopback(), port_}, refused);
    if (!refused && strangers.size() < 40) strangers.push_back(std::move(stranger));
  }
  EXPECT_EQ(rank->end(),
            "2 no more TCP connections (Too many open files); this process may have 20 files open: raise "
            "`ulimit -n`\n");
}

TEST_F(Joining, AStopWhileOthersAreMissing) {
  const auto rank = start(0);
  using boost::asio::ip::tcp;
  boost::asio::io_context io;
  boost::system::error_code refused;
  do {  // until it listens
    usleep(10'000);
    tcp::socket stranger(io);
    stranger.connect({boost::asio::ip::address_v4::loopback(), port_}, refused);
  } while (refused);
  rank->process->signal(SIGTERM);
  EXPECT_EQ(rank->end(), std::to_string(128 + SIGTERM) + " verbtwin: stopped before rank 1, 2 had joined\n");
}

}  // namespace
}  // namespace verbtwin::tools
