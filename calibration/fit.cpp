#include "calibration/fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlopt.hpp>
#include <stdexcept>

#include "calibration/sensitivity.hpp"
#include "calibration/shape.hpp"

namespace verbtwin::calibration {

namespace {

// Errors up to about this count by their square; larger ones by less and less, so that a point whose
// mechanism is missing does not bend the others (Cauchy's loss).
constexpr double kRobustScale = 0.1;
// On a parameter's axis: the step of derivatives (the simulator is a rough function: a smaller one sees its
// roughness), the first radius of trust, the radii at which a search is over or stops growing.
constexpr double kDerivativeStep = 0.08;
constexpr double kFirstRadius = 0.5, kLeastRadius = 0.01, kLargestRadius = 1.0;
// A pull towards the start, in units of a parameter's range: what no data determine stays where it was.
constexpr double kPull = 1e-4;

// What a pair in the wrong order counts beyond its two errors, in their unit: at once where it is reversed at
// all, since that is all that is asked of it, and slowly more the further it is. In the right order by less
// than the margin it may be the other way in the next version's run.
constexpr double kOrderError = 0.03, kOrderScale = 0.02, kOrderMargin = 0.01;

/// Cauchy's loss: the square of an error far below `scale`, then less and less.
double robust(double error, double scale) {
  const double scaled = error / scale;
  return scale * scale * std::log1p(scaled * scaled);
}
/// What the square of an error counts where the loss is seen as a weighted square.
double robust_weight(double error, double scale) {
  const double scaled = error / scale;
  return 1 / (1 + scaled * scaled);
}
double robust_slope(double error, double scale) {
  return 2 * error * robust_weight(error, scale);
}

struct Stopped {};

/// Ratios count for large values, differences for those near zero: by ratios alone a cost that begins at a
/// nanosecond stays there, since no step of some percent of it shows in any rate.
struct Axis {
  double shift;

  explicit Axis(const FitVariable& v) : shift(v.upper / 20) {}
  double place(double value) const { return std::log(value + shift); }
  double value(double place) const { return std::exp(place) - shift; }
  /// What a distance upwards from a place is, as a share of the value there.
  double relative(double distance, double place) const { return value(place + distance) / value(place) - 1; }
};

using Values = std::vector<double>;  // places on their axes, by variable

/// Two points that the published values tell apart; among all points of the fit.
struct Order {
  std::size_t smaller = 0, larger = 0;
  double published_step = 0;  // log of larger / smaller

  /// How far the step between the simulated values falls short of being one in the right direction.
  double shortfall(const Values& error) const {
    return std::max(kOrderMargin - (published_step + error[larger] - error[smaller]), 0.0);
  }
};

/// What errors of all points, one experiment behind the other, count.
class Misfit {
 public:
  explicit Misfit(std::span<const Experiment* const> experiments) {
    // Points of one curve share its reader, its cluster and its assumptions: n of them say more than one, but
    // not n times as much.
    const auto weight = [](const Experiment* e) { return std::sqrt(static_cast<double>(e->points.size())); };
    double weights = 0;
    for (const Experiment* e : experiments) weights += weight(e);
    independent_ = weights;
    for (const Experiment* e : experiments) {
      const std::size_t begin = weight_.size();
      weight_.resize(begin + e->points.size(), weight(e) / (weights * static_cast<double>(e->points.size())));
      for (const Pair& pair : ordered_pairs(*e)) {
        orders_.push_back({begin + pair.first, begin + pair.second,
                           std::log(e->points[pair.second].published / e->points[pair.first].published)});
      }
    }
  }

  double value(const Values& error) const {
    double sum = 0;
    for (std::size_t r = 0; r < error.size(); ++r) sum += weight_[r] * robust(error[r], kRobustScale);
    for (const Order& order : orders_) {
      sum += weight_[order.larger] * kOrderFactor * robust(order.shortfall(error), kOrderScale);
    }
    return sum;
  }

  /// Derivatives by the errors.
  Values slope(const Values& error) const {
    Values slope(error.size());
    for (std::size_t r = 0; r < error.size(); ++r) {
      slope[r] = weight_[r] * robust_slope(error[r], kRobustScale);
    }
    for (const Order& order : orders_) {
      const double each =
          weight_[order.larger] * kOrderFactor * robust_slope(order.shortfall(error), kOrderScale);
      slope[order.larger] -= each;
      slope[order.smaller] += each;
    }
    return slope;
  }

  /// As how many points that know nothing of each other all of them count.
  double independent() const { return independent_; }

  /// What the square of a point's error counts where the loss is seen as a weighted square.
  double weight(std::size_t point, double error) const {
    return weight_[point] * robust_weight(error, kRobustScale);
  }

