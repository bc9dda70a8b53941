// Drivers: the threads of a real node, each driving its worker until the run is over.
//
// Owned by the run and used by its thread; each driver thread owns its worker meanwhile. Destruction ends and
// joins the threads. Times in ps of the workers' clocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backend/ibverbs/cluster.hpp"
#include "protocols/program.hpp"

namespace verbtwin::tools {

class Drivers {
 public:
  /// Starts the threads, each on its CPU of `cpus`; none there: they are not pinned. `cluster`, `program`,
  /// `window` and `stop` outlive them. In an open loop, those with CPUs of their own do not sleep.
  Drivers(ibverbs::Cluster& cluster, protocols::Program& program, const protocols::Window& window,
          const std::atomic<bool>& stop, const std::vector<int>& cpus, bool open_loop);
  ~Drivers();

  /// The window is over or stopped, and all that was begun has ended; the workers go on serving others. (A
  /// passive worker says so from the start: it sleeps until the fence.)
  bool finished() const;
  /// All that was posted has landed; ask once fence() has been called.
  bool fenced() const;
  void fence() { enter(Stage::kFence); }
  /// Requests posted, messages received and bytes moved by TCP so far.
  std::uint64_t activity() const;
  std::uint64_t finished_ever() const;  // transactions or operations
  /// Of them, those that had begun and not ended when each thread last looked; 0 before the window is over.
  std::size_t unfinished() const;
  /// Workers of which fenced() does not hold yet.
  std::size_t not_fenced() const;

  /// A completion that failed, or an exception, in any thread; empty: all is well.
  std::string failure() const;

  /// Ends the threads.
  void join();

  // Afterwards:
  VerbCounts verbs_in_window() const;
  std::vector<std::int64_t> core_busy_ps() const;  // by thread, inside the window
  /// In words: what its unfinished work was at, and requests that have not completed, by rank.
  std::string describe_unfinished() const;

 private:
  enum class Stage : int { kRun, kFence, kEnd };  // an int: a futex by itself, for who waits for it

  /// What a driver tells the run's thread, in a cache line of its own.
  struct alignas(64) Thread {
    std::atomic<bool> finished{false}, fenced{false}, failed{false};
    std::atomic<std::uint64_t> activity{0}, finished_ever{0};
    std::atomic<std::size_t> unfinished{0};
    // the driver's own until it has been joined
    bool counting = false, counted = false;
    VerbCounts before, after;
    std::int64_t busy_ps = 0;
    std::string failure;
    std::thread thread;
  };

  void enter(Stage stage) {
    stage_.store(stage);
    stage_.notify_all();
  }
  void drive(int index, int cpu);
  void work(int index, std::int64_t idle_before_nap_ps);
  void count(Thread& self, int index, std::int64_t now_ps);

  ibverbs::Cluster& cluster_;
  protocols::Program& program_;
  const protocols::Window& window_;
  const std::atomic<bool>& stop_;
  const bool open_loop_;
  std::atomic<Stage> stage_{Stage::kRun};
  std::vector<std::unique_ptr<Thread>> threads_;
};

}  // namespace verbtwin::tools
