#include "calibration/shape.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "calibration/csv_table.hpp"

namespace verbtwin::calibration {

namespace {

// Closer published values are one: digitised, and a run differs from the next by this much.
constexpr double kTellApart = 0.04;
// A knee is a step that stands out.
constexpr double kKnee = 0.15;

std::map<std::string, std::vector<std::size_t>> by_series(const Experiment& experiment) {
  std::map<std::string, std::vector<std::size_t>> all;
  for (std::size_t p = 0; p < experiment.points.size(); ++p) all[experiment.points[p].series].push_back(p);
  return all;
}

double step(double a, double b) {
  return a > 0 && b > 0 ? std::log(b / a) : 0;
}

}  // namespace

std::vector<Pair> ordered_pairs(const Experiment& experiment) {
  std::vector<Pair> pairs;
  const auto add = [&](std::size_t a, std::size_t b) {
    const double published = step(experiment.points[a].published, experiment.points[b].published);
    if (std::abs(published) < kTellApart) return;
    if (published < 0) std::swap(a, b);
    pairs.push_back({a, b});
  };
  const auto series = by_series(experiment);
  for (const auto& [name, points] : series) {
    for (std::size_t i = 0; i < points.size(); ++i) {
      for (std::size_t j = i + 1; j < points.size(); ++j) {
        if (experiment.points[points[i]].x != experiment.points[points[j]].x) add(points[i], points[j]);
      }
    }
  }
  for (std::size_t a = 0; a < experiment.points.size(); ++a) {
    for (std::size_t b = a + 1; b < experiment.points.size(); ++b) {
      const Point &one = experiment.points[a], &other = experiment.points[b];
      if (one.x == other.x && one.series != other.series) add(a, b);
    }
  }
  return pairs;
}

std::vector<Knee> knees(const Experiment& experiment, const std::vector<Prediction>& predictions) {
  std::vector<Knee> all;
  for (const auto& series : by_series(experiment)) {
    std::vector<std::size_t> points = series.second;
    const auto x = [&](std::size_t p) { return number_of(experiment.points[p].x); };
    const auto has_number = [&](std::size_t p) { return x(p).has_value(); };
    if (points.size() < 3 || !std::ranges::all_of(points, has_number)) continue;
    std::ranges::stable_sort(points, {}, x);  // a user's points come in any order
    const auto largest = [&](const auto& value_of) {
      std::pair<double, std::string> best{0, "none"};
      for (std::size_t i = 0; i + 1 < points.size(); ++i) {
        const Point &a = experiment.points[points[i]], &b = experiment.points[points[i + 1]];
        if (a.x == b.x) continue;
        const double change = std::abs(step(value_of(points[i]), value_of(points[i + 1])));
        if (change > std::max(best.first, kKnee)) best = {change, a.x + " - " + b.x};
      }
      return best.second;
    };
    all.push_back({series.first, largest([&](std::size_t p) { return experiment.points[p].published; }),
                   largest([&](std::size_t p) { return predictions[p].value; })});
  }
  return all;
}

}  // namespace verbtwin::calibration
