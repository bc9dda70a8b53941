// The launcher with ranks that are shell commands, and with an ssh that is a script.
#include "tools/ranks/launcher.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "backend/temporary_directory.hpp"
#include "tools/ranks/rank_options.hpp"
#include "tools/tests/child_process_for_test.hpp"

namespace verbtwin::tools {
namespace {

namespace fs = std::filesystem;

class LauncherTest : public testing::Test {
 protected:
  static RankCommand shell(const std::string& script) { return {{"sh", "-c", script}, ""}; }
  std::string text(const std::string& name) const { return read_text(directory_ / name); }

  TemporaryDirectory made_;
  fs::path directory_ = made_.path();
  StopSignals signals_;
};

TEST_F(LauncherTest, AllRanksHaveTheTokenInTheirEnvironmentOnly) {
  const std::string script = "echo \"$VERBTWIN_TOKEN\" > " + directory_.string() +
                             "/$0; cat /proc/$$/cmdline >> " + directory_.string() + "/$0";
  EXPECT_EQ(
      launch_ranks({{{"sh", "-c", script, "0"}, ""}, {{"sh", "-c", script, "1"}, ""}}, "secret", signals_),
      0);
  for (const char* rank : {"0", "1"}) {
    EXPECT_THAT(text(rank), testing::StartsWith("secret\n"));
    EXPECT_THAT(text(rank).substr(7), testing::Not(testing::HasSubstr("secret")));
  }
}

TEST_F(LauncherTest, TheExitCodeIsRankZerosElseTheFirstThatFailed) {
  EXPECT_EQ(launch_ranks({shell("exit 3"), shell("exit 2")}, "t", signals_), 3);
  EXPECT_EQ(launch_ranks({shell("exit 0"), shell("exit 2")}, "t", signals_), 2);
  testing::internal::CaptureStderr();
  EXPECT_EQ(launch_ranks({shell("exit 0"), shell("kill -9 $$")}, "t", signals_), 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "verbtwin: rank 1 was killed by signal 9\n");
  EXPECT_EQ(launch_ranks({shell("exit 127"), shell("exit 0")}, "t", signals_), 1)
      << "a shell's, not a rank's";
  testing::internal::CaptureStderr();  // who was killed is the cause, whoever is seen to end first
  EXPECT_EQ(launch_ranks({shell("sleep 0.5; kill -9 $$"), shell("echo lost >&2; exit 1")}, "t", signals_), 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "verbtwin: rank 0 was killed by signal 9\n");
}

TEST_F(LauncherTest, ARankThatDoesNotEndAfterRankZeroIsEnded) {
  const auto begin = std::chrono::steady_clock::now();
  testing::internal::CaptureStderr();
  EXPECT_EQ(launch_ranks({shell("exit 0"), shell("exec sleep 600")}, "t", signals_, std::chrono::seconds(1)),
            1);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "verbtwin: rank 1 did not end after the run, and was ended; the result is whole\n");
  EXPECT_EQ(launch_ranks({shell("exit 0"), shell("sleep 0.5")}, "t", signals_, std::chrono::seconds(10)), 0);
}

TEST_F(LauncherTest, RanksThatDoNotListenForTheSignalYetAreStoppedByIt) {
  const std::string up = (directory_ / "up").string();
  std::thread user([&] {
    while (!fs::exists(up + "0") || !fs::exists(up + "1"))
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    kill(getpid(), SIGINT);
  });
  const auto rank = [&](const char* number) { return shell("echo > " + up + number + "; exec sleep 60"); };
  const auto before = std::signal(SIGINT, SIG_IGN);  // as in the background of a script
  testing::internal::CaptureStderr();
  EXPECT_EQ(launch_ranks({rank("0"), rank("1")}, "t", signals_), 128 + SIGINT);
  user.join();
  std::signal(SIGINT, before);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::MatchesRegex("verbtwin: rank [01] was stopped before it had begun\n"));
}

TEST_F(LauncherTest, ARankThatDoesNotStopIsEnded) {
  const std::string up = (directory_ / "up").string();
  std::thread user([&] {
    while (!fs::exists(up)) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    kill(getpid(), SIGINT);
  });
  testing::internal::CaptureStderr();
  EXPECT_EQ(launch_ranks({shell("trap '' INT; echo > " + up + "; exec sleep 60")}, "t", signals_,
                         std::chrono::seconds(60), std::chrono::milliseconds(300)),
            1);
  user.join();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "verbtwin: rank 0 did not stop, and was ended\n");
}

