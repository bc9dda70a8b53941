// CoroutineThread: what the micro-benchmarks that run as coroutines of a Worker have in common: its set-up,
// the choice of targets, and the count of what is done.
//
// Made by the Benchmark, used by its worker's thread only. Operations here are those that a coroutine waits
// for from end to end, so every one has a latency.
#pragma once

#include <atomic>
#include <cstddef>
#include <pcg_random.hpp>
#include <utility>

#include "protocols/micro/benchmark.hpp"
#include "protocols/runtime/worker.hpp"

namespace verbtwin::protocols {

/// A machine other than `node`, each as likely.
inline int pick_other_node(pcg32& random, int node, int nodes) {
  const int other = static_cast<int>(random(static_cast<std::uint32_t>(nodes - 1)));
  return other < node ? other : other + 1;
}

class CoroutineThread : public BenchmarkThread {
 public:
  void start(const Window& window, const std::atomic<bool>& stop) final {
    window_ = &window;
    stop_ = &stop;
    connect();
    for (int coroutine = 0; coroutine < coroutines_; ++coroutine) worker_.spawn(run(coroutine));
  }
  Steppable& steppable() final { return worker_; }
  std::size_t unfinished() const final { return worker_.unfinished(); }

 protected:
  CoroutineThread(WorkerPort& port, std::uint32_t cqe, int coroutines, std::uint64_t seed,
                  const QpInitAttributes& queue_pairs = one_sided_queue_pairs())
      : port_(port),
        cpu_(port.cpu()),
        worker_(port, cqe, queue_pairs),
        random_(seed,
                static_cast<std::uint64_t>(port.node()) << 16 | static_cast<std::uint64_t>(port.thread())),
        coroutines_(coroutines) {}

  /// Finds the peers, if they are wanted before the first coroutine runs; every thread of the cluster exists.
  virtual void connect() {}
  /// One coroutine's life: while running(), an operation, then count().
  virtual Task<void> run(int coroutine) = 0;

  bool running() const { return cpu_.now_ps() < window_->end_ps && !stop_->load(std::memory_order_relaxed); }
  int pick_node() { return pick_other_node(random_, port_.node(), port_.shape().nodes); }

  void count(std::int64_t start_ps, WcStatus status) {
    if (status != WcStatus::kSuccess) {
      ++statistics_.failed;
      return;
    }
    const std::int64_t now_ps = cpu_.now_ps();
    ++statistics_.operations_ever;
    if (!window_->contains(now_ps)) return;
    ++statistics_.operations;
    statistics_.latency_ps.push_back(now_ps - start_ps);
  }

  WorkerPort& port_;
  Cpu& cpu_;
  Worker worker_;
  pcg32 random_;

 private:
  int coroutines_;
  const Window* window_ = nullptr;
  const std::atomic<bool>* stop_ = nullptr;
};

}  // namespace verbtwin::protocols
