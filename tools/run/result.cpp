#include "tools/run/result.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "backend/verbs.hpp"
#include "tools/run/resources.hpp"
#include "tools/run/warnings.hpp"

namespace verbtwin::tools {

namespace {

using nlohmann::json;
using Samples = std::vector<std::int64_t>;

double us(std::int64_t ps) {
  return static_cast<double>(ps) / 1e6;
}

/// Ten million waits of a second are more picoseconds than 64 bits hold.
double mean_us(const Samples& samples) {
  __extension__ using Sum = __int128;
  if (samples.empty()) return 0;
  const Sum sum_ps = std::accumulate(samples.begin(), samples.end(), Sum{0});
  return static_cast<double>(sum_ps) / 1e6 / static_cast<double>(samples.size());
}

/// The smallest sample that at least `permille` of them do not exceed. Moves them about: a few of these cost
/// less than a sort.
double quantile_us(Samples& samples, std::uint64_t permille) {
  if (samples.empty()) return 0;
  const std::uint64_t rank = (samples.size() * permille + 999) / 1000;
  const auto nth = samples.begin() + static_cast<std::ptrdiff_t>(std::max<std::uint64_t>(rank, 1) - 1);
  std::ranges::nth_element(samples, nth);
  return us(*nth);
}

json latency_json(Samples& samples) {
  return {{"mean", mean_us(samples)},          {"p50", quantile_us(samples, 500)},
          {"p90", quantile_us(samples, 900)},  {"p99", quantile_us(samples, 990)},
          {"p999", quantile_us(samples, 999)}, {"max", samples.empty() ? 0 : us(std::ranges::max(samples))}};
}

/// The whole distribution, by the share that took no longer: as far up as there is a sample for.
json quantiles_json(Samples& samples) {
  constexpr double kShares[] = {0,     0.001, 0.01,  0.02,   0.05,   0.1,    0.15,    0.2,     0.25,
                                0.3,   0.35,  0.4,   0.45,   0.5,    0.55,   0.6,     0.65,    0.7,
                                0.75,  0.8,   0.85,  0.9,    0.925,  0.95,   0.97,    0.98,    0.99,
                                0.995, 0.998, 0.999, 0.9995, 0.9998, 0.9999, 0.99999, 0.999999};
  json quantiles = json::object();
  if (samples.empty()) return quantiles;
  std::ranges::sort(samples);
  const auto count = static_cast<double>(samples.size());
  for (const double share : kShares) {
    if ((1 - share) * count < 1 - 1e-9) break;  // 1 - 0.9 is a little less than 0.1
    const auto rank = static_cast<std::size_t>(std::max(1.0, std::ceil(share * count)));
    quantiles[fmt::format("{:g}", share)] = us(samples[rank - 1]);
  }
  quantiles["1"] = us(samples.back());
  return quantiles;
}

/// The samples that `pick` takes from each committed transaction; it returns a negative number for none.
template <typename Pick>
Samples gather(const TransactionsInput& input, Pick&& pick) {
  Samples all;
  for (const protocols::WorkerStatistics* worker : input.workers) {
    for (const protocols::TransactionSample& sample : worker->committed) {
      if (const std::int64_t ps = pick(sample); ps >= 0) all.push_back(ps);
    }
  }
  return all;
}

/// The time in each phase of the transactions that `of` picks and that had such a phase.
template <typename Of>
json phases_json(const TransactionsInput& input, Of&& of) {
  json phases = json::object();
  for (std::size_t phase = 0; phase < input.names->phases.size(); ++phase) {
    Samples all = gather(input, [&](const protocols::TransactionSample& sample) {
      return of(sample) ? sample.phase_ps[phase] : protocols::kNoPhase;
    });
    phases[std::string(input.names->phases[phase])] = {
        {"count", all.size()}, {"p50_us", quantile_us(all, 500)}, {"mean_us", mean_us(all)}};
  }
  return phases;
}

/// With a load that is offered, how much of it there was. A run that ended early does not know.
void add_offered(const RunInput& input, const auto& workers, json& result) {
  if (input.scenario->run.offered_per_s == 0 || input.partial) return;
  std::uint64_t offered = 0;
  for (const auto* worker : workers) offered += worker->offered;
  result["offered"] = offered;
}

/// "latency_us" or "latency_uncorrected_us", and the whole distribution.
void add_latency(json& result, const std::string& name, Samples& samples) {
  result[name + "_us"] = latency_json(samples);
  result[name + "_quantiles_us"] = quantiles_json(samples);
}

/// With a load that is offered, latencies also as one who does not know of the wait for a coroutine takes
/// them. `latency_ps`: of a worker's n-th.
template <typename Workers, typename LatencyPs>
void add_uncorrected(const RunInput& input, const Workers& workers, LatencyPs&& latency_ps, json& result) {
  if (input.scenario->run.offered_per_s == 0) return;
  Samples all;
  for (const auto* worker : workers) {
    for (std::size_t i = 0; i < worker->waited_ps.size(); ++i)
      all.push_back(latency_ps(*worker, i) - worker->waited_ps[i]);
  }
  add_latency(result, "latency_uncorrected", all);
}

void add_transactions(const TransactionsInput& input, json& result) {
  std::uint64_t user_aborts = 0;
  json& types = result["transactions"] = json::object();
  for (std::uint32_t type = 0; type < input.transaction_names.size(); ++type) {
    Samples latency = gather(input, [&](const protocols::TransactionSample& sample) {
      return sample.type == type ? sample.latency_ps : -1;
    });
    std::uint64_t type_user_aborts = 0;
    for (const auto* worker : input.workers) type_user_aborts += worker->user_aborts[type];
    types[std::string(input.transaction_names[type])] = {
        {"committed", latency.size()},
        {"user_aborts", type_user_aborts},
        {"latency_us", latency_json(latency)},
        {"phases", phases_json(input, [&](const auto& sample) { return sample.type == type; })}};
    user_aborts += type_user_aborts;
  }
  Samples every = gather(input, [](const protocols::TransactionSample& sample) { return sample.latency_ps; });

  std::array<std::uint64_t, protocols::kAbortReasons> aborts{};
  for (const auto* worker : input.workers) {
    for (std::size_t reason = 0; reason < aborts.size(); ++reason) aborts[reason] += worker->aborts[reason];
  }
  json& reasons = result["aborts"] = json::object();
  for (std::size_t reason = 1; reason < input.names->aborts.size(); ++reason) {
    reasons[std::string(input.names->aborts[reason])] = aborts[reason];
  }
  const std::uint64_t aborted = std::accumulate(aborts.begin(), aborts.end(), std::uint64_t{0});
  const std::uint64_t attempts = every.size() + user_aborts + aborted;
  result["committed"] = every.size();
  result["user_aborts"] = user_aborts;
  result["aborted_attempts"] = aborted;
  add_offered(input, input.workers, result);
  result["abort_ratio"] = attempts == 0 ? 0.0 : static_cast<double>(aborted) / static_cast<double>(attempts);
  result["committed_per_s"] = input.window_ps == 0 ? 0.0
                                                   : static_cast<double>(every.size()) /
                                                         (static_cast<double>(input.window_ps) / 1e12);
  add_latency(result, "latency", every);
  add_uncorrected(
      input, input.workers,
      [](const protocols::WorkerStatistics& worker, std::size_t i) { return worker.committed[i].latency_ps; },
      result);
}

json count_json(const VerbCounts::Count& count) {
  return {{"count", count.count}, {"bytes", count.bytes}};
}

void add_verbs(const RunInput& input, json& result) {
  const VerbCounts counts = input.after->verbs - input.before->verbs;
  const auto sum = [&](const char* name, std::initializer_list<Opcode> opcodes) {
    VerbCounts::Count all;
    for (const Opcode opcode : opcodes) all += counts.by_opcode[static_cast<std::size_t>(opcode)];
    result["verbs"][name] = count_json(all);
  };
  sum("read", {Opcode::kRdmaRead});
  sum("write", {Opcode::kRdmaWrite, Opcode::kRdmaWriteWithImm});
  sum("compare_swap", {Opcode::kAtomicCmpAndSwp});
  sum("fetch_add", {Opcode::kAtomicFetchAndAdd});
  sum("send", {Opcode::kSend, Opcode::kSendWithImm});
  result["verbs"]["recv"] = count_json(counts.recv);
  result["datagrams_dropped"] = counts.datagrams_dropped;
  result["packets_lost"] = counts.packets_lost;
  result["ack_timeouts"] = counts.ack_timeouts;
}

void add_run(const RunInput& input, json& result) {
  result["format"] = "verbtwin-result";
  result["version"] = 1;
  result["scenario"] = input.scenario->resolved;
  result["backend"] = input.scenario->backend;
  result["seed"] = input.scenario->run.seed;
  if (input.scenario->run.index != 0) result["run_index"] = input.scenario->run.index;
  result["partial"] = input.partial;
  result["window_us"] = us(input.window_ps);
}

void add_operations(const OperationsInput& input, json& result) {
  Samples latency;
  std::uint64_t operations = 0, failed = 0;
  for (const protocols::OperationStatistics* worker : input.workers) {
    latency.insert(latency.end(), worker->latency_ps.begin(), worker->latency_ps.end());
    operations += worker->operations;
    failed += worker->failed;
  }
  const double window_s = static_cast<double>(input.window_ps) / 1e12;
  result["operations"] = operations;
  result["operations_failed"] = failed;
  add_offered(input, input.workers, result);
  result["machines"] = input.machines;
  result["operations_per_s"] =
      input.window_ps == 0 ? 0.0 : static_cast<double>(operations) / window_s / input.machines;
  add_latency(result, "latency", latency);
  add_uncorrected(
      input, input.workers,
      [](const protocols::OperationStatistics& worker, std::size_t i) { return worker.latency_ps[i]; },
      result);
}

}  // namespace

const TransactionNames& occ_names() {
  static const TransactionNames names = [] {
    TransactionNames all;
    for (std::size_t i = 0; i < protocols::kPhases; ++i)
      all.phases.push_back(to_string(static_cast<protocols::Phase>(i)));
    for (std::size_t i = 0; i < protocols::kAbortReasons; ++i)
      all.aborts.push_back(to_string(static_cast<protocols::AbortReason>(i)));
    return all;
  }();
  return names;
}

const TransactionNames& ramp_names() {
  static const TransactionNames names{{protocols::kRampPhaseNames.begin(), protocols::kRampPhaseNames.end()},
                                      {protocols::kRampAbortNames.begin(), protocols::kRampAbortNames.end()}};
  return names;
}

json check_json(const protocols::CheckReport& check) {
  json item = {{"name", check.name},
               {"transactions", check.transactions},
               {"violations", check.violations},
               {"examples", check.examples}};
  for (const auto& [name, count] : check.allowed) item["allowed"][name] = count;
  return item;
}

json make_result(const TransactionsInput& input) {
  json result;
  add_run(input, result);
  add_transactions(input, result);
  warn_of_start(input, result);
  warn_of_length(input, result);
  warn_of_backlog(input, result);
  warn_of_trend(input, result);
  warn_of_contexts(input, result);
  warn_of_nothing(input, result);
  result["phases"] = phases_json(input, [](const auto&) { return true; });
  add_verbs(input, result);
  add_resources(input, false, result);
  if (input.names == &occ_names()) {
    std::uint64_t cached = 0, missed = 0;
    for (const protocols::WorkerStatistics* worker : input.workers) {
      cached += worker->locations_cached;
      missed += worker->locations_missed;
    }
    result["location_cache"] = {{"hit_ratio", hit_ratio(cached, missed)}};
  }
  result["checks"] = json::array();
  for (const protocols::CheckReport& check : input.checks) result["checks"].push_back(check_json(check));
  return result;
}

json make_result(RampInput input) {
  std::array<std::uint64_t, 4> rounds{};
  std::uint64_t in_place = 0, accepted = 0;
  for (const protocols::RampStatistics* client : input.clients) {
    input.workers.push_back(client);
    for (std::size_t i = 0; i < rounds.size(); ++i) rounds[i] += client->reads_by_rounds[i];
    in_place += client->in_place;
    accepted += client->in_place_accepted;
  }
  json result = make_result(static_cast<const TransactionsInput&>(input));
  result["read_rounds"] = {{"one", rounds[1]}, {"two", rounds[2]}, {"three", rounds[3]}};
  result["in_place_reads"] = {{"count", in_place}, {"accepted", accepted}};
  result["versions_collected_early"] = input.collected_early;
  return result;
}

json make_result(const OperationsInput& input) {
  json result;
  add_run(input, result);
  add_operations(input, result);
  warn_of_start(input, result);
  warn_of_edges(input, result);
  warn_of_backlog(input, result);
  warn_of_trend(input, result);
  warn_of_contexts(input, result);
  warn_of_nothing(input, result);
  add_verbs(input, result);
  warn_of_losses(input, result);
  // Two machines that ping-pong are one pair, and equals.
  const bool one_machine = input.scenario->workload.value("pattern", "symmetric") != "symmetric" &&
                           input.scenario->workload.value("mode", "") != "ping_pong";
  add_resources(input, one_machine, result);
  result["checks"] = json::array();
  return result;
}

}  // namespace verbtwin::tools
