// System: a protocol and a workload on a cluster, the same whichever binding is below.
//
// System is the plan that every node shares: layout, options, workload. NodeProgram is one node's part: its
// store and its workers. The program that runs a cluster owns both; a System outlives its NodePrograms. A
// NodeProgram is set up and read out by one thread; in between each of its workers belongs to its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

#include "backend/cluster.hpp"
#include "protocols/checks/history.hpp"
#include "protocols/checks/report.hpp"
#include "protocols/occ/options.hpp"
#include "protocols/run_parameters.hpp"
#include "protocols/statistics.hpp"
#include "protocols/workloads/workload.hpp"

namespace verbtwin::protocols {

struct SystemParameters : RunParameters {
  int replicas = 1;
  OccOptions options;
};

class System {
 public:
  /// `workload` is the resolved object of a scenario. Throws UserError where options and data do not fit
  /// together.
  System(const SystemParameters& parameters, const nlohmann::json& workload);
  ~System();

  const SystemParameters& parameters() const { return parameters_; }
  const Workload& workload() const { return *workload_; }
  const StoreLayout& layout() const { return *layout_; }
  const PhaseCycles& cycles() const { return cycles_; }
  /// Registered memory that each node needs.
  std::size_t node_memory_bytes() const { return layout_->total_bytes(); }
  std::size_t arena_bytes() const { return arena_b_; }
  std::size_t spare_arena_bytes() const { return spare_arena_b_; }  // 0: none
  std::size_t rpc_bytes() const { return rpc_b_; }
  /// Throws UserError where the device cannot carry what the workers send: datagrams too short, queues too.
  void check_device(const DeviceAttributes& device) const;
  std::uint32_t completions() const;  // that a worker must have room for
  KeepLogged keep_logged() const;

 private:
  LogSpec log_spec(const TransactionMaxima& most);
  void plan_messages(std::span<const TableSpec> tables, const TransactionMaxima& most, const LogSpec& log);

  SystemParameters parameters_;
  std::unique_ptr<Workload> workload_;
  std::unique_ptr<StoreLayout> layout_;
  PhaseCycles cycles_;
  std::size_t arena_b_ = 0, spare_arena_b_ = 0, rpc_b_ = 0;
  std::size_t entries_max_ = 1;                             // that a transaction needs in one log
  std::uint32_t awaited_max_ = 0;                           // one-sided requests that one waits for at a time
  std::uint32_t entry_packet_b_ = 0, record_packet_b_ = 0;  // that hold the longest of these; 0: none is sent
  std::uint32_t packet_min_b_ = 0;                          // what the RPC layer's RECVs are reckoned with
};

class NodeProgram final : public Program {
 public:
  /// `ports`: one per thread. Nothing here is owned by the program and all of it outlives it.
  NodeProgram(const System& system, int node, NodeMemory& memory, const std::vector<WorkerPort*>& ports);
  ~NodeProgram() override;

  void start(const Window& window, const std::atomic<bool>& stop) override;
  Steppable& worker(int thread) override;
  int threads() const override { return static_cast<int>(threads_.size()); }
  std::size_t unfinished_of(int thread) const override;
  std::uint64_t finished_ever_of(int thread) const override;
  std::string describe_unfinished() const override;

  /// By the worker's own thread: what a coroutine's transaction is at.
  Phase phase(int thread, int coroutine) const;

  // Afterwards, when all workers have stopped:
  const WorkerStatistics& statistics(int thread) const;
  const History& history(int thread) const;
  NodeStore& store();
  /// Has `nodes` apply all that this node's workers have logged there.
  void drain_logs(const std::vector<std::unique_ptr<NodeProgram>>& nodes) const;

  // At an instant of a run at which no worker steps:
  /// Appends the records that this node's transactions may be installing, or have installed last.
  void append_installed(std::vector<RecordId>& records) const;
  /// Appends what this node's workers have in logs that has not been applied there; without digests.
  void append_waiting(const std::vector<std::unique_ptr<NodeProgram>>& nodes,
                      std::vector<LoggedWrite>& waiting) const;

 private:
  struct Thread;
  struct Shared;
  std::unique_ptr<Shared> shared_;
  std::vector<std::unique_ptr<Thread>> threads_;
};

/// A copy of a record when the run has ended.
struct FinalRecord {
  std::uint64_t lock = 0;
  std::uint64_t version = 0;  // 0: never written, and `value` counts for nothing
  std::span<const std::byte> value;
};
/// The copy of replica rank `rank`, which `holder` has in `slot`: the primary's NodeStore::find_slot().
FinalRecord final_record(NodeStore& holder, RecordId record, int rank, std::uint64_t slot);
/// Fills in the copies of some records, all or the first ones by replica rank: those of the first record,
/// those of the second, ... Records are named in ascending order mostly, and many at a time.
using FindFinalRecords =
    std::function<void(std::span<const RecordId> records, std::span<FinalRecord> copies)>;

/// Every check of a finished run, from what was gathered of it: all workers' histories (by node, then
/// thread), what all logs held, and a way to look up each record that was written, at its primary (rank 0)
/// and its backups.
std::vector<CheckReport> run_checks(const System& system, std::span<const History* const> histories,
                                    std::span<const std::span<const LoggedWrite>> logged,
                                    const FindFinalRecords& find);

/// The same where all nodes are in this process; drains the logs first. What find_losses() has found belongs
/// to what is said of the logs.
std::vector<CheckReport> run_checks(const System& system,
                                    const std::vector<std::unique_ptr<NodeProgram>>& nodes,
                                    const Findings& losses = {});

/// Looks at all nodes at an instant of a run at which none of their workers steps: is there a version that
/// somebody may have seen and that would be lost with its primary (losses.hpp)? Not where accesses to memory
/// are torn: logs are behind what NICs have acknowledged then.
void find_losses(const System& system, const std::vector<std::unique_ptr<NodeProgram>>& nodes,
                 Findings& losses);

}  // namespace verbtwin::protocols
