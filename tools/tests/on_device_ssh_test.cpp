// launch --hosts with a real ssh daemon on this machine, of the test's own: keys, configuration and port.
// Runs where there is a device, as on_device_test.cpp, and as root; needs openssh-server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "backend/temporary_directory.hpp"
#include "tools/ranks/launcher.hpp"
#include "tools/tests/child_process_for_test.hpp"

namespace verbtwin::tools {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using nlohmann::json;

constexpr const char* kDaemon = "/usr/sbin/sshd";

class OnDeviceSsh : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(kDaemon)) GTEST_SKIP() << kDaemon << " is missing: tools/install-dependencies developer";
    for (const char* key : {"host_key", "key"}) {
      ASSERT_EQ(std::system(("ssh-keygen -q -t ed25519 -N '' -f " + in(key)).c_str()), 0);
    }
    fs::copy(in("key.pub"), in("authorized_keys"));
    fs::create_directories("/run/sshd");
    made_.write("sshd_config", "Port " + port_ + "\nListenAddress 127.0.0.1\nHostKey " + in("host_key") +
                                   "\nAuthorizedKeysFile " + in("authorized_keys") +
                                   "\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
                                   "PermitRootLogin yes\nPidFile none\n");
    made_.write("ssh_config", "Host node*\nHostName 127.0.0.1\nPort " + port_ + "\nIdentityFile " +
                                  in("key") + "\nUserKnownHostsFile " + in("known_hosts") +
                                  "\nStrictHostKeyChecking accept-new\nLogLevel ERROR\n");
    // What launch calls ssh, with this configuration and no other.
    fs::create_directories(in("bin"));
    made_.write("bin/ssh", "#!/bin/sh\nexec /usr/bin/ssh -F " + in("ssh_config") + " \"$@\"\n");
    chmod(in("bin/ssh").c_str(), 0700);
    made_.write("hosts", "node0\nnode1  # the same machine\nnode2\n");
    fs::create_directories(in("daemon"));
    daemon_ = std::make_unique<ChildProcess>(
        in("daemon"), std::vector<std::string>{kDaemon, "-D", "-e", "-f", in("sshd_config")});
    const auto limit = std::chrono::steady_clock::now() + 20s;
    while (daemon_->err().find("listening") == std::string::npos) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit) << daemon_->err();
      std::this_thread::sleep_for(50ms);
    }
  }

  std::string in(const std::string& name) const { return (made_.path() / name).string(); }
  std::unique_ptr<ChildProcess> launch() const {
    return std::make_unique<ChildProcess>(
        made_.path(), std::vector<std::string>{
                          "/usr/bin/env", "PATH=" + in("bin") + ":/usr/bin:/bin", VERBTWIN_BINARY, "launch",
                          "--hosts", in("hosts"), "--rendezvous", "127.0.0.1:" + std::to_string(free_port()),
                          "--quiet", "--json", VERBTWIN_SOURCE_DIR "/scenarios/smallbank-3-rxe.json"});
  }

  TemporaryDirectory made_;
  std::string port_ = std::to_string(free_port());
  std::unique_ptr<ChildProcess> daemon_;
};

TEST_F(OnDeviceSsh, RanksRunOverSsh) {
  const auto run = launch();
  ASSERT_EQ(run->wait(), 0) << run->err() << daemon_->err();
  const json result = json::parse(run->out());
  EXPECT_EQ(result.at("measured_on").size(), 3U);
  EXPECT_GT(result.at("committed"), 100);
  for (const json& check : result.at("checks")) EXPECT_EQ(check.at("violations"), 0) << check.dump(2);
}

TEST_F(OnDeviceSsh, ADaemonThatRefusesIsAFailureAndNoHang) {
  fs::remove(in("authorized_keys"));
  const auto run = launch();
  EXPECT_NE(run->wait(), 0);
  EXPECT_THAT(run->err(), testing::HasSubstr("Permission denied"));
}

}  // namespace
}  // namespace verbtwin::tools
