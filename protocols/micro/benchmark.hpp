// Benchmark: a micro-benchmark on a cluster: raw verbs, RPCs or groups of record accesses, without
// transactions. The workloads `primitive`, `echo` and `multi-object` of a scenario.
//
// A Benchmark is the plan that every node shares, const after construction; BenchmarkNode is one node's part
// and owns a BenchmarkThread per worker. The program that runs a cluster owns both; a Benchmark outlives its
// nodes. Each thread's object belongs to that worker thread while the run lasts. What does not fit together
// throws UserError with the pointer of the parameter.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "backend/cluster.hpp"
#include "protocols/program.hpp"
#include "protocols/registry.hpp"

namespace verbtwin::protocols {

/// What one worker counts. Latencies in picoseconds, from before the request is built (with a load that is
/// offered, from when it was asked for) until its completion has been taken; of unsignalled requests none is
/// known.
struct OperationStatistics {
  std::vector<std::int64_t> latency_ps;  // inside the window
  std::vector<std::int64_t>
      waited_ps;                 // with a load that is offered, of each of these: until a coroutine took it
  std::uint64_t operations = 0;  // inside the window
  std::uint64_t operations_ever = 0;
  std::uint64_t begun = 0;    // requests posted inside the window; 0 of calls, and where receives count
  std::uint64_t failed = 0;   // operations whose completion was an error
  std::uint64_t offered = 0;  // with a load that is offered: how many were due in the window
};

struct BenchmarkParameters {
  ClusterShape shape;
  int coroutines = 1;  // per thread, where a benchmark has coroutines
  std::uint64_t seed = 1;
  double offered_per_s = 0;  // operations that all machines are asked for; 0: as many as they do
};

class BenchmarkThread {
 public:
  virtual ~BenchmarkThread() = default;
  virtual void start(const Window& window, const std::atomic<bool>& stop) = 0;
  virtual Steppable& steppable() = 0;
  virtual std::size_t unfinished() const = 0;
  virtual bool is_passive() const { return false; }
  const OperationStatistics& statistics() const { return statistics_; }

 protected:
  OperationStatistics statistics_;
};

class Benchmark {
 public:
  virtual ~Benchmark() = default;
  /// Registered memory that each node needs.
  virtual std::size_t node_memory_bytes() const = 0;
  /// Throws UserError where the device cannot carry what a thread sends.
  virtual void check_device(const DeviceAttributes& device) const = 0;
  /// Whether a thread posts RECVs to its connected queue pairs.
  virtual bool receives_on_queue_pairs() const { return false; }
  /// `port` outlives the thread's object; its device passed check_device().
  virtual std::unique_ptr<BenchmarkThread> make_thread(WorkerPort& port) const = 0;
  /// Machines that the rate "per machine" is over: all of them where every machine does the same, one where
  /// one machine faces the others.
  virtual int machines() const = 0;
};

/// The parameter of this name, all threads where it is 0. Throws UserError where a machine has fewer.
int issuing_threads_of(const nlohmann::json& workload, const ClusterShape& shape);

std::vector<RegistryEntry> benchmark_entries();
/// `workload` is the resolved object of a scenario and names one of benchmark_entries().
std::unique_ptr<Benchmark> make_benchmark(const nlohmann::json& workload,
                                          const BenchmarkParameters& parameters);

class BenchmarkNode final : public Program {
 public:
  /// `ports`: one per thread; not owned.
  BenchmarkNode(const Benchmark& benchmark, const std::vector<WorkerPort*>& ports);

  void start(const Window& window, const std::atomic<bool>& stop) override;
  Steppable& worker(int thread) override { return threads_[static_cast<std::size_t>(thread)]->steppable(); }
  int threads() const override { return static_cast<int>(threads_.size()); }
  bool is_passive(int thread) const override {
    return threads_[static_cast<std::size_t>(thread)]->is_passive();
  }
  std::size_t unfinished_of(int thread) const override {
    return threads_[static_cast<std::size_t>(thread)]->unfinished();
  }
  std::uint64_t finished_ever_of(int thread) const override { return statistics(thread).operations_ever; }
  const OperationStatistics& statistics(int thread) const {
    return threads_[static_cast<std::size_t>(thread)]->statistics();
  }

 private:
  std::vector<std::unique_ptr<BenchmarkThread>> threads_;
};

}  // namespace verbtwin::protocols