 private:
  static constexpr double kOrderFactor = kOrderError * kOrderError / (kOrderScale * kOrderScale);

  double independent_ = 0;
  Values weight_;
  std::vector<Order> orders_;
};

Values errors_of(std::span<const Experiment* const> experiments,
                 const std::vector<std::vector<Prediction>>& predictions) {
  Values all;
  for (std::size_t e = 0; e < experiments.size(); ++e) {
    const auto& points = experiments[e]->points;
    for (std::size_t p = 0; p < points.size(); ++p) all.push_back(log_error(points[p], predictions[e][p]));
  }
  return all;
}

/// The objective near a point, with errors that are linear in the step.
struct LinearModel {
  const Misfit& misfit;
  const Values& errors;
  const std::vector<Values>& columns;  // by variable: derivatives of the errors
  const Values& pull_from;             // where the pull has its origin, and
  const Values& pull_scale;            // its unit
  const Values& at;

  double value(const Values& step, Values& slope) const {
    Values error = errors;
    for (std::size_t i = 0; i < step.size(); ++i) {
      for (std::size_t r = 0; r < error.size(); ++r) error[r] += columns[i][r] * step[i];
    }
    double sum = misfit.value(error);
    const Values by_error = slope.empty() ? Values() : misfit.slope(error);
    for (std::size_t i = 0; i < step.size(); ++i) {
      const double off = (at[i] + step[i] - pull_from[i]) / pull_scale[i];
      sum += kPull * off * off;
      if (slope.empty()) continue;
      slope[i] = 2 * kPull * off / pull_scale[i];
      for (std::size_t r = 0; r < error.size(); ++r) slope[i] += by_error[r] * columns[i][r];
    }
    return sum;
  }
};

class Fit {
 public:
  Fit(Machines& machines, const MachineGroup& group, std::span<const Experiment* const> experiments,
      const Evaluator& evaluator, const FitProgress& progress)
      : machines_(machines),
        group_(group),
        experiments_(experiments),
        evaluator_(evaluator),
        progress_(progress),
        misfit_(experiments) {
    for (const std::string& machine : group.machines) {
      for (FitVariable& v : machines_.variables(machine)) variables_.push_back(std::move(v));
    }
    for (const FitVariable& v : variables_) {
      const Axis& axis = axes_.emplace_back(v);
      lower_.push_back(axis.place(v.lower));
      upper_.push_back(axis.place(v.upper));
      start_.push_back(axis.place(v.first));
      scale_.push_back((upper_.back() - lower_.back()) / 2);
    }
    starts_.push_back({start_, {}, {}});
    for (const OtherStart& other : group.also_from) {
      const std::size_t i = index_of(other);
      starts_.push_back({start_, {}, {}});
      starts_.back().start[i] = axes_[i].place(other.value);
    }
  }

  std::vector<Fitted> run() {
    if (variables_.empty() || experiments_.empty() || group_.rounds == 0) return {};
    for (Search& search : starts_) {
      start_ = search.start;
      find_optimum();
      search.best = best_;
      search.errors = errors_;
    }
    const Search& kept = *std::ranges::min_element(
        starts_, {}, [&](const Search& search) { return misfit_.value(search.errors); });
    start_ = kept.start;
    best_ = kept.best;
    errors_ = kept.errors;
    differentiate(group_.both_sides ? Slope::kFlatter : Slope::kAcross);
    apply(best_);
    return annotate();
  }

 private:
  /// From a start, and where it led.
  struct Search {
    Values start, best, errors;
  };

  /// Away from the nearer end of the range; from one side of the value to the other, which averages some of
  /// the simulator's roughness out; or of the two sides the flatter one: where a limit has just begun to act,
  /// the data do not tell values beyond it apart, and so do not determine this one.
  enum class Slope { kOneSide, kAcross, kFlatter };

  /// A step of one variable alone that helped.
  struct Probe {
    std::size_t variable;
    double place;
    double objective;
    Values errors;
  };

  std::size_t index_of(const OtherStart& other) const {
    const auto found = std::ranges::find_if(variables_, [&](const FitVariable& v) {
      return v.machine == other.machine && v.name == other.parameter && !v.factor;
    });
    if (found == variables_.end())
      throw std::logic_error("a start of " + other.parameter + ", which is not fitted");
    return static_cast<std::size_t>(found - variables_.begin());
  }

