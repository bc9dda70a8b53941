#include "tools/run/warnings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tools/console/text.hpp"
#include "tools/run/resources.hpp"

namespace verbtwin::tools {

namespace {

using nlohmann::json;

double us(std::int64_t ps) {
  return static_cast<double>(ps) / 1e6;
}

/// Threads that begin transactions, calls or groups.
double workers_of(const RunInput& input) {
  const scenarios::Cluster& cluster = input.scenario->cluster;
  const json& workload = input.scenario->workload;
  const int served =
      workload.value("pattern", "") == "many_to_one" ? workload.value("servers", 1) : cluster.servers;
  const int issuing = workload.value("issuing_threads", 0);
  return static_cast<double>(cluster.nodes - served) * (issuing > 0 ? issuing : cluster.threads);
}

}  // namespace

double coroutines_of(const RunInput& input) {
  return workers_of(input) * input.scenario->cluster.coroutines;
}

double ended_of(const json& result) {
  return result.value("committed", 0.0) + result.value("user_aborts", 0.0) + result.value("operations", 0.0);
}

void warn_of_nothing(const RunInput& input, json& result) {
  double ended = 0;  // attempts that failed are none: they have a limit, but no rate
  for (const char* key : {"committed", "user_aborts", "operations", "operations_failed"})
    ended += result.value(key, 0.0);
  if (ended > 0 || input.partial) return;
  result["warning"].push_back("nothing came to its end in the window; lengthen run.measure_us");
}

void warn_of_losses(const RunInput& input, json& result) {
  const json& workload = input.scenario->workload;
  if (workload.value("name", "") != "primitive" || workload.value("transport", "rc") == "rc") return;
  if (workload.value("pattern", "") == "many_to_one" && workload.value("verb", "") == "send") return;
  const std::uint64_t lost =
      result.at("packets_lost").get<std::uint64_t>() + result.at("datagrams_dropped").get<std::uint64_t>();
  if (lost == 0) return;
  result["warning"].push_back(
      fmt::format("{} lost or dropped: over UC and UD the sender hears nothing of it, and its requests count "
                  "as done; \"many_to_one\" counts what SENDs arrive",
                  format_counted(lost, "packet")));
}

void warn_of_length(const TransactionsInput& input, json& result) {
  constexpr double kTolerance = 0.1;
  const double committed = result.at("committed");
  if (input.window_ps == 0 || committed == 0) return;
  if (input.scenario->run.offered_per_s > 0) return;  // coroutines wait for arrivals, arrivals for coroutines
  const double mean_us = result.at("latency_us").at("mean");
  const double time_us = us(input.window_ps) * coroutines_of(input);
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
  // Who meets the most popular records fails until it has waited longest of all: that takes milliseconds.
  constexpr double kManyAborts = 0.2;
  const bool piles_up = missing && result.at("abort_ratio") > kManyAborts;
  result["warning"].push_back(fmt::format(
      "latencies add up to {:.0f} % of the coroutines' time: transactions {}; lengthen {}",
      100 * (missing ? at_most : of_commits),
      missing ? "longer than the window are missing from the latencies"
              : "begun long before the window are in the latencies",
      piles_up ? "run.warmup_us and run.measure_us to many milliseconds: more and more coroutines try the "
                 "same records again and again, and rates fall meanwhile"
               : "run.measure_us"));
}

void warn_of_edges(const OperationsInput& input, json& result) {
  constexpr double kTolerance = 0.1;
  std::uint64_t begun = 0, ended = 0, failed = 0;
  for (const protocols::OperationStatistics* worker : input.workers) {
    begun += worker->begun;
    ended += worker->operations;
    failed += worker->failed;
  }
  if (result.contains("warning") || input.partial) return;  // which says more
  const auto& run = input.scenario->run;
  if (ended == 0 || failed > 0 || run.warmup_us == 0 || run.offered_per_s > 0) return;
  if (begun > 0) {
    const auto [less, more] = std::minmax({static_cast<double>(begun), static_cast<double>(ended)});
    if (less >= (1 - kTolerance) * more) return;
    result["warning"].push_back(
        fmt::format("{} began in the window and {} ended: more were under way at one end of it than at the "
                    "other; lengthen run.warmup_us and run.measure_us",
                    format_counted(begun, "operation"), format_count(ended)));
  } else if (input.scenario->workload.at("name") != "primitive") {
    const double mean_us = result.at("latency_us").at("mean");
    const double at_a_time = coroutines_of(input) * input.scenario->workload.value("calls_per_message", 1);
    const double of_time = static_cast<double>(ended) * mean_us / (us(input.window_ps) * at_a_time);
    if (std::abs(of_time - 1) <= kTolerance) return;
    result["warning"].push_back(fmt::format(
        "latencies add up to {:.0f} % of the coroutines' time: the window is too short beside what is under "
        "way; lengthen run.measure_us",
        100 * of_time));
  }
}

double offered_to(const json& result) {
  if (result.contains("offered")) return result.at("offered");
  return result.at("scenario").at("run").at("offered_per_s").get<double>() *
         result.at("window_us").get<double>() / 1e6;
}

Load load_of(const RunInput& input, const json& result) {
  constexpr double kDeviations = 4, kNothing = 0.001;
  const double per_us = input.scenario->run.offered_per_s / 1e6, mean_us = result.at("latency_us").at("mean");
  // As many are under way as are asked for during a latency; what the warm-up had no time for begins in the
  // window. How many there are at its two ends is chance: each worker has a queue of its own, whose length
  // has a variance of its mean (nobody waits) and up to the mean's square more (one is served, the others
  // wait). But more than a second one waiting for each coroutine is no queue that ends, unless they are next
  // to nothing of a long window. Nor is a good share of the load, the less so the more there are: in a short
  // window chance may hide that.
  const double offered = offered_to(result), nothing = kNothing * offered;
  const double most = std::clamp(1.2 * std::sqrt(offered), 0.02 * offered, 0.05 * offered);
  const double begin = per_us * std::max(mean_us - input.scenario->run.warmup_us, 0.0);
  const double under_way = 1 + std::min(per_us * mean_us, 2 * coroutines_of(input));
  const double arrivals = result.contains("offered") ? 0 : offered;  // not counted: chance, too
  const double chance =
      kDeviations * std::sqrt(2 * under_way * (1 + under_way / workers_of(input)) + arrivals);
  const double missing = offered - ended_of(result);
  if (missing <= std::max(begin + std::min(chance, most), nothing)) return Load::kDone;
  // Queues that fill keep the first half's; once they are full as many end as are asked for, and more is
  // missing of the second half where more is asked for than is done.
  const double of_second_half = offered / 2 - static_cast<double>(input.finished_late);
  const double of_first_half = missing - of_second_half;
  if (input.finished_late > 0 && of_second_half <= of_first_half / 2 &&
      of_second_half <= std::max(std::min(chance, most) / 4, nothing))
    return Load::kFilling;
  return missing <= begin + chance ? Load::kUnclear : Load::kTooMuch;
}

bool does_offered_load(const json& result) {
  const auto bottleneck = result.find("bottleneck");
  return bottleneck != result.end() && bottleneck->value("resource", json()) == "offered_load";
}

void warn_of_backlog(const RunInput& input, json& result) {
  if (input.scenario->run.offered_per_s == 0 || input.window_ps == 0) return;
  const Load load = load_of(input, result);
  if (load == Load::kDone) return;
  const std::string share = fmt::format("of the offered load {:.3g} % came to its end: ",
                                        100 * ended_of(result) / offered_to(result));
  if (load == Load::kFilling) {
    result["warning"].push_back(share + "queues were still filling; lengthen run.warmup_us");
  } else if (load == Load::kUnclear) {
    result["warning"].push_back(
        share + "the window is too short to tell whether the cluster does the rest; lengthen run.measure_us");
  } else {
    result["warning"].push_back(
        share + "more is asked for than the cluster does, and latencies grow with the length of the run");
  }
}

void warn_of_start(const RunInput& input, json& result) {
  const double warmup_us = input.scenario->run.warmup_us, mean_us = result.at("latency_us").at("mean");
  if (warmup_us == 0 || mean_us <= warmup_us) return;
  if (input.scenario->run.offered_per_s > 0) {
    const Load load = load_of(input, result);
    if (load != Load::kDone && load != Load::kFilling) return;  // a longer one would not help
  }
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

void warn_of_contexts(const RunInput& input, json& result) {
  constexpr double kTolerance = 0.02;
  constexpr std::uint64_t kFew = 10'000;
  if (input.partial || input.middle == nullptr || input.scenario->run.warmup_us == 0) return;
  const auto early = context_look_ups(*input.before, *input.middle);
  const auto late = context_look_ups(*input.middle, *input.after);
  if (std::min(early.hits + early.misses, late.hits + late.misses) < kFew) return;
  const double held_early = hit_ratio(early.hits, early.misses),
               held_late = hit_ratio(late.hits, late.misses);
  if (std::abs(held_late - held_early) <= kTolerance) return;
  result["warning"].push_back(
      fmt::format("queue pairs' contexts are not yet held as they will be: {:.0f} % of uses find theirs in "
                  "the first half of the window, {:.0f} % in the second; lengthen run.warmup_us",
                  100 * held_early, 100 * held_late));
}

}  // namespace verbtwin::tools
