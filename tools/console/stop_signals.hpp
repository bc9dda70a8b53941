// StopSignals: turns SIGINT, SIGTERM and SIGHUP (a terminal that went away) into a flag that long work looks
// at. SIGHUP is left alone where it was ignored: under nohup the run goes on.
//
// Made by the main thread before any other thread exists and destroyed by it; stop() and signal_number() may
// be read by any thread. The first signal sets the flag, the second one (but for SIGHUP, and for what comes
// with the first: both may come twice) kills the process as if nobody had listened. A thread waits for the
// signals, blocked everywhere else, instead of a handler: SimGrid installs a SIGINT handler of its own
// whenever an engine is made, and that one exits.
#pragma once

#include <atomic>
#include <csignal>
#include <stdexcept>
#include <thread>

namespace verbtwin::tools {

/// A signal ended a run before there was anything of it to keep.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  const std::atomic<bool>& stop() const { return stop_; }
  /// SIGINT, SIGTERM or SIGHUP once one has come, else 0.
  int signal_number() const { return signal_number_.load(); }

 private:
  void watch();

  sigset_t watched_{};
  sigset_t mask_before_{};
  std::atomic<bool> stop_{false};
  std::atomic<int> signal_number_{0};
  std::atomic<bool> ending_{false};
  std::thread watcher_;
};

}  // namespace verbtwin::tools