  /// From start_ to best_.
  void find_optimum() {
    best_ = start_;
    errors_ = evaluate(best_);
    double radius = kFirstRadius;
    bool straight = true;  // the last round's step was the linear model's
    const int last = round_ + group_.rounds;
    for (; round_ < last && radius > kLeastRadius; ++round_) {
      const Slope slope = group_.both_sides || !straight ? Slope::kAcross : Slope::kOneSide;
      differentiate(slope);
      const double before = radius;
      straight = improve(radius);
      // Of one side alone half of the ways on have not been tried.
      if (!straight) radius = take_probes() || slope == Slope::kOneSide ? before / 3 : 0;
    }
    round_ = last;
  }

  double objective(const Values& errors, const Values& x) const {
    double sum = misfit_.value(errors);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double off = (x[i] - start_[i]) / scale_[i];
      sum += kPull * off * off;
    }
    return sum;
  }

  /// Steps of the linear model, each tried, the radius of trust smaller after each that did not help. False:
  /// none did. The radius becomes that of the next round.
  bool improve(double& radius) {
    constexpr int kTries = 4;
    const double before = objective(errors_, best_);
    for (int tried = 0; tried < kTries; ++tried) {
      Values next = best_;
      const double expected = before - solve(radius, next);
      const Values errors = evaluate(next);
      const double gained = before - objective(errors, next);
      if (gained > 0) {
        best_ = next;
        errors_ = errors;
        if (gained > 0.6 * expected) {
          radius = std::min(2 * radius, kLargestRadius);
        } else if (gained <= 0.2 * expected) {
          radius /= 2;
        }
        return true;
      }
      radius /= 3;
    }
    return false;
  }

  /// Where the simulator is too rough for slopes, what the derivatives' own steps found: all variables' steps
  /// that helped together, half as far, or the one that helped most. False: none did.
  bool take_probes() {
    if (probes_.empty()) return false;
    const auto best = std::ranges::min_element(probes_, {}, &Probe::objective);
    Values together = best_;
    for (const Probe& probe : probes_) together[probe.variable] += (probe.place - best_[probe.variable]) / 2;
    Values single = best_;
    single[best->variable] = best->place;
    Values errors = evaluate(together);
    if (objective(errors, together) < best->objective) {
      best_ = together;
      errors_ = std::move(errors);
    } else {
      best_ = single;
      errors_ = best->errors;
    }
    return true;
  }

  /// The best step of the linear model inside the radius and the ranges; returns the model's value there.
  double solve(double radius, Values& x) const {
    struct Problem {
      const Fit* fit;
      LinearModel model;
    } problem{this, {misfit_, errors_, columns_, start_, scale_, best_}};
    const auto count = variables_.size();
    nlopt::opt optimiser(nlopt::LD_SLSQP, static_cast<unsigned>(count));
    Values low(count), high(count), step(count, 0.0);
    for (std::size_t i = 0; i < count; ++i) {
      low[i] = std::max(-radius, lower_[i] - best_[i]);
      high[i] = std::min(radius, upper_[i] - best_[i]);
    }
    optimiser.set_lower_bounds(low);
    optimiser.set_upper_bounds(high);
    optimiser.set_min_objective([](const Values& s, Values& slope,
                                   void* data) { return static_cast<Problem*>(data)->model.value(s, slope); },
                                &problem);
    optimiser.set_maxeval(1000);
    optimiser.set_ftol_rel(1e-8);
    double value = 0;
    try {
      optimiser.optimize(step, value);
    } catch (const nlopt::roundoff_limited&) {
      // As good as it gets: `step` holds it.
    }
    Values unused;
    for (std::size_t i = 0; i < count; ++i) x[i] = best_[i] + step[i];
    return problem.model.value(step, unused);
  }

  Values evaluate(const Values& x) {
    apply(x);
    const auto predictions = evaluator_.evaluate(experiments_, machines_.profiles());
    if (!evaluator_.going_on() || predictions.empty()) throw Stopped{};
    Values errors = errors_of(experiments_, predictions);
    least_ = std::min(least_, misfit_.value(errors));
    // A round is its derivatives and usually one or two steps.
    const int each = static_cast<int>(variables_.size()) + 2;
    if (progress_) {
      const int rounds = group_.rounds * static_cast<int>(starts_.size());
      done_ = std::min(done_ + 1, (round_ + 2) * each);
      progress_(group_, done_, (rounds + 2) * each, least_);
    }
    return errors;
  }

  void apply(const Values& x) {
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      machines_.set(variables_[i], axes_[i].value(x[i]));
    }
  }

