// Program: one node's part of whatever runs on a cluster: transactions (protocols/system.hpp) or a
// micro-benchmark (protocols/micro/benchmark.hpp).
//
// The program that runs a cluster owns one per node. Set up and read out by one thread; in between each of
// its workers belongs to its own. Times in picoseconds.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "backend/cpu.hpp"

namespace verbtwin::protocols {

/// The window in simulated or real time; the same for all workers.
struct Window {
  std::int64_t begin_ps = 0;  // measurement starts
  std::int64_t end_ps = 0;    // it ends, and nothing new begins
  bool contains(std::int64_t at_ps) const { return at_ps >= begin_ps && at_ps < end_ps; }
};

/// How long a coroutine sleeps at most before it looks whether the run is stopped: what a person who stops
/// one will wait.
inline constexpr std::int64_t kLookAtStopPs = 100'000'000'000;

class Program {
 public:
  virtual ~Program() = default;

  /// Makes the workers known to each other and ready; called once every node's program exists. Until `stop`
  /// is set, work begins before window.end_ps; both outlive the run.
  virtual void start(const Window& window, const std::atomic<bool>& stop) = 0;

  virtual int threads() const = 0;
  virtual Steppable& worker(int thread) = 0;
  /// The worker posts nothing and takes nothing in the whole run: the target of one-sided verbs, whose NIC
  /// does all of the work. Its step() need not be called before the run is over.
  virtual bool is_passive(int thread) const {
    static_cast<void>(thread);
    return false;
  }

  // By the worker's own thread at any time, by others when it has stopped:
  /// Work that began and has not ended. When all is over: a message was lost, or the program is stuck.
  virtual std::size_t unfinished_of(int thread) const = 0;
  /// Transactions committed or operations done, outside the window too.
  virtual std::uint64_t finished_ever_of(int thread) const = 0;
  /// What some of the unfinished work waits for, in words, for whoever looks into it; empty: not known.
  /// Whatever the worker, when all have stopped.
  virtual std::string describe_unfinished() const { return ""; }

  std::size_t unfinished() const {
    std::size_t sum = 0;
    for (int thread = 0; thread < threads(); ++thread) sum += unfinished_of(thread);
    return sum;
  }
  std::uint64_t finished_ever() const {
    std::uint64_t sum = 0;
    for (int thread = 0; thread < threads(); ++thread) sum += finished_ever_of(thread);
    return sum;
  }
};

}  // namespace verbtwin::protocols