/// As of `| head`, whose reader has what it wanted.
TEST_F(LauncherTest, WhereTheReaderOfRankZeroHasGoneNothingFailed) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(launch_ranks({shell("kill -PIPE $$"), shell("exit 0")}, "t", signals_), 128 + SIGPIPE);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  EXPECT_EQ(launch_ranks({shell("exit 0"), shell("kill -PIPE $$")}, "t", signals_), 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "verbtwin: rank 1 was killed by signal 13\n");
}

TEST_F(LauncherTest, RankZeroWritesOnATerminalThatStopsItsBackground) {
  int terminal = -1;
  const pid_t launcher = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (launcher == 0) {
    termios settings{};
    tcgetattr(STDOUT_FILENO, &settings);
    settings.c_lflag |= TOSTOP;
    tcsetattr(STDOUT_FILENO, TCSANOW, &settings);
    _exit(launch_ranks({shell("echo written")}, "t", signals_));
  }
  std::string shown;
  std::array<char, 64> some{};
  pollfd readable{terminal, POLLIN, 0};
  while (shown.find("written") == std::string::npos && poll(&readable, 1, 5000) > 0) {
    const ssize_t bytes = read(terminal, some.data(), some.size());
    if (bytes <= 0) break;
    shown.append(some.data(), static_cast<std::size_t>(bytes));
  }
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  close(terminal);
  EXPECT_THAT(shown, testing::HasSubstr("written"));
}

TEST_F(LauncherTest, WithoutRankZeroTheOthersAskNoLonger) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(launch_ranks({shell("exit 2"), shell("exec sleep 60")}, "t", signals_), 2);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

/// Before they have met, rank 0 does not know why one does not come.
TEST_F(LauncherTest, WhoFailsWhileRankZeroWaitsForItIsNamed) {
  const RankCommand waiting = shell("trap 'echo stopped >&2; exit 143' TERM; while :; do sleep 0.1; done");
  testing::internal::CaptureStderr();
  EXPECT_EQ(launch_ranks({waiting, shell("echo no such file >&2; exit 2")}, "t", signals_), 2);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "stopped\nverbtwin: rank 1: no such file\n");
}

TEST_F(LauncherTest, OneLineIsShownWhereAllSayTheSame) {
  testing::internal::CaptureStderr();
  launch_ranks({shell("echo mine >&2; exit 1"), shell("echo theirs >&2; exit 1")}, "t", signals_);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "mine\n");
  testing::internal::CaptureStderr();
  launch_ranks({shell("exit 0"), shell("echo theirs >&2; exit 1")}, "t", signals_);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "theirs\n");
}

TEST_F(LauncherTest, OfMuchTheEndIsShown) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(
      launch_ranks({shell("exit 0"), shell("yes warning | head -n 20000 >&2; echo the reason >&2; exit 2")},
                   "t", signals_),
      2);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::EndsWith("warning\nthe reason\n"));
}

