#include "tools/compare/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "backend/user_error.hpp"
#include "calibration/report.hpp"
#include "scenarios/text.hpp"
#include "tools/console/text.hpp"

namespace verbtwin::tools {

namespace {

using nlohmann::json;
using Pairs = std::vector<PairedPoint>;

std::string render_points(const Pairs& pairs) {
  std::string text =
      "| workload | protocol | machines | coroutines | M/s per machine, published | simulated | error | p50 "
      "us, "
      "published | simulated | error |\n|---|---|---|---|---|---|---|---|---|---|\n";
  for (const auto& [published, simulated] : pairs) {
    const bool latency = published.latency_p50_us > 0;
    text += fmt::format(
        "| {} | {} | {} | {} | {:.3f} | {:.3f} | {} | {} | {:.1f} | {} |\n", published.workload,
        published.protocol, published.machines, simulated.coroutines, published.per_machine_mtps,
        simulated.per_machine_mtps, percent_off(simulated.per_machine_mtps, published.per_machine_mtps),
        latency ? fmt::format("{:.1f}", published.latency_p50_us) : "-", simulated.latency_p50_us,
        percent_off(simulated.latency_p50_us, published.latency_p50_us));
  }
  return text;
}

/// The protocols of one workload and concurrency, the fastest first.
template <typename Rate>
std::vector<std::string> ranked(Pairs pairs, const Rate& rate) {
  std::ranges::stable_sort(pairs, std::ranges::greater{}, rate);
  std::vector<std::string> names;
  for (const PairedPoint& pair : pairs) names.push_back(pair.published.protocol);
  return names;
}

std::string render_order(const Pairs& pairs) {
  std::map<std::tuple<std::string, int, int>, Pairs> groups;
  for (const PairedPoint& pair : pairs) {
    groups[{pair.published.workload, pair.published.machines, pair.published.coroutines}].push_back(pair);
  }
  std::string text;
  int compared = 0, winners = 0, orders = 0;
  for (const auto& [key, group] : groups) {
    if (group.size() < 2) continue;
    const auto published = ranked(group, [](const PairedPoint& p) { return p.published.per_machine_mtps; });
    const auto simulated = ranked(group, [](const PairedPoint& p) { return p.simulated.per_machine_mtps; });
    ++compared;
    winners += published.front() == simulated.front();
    orders += published == simulated;
    if (published == simulated) continue;
    text += fmt::format("* {}, {}, {}: published {}; simulated {}\n", std::get<0>(key),
                        format_counted(std::get<1>(key), "machine"),
                        format_counted(std::get<2>(key), "coroutine"), fmt::join(published, " > "),
                        fmt::join(simulated, " > "));
  }
  if (compared == 0) return "";
  return fmt::format("The system that wins is right at {} of {} concurrencies, the whole order at {}.\n",
                     winners, compared, orders) +
         text;
}

std::string render_peaks(const Pairs& pairs) {
  struct Peak {
    double published = 0, simulated = 0;
  };
  std::map<std::pair<std::string, std::string>, Peak> peaks;
  for (const auto& [published, simulated] : pairs) {
    Peak& peak = peaks[{published.workload, published.protocol}];
    peak.published = std::max(peak.published, published.per_machine_mtps);
    peak.simulated = std::max(peak.simulated, simulated.per_machine_mtps);
  }
  std::string text = "| peak | published M/s per machine | simulated | error |\n|---|---|---|---|\n";
  for (const auto& [key, peak] : peaks) {
    text += fmt::format("| {}, {} | {:.3f} | {:.3f} | {} |\n", key.first, key.second, peak.published,
                        peak.simulated, percent_off(peak.simulated, peak.published));
  }
  return text;
}

}  // namespace

std::string percent_off(double value, double reference) {
  if (reference <= 0) return "-";
  return fmt::format("{:+.0f} %", std::round((value / reference - 1) * 100) + 0.0);  // no -0
}

namespace {
// As the scenario's schema has them.
constexpr int kNodesMax = 4096, kThreadsMax = 256, kCoroutinesMax = 1024, kNicsMax = 8;

/// "1 thread, published with 24; connectx-5, published with connectx-4"; empty where all is as published.
std::string other_cluster(const calibration::CsvTable& table, const calibration::CsvRow& row) {
  const calibration::PublishedCluster published;
  std::vector<std::string> differences;
  const auto compare = [&](const char* column, int most, const char* what, int wanted) {
    if (!table.has_column(column)) return;
    const int value = table.count(row, column, most);
    if (value == wanted) return;
    differences.push_back(fmt::format("{}, published with {}", format_counted(value, what), wanted));
  };
  compare("cluster.threads", kThreadsMax, "thread", published.threads);
  compare("cluster.nics_per_node", kNicsMax, "NIC", published.nics_per_node);
  compare("cluster.replicas", kNodesMax, "replica", published.replicas);
  const std::string nic = table.has_column("cluster.nic") ? table.cell(row, "cluster.nic") : published.nic;
  if (nic != published.nic && !nic.ends_with(".json"))
    differences.push_back(fmt::format("{}, published with {}", scenarios::one_line(nic, 60), published.nic));
  if (table.has_column("run.offered_per_s") && !table.cell(row, "run.offered_per_s").empty())
    differences.emplace_back("an offered load, published as fast as it goes");
  if (table.has_column("partial") && table.cell(row, "partial") == "true")
    differences.emplace_back("ended early");
  return fmt::format("{}", fmt::join(differences, "; "));
}

/// Such a point is compared: protocol.artifact is there to be, and violates them.
std::string render_violated(const std::vector<SimulatedPoint>& points) {
  std::vector<std::string> numbers;
  for (const SimulatedPoint& point : points)
    if (point.violated) numbers.push_back(scenarios::one_line(point.number, 20));
  return numbers.empty() ? ""
                         : fmt::format("\nChecks were violated: point{} {}.\n",
                                       numbers.size() == 1 ? "" : "s", fmt::join(numbers, ", "));
}

/// Of the row at `at`.
std::string point_number(const calibration::CsvTable& table, std::size_t at) {
  return table.has_column("point") ? table.cell(table.rows()[at], "point") : std::to_string(at);
}
}  // namespace

std::string describe(const std::vector<PointNote>& left_out) {
  std::vector<std::string> reasons;
  for (const PointNote& one : left_out) {
    if (std::ranges::find(reasons, one.why) == reasons.end()) reasons.push_back(one.why);
  }
  for (std::string& reason : reasons) {
    std::vector<std::string> points;
    for (const PointNote& one : left_out) {
      if (one.why == reason) points.push_back(scenarios::one_line(one.point, 20));
    }
    reason = fmt::format("point{} {} ({})", points.size() == 1 ? "" : "s", fmt::join(points, ", "), reason);
  }
  return fmt::format("{}", fmt::join(reasons, "; "));
}

std::string render_left_out(const std::vector<PointNote>& left_out) {
  return left_out.empty() ? "" : fmt::format("\nLeft out: {}.\n", describe(left_out));
}

std::string render_point_warnings(const calibration::CsvTable& table) {
  constexpr std::size_t kSaid = 3;
  if (!table.has_column("warning")) return "";
  std::vector<PointNote> warned;
  for (std::size_t at = 0; at < table.rows().size(); ++at) {
    const std::string& warning = table.cell(table.rows()[at], "warning");
    if (!warning.empty()) warned.push_back({point_number(table, at), scenarios::one_line(warning, 200)});
  }
  if (warned.empty()) return "";
  std::string rest;
  if (warned.size() > kSaid) {
    rest = fmt::format("; and {} more, in the column warning", warned.size() - kSaid);
    warned.resize(kSaid);
  }
  return fmt::format("\nRuns that ended with a warning: {}{}.\n", describe(warned), rest);
}

std::vector<SimulatedPoint> of_published_cluster(std::vector<SimulatedPoint> points,
                                                 std::vector<PointNote>& left_out) {
  for (const SimulatedPoint& point : points) {
    if (!point.other_cluster.empty()) left_out.push_back({point.number, point.other_cluster});
  }
  std::erase_if(points, [](const SimulatedPoint& point) { return !point.other_cluster.empty(); });
  return points;
}

std::vector<SimulatedPoint> simulated_points(const calibration::CsvTable& table) {
  for (const char* column : {"protocol.name", "workload.name", "cluster.nodes", "cluster.coroutines",
                             "committed_per_s", "latency_p50_us"}) {
    if (!table.has_column(column)) {
      throw UserError("",
                      fmt::format("{}: nothing of it is published: no column \"{}\"; allowed: the points.csv "
                                  "of a sweep over published systems",
                                  table.name(), column));
    }
  }
  std::vector<SimulatedPoint> points;
  for (const calibration::CsvRow& row : table.rows()) {
    SimulatedPoint point;
    point.workload = table.cell(row, "workload.name");
    if (point.workload == "tpcc") point.workload = "tpcc-new-order";
    point.protocol = table.cell(row, "protocol.name");
    point.coroutines = table.count(row, "cluster.coroutines", kCoroutinesMax);
    point.machines = table.count(row, "cluster.nodes", kNodesMax);
    point.per_machine_mtps = table.positive(row, "committed_per_s") / 1e6 / point.machines;
    point.latency_p50_us = table.positive(row, "latency_p50_us");
    point.number = point_number(table, points.size());
    point.other_cluster = other_cluster(table, row);
    const std::string violations = table.has_column("violations") ? table.cell(row, "violations") : "";
    point.violated = !violations.empty() && violations != "0";
    points.push_back(point);
  }
  return points;
}

std::vector<PairedPoint> pair_points(const std::vector<calibration::PublishedPoint>& published,
                                     const std::vector<SimulatedPoint>& simulated) {
  std::vector<PairedPoint> pairs;
  for (const calibration::PublishedPoint& point : published) {
    const auto same = [&](const SimulatedPoint& s) {
      return s.workload == point.workload && s.protocol == point.protocol && s.machines == point.machines &&
             (point.coroutines == 0 || s.coroutines == point.coroutines);
    };
    if (const auto found = std::ranges::find_if(simulated, same); found != simulated.end()) {
      pairs.push_back({point, *found});
    }
  }
  return pairs;
}

std::string render_comparison(const std::string& title, const std::vector<PairedPoint>& pairs) {
  return fmt::format("## {}\n\n{}\n{}\n{}", title, render_peaks(pairs), render_order(pairs),
                     render_points(pairs));
}

std::vector<Panel> comparison_panels(const std::string& title, const std::vector<PairedPoint>& pairs,
                                     bool over_machines) {
  Panel panel{title,
              over_machines ? "machines" : "M/s per machine",
              over_machines ? "M/s per machine" : "median latency, us",
              {},
              {}};
  for (const auto& [published, simulated] : pairs) {
    if (over_machines) {
      add_point(panel, published.protocol, {published.machines, published.per_machine_mtps},
                {simulated.machines, simulated.per_machine_mtps});
    } else {
      add_point(panel, published.protocol, {published.per_machine_mtps, published.latency_p50_us},
                {simulated.per_machine_mtps, simulated.latency_p50_us});
    }
  }
  return {panel};
}

namespace {

/// How many machines or coroutines a sweep has varies: with several machine counts it is a scale-out.
bool is_scale_out(const std::vector<SimulatedPoint>& points) {
  return std::ranges::any_of(
      points, [&](const SimulatedPoint& point) { return point.machines != points.front().machines; });
}

std::vector<ComparedValue> values_of(const std::vector<PairedPoint>& pairs, bool over_machines) {
  std::vector<ComparedValue> values;
  for (const auto& [published, simulated] : pairs) {
    const std::string x = std::to_string(over_machines ? simulated.machines : simulated.coroutines);
    values.push_back({fmt::format("{}, M/s per machine", published.protocol), x, published.per_machine_mtps,
                      simulated.per_machine_mtps});
    if (published.latency_p50_us > 0)
      values.push_back({fmt::format("{}, p50 us", published.protocol), x, published.latency_p50_us,
                        simulated.latency_p50_us});
  }
  return values;
}

/// What of its protocols the sweep sets beside their names, "" where nothing.
std::string render_settings(const calibration::CsvTable& table) {
  std::map<std::string, std::vector<std::string>> protocols_with;  // by what is set
  std::set<std::string> seen;
  for (const calibration::CsvRow& row : table.rows()) {
    const std::string& protocol = table.cell(row, "protocol.name");
    if (!seen.insert(protocol).second) continue;
    std::vector<std::string> settings;
    for (const std::string& column : table.columns()) {
      if (column.starts_with("protocol.") && column != "protocol.name")
        settings.push_back(
            fmt::format("{} {}", column.substr(column.find('.') + 1), table.cell(row, column)));
    }
    if (!settings.empty())
      protocols_with[fmt::format("{}", fmt::join(settings, ", "))].push_back(
          scenarios::one_line(protocol, 40));
  }
  std::string text;
  for (const auto& [settings, protocols] : protocols_with)
    text += fmt::format("\n{} with {}.\n", fmt::join(protocols, ", "), scenarios::one_line(settings, 400));
  return text;
}

/// A sweep of something else has several points where the figure has one.
void refuse_others(const std::string& file, const std::vector<SimulatedPoint>& points, bool scale_out) {
  std::set<std::tuple<std::string, std::string, int, int>> seen;
  for (const SimulatedPoint& p : points) {
    // Figure 12 does not say how many coroutines there are.
    if (seen.emplace(p.workload, p.protocol, scale_out ? 0 : p.coroutines, p.machines).second) continue;
    const std::string coroutines = scale_out ? "" : ", " + format_counted(p.coroutines, "coroutine");
    throw UserError(
        "", fmt::format("{}: two points of {}, {}, {}{}; allowed: sweeps over "
                        "systems and coroutines (figure 14), machines (figure 12), factors (figure 13) or "
                        "the RAMP family's ways to read and write",
                        file, p.workload, p.protocol, format_counted(p.machines, "machine"), coroutines));
  }
}

}  // namespace

Comparison compare_curves(const calibration::CsvTable& table) {
  std::vector<PointNote> left_out;
  const std::vector<SimulatedPoint> simulated = of_published_cluster(simulated_points(table), left_out);
  const bool scale_out = is_scale_out(simulated);
  refuse_others(table.name(), simulated, scale_out);
  const std::vector<PairedPoint> pairs = pair_points(
      scale_out ? calibration::published_scale_out() : calibration::published_end_to_end(), simulated);
  for (const SimulatedPoint& point : simulated) {
    const auto is_point = [&](const PairedPoint& pair) { return pair.simulated.number == point.number; };
    if (std::ranges::none_of(pairs, is_point))
      left_out.push_back(
          {point.number, fmt::format("{} has no such point", scale_out ? "figure 12" : "figure 14")});
  }
  if (pairs.empty()) {
    throw UserError("", fmt::format("{}: no point of it has been published: {}; allowed: the sweeps of "
                                    "scenarios/osdi18, fasst, rpc and ramp",
                                    table.name(), describe(left_out)));
  }
  const std::string title =
      fmt::format("{}: {}",
                  scale_out ? "OSDI 2018, figure 12: throughput against machines"
                            : "OSDI 2018, figure 14: throughput and latency, 16 machines",
                  pairs.front().published.workload);
  return {title,
          render_comparison(title, pairs) + render_settings(table) + render_left_out(left_out) +
              render_violated(simulated),
          comparison_panels(title, pairs, scale_out), values_of(pairs, scale_out)};
}

namespace {
constexpr std::string_view kEndToEnd = "\n# End to end\n";
constexpr std::string_view kEndToEndNote =
    "\nWhole transactions on these profiles beside published ones: compared, never fitted "
    "(`verbtwin compare-published --report`). A fit\nof the profiles removes this part.\n";
constexpr const char* kValidation = "validation";
}  // namespace

std::string comparisons_of(const std::string& report) {
  const std::size_t part = report.find(kEndToEnd);
  return part == std::string::npos ? "" : report.substr(part);
}

std::string with_comparison(const std::string& report, const std::string& title,
                            const std::string& comparison) {
  std::string text = report;
  if (comparisons_of(text).empty()) text += fmt::format("{}{}", kEndToEnd, kEndToEndNote);
  const std::size_t part = text.find(kEndToEnd);
  const std::size_t former = text.find(fmt::format("\n## {}\n", title), part);
  if (former == std::string::npos) return text + "\n" + comparison;
  std::size_t next = text.find("\n## ", former + 1);
  if (next == std::string::npos) next = text.size();
  return text.substr(0, former + 1) + comparison + text.substr(next);
}

json with_compared_values(const json& report, const Comparison& comparison) {
  const auto is_former = [&](const json& row) {
    return row.is_object() && row.value("set", json()) == kValidation &&
           row.value("experiment", json()) == comparison.title;
  };
  json all = json::array();
  std::optional<std::size_t> place;  // where they stood, as on the page; else the end
  for (const json& row : report) {
    if (!is_former(row)) {
      all.push_back(row);
    } else if (!place) {
      place = all.size();
    }
  }
  json values = json::array();
  for (const ComparedValue& value : comparison.values) {
    values.push_back(calibration::report_json(
        {kValidation, comparison.title, value.series, value.x, value.published, value.simulated}));
  }
  all.insert(all.begin() + static_cast<std::ptrdiff_t>(place.value_or(all.size())), values.begin(),
             values.end());
  return all;
}

json compared_values_of(const json& report) {
  json values = json::array();
  for (const json& row : report) {
    if (row.is_object() && row.value("set", json()) == kValidation) values.push_back(row);
  }
  return values;
}

}  // namespace verbtwin::tools
