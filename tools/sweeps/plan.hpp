// Planning: the smallest cluster that meets goals, found by running a few sizes.
//
// What is asked for at least (a rate) decides the size: it is taken to grow with the cluster, or at least not
// to fall. What is allowed at most (a latency, aborts) is looked at where the rate is reached: mostly it gets
// worse from there on, as every machine brings its own clients. Where it is missed, larger clusters are tried
// until two of them in a row are hardly better, and the smallest between is found by halves. Where a load is
// offered and something is allowed at most, the load is to be done like a rate: whoever falls behind with it
// has latencies that only say how long the run was.
//
// Chosen: from the lowest size on, the next one guessed from the rate per machine so far, then between one
// that falls short and one that does not, guesses and halves by turns; the answer and the size below it have
// both run. Rejected: every size (a hundred runs for what takes four), fitting a scaling law (an answer
// nobody has run), halves only (three times the runs, as rates are nearly proportional to machines).
//
// Values and pure functions; one thread.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace verbtwin::tools {

struct Goal {
  std::string path;  // in a result: "committed_per_s", "latency_us.p99"
  bool at_least;     // else at most
  double bound;

  double of(const nlohmann::json& result) const;
  /// What is allowed at most never is where nothing was committed or the offered load is not done.
  bool met_by(const nlohmann::json& result) const;
};

/// "committed_per_s>=100e6". Throws UserError, whose message is the whole line, for what is no goal.
Goal parse_goal(const std::string& text);
/// "committed_per_s >= 100 M"
std::string describe(const Goal& goal);

/// The goals that `result` misses.
std::vector<Goal> missed(const std::vector<Goal>& goals, const nlohmann::json& result);

/// Which sizes to run, and the smallest that meets all goals.
class SizeSearch {
 public:
  /// Between `low` and `high` machines, both included.
  SizeSearch(const std::vector<Goal>& goals, int low, int high);

  /// Over: none.
  std::optional<int> next() const;
  void add(int nodes, const nlohmann::json& result);
  /// Once next() is none: the smallest that meets all goals, else the smallest that reaches the rates.
  std::optional<int> found() const;

 private:
  std::optional<int> next_for_rates() const;
  std::optional<int> next_for_limits() const;
  int guess(int nodes) const;

  std::vector<Goal> rates_, limits_;
  int low_, high_;                // smaller than low_ is too small
  std::optional<int> enough_;     // the smallest known to reach the rates
  int between_ = 0;               // runs since
  std::map<int, double> growth_;  // by size that ran: how many times its rates would have to be
  std::map<int, double> excess_;  // likewise: how many times what is allowed at most it has
};

/// One setting of what the scenario sweeps, none where it does not: every size that ran.
struct Alternative {
  std::vector<std::pair<std::string, nlohmann::json>> settings;
  SizeSearch search;
  std::map<int, nlohmann::json> results;  // by nodes

  /// The answer's, or null.
  const nlohmann::json* answer() const;
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
