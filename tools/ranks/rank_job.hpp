// RankJob: what a scenario runs on a real cluster, as one rank sees it: its own node's program, what that has
// to tell when it is over, and, on rank 0, the result of all.
//
// Owned by the rank's run; outlives nothing of the cluster. One thread, while no worker runs. report() and
// result() work on the same bytes, so a rank that sends others throws std::runtime_error there.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backend/cluster.hpp"
#include "protocols/program.hpp"
#include "scenarios/scenario.hpp"
#include "tools/run/result.hpp"
#include "tools/run/simulate.hpp"

namespace verbtwin::tools {

class RankJob {
 public:
  /// Question i goes to rank i; returns their answers.
  using Ask = std::function<std::vector<std::string>(std::vector<std::string>)>;

  virtual ~RankJob() = default;
  virtual std::size_t node_memory_bytes() const = 0;
  /// Makes this node's program, owned by the job.
  virtual protocols::Program& make_node(int node, NodeMemory& memory,
                                        const std::vector<WorkerPort*>& ports) = 0;
  /// What this rank has to tell.
  virtual std::string report() = 0;
  /// Rank 0: the result, from what each rank told. Asks questions() times.
  virtual nlohmann::json result(const RunInput& run, const std::vector<std::string>& reports,
                                const Ask& ask) = 0;
  /// How often rank 0's result asks every rank, and what this rank answers.
  virtual int questions() const { return 0; }
  virtual std::string answer(const std::string& question) {
    static_cast<void>(question);
    return "";
  }
};

/// Makes `result`, of what rank 0 counted by itself, that of a run that failed: partial, of one machine, and
/// without the warnings that a whole run would deserve.
void mark_failed(nlohmann::json& result, const std::string& why);

/// Throws UserError where the scenario's parts do not fit together.
std::unique_ptr<RankJob> make_rank_job(const scenarios::Scenario& scenario, const RunControl& control);

}  // namespace verbtwin::tools
