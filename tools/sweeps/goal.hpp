// What a cluster has to reach, and whether a run did. Where a load is offered and something is allowed at
// most, the load is to be done like a rate: whoever falls behind with it has latencies that only say how long
// the run was.
//
// Values and pure functions of result JSON (tools/RESULT.md); callable from any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
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
/// A value of the goal's quantity: "98.2 M/s", "20.0 us", "0.40 %".
std::string with_unit(const Goal& goal, double value);

/// The goals that `result` misses.
std::vector<Goal> missed(const std::vector<Goal>& goals, const nlohmann::json& result);

/// Of the percentile that the fewest transactions lie beyond, where these are few; empty: there is none.
std::string warning_of_few(const std::vector<Goal>& goals, const nlohmann::json& result);

bool offers_load(const nlohmann::json& result);
/// How much of run.offered_per_s came to its end; nothing where the load is done, or none is offered. Whose
/// backlog grows has latencies that say how long the run was.
std::optional<double> behind_with(const nlohmann::json& result);
/// What share of those that end commits.
double committed_share(const nlohmann::json& result);
/// How many run.offered_per_s lets expect in the window.
double expected_of(const nlohmann::json& result);
/// The rate of a cluster that does its load, had as many come as are to be expected.
double asked_per_s(const nlohmann::json& result);
/// The rate that a cluster reaches: one that does its load does it however many came by chance, which is the
/// more the fewer they are.
double reached_per_s(const Goal& goal, const nlohmann::json& result);
/// A larger cluster would reach no more.
bool is_out_of_reach(const std::vector<Goal>& rates, const nlohmann::json& result);

}  // namespace verbtwin::tools
