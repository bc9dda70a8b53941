#include "tools/report/summary.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "scenarios/text.hpp"
#include "tools/console/text.hpp"
#include "tools/report/bottleneck.hpp"
#include "tools/report/conditions.hpp"
#include "tools/report/member.hpp"
#include "tools/report/sweep_table.hpp"

namespace verbtwin::tools {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kLabelColumns = 13;
constexpr std::size_t kColumnsMin = 60;
constexpr std::size_t kColumnsMax = 80;
constexpr std::size_t kExamplesMax = 3;

std::uint64_t count_of(const Json& object, const char* key) {
  return object.value(key, std::uint64_t{0});
}

/// "mlx5_0, 100 Gb/s, MTU 4096; a CPU".
std::string text_of_machine(const Json& machine) {
  std::string text;
  for (const Json& device : machine.at("devices")) {
    text += device.value("device", "");
    if (device.contains("link_gbps")) text += fmt::format(", {:g} Gb/s", number(device, "link_gbps"));
    text += fmt::format(", MTU {}; ", count_of(device, "mtu"));
  }
  return text + machine.value("cpu", "");
}

class Summary {
 public:
  Summary(const Json& result, const SummaryStyle& style)
      : result_(result), color_(style.color), width_(std::max(style.width_columns, kColumnsMin)) {}

  std::string render() {
    title();
    throughput();
    latency();
    aborts();
    warnings();
    transactions();
    phases();
    verbs();
    resources();
    checks();
    bottleneck();
    simulator();
    return std::move(out_);
  }

 private:
  enum Color { kBold = 1, kDim = 2, kRed = 31, kGreen = 32, kYellow = 33 };

  std::string paint(Color color, std::string_view text) const {
    return color_ ? fmt::format("\x1b[{}m{}\x1b[0m", static_cast<int>(color), text) : std::string(text);
  }

  void line(std::string_view text = "") { fmt::format_to(std::back_inserter(out_), "{}\n", text); }

  /// A label in the left column, then text wrapped beside it.
  void labelled(std::string_view label, std::string_view text) {
    line(paint(kBold, fmt::format("{:<{}}", label, kLabelColumns)) + wrap(text, kLabelColumns, width_));
  }

  void heading(std::string_view text) {
    line();
    line(paint(kBold, text));
  }

  bool counts_operations() const { return result_.contains("operations"); }
  std::uint64_t work() const { return count_of(result_, counts_operations() ? "operations" : "committed"); }

  void title();
  void machines(const Json& measured_on);
  void throughput();
  void latency();
  void aborts();
  void warnings();
  void transactions();
  void phases();
  void verbs();
  void resources();
  void hits(std::string_view name, const Json& cache);
  void checks();
  void bottleneck();
  void simulator();

