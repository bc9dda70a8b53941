#include "tools/report_plots.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

namespace verbtwin::tools {

namespace {

using calibration::Experiment;
using calibration::Point;
using Predictions = std::vector<calibration::Prediction>;

constexpr std::size_t kPointsMin = 3;

std::optional<double> number_of(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  return text.empty() || *end != '\0' ? std::nullopt : std::optional(number);
}

/// One panel, two curves of a colour for each series.
std::vector<Panel> curves_of(const Experiment& experiment, const Predictions& predictions) {
  Panel panel{experiment.name, experiment.x_name, experiment.unit, {}, {}};
  std::map<std::string, std::size_t> series;
  for (std::size_t p = 0; p < experiment.points.size(); ++p) {
    const Point& point = experiment.points[p];
    const auto [found, added] = series.emplace(point.series, panel.curves.size());
    if (added) {
      const int colour = static_cast<int>(series.size()) - 1;
      panel.curves.push_back({point.series + ", published", {}, colour, true});
      panel.curves.push_back({"simulated", {}, colour, false});
    }
    const double x = *number_of(point.x);
    panel.curves[found->second].points.emplace_back(x, point.published);
    panel.curves[found->second + 1].points.emplace_back(x, predictions[p].value);
  }
  return {panel};
}

/// A panel for each series, or one where each has but a point.
std::vector<Panel> bars_of(const Experiment& experiment, const Predictions& predictions) {
  std::vector<Panel> panels;
  const auto alone = [&](const Point& point) {
    return std::ranges::count(experiment.points, point.series, &Point::series) == 1;
  };
  const bool one_panel = std::ranges::all_of(experiment.points, alone);
  for (std::size_t p = 0; p < experiment.points.size(); ++p) {
    const Point& point = experiment.points[p];
    const std::string title = one_panel ? experiment.name : point.series;
    auto panel = std::ranges::find(panels, title, &Panel::title);
    if (panel == panels.end()) {
      panels.push_back(
          {title, "", experiment.unit, {{"published", {}, 0, true}, {"simulated", {}, 0, false}}, {}});
      panel = panels.end() - 1;
    }
    const auto x = static_cast<double>(panel->categories.size());
    panel->categories.push_back(one_panel ? point.series : point.x);
    panel->curves[0].points.emplace_back(x, point.published);
    panel->curves[1].points.emplace_back(x, predictions[p].value);
  }
  return panels;
}

}  // namespace

std::vector<Panel> experiment_panels(const Experiment& experiment, const Predictions& predictions) {
  if (experiment.points.size() < kPointsMin) return {};
  const bool numbers = std::ranges::all_of(experiment.points,
                                           [](const Point& point) { return number_of(point.x).has_value(); });
  return numbers ? curves_of(experiment, predictions) : bars_of(experiment, predictions);
}

}  // namespace verbtwin::tools
