// Planning: the smallest cluster that meets goals, for each setting of what a scenario sweeps.
//
// A run of some hundred microseconds has its latencies by chance, and the first size that meets a goal by
// chance is too small. So the answer and the size below it run with two more seeds, and most of the three
// decide what a size is taken for; the search goes on where that is something else.
//
// Values and pure functions; one thread.
#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/sweeps/goal.hpp"
#include "tools/sweeps/size_search.hpp"

namespace verbtwin::tools {

/// One setting of what the scenario sweeps, none where it does not: every size that ran.
class Alternative {
 public:
  using Settings = std::vector<std::pair<std::string, nlohmann::json>>;
  struct Run {
    int nodes;
    std::size_t seed;  // 0: the scenario's own, then the others
  };

  Alternative(Settings settings, SizeSearch search)
      : settings_(std::move(settings)), search_(std::move(search)) {}

  const Settings& settings() const { return settings_; }
  const SizeSearch& search() const { return search_; }
  /// Which may run side by side. Over: none.
  std::vector<Run> next() const;
  /// Of a size the seeds in their order.
  void add(int nodes, nlohmann::json result);

  /// By size, each as the seeds come.
  const std::map<int, std::vector<nlohmann::json>>& results() const { return results_; }
  /// The first run of that size that says of the goals what most of its runs say.
  const nlohmann::json& decided(int nodes) const;
  /// How many runs of that size meet all goals.
  std::size_t met(int nodes) const;
  /// The answer's size, once the search is over, or none; and decided() of it, or null.
  std::optional<int> nodes() const;
  const nlohmann::json* answer() const;

 private:
  Settings settings_;
  SizeSearch search_;
  std::map<int, std::vector<nlohmann::json>> results_;
};

/// Which alternative meets all goals with the fewest machines, of these the one with the highest rate; none
/// does: none.
std::optional<std::size_t> best_of(const std::vector<Alternative>& alternatives,
                                   const std::vector<Goal>& goals);

/// What `plan --json` prints (tools/RESULT.md).
nlohmann::json plan_json(const std::vector<Alternative>& alternatives, const std::vector<Goal>& goals,
                         int low, int high);
/// A line for each alternative, and the best.
std::string render_plan(const std::vector<Alternative>& alternatives, const std::vector<Goal>& goals, int low,
                        int high);

}  // namespace verbtwin::tools
