#include "tools/report/sweep_plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
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
  return !path.starts_with("run.") || path == "run.seed" || path == "run.index" ||
         path == "run.offered_per_s";
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

/// All that tells a row from the others.
std::string key_of(const SweepRow& row, const Paths& paths) {
  std::string key;
  for (const std::string& path : paths) key += short_name(path) + " " + point_text(row, path) + ", ";
  return key.substr(0, key.size() - std::min<std::size_t>(key.size(), 2));
}

/// Without the options, on or off, that only follow the other settings.
Paths telling(const std::vector<SweepRow>& rows, const Paths& paths) {
  const auto is_option = [&](const std::string& path) {
    return std::ranges::any_of(
        rows, [&](const SweepRow& row) { return value_at(row.result.at("scenario"), path).is_boolean(); });
  };
  const auto told_apart = [&](const Paths& by) {
    std::set<std::string> keys;
    for (const SweepRow& row : rows) keys.insert(key_of(row, by));
    return keys.size();
  };
  Paths kept = paths;
  for (std::size_t at = paths.size(); at-- > 0;) {
    Paths others = kept;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(at));
    if (!others.empty() && is_option(paths[at]) && told_apart(others) == told_apart(kept))
      kept = std::move(others);
  }
  return kept;
}

/// A word says what it is, a number does not. An option that is on is its name, one that is off or that the
/// point does not have is left out.
std::string label_of(const SweepRow& row, const Paths& paths) {
  std::string label, without;
  for (const std::string& path : paths) {
    const json& value = value_at(row.result.at("scenario"), path);
    std::string text = point_text(row, path);
    if (value.is_number()) text = fmt::format("{} {}", short_name(path), text);
    if (value.is_boolean()) text = short_name(path);
    const bool is_off = value.is_null() || value == false;
    std::string& whose = is_off ? without : label;
    if (!text.empty()) whose += (whose.empty() ? "" : ", ") + (is_off ? "no " + short_name(path) : text);
  }
  return label.empty() ? without : label;
}

/// A label for each row: the same where `paths` tell none apart, and only there.
std::vector<std::string> labels_of(const std::vector<SweepRow>& rows, const Paths& all) {
  const Paths paths = telling(rows, all);
  std::map<std::string, std::set<std::string>> keys;  // by label
  for (const SweepRow& row : rows) keys[label_of(row, paths)].insert(key_of(row, paths));
  std::vector<std::string> labels;
  for (const SweepRow& row : rows) {
    labels.push_back(label_of(row, paths));
    if (keys[labels.back()].size() > 1) labels.back() = key_of(row, paths);
  }
  return labels;
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
  for (const std::string& label : labels_of(rows, paths)) {
    auto found = std::ranges::find(abscissa.categories, label);
    if (found == abscissa.categories.end()) found = abscissa.categories.insert(found, label);
    abscissa.x.push_back(static_cast<double>(found - abscissa.categories.begin()));
  }
  for (std::string& label : abscissa.categories) label = end_of(label, kCategoryColumns);
  return abscissa;
}

/// Whether one setting after another changes and none changes back, as where optimisations are switched on
/// one after another. No whole grid of settings does that.
bool is_chain(const std::vector<SweepRow>& rows, const Axes& axes) {
  for (const Paths* paths : {&axes.fast, &axes.slow}) {
    for (const std::string& path : *paths) {
      std::set<std::string> former;
      for (std::size_t i = 1; i < rows.size(); ++i) {
        const std::string before = point_text(rows[i - 1], path), now = point_text(rows[i], path);
        if (now != before) former.insert(before);
        if (former.contains(now)) return false;
      }
    }
  }
  return true;
}

/// What a row has and the one before has not.
std::string change_of(const SweepRow& before, const SweepRow& row) {
  std::string first;
  int others = 0;
  for (const auto& [path, written] : row.settings) {
    const std::string text = point_text(row, path);
    if (!names_curves(path) || text == point_text(before, path)) continue;
    if (!first.empty()) {
      ++others;
      continue;
    }
    const json& value = value_at(row.result.at("scenario"), path);
    first = (value == false ? "no " : "+") + short_name(path);
    if (!value.is_boolean()) first += " " + text;
  }
  return end_of(first, kCategoryColumns) + (others > 0 ? fmt::format(", {} more", others) : "");
}

Abscissa changes_of(const std::vector<SweepRow>& rows) {
  Abscissa abscissa{{0}, {"base"}, "one change after another"};
  for (std::size_t i = 1; i < rows.size(); ++i) {
    abscissa.x.push_back(static_cast<double>(i));
    abscissa.categories.push_back(change_of(rows[i - 1], rows[i]));
  }
  return abscissa;
}

}  // namespace

std::vector<Panel> sweep_panels(const std::vector<SweepRow>& all) {
  std::vector<SweepRow> rows;  // what a signal cut short is no point like the others
  std::ranges::copy_if(all, std::back_inserter(rows),
                       [](const SweepRow& row) { return !row.result.value("partial", false); });
  if (rows.size() < 2) return {};
  Axes axes = axes_of(rows);
  Abscissa abscissa = numbers_of(rows, axes.fast.front());
  if (abscissa.x.empty() && rows.size() > 2 && !axes.slow.empty() && is_chain(rows, axes)) {
    abscissa = changes_of(rows);
    axes.slow.clear();
  }
  if (abscissa.x.empty()) abscissa = categories_of(rows, axes.fast);
  double largest = 0;
  for (const SweepRow& row : rows) largest = std::max(largest, rate_per_s(row.result));
  if (largest == 0) return {};
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
  rate.hollow_means = latency.hollow_means = "hollow: with a warning";
  const std::vector<std::string> labels = labels_of(rows, axes.slow);
  std::map<std::string, std::size_t> curves;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string& curve = labels[i];
    const auto [found, added] = curves.emplace(curve, curves.size());
    if (added) {
      const int colour = static_cast<int>(found->second);
      rate.curves.push_back({curve, {}, colour, false});
      latency.curves.push_back({curve, {}, colour, false});
    }
    const double per_s = rate_per_s(rows[i].result) / unit;
    const double median_us = per_s > 0 ? value_at(rows[i].result, "latency_us.p50").get<double>() : NAN;
    rate.curves[found->second].points.emplace_back(abscissa.x[i], per_s);
    latency.curves[found->second].points.emplace_back(over_rate ? per_s : abscissa.x[i], median_us);
    const bool warned = rows[i].result.contains("warning");
    for (Panel* panel : {&rate, &latency}) panel->curves[found->second].hollow.push_back(warned);
  }
  return {rate, latency};
}

}  // namespace verbtwin::tools