/// As programs with file capabilities do, which the kernel tells nothing of their parent's death.
TEST_F(LauncherTest, RanksThatHearNothingOfTheirParentsDeathDieWithTheLauncher) {
  const std::string ran = (directory_ / "pid").string();
  const pid_t launcher = fork();
  if (launcher == 0) {
    const std::string script = "echo $$ > " + ran + ".new; mv " + ran + ".new " + ran + "; exec sleep 60";
    launch_ranks({{{"setpriv", "--pdeathsig", "clear", "sh", "-c", script}, ""}}, "t", signals_);
    _exit(0);
  }
  for (int i = 0; i < 500 && !fs::exists(ran); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_TRUE(fs::exists(ran));
  const pid_t rank = std::stoi(text("pid"));
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  // Whoever takes orphans in may leave it unburied for a while.
  const auto runs = [&] {
    const std::string status = read_text("/proc/" + std::to_string(rank) + "/status");
    return !status.empty() && status.find("State:\tZ") == std::string::npos;
  };
  for (int i = 0; i < 250 && runs(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(runs());
  if (runs()) kill(rank, SIGKILL);
}

TEST_F(LauncherTest, OutputGoesWhereItIsToGo) {
  const auto open_file = [this](const char* name) {
    return open((directory_ / name).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  };
  RankCommand command = shell("echo result; echo failure >&2");
  command.output = open_file("result");
  command.errors = open_file("failure");
  EXPECT_EQ(launch_ranks({command}, "t", signals_), 0);
  close(command.output);
  close(command.errors);
  EXPECT_EQ(text("result") + text("failure"), "result\nfailure\n");
}

TEST_F(LauncherTest, WhoEndsBeforeItReadsTheTokenKillsNobody) {
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(launch_ranks({RankCommand{{"true"}, "token"}}, "t", signals_), 0);
  }
}

TEST_F(LauncherTest, TokensAndPortsDiffer) {
  EXPECT_EQ(make_token().size(), 32U);
  EXPECT_NE(make_token(), make_token());
  EXPECT_GT(free_port(), 1023);
  std::set<std::uint16_t> ports;
  for (int i = 0; i < 10; ++i) ports.insert(random_port());
  EXPECT_GT(ports.size(), 1U);
  EXPECT_GE(*ports.begin(), 20000);
  EXPECT_LT(*ports.rbegin(), 30000);
}

/// An ssh that runs the command here, as a shell of that host would.
class SshTest : public LauncherTest {
 protected:
  void SetUp() override {
    LauncherTest::SetUp();
    std::ofstream(directory_ / "ssh") << "#!/bin/sh\necho \"$*\" >> " << directory_.string()
                                      << "/called\nfor last; do :; done\nexec sh -c \"$last\"\n";
    chmod((directory_ / "ssh").c_str(), 0700);
    path_before_ = std::getenv("PATH");
    setenv("PATH", (directory_.string() + ":" + path_before_).c_str(), 1);
    unsetenv(kTokenVariable);
  }
  void TearDown() override {
    setenv("PATH", path_before_.c_str(), 1);
    LauncherTest::TearDown();
  }
  std::string path_before_;
};

TEST_F(SshTest, TheTokenTravelsOnStandardInput) {
  const fs::path odd = directory_ / "it's a place";
  fs::create_directory(odd);
  const auto command = [&](const std::string& script) {
    return RankCommand{over_ssh("somewhere", odd, {"sh", "-c", script, "a b"}), "the-token"};
  };
  const std::string script = "printf '%s|%s|%s' \"$VERBTWIN_TOKEN\" \"$PWD\" \"$0\" > ../told; exit 7";
  EXPECT_EQ(launch_ranks({command(script)}, "the-token", signals_), 7);
  EXPECT_EQ(text("told"), "the-token|" + odd.string() + "|a b");
  EXPECT_THAT(text("called"), testing::Not(testing::HasSubstr("the-token")));
  EXPECT_THAT(text("called"), testing::ContainsRegex("^-o BatchMode=yes -o ConnectTimeout=[0-9]+ "
                                                     "-o ServerAliveInterval=[0-9]+ somewhere "));
}

TEST_F(SshTest, WhatTheEnvironmentHoldsArrivesAsItIs) {
  const std::string hostile = "it's `touch no` $(touch no) \"$HOME\"; touch no\n\xff\\";
  const auto command = over_ssh("somewhere", directory_,
                                {"env", "MLX5_X=" + hostile, "sh", "-c", "printf %s \"$MLX5_X\" >told"});
  EXPECT_EQ(launch_ranks({RankCommand{command, "the-token"}}, "the-token", signals_), 0);
  EXPECT_EQ(text("told"), hostile);
  EXPECT_FALSE(fs::exists(directory_ / "no"));
}

TEST_F(SshTest, AHostThatCannotBeReachedIsNamed) {
  std::ofstream(directory_ / "ssh")
      << "#!/bin/sh\nprintf 'a banner\\nssh: no such host\\r\\n' >&2\nexit 255\n";
  const auto rank_on = [&](const char* host) {
    return RankCommand{over_ssh(host, directory_, {"true"}), "a-token", -1, -1, host};
  };
  testing::internal::CaptureStderr();
  EXPECT_EQ(launch_ranks({rank_on("one"), rank_on("two")}, "a-token", signals_), 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "verbtwin: rank 0 on one: ssh: no such host\n");
  testing::internal::CaptureStderr();
  EXPECT_EQ(launch_ranks({shell("echo alone >&2; exit 2"), rank_on("two")}, "a-token", signals_), 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "alone\nverbtwin: rank 1 on two: ssh: no such host\n");
}

TEST_F(SshTest, WhatRankZeroSaysOverThereIsShown) {
  const auto rank = [&](const char* script) {
    return RankCommand{over_ssh("one", directory_, {"sh", "-c", script}), "a-token", -1, -1, "one"};
  };
  testing::internal::CaptureStderr();
  EXPECT_EQ(launch_ranks({rank("echo mine >&2; exit 2")}, "a-token", signals_), 2);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "mine\n");
  testing::internal::CaptureStderr();
  EXPECT_EQ(launch_ranks({rank("exec /no/such/program")}, "a-token", signals_), 1);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::StartsWith("verbtwin: rank 0 on one: "));
}

/// A shell there tells of the signal by its exit code.
TEST_F(SshTest, WhoIsKilledOverThereIsToldFromWhoEnds) {
  const auto rank = [&](const char* script) {
    return RankCommand{over_ssh("one", directory_, {"sh", "-c", script}), "a-token", -1, -1, "one"};
  };
  testing::internal::CaptureStderr();
  EXPECT_EQ(launch_ranks({rank("exit 0"), rank("kill -9 $$")}, "a-token", signals_), 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "verbtwin: rank 1 on one was killed by signal 9\n");
  testing::internal::CaptureStderr();
  EXPECT_EQ(launch_ranks({rank("kill -PIPE $$"), rank("exit 0")}, "a-token", signals_), 128 + SIGPIPE);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(launch_ranks({rank("exit 130"), rank("exit 0")}, "a-token", signals_), 130) << "its own code";
}

TEST_F(SshTest, AStopBringsTheResultFromThere) {
  const std::string script =
      "trap 'sleep 1; echo kept > result; exit 143' TERM; echo up > up; while :; do sleep 0.05; done";
  std::thread user([this] {
    while (!fs::exists(directory_ / "up")) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    kill(getpid(), SIGINT);
  });
  EXPECT_EQ(launch_ranks({RankCommand{over_ssh("somewhere", directory_, {"sh", "-c", script}), "a-token"}},
                         "a-token", signals_),
            128 + SIGINT);
  user.join();
  EXPECT_EQ(text("result"), "kept\n");
}

TEST_F(SshTest, AnSshThatDoesNotEndAfterAStopIsEnded) {
  std::ofstream(directory_ / "ssh") << "#!/bin/sh\ntrap 'exit 255' TERM\necho > " << directory_.string()
                                    << "/up\nfor i in $(seq 200); do sleep 0.05; done\n";
  std::thread user([this] {
    while (!fs::exists(directory_ / "up")) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    kill(getpid(), SIGINT);
  });
  const RankCommand rank{over_ssh("one", directory_, {"true"}), "a-token", -1, -1, "one"};
  testing::internal::CaptureStderr();
  EXPECT_EQ(
      launch_ranks({rank}, "a-token", signals_, std::chrono::seconds(60), std::chrono::milliseconds(300)), 1);
  user.join();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "verbtwin: rank 0 on one did not stop, and was ended\n");
}

