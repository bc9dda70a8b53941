#include "tools/run/job.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "backend/user_error.hpp"
#include "protocols/micro/benchmark.hpp"
#include "protocols/ramp/system.hpp"
#include "protocols/spread_bits.hpp"
#include "protocols/system.hpp"
#include "tools/run/trace.hpp"

namespace verbtwin::tools {

ClusterShape shape_of(const scenarios::Cluster& c) {
  if (c.threads % c.nics_per_node != 0) {
    throw UserError("/cluster/threads",
                    fmt::format("{} threads cannot be dealt evenly to {} NICs: a multiple of {} is allowed",
                                c.threads, c.nics_per_node, c.nics_per_node));
  }
  const int stands_for = c.emulate_nodes == 0 ? 1 : c.emulate_nodes / c.nodes;
  return {c.nodes,    c.threads,      c.nics_per_node, c.qps_per_peer * stands_for,
          stands_for, c.own_send_cqs, c.ack_timeout};
}

std::uint64_t seed_of(const scenarios::Run& run) {
  constexpr std::uint64_t kGoldenRatio = 0x9E3779B97F4A7C15;
  if (run.index == 0) return run.seed;
  const std::uint64_t mixed =
      protocols::spread_bits(protocols::spread_bits(run.seed + 1) + run.index * kGoldenRatio);
  return (mixed | 1ULL << 63) - (mixed & 1);  // what no scenario says for a seed, nor all ones (Arrivals)
}

namespace {

/// A System that all nodes share, and a Node of it on each.
template <typename System, typename Node>
class SystemJob : public Job {
 public:
  SystemJob(const auto& parameters, const nlohmann::json& workload) : system_(parameters, workload) {}

  std::size_t node_memory_bytes() const override { return system_.node_memory_bytes(); }
  void check_device(const DeviceAttributes& device) const override { system_.check_device(device); }

  protocols::Program& add_node(int node, NodeMemory& memory, const std::vector<WorkerPort*>& ports) override {
    nodes_.push_back(std::make_unique<Node>(system_, node, memory, ports));
    return *nodes_.back();
  }

 protected:
  System system_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

class Transactions final : public SystemJob<protocols::System, protocols::NodeProgram> {
 public:
  using SystemJob::SystemJob;

  void look() override {
    if (system_.parameters().check) protocols::find_losses(system_, nodes_, losses_);
  }

  nlohmann::json result(const RunInput& run) override {
    TransactionsInput input{run, {}, &occ_names(), {}, {}};
    input.transaction_names = system_.workload().transaction_names();
    for (const auto& node : nodes_) {
      for (int thread = 0; thread < system_.parameters().shape.threads; ++thread) {
        input.workers.push_back(&node->statistics(thread));
      }
    }
    if (system_.parameters().check && !run.unchecked)
      input.checks = protocols::run_checks(system_, nodes_, losses_);
    return make_result(input);
  }

 private:
  protocols::Findings losses_;
};

class RampTransactions final : public SystemJob<protocols::RampSystem, protocols::RampNode> {
 public:
  using SystemJob::SystemJob;

  nlohmann::json result(const RunInput& run) override {
    RampInput input{{run, {}, &ramp_names(), {}, {}}, {}, 0};
    input.transaction_names = system_.workload().transaction_names();
    std::vector<const protocols::RampHistory*> histories;
    std::vector<protocols::LastVersion> last_versions;
    std::vector<std::uint64_t> locked_keys;
    const bool is_checked = system_.parameters().check && !run.unchecked;
    for (const auto& node : nodes_) {
      for (int thread = 0; thread < node->threads(); ++thread) {
        input.clients.push_back(&node->statistics(thread));
        const auto more = node->histories(thread);
        histories.insert(histories.end(), more.begin(), more.end());
      }
      input.collected_early += node->versions_collected_early();
      if (!is_checked) continue;
      const auto held = node->last_versions();
      last_versions.insert(last_versions.end(), held.begin(), held.end());
      const auto locked = node->locked_keys();
      locked_keys.insert(locked_keys.end(), locked.begin(), locked.end());
    }
    if (is_checked)
      input.checks = protocols::run_checks(system_, histories, std::move(last_versions), locked_keys);
    return make_result(std::move(input));
  }
};

class MicroBenchmark final : public Job {
 public:
  explicit MicroBenchmark(const scenarios::Scenario& scenario)
      : threads_(scenario.cluster.threads),
        benchmark_(protocols::make_benchmark(scenario.workload, benchmark_parameters(scenario))) {}

