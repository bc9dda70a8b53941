// Evaluator: what the simulator predicts for the points of experiments, with given profiles.
//
// Owned by a calibration; one thread, which starts processes. How a scenario is simulated is the owner's to
// say: this library knows no command line.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "calibration/experiment.hpp"
#include "calibration/machine.hpp"

namespace verbtwin::calibration {

struct Prediction {
  double value = 0;        // in the experiment's unit
  std::string bottleneck;  // the result's
  double utilization = 0;  // of it
  std::string busiest;
  std::size_t variant = 0;  // the best of the point's
};

/// log(simulated / published); a run in which nothing happened counts as far off.
double log_error(const Point& point, const Prediction& prediction);

class Evaluator {
 public:
  using Run = std::function<nlohmann::json(const scenarios::Scenario&, const models::NicProfile&,
                                           const models::HostProfile&)>;

  /// `going_on` is asked often.
  Evaluator(Run run, int jobs, std::function<bool()> going_on)
      : run_(std::move(run)), jobs_(jobs), going_on_(std::move(going_on)) {}

  /// Per experiment and point. Empty if it was told to stop. Throws where a point cannot be simulated,
  /// because what would stand for it is no measurement: UserError where `run` did, else std::runtime_error.
  /// `progress`, where given, hears of how many runs are done.
  std::vector<std::vector<Prediction>> evaluate(
      std::span<const Experiment* const> experiments, const ProfileSet& profiles,
      const std::function<void(int done, int of)>& progress = {}) const;

  bool going_on() const { return going_on_(); }

 private:
  Run run_;
  int jobs_;
  std::function<bool()> going_on_;
};

}  // namespace verbtwin::calibration
