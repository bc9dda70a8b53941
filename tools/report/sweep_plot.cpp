#include "tools/report/sweep_plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "tools/console/text.hpp"

namespace verbtwin::tools {

namespace {

using nlohmann::json;
using Paths = std::vector<std::string>;

constexpr const char* kConcurrency[] = {"cluster.coroutines", "cluster.threads", "workload.outstanding"};

struct Axes {
  Paths fast;  // what varies from one point to the next, together
  Paths slow;
};

/// How long a point runs is no name of a curve.
bool names_curves(const std::string& path) {
  return !path.starts_with("run.") || path == "run.seed" || path == "run.offered_per_s";
}

Axes axes_of(const std::vector<SweepRow>& rows) {
  Axes axes;
  for (std::size_t k = 0; k < rows[0].settings.size(); ++k) {
    const std::string& path = rows[0].settings[k].first;
    if (!names_curves(path)) continue;
    const bool fast = rows[0].settings[k].second != rows[1].settings[k].second;
    (fast ? axes.fast : axes.slow).push_back(path);
  }
  if (axes.fast.empty()) axes.fast.push_back(rows[0].settings.back().first);
  for (Paths* paths : {&axes.fast, &axes.slow})
    std::stable_partition(paths->begin(), paths->end(),
                          [](const std::string& path) { return path.ends_with(".name"); });
  return axes;
}

std::string label_of(const SweepRow& row, const Paths& paths) {
  std::string label;
  for (const std::string& path : paths) {
    std::string text = point_text(row, path);
    // A word says what it is, a number does not.
    if (value_at(row.result.at("scenario"), path).is_number()) text = short_name(path) + " " + text;
    if (!text.empty()) label += (label.empty() ? "" : ", ") + text;
  }
  return label;
}

/// Numbers over one another; else bars, of as many settings as tell them apart.
struct Abscissa {
  std::vector<double> x;  // by row
  std::vector<std::string> categories;
  std::string label;
};

Abscissa numbers_of(const std::vector<SweepRow>& rows, const std::string& path) {
  Abscissa abscissa{{}, {}, short_name(path)};
  for (const SweepRow& row : rows) {
    const json& value = value_at(row.result.at("scenario"), path);
    if (!value.is_number()) return {};
    abscissa.x.push_back(value.get<double>());
  }
  if (path.ends_with("_per_s") && std::ranges::max(abscissa.x) >= 1e6) {
    abscissa.label += ", M";
    for (double& x : abscissa.x) x /= 1e6;
  }
  return abscissa;
}

constexpr std::size_t kCategoryColumns = 40;  // below an axis, slanted

Abscissa categories_of(const std::vector<SweepRow>& rows, const Paths& paths) {
  Abscissa abscissa{{}, {}, short_name(paths.front())};
  for (const SweepRow& row : rows) {
    const std::string label = end_of(label_of(row, paths), kCategoryColumns);
    auto found = std::ranges::find(abscissa.categories, label);
    if (found == abscissa.categories.end()) found = abscissa.categories.insert(found, label);
    abscissa.x.push_back(static_cast<double>(found - abscissa.categories.begin()));
  }
  return abscissa;
}

}  // namespace

std::vector<Panel> sweep_panels(const std::vector<SweepRow>& rows) {
  if (rows.size() < 2) return {};
  const Axes axes = axes_of(rows);
  Abscissa abscissa = numbers_of(rows, axes.fast.front());
  if (abscissa.x.empty()) abscissa = categories_of(rows, axes.fast);
  double largest = 0;
  for (const SweepRow& row : rows) largest = std::max(largest, rate_per_s(row.result));
  const double unit = largest >= 1e6 ? 1e6 : 1e3;

  const std::string name = text_of(value_at(rows[0].result, "scenario.name"));
  Panel rate{name + ": throughput",
             abscissa.label,
             fmt::format("{}/s", unit == 1e6 ? "M" : "k"),
             {},
             abscissa.categories};
  Panel latency{name + ": median latency", abscissa.label, "us", {}, abscissa.categories};
  const bool over_rate = std::ranges::find(kConcurrency, axes.fast.front()) != std::end(kConcurrency);
  if (over_rate) latency.x_label = rate.y_label;
  std::map<std::string, std::size_t> curves;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string curve = label_of(rows[i], axes.slow);
    const auto [found, added] = curves.emplace(curve, curves.size());
    if (added) {
      const int colour = static_cast<int>(found->second);
      rate.curves.push_back({curve, {}, colour, false});
      latency.curves.push_back({curve, {}, colour, false});
    }
    const double per_s = rate_per_s(rows[i].result) / unit;
    const double median_us = value_at(rows[i].result, "latency_us.p50").get<double>();
    rate.curves[found->second].points.emplace_back(abscissa.x[i], per_s);
    latency.curves[found->second].points.emplace_back(over_rate ? per_s : abscissa.x[i], median_us);
  }
  return {rate, latency};
}

}  // namespace verbtwin::tools