  const Json& result_;
  bool color_;
  std::size_t width_;
  std::string out_;
};

void Summary::title() {
  const Json& scenario = member(result_, "scenario");
  const Json& cluster = member(scenario, "cluster");
  std::string name = member(scenario, "protocol").value("name", "");
  const std::string workload = member(scenario, "workload").value("name", "");
  name += !name.empty() && !workload.empty() ? " running " + workload : workload;
  line(paint(kBold, scenarios::one_line(fmt::format("{}: {}", scenario.value("name", "result"), name))));
  std::string shape = fmt::format("{} x {}", format_counted(count_of(cluster, "nodes"), "machine"),
                                  format_counted(count_of(cluster, "threads"), "thread"));
  if (!counts_operations()) {
    shape += fmt::format(" x {}, {}", format_counted(count_of(cluster, "coroutines"), "coroutine"),
                         format_counted(count_of(cluster, "replicas"), "replica"));
  }
  const auto measured_on = result_.find("measured_on");
  if (measured_on != result_.end() && !measured_on->empty()) {
    // The profiles that the scenario names say nothing of these machines.
    shape += "; " + text_of_machine(measured_on->front());
  } else {
    if (cluster.contains("nic")) {
      shape += fmt::format("; {} x {}", cluster.value("nics_per_node", 1), cluster.value("nic", ""));
    }
    if (cluster.contains("host")) shape += fmt::format(", {}", cluster.value("host", ""));
  }
  shape += describe_conditions(scenario);
  const char* backend = result_.value("backend", "sim") == "sim" ? "simulated" : "measured";
  line(wrap(fmt::format("{}; {}, {}", scenarios::one_line(shape, 1000), backend, seed_text(result_)), 0,
            width_));
  if (measured_on != result_.end()) machines(*measured_on);
  if (result_.value("partial", false)) {
    if (const std::string failure = result_.value("failure", ""); !failure.empty()) {
      line(paint(kRed, wrap("FAILED: " + failure + "; this is rank 0's part", 0, width_)));
    }
    line(paint(kYellow, fmt::format("PARTIAL: stopped after {} us of the window",
                                    format_us(number(result_, "window_us")))));
  }
  line();
}

/// Of rank 0's machine its warning; of the others what differs from what was said before.
void Summary::machines(const Json& measured_on) {
  constexpr std::size_t kToldMax = 5;
  std::vector<std::pair<std::string, std::string>> said;  // a machine, and its warning
  std::size_t untold = 0;
  for (std::size_t rank = 0; rank < measured_on.size(); ++rank) {
    const Json& machine = measured_on[rank];
    std::pair now(text_of_machine(machine), machine.value("warning", ""));
    if (std::ranges::find(said, now) != said.end()) continue;
    const bool other = !said.empty() && now.first != said.front().first;
    if (said.size() >= kToldMax) {
      ++untold;
      continue;
    }
    const std::string of = rank == 0 ? "" : fmt::format("rank {}: ", rank);
    if (other) line(wrap(scenarios::one_line(of + now.first, 1000), 0, width_));
    if (!now.second.empty()) line(wrap(scenarios::one_line("warning: " + of + now.second, 1000), 0, width_));
    said.push_back(std::move(now));
  }
  if (untold > 0)
    line(fmt::format("{} differ too: result.json has them", format_counted(untold, "more rank")));
}

void Summary::throughput() {
  const char* unit = counts_operations() ? "operations" : "committed";
  const double total = number(result_, counts_operations() ? "operations_per_s" : "committed_per_s");
  const std::uint64_t nodes =
      std::max<std::uint64_t>(1, count_of(member(member(result_, "scenario"), "cluster"), "nodes"));
  // The contract gives micro-benchmarks' rate per machine and transactions' rate of the whole cluster.
  const double per_machine = counts_operations() ? total : total / static_cast<double>(nodes);
  const bool alone = result_.contains("failure");
  const std::string_view machine = operations_where(result_);
  const bool of_several = machine == "per machine" && count_of(result_, "machines") > 1;  // as sweeps have it
  const std::string rate =
      counts_operations()
          ? fmt::format("{} {}/s {}{}", format_si(per_machine), unit, machine,
                        of_several ? fmt::format(", {}/s in all", format_si(rate_per_s(result_))) : "")
          : fmt::format("{} {}/s{}", format_si(total), unit,
                        alone ? " at rank 0" : fmt::format(", {}/s per machine", format_si(per_machine)));
  const double offered = number(member(member(result_, "scenario"), "run"), "offered_per_s");
  const std::string of_offered =
      offered > 0 ? fmt::format("; {}/s offered{}", format_si(offered), counts_operations() ? " in all" : "")
                  : "";
  labelled("throughput", fmt::format("{}{} ({} in {} us)", rate, of_offered, format_count(work()),
                                     format_us(number(result_, "window_us"))));
}

void Summary::latency() {
  if (work() == 0) return;
  const auto add = [&](const char* label, const Json& latency, const char* what) {
    if (latency.empty()) return;
    std::string text;
    for (const char* key : {"p50", "p90", "p99", "p999", "max"}) {
      text += fmt::format("{} {}, ", key, format_us(number(latency, key)));
    }
    labelled(label, fmt::format("{}mean {} us{}", text, format_us(number(latency, "mean")), what));
  };
  add("latency", member(result_, "latency_us"), "");
  add("uncorrected", member(result_, "latency_uncorrected_us"), ", from when a coroutine took it up");
}

void Summary::aborts() {
  if (!result_.contains("aborted_attempts")) return;
  const std::uint64_t aborted = count_of(result_, "aborted_attempts");
  std::string text = fmt::format("{} of attempts ({})", format_percent(number(result_, "abort_ratio")),
                                 format_count(aborted));
  std::vector<std::pair<std::uint64_t, std::string>> reasons;
  for (const auto& [reason, count] : member(result_, "aborts").items()) {
    if (count.get<std::uint64_t>() > 0) reasons.emplace_back(count.get<std::uint64_t>(), reason);
  }
  std::stable_sort(reasons.begin(), reasons.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  const char* separator = ": ";
  for (const auto& [count, reason] : reasons) {
    text += fmt::format("{}{} {}", std::exchange(separator, ", "), reason, format_count(count));
  }
  if (const std::uint64_t user = count_of(result_, "user_aborts"); user > 0) {
    text += fmt::format("; {} ended by the application's own rules", format_count(user));
  }
  labelled("aborts", text);
}

void Summary::warnings() {
  const auto warnings = result_.find("warning");
  if (warnings == result_.end()) return;
  for (const Json& warning : *warnings) labelled("warning", warning.get<std::string>());
}

void Summary::transactions() {
  const Json& kinds = member(result_, "transactions");
  if (kinds.empty()) return;
  heading(
      fmt::format("{:<19}{:>12}{:>9}{:>10}{:>10}", "transaction", "committed", "share", "p50 us", "p99 us"));
  for (const auto& [kind, values] : kinds.items()) {
    const std::uint64_t committed = count_of(values, "committed");
    const double share = work() == 0 ? 0.0 : static_cast<double>(committed) / static_cast<double>(work());
    const Json& latency = member(values, "latency_us");
    const auto time = [&](const char* key) { return committed == 0 ? "-" : format_us(number(latency, key)); };
    line(fmt::format("{:<19}{:>12}{:>9}{:>10}{:>10}", kind, format_count(committed), format_percent(share),
                     time("p50"), time("p99")));
  }
}

void Summary::phases() {
  const Json& phases = member(result_, "phases");
  if (phases.empty()) return;
  heading(fmt::format("{:<20}{:>12}{:>9}{:>9}", "phase", "p50 us", "mean us", "had it"));
  for (const std::string& name : phases_in_order(phases)) {
    const Json& values = phases.at(name);
    if (values.empty()) continue;
    const double count = number(values, "count");
    if (count == 0) continue;  // nobody had it
    line(fmt::format("{:<20}{:>12}{:>9}{:>9}", name, format_us(number(values, "p50_us")),
                     format_us(number(values, "mean_us")),
                     work() == 0 ? "-" : format_percent(count / static_cast<double>(work()))));
  }
}

void Summary::verbs() {
  const Json& verbs = member(result_, "verbs");
  const bool used =
      std::any_of(verbs.begin(), verbs.end(), [](const Json& verb) { return count_of(verb, "count") > 0; });
  if (!used) return;
  const char* per = counts_operations() ? "per operation" : "per commit";
  heading(fmt::format("{:<20}{:>12}{:>14}{:>12}", "verb", "count", per, "bytes each"));
  for (const auto& [verb, values] : verbs.items()) {
    const std::uint64_t count = count_of(values, "count");
    if (count == 0) continue;
    const std::string each =
        work() == 0 ? "-" : fmt::format("{:.2f}", static_cast<double>(count) / static_cast<double>(work()));
    line(fmt::format("{:<20}{:>12}{:>14}{:>12.0f}", verb, format_count(count), each,
                     number(values, "bytes") / static_cast<double>(count)));
  }
  if (const std::uint64_t dropped = count_of(result_, "datagrams_dropped"); dropped > 0) {
    line(paint(kYellow,
               fmt::format("{} datagrams dropped: no RECV was posted in time", format_count(dropped))));
  }
  if (const std::uint64_t lost = count_of(result_, "packets_lost"); lost > 0) {
    const std::uint64_t timeouts = count_of(result_, "ack_timeouts");
    line(paint(kYellow, fmt::format("{} lost; found out by an ACK timeout {} times",
                                    format_counted(lost, "packet"), format_count(timeouts))));
  }
}

void Summary::resources() {
  const auto resources = result_.find("resources");
  if (resources == result_.end() || resources->empty()) return;
  std::size_t label_columns = kLabelColumns;  // "socket_interrupts" is longer
  for (const Json& resource : *resources) {
    if (resource.contains("hit_ratio")) continue;
    label_columns = std::max(label_columns, resource.value("name", "").size() + 1);
  }
  const std::size_t bar_columns = std::min<std::size_t>(24, width_ - label_columns - 33);
  const bool roles =
      std::ranges::any_of(*resources, [](const Json& one) { return one.contains("utilization_servers"); });
  heading(fmt::format("{:<{}}{:<{}}{:>9}{:>9}{}", "resource", label_columns, "in use", bar_columns, "mean",
                      "max", roles ? "  servers  clients" : ""));
  for (const Json& resource : *resources) {
    if (resource.contains("hit_ratio")) continue;
    const double mean = number(resource, "utilization_mean");
    const double max = number(resource, "utilization_max");
    const Color color = max >= 0.9 ? kRed : max >= 0.7 ? kYellow : kGreen;
    std::string by_role;
    if (resource.contains("utilization_servers")) {
      by_role = fmt::format("{:>9}{:>9}", format_percent(number(resource, "utilization_servers")),
                            format_percent(number(resource, "utilization_clients")));
    }
    line(fmt::format("{:<{}}{}{:>9}{:>9}{}", resource.value("name", ""), label_columns,
                     paint(color, format_bar(mean, bar_columns)), format_percent(mean), format_percent(max),
                     by_role));
  }
  // A cache is judged by what it misses, not by the time it is in use.
  for (const Json& resource : *resources) {
    if (resource.contains("hit_ratio")) hits(resource.value("name", ""), resource);
  }
  const Json& locations = member(result_, "location_cache");
  if (!locations.empty()) hits("locations", locations);
}

void Summary::hits(std::string_view name, const Json& cache) {
  const auto ratio = cache.find("hit_ratio");
  if (ratio == cache.end() || ratio->is_null()) return;  // nothing was looked up
  const std::string of_all = format_percent(number(cache, "hit_ratio"));
  const auto least = cache.find("hit_ratio_min");
  const std::string of_one =
      least == cache.end() || !least->is_number() ? of_all : format_percent(least->get<double>());
  line(fmt::format("{:<{}}{} of look-ups hit{}", name, kLabelColumns, of_all,
                   of_one == of_all ? "" : fmt::format(", {} on one NIC", of_one)));
}

void Summary::checks() {
  const auto checks = result_.find("checks");
  if (checks == result_.end() || checks->empty()) return;
  line();
  for (const Json& check : *checks) {
    const std::uint64_t violations = count_of(check, "violations");
    std::string text = fmt::format("{}: ", check.value("name", ""));
    if (check.contains("transactions")) {
      text += format_counted(count_of(check, "transactions"), "transaction") + ", ";
    }
    text += format_counted(violations, "violation");
    const char* separator = "; allowed: ";
    for (const auto& [name, count] : member(check, "allowed").items()) {
      text += fmt::format("{}{} {}", std::exchange(separator, ", "), name,
                          format_count(count.get<std::uint64_t>()));
    }
    line(fmt::format("{} {}", violations == 0 ? paint(kGreen, "PASS") : paint(kRed, "FAIL"),
                     wrap(text, 5, width_)));
    const auto examples = check.find("examples");
    if (violations == 0 || examples == check.end()) continue;
    for (std::size_t i = 0; i < std::min(examples->size(), kExamplesMax); ++i) {
      const Json& example = (*examples)[i];
      line("     " + wrap(example.is_string() ? example.get<std::string>() : example.dump(), 7, width_));
    }
  }
}

void Summary::bottleneck() {
  const Json& bottleneck = member(result_, "bottleneck");
  if (bottleneck.empty() || result_.contains("failure")) return;
  line();
  const std::string workload = member(member(result_, "scenario"), "workload").value("name", "");
  labelled("bottleneck", describe_bottleneck(bottleneck, workload));
}

void Summary::simulator() {
  const Json& simulator = member(result_, "simulator");
  if (simulator.empty()) return;
  std::string text =
      fmt::format("{} events in {} ({}/s)", format_si(number(simulator, "events")),
                  format_seconds(number(simulator, "wall_s")), format_si(number(simulator, "events_per_s")));
  if (!counts_operations()) {
    text += fmt::format(", {} transactions per wall second",
                        format_si(number(simulator, "transactions_per_wall_s")));
  }
  text += fmt::format(", set-up {}, {:.0f} MiB", format_seconds(number(simulator, "setup_s")),
                      number(simulator, "peak_rss_mib"));
  labelled("simulator", text);
}

}  // namespace

std::string_view operations_where(const Json& result) {
  if (result.contains("failure")) return "at rank 0";
  if (member(member(result, "scenario"), "workload").value("mode", "") == "ping_pong") return "per pair";
  return count_of(result, "machines") == 1 ? "at the one machine" : "per machine";
}

std::string render_summary(const Json& result, const SummaryStyle& style) {
  return Summary(result, style).render();
}

bool is_terminal(int file_descriptor) {
  const char* term = std::getenv("TERM");
  return isatty(file_descriptor) != 0 && (term == nullptr || std::string_view(term) != "dumb");
}

std::size_t columns_of_stream(int file_descriptor) {
  winsize window{};
  const bool known = isatty(file_descriptor) != 0 && ioctl(file_descriptor, TIOCGWINSZ, &window) == 0;
  return known && window.ws_col > 0 ? window.ws_col : SummaryStyle().width_columns;
}

SummaryStyle style_of_stream(int file_descriptor) {
  const char* no_color = std::getenv("NO_COLOR");
  SummaryStyle style;
  style.color = is_terminal(file_descriptor) && (no_color == nullptr || *no_color == 0);
  style.width_columns = std::min(columns_of_stream(file_descriptor), kColumnsMax);
  return style;
}

}  // namespace verbtwin::tools
