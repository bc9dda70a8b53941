// Job: what a scenario runs on its cluster, transactions or a micro-benchmark, as the run that drives it
// needs to know it.
//
// Owned by one simulation; outlives nothing of the cluster. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "backend/cluster.hpp"
#include "protocols/micro/benchmark.hpp"
#include "protocols/program.hpp"
#include "protocols/ramp/system.hpp"
#include "protocols/system.hpp"
#include "scenarios/scenario.hpp"
#include "tools/run/result.hpp"
#include "tools/run/simulate.hpp"

namespace verbtwin::tools {

class Job {
 public:
  virtual ~Job() = default;
  virtual std::size_t node_memory_bytes() const = 0;
  /// Throws UserError where the device cannot carry what is sent: what add_node() would refuse.
  virtual void check_device(const DeviceAttributes& device) const = 0;
  /// Whether messages arrive at connected queue pairs, which threads cannot share then.
  virtual bool receives_on_queue_pairs() const { return false; }
  /// Makes the next node's program, owned by the job.
  virtual protocols::Program& add_node(int node, NodeMemory& memory,
                                       const std::vector<WorkerPort*>& ports) = 0;
  /// Told at an instant of the run at which nothing else happens, of a run whose accesses to memory are
  /// whole.
  virtual void look() {}
  /// Everything but "simulator", once the run is over; runs the checks.
  virtual nlohmann::json result(const RunInput& run) = 0;
};

/// The cluster as bindings and protocols see it. Throws UserError where threads and NICs do not fit.
ClusterShape shape_of(const scenarios::Cluster& cluster);

/// What all random numbers of a run come from: its seed, or of its n-th run another for each.
std::uint64_t seed_of(const scenarios::Run& run);

/// What every node of a run shares, whichever binding it is on. Throws UserError where the scenario's parts
/// do not fit together.
protocols::SystemParameters system_parameters(const scenarios::Scenario& scenario, const RunControl& control);
protocols::RampParameters ramp_parameters(const scenarios::Scenario& scenario, const RunControl& control);
bool is_ramp(const scenarios::Scenario& scenario);
/// A "transaction", or an "operation" of a micro-benchmark.
const char* what_is_run(const scenarios::Scenario& scenario);
protocols::BenchmarkParameters benchmark_parameters(const scenarios::Scenario& scenario);

/// Throws UserError where the scenario's parts do not fit together.
std::unique_ptr<Job> make_job(const scenarios::Scenario& scenario, const RunControl& control);

}  // namespace verbtwin::tools
