#include "calibration/fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlopt.hpp>
#include <optional>
#include <set>

#include "calibration/sensitivity.hpp"

namespace verbtwin::calibration {

namespace {

// Errors up to about this count by their square, larger ones by their size.
constexpr double kRobustScale = 0.1;
// First steps in the logarithm of a parameter, and the one of the derivatives.
constexpr double kFirstStep = 0.25;
constexpr double kDerivativeStep = 0.05;

double robust(double error) {
  const double scaled = error / kRobustScale;
  return 2 * kRobustScale * kRobustScale * (std::sqrt(1 + scaled * scaled) - 1);
}

struct Stopped {};

class Fit {
 public:
  Fit(Machines& machines, const MachineGroup& group, std::span<const Experiment* const> experiments,
      const Evaluator& evaluator, const FitProgress& progress)
      : machines_(machines),
        group_(group),
        experiments_(experiments),
        evaluator_(evaluator),
        progress_(progress) {
    for (const std::string& machine : group.machines) {
      for (FitVariable& v : machines_.variables(machine)) variables_.push_back(std::move(v));
    }
    search_evaluations_ = group.evaluations;
    total_ = search_evaluations_ + 2 * static_cast<int>(variables_.size());
  }

  void run() {
    if (variables_.empty() || experiments_.empty() || group_.evaluations == 0) return;
    search();
    apply(best_);
    annotate(derivatives());
    apply(best_);
  }

 private:
  using Values = std::vector<double>;  // logarithms, by variable

  void search() {
    nlopt::opt optimiser(nlopt::LN_BOBYQA, static_cast<unsigned>(variables_.size()));
    Values lower, upper, start;
    for (const FitVariable& v : variables_) {
      lower.push_back(std::log(v.lower));
      upper.push_back(std::log(v.upper));
      start.push_back(std::log(v.first));
    }
    optimiser.set_lower_bounds(lower);
    optimiser.set_upper_bounds(upper);
    optimiser.set_min_objective(objective, this);
    // Several starts from the best so far: a model of a rough function is soon misled by its own past.
    constexpr int kRounds = 3;
    best_ = start;
    for (int round = 0; round < kRounds; ++round) {
      optimiser.set_initial_step(kFirstStep / (1 << round));
      optimiser.set_maxeval(search_evaluations_ / kRounds);
      optimiser.set_xtol_rel(0);
      Values x = best_;
      double value = 0;
      try {
        optimiser.optimize(x, value);
      } catch (const nlopt::roundoff_limited&) {
        // As far as this start goes; best_ has it.
      }
    }
  }

  static double objective(const Values& x, Values&, void* self) {
    Fit& fit = *static_cast<Fit*>(self);
    const double value = misfit(fit.experiments_, fit.evaluate(x));
    if (value < fit.best_misfit_) {
      fit.best_misfit_ = value;
      fit.best_ = x;
    }
    return value;
  }

  std::vector<std::vector<Prediction>> evaluate(const Values& x) {
    apply(x);
    auto predictions = evaluator_.evaluate(experiments_, machines_.profiles());
    if (!evaluator_.going_on() || predictions.empty()) throw Stopped{};
    if (progress_) progress_(group_, ++done_, total_, best_misfit_);
    return predictions;
  }

  void apply(const Values& x) {
    for (std::size_t i = 0; i < variables_.size(); ++i) machines_.set(variables_[i], std::exp(x[i]));
  }

  /// Weighted errors of all points, one experiment behind the other.
  std::vector<double> residuals(const Values& x) {
    std::vector<double> all;
    const auto predictions = evaluate(x);
    for (std::size_t e = 0; e < experiments_.size(); ++e) {
      const auto& points = experiments_[e]->points;
      for (std::size_t p = 0; p < points.size(); ++p) {
        all.push_back(log_error(points[p], predictions[e][p]) /
                      std::sqrt(static_cast<double>(points.size())));
      }
    }
    return all;
  }

  std::vector<Determination> derivatives() {
    std::vector<std::vector<double>> columns;
    std::vector<double> half_ranges;
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      Values up = best_, down = best_;
      up[i] = std::min(best_[i] + kDerivativeStep, std::log(variables_[i].upper));
      down[i] = std::max(best_[i] - kDerivativeStep, std::log(variables_[i].lower));
      const std::vector<double> above = residuals(up), below = residuals(down);
      columns.emplace_back();
      for (std::size_t r = 0; r < above.size(); ++r)
        columns.back().push_back((above[r] - below[r]) / (up[i] - down[i]));
      half_ranges.push_back(std::log(variables_[i].upper / variables_[i].lower) / 2);
    }
    return determine(columns, half_ranges, best_misfit_ * static_cast<double>(experiments_.size()));
  }

  void annotate(const std::vector<Determination>& determinations) {
    std::string names;
    for (const Experiment* e : experiments_) names += (names.empty() ? "" : ", ") + e->name;
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      const FitVariable& v = variables_[i];
      std::string source =
          (v.factor ? fmt::format("fitted as one factor ({}): ", v.name) : "fitted: ") + names;
      if (!determinations[i].determined) source += "; not determined by these, its range is its uncertainty";
      const double x = best_[i];
      constexpr double kAtLimit = 0.005;
      if (x < std::log(v.lower) + kAtLimit) source += "; at the lower end of its range";
      if (x > std::log(v.upper) - kAtLimit) source += "; at the upper end of its range";
      machines_.annotate(v, source, determinations[i].relative_error);
    }
  }

  Machines& machines_;
  const MachineGroup& group_;
  std::span<const Experiment* const> experiments_;
  const Evaluator& evaluator_;
  const FitProgress& progress_;
  std::vector<FitVariable> variables_;
  Values best_;
  double best_misfit_ = std::numeric_limits<double>::infinity();
  int search_evaluations_ = 0, done_ = 0, total_ = 0;
};

}  // namespace

double misfit(std::span<const Experiment* const> experiments,
              const std::vector<std::vector<Prediction>>& predictions) {
  double sum = 0;
  for (std::size_t e = 0; e < experiments.size(); ++e) {
    const auto& points = experiments[e]->points;
    double of_experiment = 0;
    for (std::size_t p = 0; p < points.size(); ++p)
      of_experiment += robust(log_error(points[p], predictions[e][p]));
    sum += of_experiment / static_cast<double>(points.size());
  }
  return sum / static_cast<double>(experiments.size());
}

bool fit_group(Machines& machines, const MachineGroup& group, std::span<const Experiment* const> experiments,
               const Evaluator& evaluator, const FitProgress& progress) {
  try {
    Fit(machines, group, experiments, evaluator, progress).run();
  } catch (const Stopped&) {
    return false;
  }
  return true;
}

}  // namespace verbtwin::calibration