TEST_F(SshTest, ARankThatDoesNotEndAfterAStopIsEndedOverThereToo) {
  const std::string script = "trap '' TERM; echo $$ > pid; echo up > up; while :; do sleep 0.05; done";
  std::thread user([this] {
    while (!fs::exists(directory_ / "up")) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    kill(getpid(), SIGINT);
  });
  const RankCommand rank{over_ssh("one", directory_, {"sh", "-c", script}), "a-token", -1, -1, "one"};
  testing::internal::CaptureStderr();
  EXPECT_EQ(
      launch_ranks({rank}, "a-token", signals_, std::chrono::seconds(60), std::chrono::milliseconds(300)), 1);
  user.join();
  testing::internal::GetCapturedStderr();
  const pid_t pid = std::stoi(text("pid"));
  for (int i = 0; i < 200 && kill(pid, 0) == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
  EXPECT_NE(kill(pid, 0), 0) << "it still runs";
}

TEST_F(SshTest, TheEndOfStandardInputEndsTheRunThere) {
  const std::string script =
      "trap 'echo ended > ended; exit 1' TERM; echo up > up; while :; do sleep 0.05; done";
  const auto arguments = over_ssh("somewhere", directory_, {"sh", "-c", script});
  FILE* pipe = popen(("PATH=" + directory_.string() + ":$PATH; { echo a-token; while [ ! -e " +
                      (directory_ / "up").string() + " ]; do sleep 0.05; done; } | " + arguments.front() +
                      " x \"" + "$SCRIPT\"")
                         .insert(0, "SCRIPT=$(cat <<'END'\n" + arguments.back() + "\nEND\n); ")
                         .c_str(),
                     "r");
  ASSERT_NE(pipe, nullptr);
  EXPECT_NE(pclose(pipe), 0);
  EXPECT_EQ(text("ended"), "ended\n");
}

}  // namespace
}  // namespace verbtwin::tools
