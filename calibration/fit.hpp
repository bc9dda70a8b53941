// The fit: parameters of the machines of a group chosen so that the simulator comes closest to its
// experiments.
//
// Weighted least squares of log(simulated / published), robust against points that the model cannot explain:
// an experiment weighs the square root of its number of points. Beside them count pairs of points, told apart
// by the published values, whose order the simulator turns round. Gauss-Newton in the parameters'
// logarithms, of a twentieth of the range more each (ratios where they are large, differences near 0), inside
// their ranges: derivatives by differences, the step that is best for errors linear in it (NLopt's SLSQP:
// Kraft, "A software package for sequential quadratic programming", 1988) within a radius of trust. A fixed
// number of rounds, so that the same data give the same values. Of a group's several starts the one is kept
// that leads to the least misfit. One thread, which starts processes (Evaluator).
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "calibration/evaluate.hpp"
#include "calibration/machine.hpp"

namespace verbtwin::calibration {

/// Told after every evaluation: how many of how many are done, and the best misfit so far: 0 for a perfect
/// fit, for small errors and all pairs in order the weighted mean over experiments of the mean squared error.
using FitProgress = std::function<void(const MachineGroup& group, int done, int of, double best)>;

/// What became of a variable. `uncertainty`: its standard error over its value. `put_back`: where it began,
/// as the data do not determine it; of the others' uncertainties it is taken for right.
struct Fitted {
  FitVariable variable;
  double value = 0;
  bool determined = false;
  double uncertainty = 0;
  bool put_back = false;
  bool at_end = false;  // of its range
};

/// Fits one group, whose machines are built; they are left with the best values, annotated. Nothing if it was
/// told to stop.
std::optional<std::vector<Fitted>> fit_group(Machines& machines, const MachineGroup& group,
                                             std::span<const Experiment* const> experiments,
                                             const Evaluator& evaluator, const FitProgress& progress);

}  // namespace verbtwin::calibration
