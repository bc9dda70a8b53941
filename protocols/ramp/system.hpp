// RampSystem: a protocol of the RAMP family and a workload of key groups on a cluster, the same whichever
// binding is below.
//
// RampSystem is the plan that every node shares; RampNode is one node's part: its versions, if it is a
// server, and its workers. The program that runs a cluster owns both; a RampSystem outlives its RampNodes. A
// RampNode is set up and read out by one thread; in between each of its workers belongs to its own.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

#include "backend/cluster.hpp"
#include "protocols/checks/ramp_history.hpp"
#include "protocols/checks/report.hpp"
#include "protocols/program.hpp"
#include "protocols/ramp/layout.hpp"
#include "protocols/ramp/options.hpp"
#include "protocols/ramp/statistics.hpp"
#include "protocols/rpc/buffer_rpc.hpp"
#include "protocols/rpc/ud_rpc.hpp"
#include "protocols/run_parameters.hpp"
#include "protocols/workloads/key_groups.hpp"

namespace verbtwin::protocols {

struct RampParameters : RunParameters {
  int servers = 0;  // nodes 0 .. servers-1 serve and the others are clients; 0: every node is both
  RampOptions options;
};

class RampSystem {
 public:
  /// `workload` is the resolved object of a scenario. Throws UserError where the parts do not fit together.
  RampSystem(const RampParameters& parameters, const nlohmann::json& workload);

  const RampParameters& parameters() const { return parameters_; }
  const KeyGroups& workload() const { return *workload_; }
  const RampLayout& layout() const { return layout_; }
  std::size_t node_memory_bytes() const { return layout_.total_b; }
  /// Throws UserError where the device cannot carry what the workers send: datagrams too short, queues too.
  void check_device(const DeviceAttributes& device) const;

  bool is_server(int node) const { return node < layout_.servers; }
  bool is_client(int node) const { return parameters_.servers == 0 || !is_server(node); }

 private:
  friend class RampNode;
  void lay_out();
  void check_datagrams(const DeviceAttributes& device) const;
  std::uint32_t completions() const;  // that a worker must have room for

  RampParameters parameters_;
  std::unique_ptr<KeyGroups> workload_;
  RampLayout layout_;
  RpcOptions datagrams_;
  BufferRpc::Shape buffers_;
  std::size_t datagrams_b_ = 0, buffers_b_ = 0, landing_b_ = 0;  // of a worker's memory
};

class RampNode final : public Program {
 public:
  /// `ports`: one per thread. Nothing here is owned by the program and all of it outlives it.
  RampNode(const RampSystem& system, int node, NodeMemory& memory, const std::vector<WorkerPort*>& ports);
  ~RampNode() override;

  void start(const Window& window, const std::atomic<bool>& stop) override;
  Steppable& worker(int thread) override;
  int threads() const override { return static_cast<int>(threads_.size()); }
  std::size_t unfinished_of(int thread) const override;
  std::uint64_t finished_ever_of(int thread) const override;

  // Afterwards, when all workers have stopped:
  const RampStatistics& statistics(int thread) const;
  /// Of each client of this thread: none on a node that only serves.
  std::vector<const RampHistory*> histories(int thread) const;
  std::uint64_t versions_collected_early() const;
  std::vector<LastVersion> last_versions() const;
  std::vector<std::uint64_t> locked_keys() const;

 private:
  struct Shared;
  struct Thread;
  std::unique_ptr<Shared> shared_;
  std::vector<std::unique_ptr<Thread>> threads_;
};

/// Every check of a finished run, from all clients' histories by node, thread and coroutine, and what all
/// servers hold.
std::vector<CheckReport> run_checks(const RampSystem& system, RampHistories histories,
                                    std::vector<LastVersion> last_versions,
                                    std::span<const std::uint64_t> locked_keys);

}  // namespace verbtwin::protocols
