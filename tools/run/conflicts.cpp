#include "tools/run/conflicts.hpp"

#include <algorithm>

#include "tools/run/warnings.hpp"

namespace verbtwin::tools {

namespace {

using nlohmann::json;

constexpr double kFew = 0.05;  // of the attempts: what phases leave of the time is something else then

/// Attempts that failed because another transaction was at their records, of all; 0 for a micro-benchmark.
double conflict_share(const json& result) {
  const json aborts = result.value("aborts", json::object());
  double failed = 0;
  for (const auto& [reason, count] : aborts.items()) {
    if (reason != "verb_failed") failed += count.get<double>();
  }
  const double attempts = result.value("committed", 0.0) + result.value("user_aborts", 0.0) +
                          result.value("aborted_attempts", 0.0);
  return attempts == 0 ? 0 : failed / attempts;
}

}  // namespace

std::optional<double> retry_share(const RunInput& input, const json& result) {
  const double committed = result.value("committed", 0.0);
  if (input.scenario->run.offered_per_s > 0 || committed == 0) return std::nullopt;
  double phases_us = 0;
  for (const json& phase : result.at("phases"))
    phases_us += phase.at("count").get<double>() * phase.at("mean_us").get<double>();
  const double ended = committed + result.value("user_aborts", 0.0);  // these take about as long
  const double time_us = coroutines_of(input) * static_cast<double>(input.window_ps) / 1e6;
  return std::max(1 - phases_us * ended / committed / time_us, 0.0);
}

bool conflicts_limit(const RunInput& input, const json& result, Full full) {
  const double attempts = conflict_share(result);
  if (attempts < kFew) return false;
  const double time = retry_share(input, result).value_or(attempts);
  if (full == Full::kNothing) return std::max(attempts, time) > 1.0 / 3;
  return (full == Full::kOne ? time : std::min(attempts, time)) > 1.0 / 2;
}

bool conflicts_matter(const RunInput& input, const json& result) {
  return conflict_share(result) >= kFew && retry_share(input, result).value_or(0) >= 1.0 / 4;
}

}  // namespace verbtwin::tools
