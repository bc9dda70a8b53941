#include "tools/warnings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace verbtwin::tools {

namespace {

using nlohmann::json;

double us(std::int64_t ps) {
  return static_cast<double>(ps) / 1e6;
}

/// Transactions that were to come in the window.
double asked_for(const RunInput& input) {
  return input.scenario->run.offered_per_s * static_cast<double>(input.window_ps) / 1e12;
}

}  // namespace

double ended_of(const json& result) {
  return result.at("committed").get<double>() + result.at("user_aborts").get<double>();
}

void warn_of_length(const TransactionsInput& input, json& result) {
  constexpr double kTolerance = 0.1;
  const scenarios::Cluster& cluster = input.scenario->cluster;
  const double coroutines = static_cast<double>(cluster.nodes - cluster.servers) * cluster.threads *
                            static_cast<double>(cluster.coroutines);
  const double committed = result.at("committed");
  if (input.window_ps == 0 || committed == 0) return;
  if (input.scenario->run.offered_per_s > 0) return;  // coroutines wait for arrivals, arrivals for coroutines
  const double mean_us = result.at("latency_us").at("mean");
  const double time_us = us(input.window_ps) * coroutines;
  double user_aborts_us = 0;
  for (const json& type : result.at("transactions")) {
    double commit_us = mean_us;  // where none of the type committed
    if (type.at("committed") > 0) commit_us = type.at("latency_us").at("mean");
    user_aborts_us += type.at("user_aborts").get<double>() * commit_us;
  }
  const double of_commits = committed * mean_us / time_us;
  const double at_most = of_commits + user_aborts_us / time_us;
  if (at_most >= 1 - kTolerance && of_commits <= 1 + kTolerance) return;
  const bool missing = at_most < 1 - kTolerance;
  result["warning"].push_back(
      fmt::format("latencies add up to {:.0f} % of the coroutines' time: transactions {}; lengthen "
                  "run.measure_us",
                  100 * (missing ? at_most : of_commits),
                  missing ? "longer than the window are missing from the latencies"
                          : "begun long before the window are in the latencies"));
}

bool keeps_up(const RunInput& input, const json& result) {
  constexpr double kDeviations = 4;  // of a Poisson process
  const double asked = asked_for(input);
  // As many are under way as are asked for during a latency; what the warm-up had no time for begins in the
  // window.
  const double mean_us = result.at("latency_us").at("mean");
  const double begins_us = std::max(mean_us - input.scenario->run.warmup_us, 0.0);
  const double begin = input.scenario->run.offered_per_s * begins_us / 1e6;
  return asked - ended_of(result) <= begin + kDeviations * std::sqrt(asked);
}

void warn_of_backlog(const RunInput& input, json& result) {
  if (input.scenario->run.offered_per_s == 0 || input.window_ps == 0 || keeps_up(input, result)) return;
  result["warning"].push_back(fmt::format(
      "of the offered load {:.0f} % came to its end: more is asked for than the cluster does, and "
      "latencies grow with the length of the run",
      100 * ended_of(result) / asked_for(input)));
}

void warn_of_start(const RunInput& input, json& result) {
  const double warmup_us = input.scenario->run.warmup_us, mean_us = result.at("latency_us").at("mean");
  if (warmup_us == 0 || mean_us <= warmup_us) return;
  if (input.scenario->run.offered_per_s > 0 && !keeps_up(input, result))
    return;  // a longer one would not help
  result["warning"].push_back(
      fmt::format("a latency of {:.3g} us is longer than the warm-up of {:.3g} us: what is measured is the "
                  "start; lengthen run.warmup_us",
                  mean_us, warmup_us));
}

void warn_of_trend(const RunInput& input, json& result) {
  constexpr double kTolerance = 0.05, kDeviations = 4;
  const auto early = static_cast<double>(input.finished_early),
             late = static_cast<double>(input.finished_late);
  const double both = early + late;
  if (input.partial || early == 0 || late == 0 || input.scenario->run.warmup_us == 0) return;
  if (std::abs(late - early) <= std::max(kTolerance * both / 2, kDeviations * std::sqrt(both))) return;
  result["warning"].push_back(fmt::format(
      "the rate is not steady: in the second half of the window it is {:.0f} % of the first's; lengthen "
      "run.warmup_us and run.measure_us",
      100 * late / early));
}

}  // namespace verbtwin::tools