  std::size_t node_memory_bytes() const override { return benchmark_->node_memory_bytes(); }
  void check_device(const DeviceAttributes& device) const override { benchmark_->check_device(device); }
  bool receives_on_queue_pairs() const override { return benchmark_->receives_on_queue_pairs(); }

  protocols::Program& add_node(int, NodeMemory&, const std::vector<WorkerPort*>& ports) override {
    nodes_.push_back(std::make_unique<protocols::BenchmarkNode>(*benchmark_, ports));
    return *nodes_.back();
  }

  nlohmann::json result(const RunInput& run) override {
    OperationsInput input{run, {}, benchmark_->machines()};
    for (const auto& node : nodes_) {
      for (int thread = 0; thread < threads_; ++thread) input.workers.push_back(&node->statistics(thread));
    }
    return make_result(input);
  }

 private:
  int threads_;
  std::unique_ptr<protocols::Benchmark> benchmark_;
  std::vector<std::unique_ptr<protocols::BenchmarkNode>> nodes_;
};

protocols::RunParameters run_parameters(const scenarios::Scenario& scenario, const RunControl& control) {
  protocols::RunParameters p;
  p.shape = shape_of(scenario.cluster);
  p.coroutines = scenario.cluster.coroutines;
  p.seed = seed_of(scenario.run);
  p.check = scenario.run.check != "none";
  p.one_clock = scenario.backend == "sim";
  p.offered_per_s = scenario.run.offered_per_s;
  if (control.trace != nullptr) p.observer = control.trace->attempts();
  return p;
}

}  // namespace

protocols::SystemParameters system_parameters(const scenarios::Scenario& scenario,
                                              const RunControl& control) {
  protocols::SystemParameters p{run_parameters(scenario, control), scenario.cluster.replicas,
                                protocols::OccOptions::from_json(scenario.protocol)};
  p.options.sabotage = control.sabotage;
  return p;
}

bool is_ramp(const scenarios::Scenario& scenario) {
  const auto entries = protocols::ramp_entries();
  return std::ranges::find(entries, scenario.protocol.value("name", ""), &protocols::RegistryEntry::name) !=
         entries.end();
}

const char* what_is_run(const scenarios::Scenario& scenario) {
  return scenario.protocol.is_null() ? "operation" : "transaction";
}

protocols::RampParameters ramp_parameters(const scenarios::Scenario& scenario, const RunControl& control) {
  protocols::RampParameters p{run_parameters(scenario, control), scenario.cluster.servers,
                              protocols::RampOptions::from_json(scenario.protocol)};
  p.options.sabotage = control.ramp_sabotage;
  return p;
}

protocols::BenchmarkParameters benchmark_parameters(const scenarios::Scenario& scenario) {
  return {shape_of(scenario.cluster), scenario.cluster.coroutines, seed_of(scenario.run),
          scenario.run.offered_per_s};
}

std::unique_ptr<Job> make_job(const scenarios::Scenario& scenario, const RunControl& control) {
  if (scenario.protocol.is_null()) return std::make_unique<MicroBenchmark>(scenario);
  if (is_ramp(scenario))
    return std::make_unique<RampTransactions>(ramp_parameters(scenario, control), scenario.workload);
  return std::make_unique<Transactions>(system_parameters(scenario, control), scenario.workload);
}

}  // namespace verbtwin::tools
