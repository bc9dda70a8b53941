// CoroutineThread: what the micro-benchmarks that run as coroutines of a Worker have in common: its set-up,
// when operations begin, the choice of targets, and the count of what is done.
//
// Made by the Benchmark, used by its worker's thread only. Operations here are those that a coroutine waits
// for from end to end, so every one has a latency.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <pcg_random.hpp>
#include <utility>

#include "protocols/arrivals.hpp"
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
  /// `offered_per_s`: operations that this thread is asked for; 0: as many as it does.
  CoroutineThread(WorkerPort& port, std::uint32_t cqe, const BenchmarkParameters& parameters,
                  double offered_per_s, const QpInitAttributes& queue_pairs = one_sided_queue_pairs())
      : port_(port),
        cpu_(port.cpu()),
        worker_(port, cqe, queue_pairs),
        random_(parameters.seed, number_of(port)),
        coroutines_(parameters.coroutines),
        arrivals_(offered_per_s, parameters.seed, number_of(port)) {}

  /// Finds the peers, if they are wanted before the first coroutine runs; every thread of the cluster exists.
  virtual void connect() {}
  /// One coroutine's life: while there is a next_start(), an operation, then count().
  virtual Task<void> run(int coroutine) = 0;

  /// When the next operation begins: now, or, where a load is offered, once it is asked for. Nothing: the run
  /// is over.
  Task<std::optional<Start>> next_start() {
    if (running()) {
      if (!arrivals_.open()) co_return Start{cpu_.now_ps(), cpu_.now_ps()};
      auto arrival = arrivals_.next(worker_, cpu_, *window_, *stop_);
      const std::optional<std::int64_t> asked_ps = co_await arrival;
      if (asked_ps) co_return Start{*asked_ps, cpu_.now_ps()};
    }
    if (arrivals_.open()) statistics_.offered = arrivals_.count(*window_);
    co_return std::nullopt;
  }
  int pick_node() { return pick_other_node(random_, port_.node(), port_.shape().nodes); }

  /// `operations` that began and ended together.
  void count(const Start& start, WcStatus status, std::uint32_t operations = 1) {
    if (status != WcStatus::kSuccess) {
      statistics_.failed += operations;
      return;
    }
    const std::int64_t now_ps = cpu_.now_ps();
    statistics_.operations_ever += operations;
    if (!window_->contains(now_ps)) return;
    statistics_.operations += operations;
    statistics_.latency_ps.push_back(now_ps - start.asked_ps);
    if (arrivals_.open()) statistics_.waited_ps.push_back(start.waited_ps());
  }

  WorkerPort& port_;
  Cpu& cpu_;
  Worker worker_;
  pcg32 random_;

 private:
  bool running() const { return cpu_.now_ps() < window_->end_ps && !stop_->load(std::memory_order_relaxed); }
  static std::uint64_t number_of(const WorkerPort& port) {
    return static_cast<std::uint64_t>(port.node()) << 16 | static_cast<std::uint64_t>(port.thread());
  }

  int coroutines_;
  Arrivals arrivals_;
  const Window* window_ = nullptr;
  const std::atomic<bool>* stop_ = nullptr;
};

}  // namespace verbtwin::protocols
