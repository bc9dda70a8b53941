// Shapes: whether simulated values stand in the order of the published ones, and jump where they do.
//
// Pure functions, callable from any thread.
#pragma once

#include <string>
#include <vector>

#include "calibration/evaluate.hpp"
#include "calibration/experiment.hpp"

namespace verbtwin::calibration {

/// A pair of points that the published values tell apart (by more than their reading error).
struct Pair {
  std::size_t first = 0, second = 0;  // of the experiment's points; the second is the larger one as published

  /// Simulated in the same order.
  bool kept(const std::vector<Prediction>& predictions) const {
    return predictions[first].value < predictions[second].value;
  }
};

/// All pairs of a series, and all series at the same x. What was measured twice, of one series at one x, is
/// no pair: nothing simulates it as two.
std::vector<Pair> ordered_pairs(const Experiment& experiment);

/// Of a series over a number: between which neighbours the value changes most, published and simulated.
struct Knee {
  std::string series;
  std::string published, simulated;  // "16 - 32"
};
std::vector<Knee> knees(const Experiment& experiment, const std::vector<Prediction>& predictions);

}  // namespace verbtwin::calibration
