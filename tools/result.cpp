#include "tools/result.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "backend/verbs.hpp"

namespace verbtwin::tools {

namespace {

using nlohmann::json;
using Samples = std::vector<std::int64_t>;

double us(std::int64_t ps) {
  return static_cast<double>(ps) / 1e6;
}

double mean_us(const Samples& sorted) {
  if (sorted.empty()) return 0;
  return us(std::accumulate(sorted.begin(), sorted.end(), std::int64_t{0})) /
         static_cast<double>(sorted.size());
}

/// The smallest sample that at least `permille` of them do not exceed.
double quantile_us(const Samples& sorted, std::uint64_t permille) {
  if (sorted.empty()) return 0;
  const std::uint64_t rank = (sorted.size() * permille + 999) / 1000;
  return us(sorted[std::max<std::uint64_t>(rank, 1) - 1]);
}

json latency_json(const Samples& sorted) {
  return {{"mean", mean_us(sorted)},          {"p50", quantile_us(sorted, 500)},
          {"p90", quantile_us(sorted, 900)},  {"p99", quantile_us(sorted, 990)},
          {"p999", quantile_us(sorted, 999)}, {"max", sorted.empty() ? 0 : us(sorted.back())}};
}

/// The samples that `pick` takes from each committed transaction, sorted; it returns a negative number for
/// none.
template <typename Pick>
Samples gather(const ResultInput& input, Pick&& pick) {
  Samples all;
  for (const protocols::WorkerStatistics* worker : input.workers) {
    for (const protocols::TransactionSample& sample : worker->committed) {
      if (const std::int64_t ps = pick(sample); ps >= 0) all.push_back(ps);
    }
  }
  std::ranges::sort(all);
  return all;
}

/// The time in each phase of the transactions that `of` picks and that had such a phase.
template <typename Of>
json phases_json(const ResultInput& input, Of&& of) {
  json phases = json::object();
  for (std::size_t phase = 0; phase < protocols::kPhases; ++phase) {
    const Samples all = gather(input, [&](const protocols::TransactionSample& sample) {
      return of(sample) && sample.phase_ps[phase] > 0 ? sample.phase_ps[phase] : -1;
    });
    phases[std::string(to_string(static_cast<protocols::Phase>(phase)))] = {{"p50_us", quantile_us(all, 500)},
                                                                            {"mean_us", mean_us(all)}};
  }
  return phases;
}

void add_transactions(const ResultInput& input, json& result) {
  std::uint64_t user_aborts = 0;
  json& types = result["transactions"] = json::object();
  for (std::uint32_t type = 0; type < input.transaction_names.size(); ++type) {
    const Samples latency = gather(input, [&](const protocols::TransactionSample& sample) {
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
  const Samples every =
      gather(input, [](const protocols::TransactionSample& sample) { return sample.latency_ps; });

  std::array<std::uint64_t, protocols::kAbortReasons> aborts{};
  for (const auto* worker : input.workers) {
    for (std::size_t reason = 0; reason < aborts.size(); ++reason) aborts[reason] += worker->aborts[reason];
  }
  json& reasons = result["aborts"] = json::object();
  for (std::size_t reason = 1; reason < aborts.size(); ++reason) {
    reasons[std::string(to_string(static_cast<protocols::AbortReason>(reason)))] = aborts[reason];
  }
  const std::uint64_t aborted = std::accumulate(aborts.begin(), aborts.end(), std::uint64_t{0});
  const std::uint64_t attempts = every.size() + aborted;
  result["committed"] = every.size();
  result["user_aborts"] = user_aborts;
  result["aborted_attempts"] = aborted;
  result["abort_ratio"] = attempts == 0 ? 0.0 : static_cast<double>(aborted) / static_cast<double>(attempts);
  result["committed_per_s"] = input.window_ps == 0 ? 0.0
                                                   : static_cast<double>(every.size()) /
                                                         (static_cast<double>(input.window_ps) / 1e12);
  result["latency_us"] = latency_json(every);
}

json count_json(const sim::VerbCounts::Count& before, const sim::VerbCounts::Count& after) {
  return {{"count", after.count - before.count}, {"bytes", after.bytes - before.bytes}};
}

void add_verbs(const ResultInput& input, json& result) {
  const sim::VerbCounts& before = input.before->verbs;
  const sim::VerbCounts& after = input.after->verbs;
  const auto sum = [&](const char* name, std::initializer_list<Opcode> opcodes) {
    sim::VerbCounts::Count b, a;
    for (const Opcode opcode : opcodes) {
      const auto i = static_cast<std::size_t>(opcode);
      b.count += before.by_opcode[i].count;
      b.bytes += before.by_opcode[i].bytes;
      a.count += after.by_opcode[i].count;
      a.bytes += after.by_opcode[i].bytes;
    }
    result["verbs"][name] = count_json(b, a);
  };
  sum("read", {Opcode::kRdmaRead});
  sum("write", {Opcode::kRdmaWrite, Opcode::kRdmaWriteWithImm});
  sum("compare_swap", {Opcode::kAtomicCmpAndSwp});
  sum("fetch_add", {Opcode::kAtomicFetchAndAdd});
  sum("send", {Opcode::kSend, Opcode::kSendWithImm});
  result["verbs"]["recv"] = count_json(before.recv, after.recv);
  result["datagrams_dropped"] = after.datagrams_dropped - before.datagrams_dropped;
}

json hit_ratio(std::uint64_t hits, std::uint64_t misses) {
  const std::uint64_t all = hits + misses;
  return all == 0 ? 1.0 : static_cast<double>(hits) / static_cast<double>(all);
}

void add_resources(const ResultInput& input, json& result) {
  // A queue that grows makes a resource look busier than the window is long: it is full.
  constexpr double kSaturated = 0.8;
  json& resources = result["resources"] = json::array();
  std::string busiest = "none";
  double busiest_share = -1;
  for (std::size_t r = 0; r < input.after->resources.size(); ++r) {
    const sim::Usage::Resource& after = input.after->resources[r];
    const sim::Usage::Resource& before = input.before->resources[r];
    double sum = 0, max = 0;
    for (std::size_t i = 0; i < after.busy_ps.size(); ++i) {
      const std::int64_t earlier = i < before.busy_ps.size() ? before.busy_ps[i] : 0;
      const double share = input.window_ps == 0
                               ? 0
                               : std::min(1.0, static_cast<double>(after.busy_ps[i] - earlier) /
                                                   static_cast<double>(input.window_ps));
      sum += share;
      max = std::max(max, share);
    }
    const double mean = after.busy_ps.empty() ? 0 : sum / static_cast<double>(after.busy_ps.size());
    resources.push_back({{"name", after.name}, {"utilization_mean", mean}, {"utilization_max", max}});
    if (mean > busiest_share) {
      busiest = after.name;
      busiest_share = mean;
    }
  }
  const std::uint64_t hits = input.after->qp_cache_hits - input.before->qp_cache_hits;
  const std::uint64_t misses = input.after->qp_cache_misses - input.before->qp_cache_misses;
  resources.push_back({{"name", "qp_cache"},
                       {"utilization_mean", 0.0},
                       {"utilization_max", 0.0},
                       {"hit_ratio", hit_ratio(hits, misses)}});
  // Where nothing is full, transactions spend their time waiting for round trips.
  const bool full = busiest_share >= kSaturated;
  result["bottleneck"] = {{"resource", full ? busiest : "round_trips"},
                          {"utilization", std::max(0.0, busiest_share)},
                          {"busiest", busiest}};
  result["location_cache"] = {
      {"hit_ratio", hit_ratio(input.location_cache_hits, input.location_cache_misses)}};
}

}  // namespace

json make_result(const ResultInput& input) {
  json result;
  result["format"] = "verbtwin-result";
  result["version"] = 1;
  result["scenario"] = input.scenario->resolved;
  result["backend"] = input.scenario->backend;
  result["seed"] = input.scenario->run.seed;
  result["partial"] = input.partial;
  result["window_us"] = us(input.window_ps);
  add_transactions(input, result);
  result["phases"] = phases_json(input, [](const auto&) { return true; });
  add_verbs(input, result);
  add_resources(input, result);
  result["checks"] = json::array();
  for (const protocols::CheckReport& check : input.checks) {
    result["checks"].push_back({{"name", check.name},
                                {"transactions", check.transactions},
                                {"violations", check.violations},
                                {"examples", check.examples}});
  }
  return result;
}

}  // namespace verbtwin::tools
