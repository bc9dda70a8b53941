#include "tools/console/stop_signals.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>

namespace verbtwin::tools {
namespace {

bool becomes_true(const std::atomic<bool>& flag) {
  for (int i = 0; i < 1000 && !flag; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return flag;
}

TEST(StopSignals, TheFirstSignalSetsTheFlag) {
  const StopSignals signals;
  EXPECT_FALSE(signals.stop());
  EXPECT_EQ(signals.signal_number(), 0);
  kill(getpid(), SIGINT);
  EXPECT_TRUE(becomes_true(signals.stop()));
  EXPECT_EQ(signals.signal_number(), SIGINT);
}

TEST(StopSignals, AHandlerSetLaterDoesNotTakeTheSignalAway) {
  const StopSignals signals;
  std::signal(SIGTERM, [](int) { _exit(77); });
  kill(getpid(), SIGTERM);
  EXPECT_TRUE(becomes_true(signals.stop()));
  std::signal(SIGTERM, SIG_DFL);
}

TEST(StopSignals, ATerminalThatGoesAwayStops) {
  std::signal(SIGHUP, SIG_DFL);  // the tests themselves may run under nohup
  const StopSignals signals;
  kill(getpid(), SIGHUP);
  EXPECT_TRUE(becomes_true(signals.stop()));
  EXPECT_EQ(signals.signal_number(), SIGHUP);
  kill(getpid(), SIGHUP);  // from the shell, behind the kernel's
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

TEST(StopSignals, WhatIsSentTwiceAtOnceStops) {
  const StopSignals signals;
  for (int i = 0; i < 2; ++i) {  // as timeout(1) does
    kill(getpid(), SIGINT);
    EXPECT_TRUE(becomes_true(signals.stop()));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(signals.signal_number(), SIGINT);
}

TEST(StopSignals, UnderNohupItDoesNot) {
  std::signal(SIGHUP, SIG_IGN);
  {
    const StopSignals signals;
    kill(getpid(), SIGHUP);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(signals.stop());
  }
  std::signal(SIGHUP, SIG_DFL);
}

TEST(StopSignals, TheMaskIsRestored) {
  { const StopSignals signals; }
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_EQ(sigismember(&mask, SIGINT), 0);
}

TEST(StopSignalsDeathTest, TheSecondSignalKills) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        const StopSignals signals;
        kill(getpid(), SIGINT);
        becomes_true(signals.stop());
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        kill(getpid(), SIGINT);
        std::this_thread::sleep_for(std::chrono::seconds(20));
      },
      testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace verbtwin::tools
