// Pictures of the report: each experiment's published points and the simulated ones.
//
// A pure function; callable from any thread.
#pragma once

#include <vector>

#include "calibration/evaluate.hpp"
#include "calibration/experiment.hpp"
#include "tools/report/plot.hpp"

namespace verbtwin::tools {

/// Curves where x is a number, else bars, a panel for each series; none where there are fewer than three
/// points.
std::vector<Panel> experiment_panels(const calibration::Experiment& experiment,
                                     const std::vector<calibration::Prediction>& predictions);

}  // namespace verbtwin::tools
