#include "tools/console/stop_signals.hpp"

#include <chrono>

namespace verbtwin::tools {

StopSignals::StopSignals() {
  sigemptyset(&watched_);
  sigaddset(&watched_, SIGINT);
  sigaddset(&watched_, SIGTERM);
  struct sigaction at_hangup {};
  sigaction(SIGHUP, nullptr, &at_hangup);
  // A signal that is blocked is waited for even where it is ignored.
  if (at_hangup.sa_handler != SIG_IGN) sigaddset(&watched_, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &watched_, &mask_before_);
  watcher_ = std::thread([this] { watch(); });
}

StopSignals::~StopSignals() {
  ending_ = true;
  // Wakes the watcher, which has it blocked: nothing is killed.
  // NOLINTNEXTLINE(bugprone-bad-signal-to-kill-thread)
  pthread_kill(watcher_.native_handle(), SIGTERM);
  watcher_.join();
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

void StopSignals::watch() {
  std::chrono::steady_clock::time_point stopped_at;
  for (;;) {
    int number = 0;
    if (sigwait(&watched_, &number) != 0) continue;
    if (ending_) return;
    // Of one terminal that goes away both the kernel and the shell may tell. timeout(1) signals its command,
    // then the group that this is in: nobody presses a key twice so fast.
    constexpr std::chrono::milliseconds kOneStop{200};
    const auto now = std::chrono::steady_clock::now();
    if (stop_ && (number == SIGHUP || now - stopped_at < kOneStop)) continue;
    if (stop_) {
      std::signal(number, SIG_DFL);
      sigset_t one;
      sigemptyset(&one);
      sigaddset(&one, number);
      pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
      std::raise(number);
    }
    stopped_at = now;
    signal_number_ = number;
    stop_ = true;
  }
}

}  // namespace verbtwin::tools
