#include "tools/sweeps/explain.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "models/profile.hpp"
#include "models/socket.hpp"
#include "tools/console/text.hpp"
#include "tools/report/sweep_table.hpp"
#include "tools/run/warnings.hpp"

namespace verbtwin::tools {

namespace {

using calibration::ProfileKind;
using nlohmann::json;

/// Gains below this, or below twice what another seed makes, are not worth a word.
constexpr double kWorthSaying = 0.03;

bool is_time(std::string_view unit) {
  return unit == "ns";
}

double better(double value, std::string_view unit, double times) {
  if (is_time(unit)) return value / times;
  return unit == "count" ? std::ceil(value * times) : value * times;
}

template <typename Profile>
void improve(json& parameters, std::span<const models::Parameter<Profile>> table,
             const std::vector<std::string_view>& names, double times) {
  for (const auto& row : table) {
    if (std::ranges::find(names, row.name) == names.end()) continue;
    json& parameter = parameters.at(row.name);
    const double before = parameter.at("value").get<double>();
    const double value = std::clamp(better(before, row.unit, times), row.min, row.max);
    if (value == before) continue;
    parameter["value"] = value;
    parameter["source"] =
        fmt::format("{} as good as: {}", times == kTwice ? "twice" : fmt::format("{} times", times),
                    parameter.at("source").get<std::string>());
  }
}

double latency_us(const json& result, const char* percentile) {
  const json& value = value_at(result, std::string("latency_us.") + percentile);
  return value.is_number() ? value.get<double>() : 0;
}

std::string signed_percent(double ratio) {
  const double percent = ratio * 100;
  return fmt::format("{:+.1f} %", std::abs(percent) < 0.05 ? 0 : percent);
}

bool moves_nothing(const json& base, const Trial& trial) {
  return rate_per_s(trial.result) == rate_per_s(base) &&
         latency_us(trial.result, "p50") == latency_us(base, "p50") &&
         latency_us(trial.result, "p99") == latency_us(base, "p99");
}

bool has_warning(const json& result) {
  return !value_at(result, "warning").is_null();
}

/// What a gain is of comes first, then the latencies.
std::string line(const std::string& what, const std::string& change, const json& result, bool in_latency) {
  return fmt::format("{:<22}{:>10}{:>10}{:>10}{:>10}{}\n", what, change,
                     in_latency ? format_us(latency_us(result, "mean")) : format_si(rate_per_s(result)),
                     format_us(latency_us(result, "p50")), format_us(latency_us(result, "p99")),
                     has_warning(result) ? " *" : "");
}

/// "receive engines (+31.2 %), cores (+10.1 %)"
std::string named(const std::vector<std::pair<double, std::string>>& gains) {
  std::vector<std::string> words;
  for (const auto& [gain, what] : gains) words.push_back(fmt::format("{} ({})", what, signed_percent(gain)));
  return fmt::format("{}", fmt::join(words, ", "));
}

/// "no difference         links, PCIe rate"
std::string names(const char* label, const std::vector<std::string>& all) {
  if (all.empty()) return "";
  return fmt::format("{:<22}{}\n", label, wrap(fmt::format("{}", fmt::join(all, ", ")), 22, 78));
}

/// Which runs' checks found anything; their results say what.
std::string violated(const Explanation& explanation) {
  std::vector<std::string> runs;
  if (violations_of(explanation.base) > 0) runs.emplace_back("as it is");
  for (const Trial& trial : explanation.trials)
    if (violations_of(trial.result) > 0) runs.push_back(trial.what);
  for (const Trial& trial : explanation.smaller_steps)
    if (violations_of(trial.result) > 0) runs.push_back(smaller_step_of(trial.what));
  return names("VIOLATED", runs);
}

/// Of a load that the cluster does not do.
std::vector<std::string> that_do_the_load(const json& base, const std::vector<Trial>& trials) {
  std::vector<std::string> enough;
  const json& offered_per_s = value_at(base, "scenario.run.offered_per_s");
  if (!offered_per_s.is_number() || offered_per_s == 0 || does_offered_load(base)) return enough;
  for (const Trial& trial : trials)
    if (!is_seed(trial.what) && does_offered_load(trial.result)) enough.push_back(trial.what);
  return enough;
}

/// " (core 99.8 %, nic_recv 97.0 % in use)": the resources that are nearly full; nothing where none is.
std::string nearly_full(const json& base) {
  constexpr double kNearlyFull = 0.95;
  std::vector<std::string> full;
  for (const json& resource : value_at(base, "resources")) {
    const json use = resource.value("utilization_max", json());
    if (use.is_number() && use.get<double>() > kNearlyFull)
      full.push_back(resource.value("name", "") + " " + format_percent(use.get<double>()));
  }
  return full.empty() ? "" : fmt::format(" ({} in use)", fmt::join(full, ", "));
}

using Gains = std::vector<std::pair<double, std::string>>;

/// What is worth saying of what was tried.
struct Found {
  bool any = false;  // was tried
  double least = 0;  // that counts: beyond chance
  Gains worth;       // most gain first
};

Found found(const json& base, const std::vector<Trial>& trials) {
  double chance = 0;
  Gains gains;
  for (const Trial& trial : trials) {
    if (is_seed(trial.what)) {
      chance = std::max(chance, std::abs(gain(base, trial.result)));
    } else {
      gains.emplace_back(gain(base, trial.result), trial.what);
    }
  }
  std::ranges::stable_sort(gains, std::greater{}, &std::pair<double, std::string>::first);
  const double least = std::max(kWorthSaying, 2 * chance);
  const auto some = std::ranges::find_if(gains, [&](const auto& entry) { return entry.first < least; });
  return {!gains.empty(), least, {gains.begin(), some}};
}

/// What conflicts take, which no part's trial shows; a result tells it where it is much.
std::string conflicts_of(const json& base) {
  const json& share = value_at(base, "bottleneck.retry_share");
  if (!share.is_number()) return "";
  return fmt::format(
      " Conflicts hold it back too: {} of the coroutines' time goes into attempts that fail and waits before "
      "the next, which more records would spare it.",
      format_percent(share.get<double>()));
}

std::string judgement(const Explanation& explanation) {
  const json& base = explanation.base;
  const auto& [any, least, worth] = found(base, explanation.trials);
  const std::vector<std::string>&not_tried = explanation.not_tried, &cut_off = explanation.cut_off;
  if (!any) return "Not known: nothing was tried to its end.";
  const bool all = cut_off.empty() && std::ranges::all_of(not_tried, [](const std::string& part) {
                     return part.ends_with(kAsGoodAsCanBe);
                   });
  const std::string others =
      fmt::format("{}{} alone brings more than {}{}", worth.empty() ? "Nothing" : "Nothing else",
                  all ? "" : " that was tried", format_percent(least),
                  least > kWorthSaying ? " (twice what another seed changes)" : "");
  if (does_offered_load(base)) {
    return worth.empty() ? others + ": the latency is made of many small parts."
                         : fmt::format(
                               "All the load is done; its latency is made longest by {}, each twice as "
                               "good by itself. {}.",
                               named(worth), others);
  }
  if (const std::vector<std::string> enough = that_do_the_load(base, explanation.trials); !enough.empty()) {
    return fmt::format(
        "More is asked for than the cluster does. It does all of it with any of these twice as "
        "good by itself: {}.",
        fmt::join(enough, ", "));
  }
  if (worth.empty() && !all) return others + ": what was not may hold it back.";
  if (worth.empty()) {
    return fmt::format(
        "{}: several parts hold it back in turn{}, or its own waiting does (conflicts, think time).", others,
        nearly_full(base));
  }
  return fmt::format("Held back by {}, each twice as good by itself. {}.", named(worth), others);
}

std::string verdict(const Explanation& explanation) {
  return judgement(explanation) + conflicts_of(explanation.base);
}

/// Parts that gain where they are twice as good, and lose where they are a little better.
std::string cliffs(const Explanation& explanation) {
  const double least = found(explanation.base, explanation.trials).least;
  Gains losses;
  bool warned = false;
  for (const Trial& trial : explanation.smaller_steps) {
    const double change = gain(explanation.base, trial.result);
    if (change > -least) continue;
    losses.emplace_back(change, trial.what);
    warned = warned || has_warning(trial.result);
  }
  if (losses.empty()) return "";
  return labelled("step",
                  fmt::format("A smaller one loses: {}, {} times as good{}.", named(losses), kSmallerStep,
                              warned ? " (with a warning: in a longer run it may be more or less)" : ""));
}

json trials_json(const json& base, const std::vector<Trial>& trials, const char* part) {
  json all = json::array();
  for (const Trial& trial : trials) {
    all.push_back({{part, is_seed(trial.what) ? json() : json(trial.what)},
                   {"seed", trial.result.at("seed")},
                   {"gain", gain(base, trial.result)},
                   {"result", trial.result}});
  }
  return all;
}

}  // namespace

std::string smaller_step_of(std::string_view part) {
  return fmt::format("{}, {} times", part, kSmallerStep);
}

std::vector<std::string> worth_a_smaller_step(const json& base, const std::vector<Trial>& trials) {
  constexpr std::size_t kMost = 3;
  std::vector<std::string> parts;
  for (const auto& [gain, what] : found(base, trials).worth)
    if (parts.size() < kMost) parts.push_back(what);
  return parts;
}

std::span<const Part> parts() {
  static const std::vector<Part> all = {
      {.name = "cores",
       .host = {"clock_ghz", "post_wr_ns", "doorbell_ns", "blueflame_ns", "inline_block_ns", "post_recv_ns",
                "poll_ns", "poll_cqe_ns", "coroutine_switch_ns", "rpc_send_ns", "poll_slot_ns",
                "rpc_receive_ns", "index_lookup_ns", "cache_lookup_ns", "local_atomic_ns", "copy_block_ns",
                "transaction_begin_ns", "transaction_end_ns"},
       .fields = {"workload.process_ns"}},
      {.name = "memory latency", .host = {"memory_miss_ns"}},
      {.name = "locks of cores",
       .host = {"lock_ns", "lock_handover_ns", "lock_handover_far_ns", "lock_waiter_ns", "locked_flush_ns"},
       .only_with_locks = true},
      {.name = "send engines",
       .nic = {"send_doorbell_ns", "send_wqe_ns", "send_wqe_block_ns", "send_fetch_ns", "send_fetch_block_ns",
               "queue_pair_gap_ns", "send_response_ns", "send_response_block_ns", "send_response_tlp_ns",
               "serve_request_ns"}},
      {.name = "receive engines",
       .nic = {"recv_packet_ns", "recv_ack_ns", "recv_wqe_ns", "recv_imm_ns", "recv_block_ns", "recv_tlp_ns",
               "recv_scatter_block_ns"}},
      {.name = "NIC pipelines", .nic = {"send_pipeline_ns", "recv_pipeline_ns"}},
      {.name = "queue pair cache", .nic = {"qp_cache_entries"}},
      {.name = "receive queue cache", .nic = {"recv_queue_cache_entries"}},
      {.name = "WQE cache", .nic = {"wqe_cache_entries"}},
      {.name = "translation cache", .nic = {"translation_cache_entries"}},
      {.name = "atomic unit", .nic = {"atomic_locks", "atomic_engine_ns"}},
      {.name = "PCIe rate", .nic = {"pcie_gbps"}},
      {.name = "PCIe latency", .nic = {"dma_read_ns", "dma_write_ns", "mmio_ns"}},
      {.name = "DMA reads in flight", .nic = {"dma_reads_outstanding"}},
      {.name = "links",
       .nic = {"link_gbps"},
       .socket = {"link_gbps"},
       .fields = {"cluster.network.link_gbps"}},
      {.name = "network latency", .fields = {"cluster.network.cable_ns", "cluster.network.switch_ns"}},
      {.name = "interrupt queues", .socket = {"interrupt_queues"}},
      {.name = "wake-ups", .socket = {"wakeup_ns", "interrupt_gap_ns"}},
      {.name = "coroutines", .fields = {"cluster.coroutines"}},
      {.name = "queue pairs", .fields = {"cluster.qps_per_peer"}},
      {.name = "outstanding requests", .fields = {"workload.outstanding"}},
  };
  return all;
}

const std::vector<std::string_view>& parameters_of(const Part& part, ProfileKind kind) {
  switch (kind) {
    case ProfileKind::kNic:
      return part.nic;
    case ProfileKind::kHost:
      return part.host;
    case ProfileKind::kSocket:
      break;
  }
  return part.socket;
}

json improved(json profile, ProfileKind kind, const std::vector<std::string_view>& parameters, double times) {
  json& all = profile.at("parameters");
  switch (kind) {
    case ProfileKind::kNic:
      improve(all, models::nic_parameters(), parameters, times);
      break;
    case ProfileKind::kHost:
      improve(all, models::host_parameters(), parameters, times);
      break;
    case ProfileKind::kSocket:
      improve(all, models::socket_parameters(), parameters, times);
      break;
  }
  return profile;
}

json improved_field(const json& resolved, std::string_view field, double times) {
  const json& value = value_at(resolved, std::string(field));
  if (!value.is_number() || value.get<double>() == 0) return nullptr;
  const double number = value.get<double>();
  if (field.ends_with("_ns")) return number / times;
  return value.is_number_integer() ? json(static_cast<std::int64_t>(std::ceil(number * times)))
                                   : json(number * times);
}

const char* gains_in(const json& base) {
  return does_offered_load(base) ? "latency" : "rate";
}

double gain(const json& base, const json& result) {
  if (does_offered_load(base)) return latency_us(base, "mean") / latency_us(result, "mean") - 1;
  return rate_per_s(result) / rate_per_s(base) - 1;
}

json explanation_json(const Explanation& explanation) {
  const json& base = explanation.base;
  json all = {{"format", "verbtwin-explanation"},
              {"version", 1},
              {"partial", !explanation.cut_off.empty()},
              {"gain_in", gains_in(base)},
              {"base", base},
              {"trials", trials_json(base, explanation.trials, "twice_as_good")},
              {"smaller_steps", trials_json(base, explanation.smaller_steps, "part")},
              {"not_tried", explanation.not_tried},
              {"cut_off", explanation.cut_off}};
  for (json& step : all["smaller_steps"]) step["times_as_good"] = kSmallerStep;
  return all;
}

std::string render_explanation(const Explanation& explanation) {
  const json& base = explanation.base;
  const bool in_latency = does_offered_load(base);
  std::string text = fmt::format("{:<22}{:>10}{:>10}{:>10}{:>10}\n", "twice as good", "gain",
                                 in_latency ? "mean us" : "per s", "p50 us", "p99 us");
  text += line("as it is", "", base, in_latency);
  std::vector<const Trial*> moved;
  std::vector<std::string> unmoved;
  for (const Trial& trial : explanation.trials) {
    if (moves_nothing(base, trial)) {
      unmoved.push_back(trial.what);
    } else {
      moved.push_back(&trial);
    }
  }
  std::ranges::stable_sort(moved, std::greater{},
                           [&](const Trial* trial) { return gain(base, trial->result); });
  for (const Trial* trial : moved)
    text += line(trial->what, signed_percent(gain(base, trial->result)), trial->result, in_latency);
  if (std::ranges::any_of(moved, [](const Trial* trial) { return has_warning(trial->result); }))
    text += "* with a warning, which explanation.json has (--out): a longer run may say otherwise\n";
  text += names("no difference", unmoved) + names("not tried", explanation.not_tried) +
          names("cut off", explanation.cut_off);
  return text + '\n' + render_verdict(explanation);
}

std::string render_verdict(const Explanation& explanation) {
  std::string text = labelled("limit", verdict(explanation)) + cliffs(explanation);
  if (!explanation.cut_off.empty())
    text += fmt::format("PARTIAL: {} not run, and the verdict is of the others\n",
                        explanation.cut_off.size() == 1 ? "one was" : "some were");
  return text + render_warnings(sweep_warnings({{{}, explanation.base}})) + violated(explanation);
}

}  // namespace verbtwin::tools
