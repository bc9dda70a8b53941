#include "tools/report/report_plots.hpp"

#include <algorithm>
#include <string>

#include "calibration/shape.hpp"

namespace verbtwin::tools {

namespace {

using calibration::Experiment;
using calibration::Point;
using Predictions = std::vector<calibration::Prediction>;

constexpr std::size_t kPointsMin = 3;

/// One panel, two curves of a colour for each series.
std::vector<Panel> curves_of(const Experiment& experiment, const Predictions& predictions) {
  Panel panel{experiment.name, experiment.x_name, experiment.unit, {}, {}};
  for (std::size_t p = 0; p < experiment.points.size(); ++p) {
    const Point& point = experiment.points[p];
    const double x = std::stod(point.x);
    add_point(panel, point.series, {x, point.published}, {x, predictions[p].value});
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
    if (panel == panels.end()) panel = panels.insert(panel, {title, "", experiment.unit, {}, {}});
    add_bars(*panel, one_panel ? point.series : point.x, point.published, predictions[p].value);
  }
  return panels;
}

}  // namespace

std::vector<Panel> experiment_panels(const Experiment& experiment, const Predictions& predictions) {
  if (experiment.points.size() < kPointsMin) return {};
  const bool numbers = std::ranges::all_of(
      experiment.points, [](const Point& point) { return calibration::number_of(point.x).has_value(); });
  return numbers ? curves_of(experiment, predictions) : bars_of(experiment, predictions);
}

}  // namespace verbtwin::tools
