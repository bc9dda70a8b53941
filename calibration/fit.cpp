#include "calibration/fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlopt.hpp>
#include <optional>
#include <stdexcept>

#include "calibration/misfit.hpp"
#include "calibration/sensitivity.hpp"

namespace verbtwin::calibration {

namespace {

// On a parameter's axis: the step of derivatives (the simulator is a rough function: a smaller one sees its
// roughness), the first radius of trust, the radii at which a search is over or stops growing.
constexpr double kDerivativeStep = 0.08;
constexpr double kFirstRadius = 0.5, kLeastRadius = 0.01, kLargestRadius = 1.0;
// A pull towards the start, in units of a parameter's range: what no data determine stays where it was.
constexpr double kPull = 1e-4;

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
    is_put_back_.assign(variables_.size(), false);
    starts_.push_back({start_, {}, {}});
    for (const OtherStart& other : group.also_from) {
      const std::size_t i = index_of(other);
      starts_.push_back({start_, {}, {}});
      starts_.back().start[i] = axes_[i].place(other.value);
    }
    rounds_ = group.rounds * static_cast<int>(starts_.size());
  }

  std::vector<Fitted> run() {
    if (variables_.empty() || experiments_.empty() || group_.rounds == 0) return {};
    for (Search& search : starts_) {
      start_ = search.start;
      find_optimum(start_);
      search.best = best_;
      search.errors = errors_;
    }
    const Search& kept = *std::ranges::min_element(
        starts_, {}, [&](const Search& search) { return misfit_.value(search.errors); });
    start_ = kept.start;
    best_ = kept.best;
    errors_ = kept.errors;
    differentiate(last_slope());
    if (group_.puts_back) put_back();
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

  Slope last_slope() const { return group_.both_sides ? Slope::kFlatter : Slope::kAcross; }

  /// From there to best_.
  void find_optimum(const Values& from) {
    best_ = from;
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

  /// What the data do not determine is wherever the search passed: of no use to who simulates something else.
  /// What they depend on least goes first, since of two that they know only together the other is determined
  /// once that one is given.
  void put_back() {
    // What is left beyond this is no chance, but what the models lack: then the end of a range says that more
    // of it would be needed.
    constexpr double kReadingError = 0.02, kChanceMost = 0.05, kStandardErrors = 2;
    const double misfit = misfit_.value(errors_);
    const double chance = std::clamp(std::sqrt(misfit), kReadingError, kChanceMost) * kStandardErrors;
    const double most = misfit + chance * chance / misfit_.independent();
    // From here on a linear model's word for what the data determine is not taken: a limit may be near.
    constexpr double kSure = 0.2;
    std::vector<bool> tried(variables_.size(), false);
    for (;;) {
      const std::vector<Determination> determinations = determination();
      std::optional<std::size_t> least;
      for (std::size_t i = 0; i < variables_.size(); ++i) {
        if (tried[i] || uncertainty(i, determinations[i]) < kSure) continue;
        if (misfit > kChanceMost * kChanceMost && (is_at_lower(i) || is_at_upper(i))) continue;
        if (!least || dependence(i) < dependence(*least)) least = i;
      }
      if (!least) return;
      tried[*least] = true;
      put_back(*least, most);
    }
  }

  /// Where the misfit grows by more than chance may make it, the data do say that the value is another one,
  /// if not which: then all stays as it is.
  void put_back(std::size_t variable, double misfit_most) {
    const Search before{start_, best_, errors_};
    const double lower = lower_[variable], upper = upper_[variable];
    lower_[variable] = upper_[variable] = start_[variable];
    Values from = best_;
    from[variable] = start_[variable];
    for (const Values& begin : {from, start_}) {
      rounds_ += group_.rounds;
      find_optimum(begin);
      if (misfit_.value(errors_) <= misfit_most) {
        is_put_back_[variable] = true;
        differentiate(last_slope());
        return;
      }
    }
    lower_[variable] = lower;
    upper_[variable] = upper;
    best_ = before.best;
    errors_ = before.errors;
    differentiate(last_slope());
  }

  static constexpr double kAtEnd = 0.005;
  bool is_at_lower(std::size_t variable) const { return best_[variable] < lower_[variable] + kAtEnd; }
  bool is_at_upper(std::size_t variable) const { return best_[variable] > upper_[variable] - kAtEnd; }

  /// How much all errors change with a variable.
  double dependence(std::size_t variable) const {
    double sum = 0;
    for (std::size_t r = 0; r < errors_.size(); ++r) {
      sum += misfit_.weight(r, errors_[r]) * columns_[variable][r] * columns_[variable][r];
    }
    return sum;
  }

  double uncertainty(std::size_t variable, const Determination& found) const {
    return axes_[variable].relative(found.determined ? found.error : scale_[variable], best_[variable]);
  }
  /// A factor that may as well be none or twice as much is not, either.
  bool is_determined(std::size_t variable, const Determination& found) const {
    return found.determined && (!group_.puts_back || uncertainty(variable, found) < 1);
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
    const int each = static_cast<int>(variables_.size()) * (group_.both_sides ? 2 : 1) + 2;
    if (progress_) {
      done_ = std::min({done_ + 1, (round_ + 2) * each, (rounds_ + 2) * each});
      progress_(group_, done_, (rounds_ + 2) * each, least_);
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
      if (lower_[i] == upper_[i]) continue;  // put back
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
      const bool determined = is_determined(i, determinations[i]);
      const bool at_lower = !is_put_back_[i] && is_at_lower(i), at_upper = !is_put_back_[i] && is_at_upper(i);
      std::string source = is_put_back_[i] ? fmt::format("as before, with no factor ({}) of ", v.name)
                           : v.factor      ? fmt::format("fitted as one factor ({}): ", v.name)
                                           : "fitted: ";
      source += names;
      if (!determined) source.append("; ").append(kNotDetermined);
      if (best_[i] == start_[i] && !is_put_back_[i]) source.append("; ").append(kLeftWhereItBegan);
      if (at_lower) source.append("; ").append(kAtLowerEnd);
      if (at_upper) source.append("; ").append(kAtUpperEnd);
      source += starts_text(i);
      const double error = determined ? determinations[i].error : scale_[i];
      all.push_back({v, axes_[i].value(best_[i]), determined, axes_[i].relative(error, best_[i]),
                     is_put_back_[i], at_lower || at_upper});
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
  std::vector<bool> is_put_back_;
  int rounds_ = 0, round_ = 0, done_ = 0;
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