  /// Derivatives at the best.
  void differentiate(Slope slope) {
    const bool both_sides = slope != Slope::kOneSide;
    columns_.assign(variables_.size(), Values(errors_.size(), 0.0));
    probes_.clear();
    const double here = objective(errors_, best_);
    const auto keep = [&](std::size_t variable, const Values& x, const Values& errors) {
      const double there = objective(errors, x);
      const auto known = std::ranges::find(probes_, variable, &Probe::variable);
      if (there >= here || (known != probes_.end() && known->objective <= there)) return;
      if (known != probes_.end()) probes_.erase(known);
      probes_.push_back({variable, x[variable], there, errors});
    };
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      const bool up = upper_[i] - best_[i] > best_[i] - lower_[i];
      Values low = best_, high = best_;
      if (up || both_sides) high[i] = std::min(best_[i] + kDerivativeStep, upper_[i]);
      if (!up || both_sides) low[i] = std::max(best_[i] - kDerivativeStep, lower_[i]);
      const Values below = low[i] < best_[i] ? evaluate(low) : errors_;
      const Values above = high[i] > best_[i] ? evaluate(high) : errors_;
      keep(i, low, below);
      keep(i, high, above);
      for (std::size_t r = 0; r < errors_.size(); ++r) {
        columns_[i][r] = (above[r] - below[r]) / (high[i] - low[i]);
        if (slope != Slope::kFlatter || low[i] == best_[i] || high[i] == best_[i]) continue;
        const double left = (errors_[r] - below[r]) / (best_[i] - low[i]);
        const double right = (above[r] - errors_[r]) / (high[i] - best_[i]);
        columns_[i][r] = std::abs(right) < std::abs(left) ? right : left;
      }
    }
  }

  std::vector<Determination> determination() const {
    std::vector<Values> weighted = columns_;
    double squared = 0;
    for (std::size_t r = 0; r < errors_.size(); ++r) {
      const double weight = misfit_.weight(r, errors_[r]);
      for (Values& column : weighted) column[r] *= std::sqrt(weight);
      squared += weight * errors_[r] * errors_[r];
    }
    return determine(weighted, scale_, squared, misfit_.independent());
  }

  /// The starts of a variable, and where each led; empty: it has one.
  std::string starts_text(std::size_t variable) const {
    const auto led = [&](const Search& search) {
      return fmt::format("{:.4g} (misfit {:.2f} %)", axes_[variable].value(search.start[variable]),
                         std::sqrt(misfit_.value(search.errors)) * 100);
    };
    std::string others;
    for (const Search& search : starts_) {
      if (search.start[variable] != starts_.front().start[variable]) others += ", " + led(search);
    }
    if (others.empty()) return "";
    return "; the least misfit of searches begun at " + led(starts_.front()) + others;
  }

  std::vector<Fitted> annotate() {
    std::string names;
    for (const Experiment* e : experiments_) names += (names.empty() ? "" : ", ") + e->name;
    const std::vector<Determination> determinations = determination();
    std::vector<Fitted> all;
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      const FitVariable& v = variables_[i];
      std::string source = v.factor ? fmt::format("fitted as one factor ({}): ", v.name) : "fitted: ";
      source += names;
      if (!determinations[i].determined) source.append("; ").append(kNotDetermined);
      if (best_[i] == start_[i]) source += "; the fit left it where it began";
      constexpr double kAtEnd = 0.005;
      if (best_[i] < lower_[i] + kAtEnd) source += "; at the lower end of its range";
      if (best_[i] > upper_[i] - kAtEnd) source += "; at the upper end of its range";
      source += starts_text(i);
      all.push_back({v, axes_[i].value(best_[i]), determinations[i].determined,
                     axes_[i].relative(determinations[i].error, best_[i])});
      machines_.annotate(v, source, all.back().uncertainty);
    }
    return all;
  }

  Machines& machines_;
  const MachineGroup& group_;
  std::span<const Experiment* const> experiments_;
  const Evaluator& evaluator_;
  const FitProgress& progress_;
  const Misfit misfit_;
  std::vector<FitVariable> variables_;
  std::vector<Axis> axes_;
  Values lower_, upper_, start_, scale_;
  std::vector<Search> starts_;
  Values best_;
  Values errors_;                // at best_
  std::vector<Values> columns_;  // likewise
  std::vector<Probe> probes_;    // likewise, the better side of each variable
  double least_ = std::numeric_limits<double>::infinity();
  int round_ = 0, done_ = 0;
};

}  // namespace

std::optional<std::vector<Fitted>> fit_group(Machines& machines, const MachineGroup& group,
                                             std::span<const Experiment* const> experiments,
                                             const Evaluator& evaluator, const FitProgress& progress) {
  try {
    return Fit(machines, group, experiments, evaluator, progress).run();
  } catch (const Stopped&) {
    return std::nullopt;
  }
}

}  // namespace verbtwin::calibration
