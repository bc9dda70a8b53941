#include "tools/compare/factors.hpp"
#include "tools/console/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cmath>
#include <optional>

#include "backend/user_error.hpp"

namespace verbtwin::tools {

namespace {

using calibration::CsvTable;

/// What a step of the figure switches on, as points.csv shows it.
struct Factor {
  const char* step;
  const char* column;
  const char* off;  // any other value is on
};
constexpr std::array kFactors = {
    Factor{"+one-sided read", "protocol.phases.execution.primitive", "rpc"},
    Factor{"+one-sided logging", "protocol.phases.logging.primitive", "rpc"},
    Factor{"+location cache", "protocol.location_cache.mib", "0"},
    Factor{"+one-sided validation", "protocol.phases.validation.lock", "rpc"},
    Factor{"+passive ack", "protocol.phases.commit.passive_ack", "false"},
    Factor{"+outstanding", "protocol.phases.execution.outstanding", "false"},
};
using Switches = std::bitset<kFactors.size()>;

Switches switches_of(const CsvTable& table, const calibration::CsvRow& row) {
  Switches on;
  for (std::size_t i = 0; i < kFactors.size(); ++i)
    on[i] = table.cell(row, kFactors[i].column) != kFactors[i].off;
  return on;
}

/// In what a point is not of figure 13's cluster.
std::string other_cluster(const SimulatedPoint& point) {
  const int published = calibration::PublishedCluster().nodes;
  if (point.machines == published) return point.other_cluster;
  return fmt::format("{}, published with {}{}{}", format_counted(point.machines, "machine"), published,
                     point.other_cluster.empty() ? "" : "; ", point.other_cluster);
}

std::vector<PointNote> of_other_clusters(const std::vector<SimulatedPoint>& points) {
  std::vector<PointNote> left_out;
  for (const SimulatedPoint& point : points) {
    if (const std::string why = other_cluster(point); !why.empty()) left_out.push_back({point.number, why});
  }
  return left_out;
}

/// A gain that is no gain: throughputs that differ by less are the same to the eye.
constexpr double kNothing = 0.02;

bool same_way(double published, double simulated) {
  const auto way = [](double gain) { return std::abs(gain - 1) < kNothing ? 0 : gain > 1 ? 1 : -1; };
  return way(published) == way(simulated);
}

}  // namespace

bool varies_factors(const CsvTable& table) {
  return std::ranges::all_of(kFactors, [&](const Factor& factor) { return table.has_column(factor.column); });
}

std::vector<PairedFactor> pair_factors(const std::vector<calibration::PublishedFactor>& published,
                                       const CsvTable& table) {
  const std::vector<SimulatedPoint> points = simulated_points(table);
  const std::vector<PointNote> left_out = of_other_clusters(points);
  std::vector<PairedFactor> pairs;
  Switches wanted;
  for (const calibration::PublishedFactor& factor : published) {
    const auto known = std::ranges::find(kFactors, factor.step, &Factor::step);
    if (known != kFactors.end()) wanted.set(static_cast<std::size_t>(known - kFactors.begin()));
    std::optional<std::size_t> found;
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (!other_cluster(points[i]).empty() || points[i].coroutines != factor.coroutines ||
          switches_of(table, table.rows()[i]) != wanted)
        continue;
      if (found) {
        throw UserError(
            "", fmt::format("{}: points {} and {} are both \"{}\"; allowed: one point for each step of "
                            "figure 13 (scenarios/osdi18/fig13-factors.json)",
                            table.name(), *found, i, factor.step));
      }
      found = i;
    }
    if (!found) {
      throw UserError("",
                      fmt::format("{}: no point of {} has on what \"{}\" of figure 13 has, and nothing "
                                  "else{}; see scenarios/osdi18/fig13-factors.json",
                                  table.name(), format_counted(factor.coroutines, "coroutine"), factor.step,
                                  left_out.empty() ? "" : "; left out: " + describe(left_out)));
    }
    pairs.push_back({factor, points[*found].per_machine_mtps, points[*found].latency_p50_us});
  }
  return pairs;
}

namespace {
double by_base(const PairedFactor& pair, const std::vector<PairedFactor>& pairs) {
  return pair.per_machine_mtps / pairs.front().per_machine_mtps;
}
}  // namespace

std::string render_factors(const std::string& title, const std::vector<PairedFactor>& pairs) {
  std::string rows;
  int steps = 0, right = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const PairedFactor& pair = pairs[i];
    const double ratio = by_base(pair, pairs);
    std::string gains = "- | -";
    if (i > 0) {
      const PairedFactor& before = pairs[i - 1];
      gains = fmt::format("{} | {}", percent_off(pair.published.ratio, before.published.ratio),
                          percent_off(pair.per_machine_mtps, before.per_machine_mtps));
      ++steps;
      right += same_way(pair.published.ratio / before.published.ratio,
                        pair.per_machine_mtps / before.per_machine_mtps);
    }
    rows += fmt::format("| {} | {:.2f} | {:.2f} | {} | {} | {:.3f} | {:.1f} |\n", pair.published.step,
                        pair.published.ratio, ratio, percent_off(ratio, pair.published.ratio), gains,
                        pair.per_machine_mtps, pair.latency_p50_us);
  }
  return fmt::format(
      "## {}\n\nOf {} steps {} go the published way (up, down, or less than {:.0f} %).\n\n"
      "| step | by the base, published | simulated | error | by the step before, published | simulated | "
      "simulated "
      "M/s per machine | p50 us |\n|---|---|---|---|---|---|---|---|\n{}",
      title, steps, right, kNothing * 100, rows);
}

namespace {
/// Bars: what each step has by the base's.
std::vector<Panel> factor_panels(const std::string& title, const std::vector<PairedFactor>& pairs) {
  Panel panel{title, "", "throughput by the base's", {}, {}};
  for (const PairedFactor& pair : pairs)
    add_bars(panel, pair.published.step, pair.published.ratio, by_base(pair, pairs));
  return {panel};
}
}  // namespace

Comparison compare_factors(const CsvTable& table) {
  const std::string title = "OSDI 2018, figure 13(a): TPC-C new-order, one optimisation after another";
  const std::vector<PairedFactor> pairs = pair_factors(calibration::published_factors(), table);
  std::vector<ComparedValue> values;
  for (const PairedFactor& pair : pairs)
    values.push_back({"by the base", pair.published.step, pair.published.ratio, by_base(pair, pairs)});
  return {title, render_factors(title, pairs) + render_left_out(of_other_clusters(simulated_points(table))),
          factor_panels(title, pairs), std::move(values)};
}

}  // namespace verbtwin::tools
