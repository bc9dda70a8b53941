#include "tools/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "backend/user_error.hpp"
#include "tools/text.hpp"

namespace verbtwin::tools {

namespace {

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
  return fmt::format("{:+.0f} %", (value / reference - 1) * 100);
}

std::vector<SimulatedPoint> simulated_points(const calibration::PublishedTable& table) {
  for (const char* column : {"protocol.name", "workload.name", "cluster.nodes", "cluster.coroutines",
                             "committed_per_s", "latency_p50_us"}) {
    if (!table.has_column(column)) {
      throw UserError("", fmt::format("{}: has no column \"{}\"; expected the points.csv of a sweep",
                                      table.name(), column));
    }
  }
  std::vector<SimulatedPoint> points;
  for (const calibration::PublishedRow& row : table.rows()) {
    SimulatedPoint point;
    point.workload = table.cell(row, "workload.name");
    if (point.workload == "tpcc") point.workload = "tpcc-new-order";
    point.protocol = table.cell(row, "protocol.name");
    point.coroutines = static_cast<int>(table.number(row, "cluster.coroutines"));
    point.machines = static_cast<int>(table.number(row, "cluster.nodes"));
    point.per_machine_mtps = table.positive(row, "committed_per_s") / 1e6 / std::max(1, point.machines);
    point.latency_p50_us = table.positive(row, "latency_p50_us");
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
constexpr std::string_view kEndToEnd = "\n# End to end\n";
constexpr std::string_view kEndToEndNote =
    "\nWhole transactions on these profiles beside published ones: compared, never fitted "
    "(`verbtwin compare-published --report`). A fit\nof the profiles removes this part.\n";
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

}  // namespace verbtwin::tools
