#include "calibration/misfit.hpp"

#include <algorithm>
#include <cmath>

#include "calibration/shape.hpp"

namespace verbtwin::calibration {

namespace {

// Errors up to about this count by their square; larger ones by less and less, so that a point whose
// mechanism is missing does not bend the others (Cauchy's loss).
constexpr double kRobustScale = 0.1;

// What a pair in the wrong order counts beyond its two errors, in their unit: at once where it is reversed at
// all, since that is all that is asked of it, and slowly more the further it is. In the right order by less
// than the margin it may be the other way in the next version's run.
constexpr double kOrderError = 0.03, kOrderScale = 0.02, kOrderMargin = 0.01;
constexpr double kOrderFactor = kOrderError * kOrderError / (kOrderScale * kOrderScale);

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

}  // namespace

double Order::shortfall(const Values& error) const {
  return std::max(kOrderMargin - (published_step + error[larger] - error[smaller]), 0.0);
}

Misfit::Misfit(std::span<const Experiment* const> experiments) {
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

double Misfit::value(const Values& error) const {
  double sum = 0;
  for (std::size_t r = 0; r < error.size(); ++r) sum += weight_[r] * robust(error[r], kRobustScale);
  for (const Order& order : orders_) {
    sum += weight_[order.larger] * kOrderFactor * robust(order.shortfall(error), kOrderScale);
  }
  return sum;
}

Values Misfit::slope(const Values& error) const {
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

double Misfit::weight(std::size_t point, double error) const {
  return weight_[point] * robust_weight(error, kRobustScale);
}

Values errors_of(std::span<const Experiment* const> experiments,
                 const std::vector<std::vector<Prediction>>& predictions) {
  Values all;
  for (std::size_t e = 0; e < experiments.size(); ++e) {
    const auto& points = experiments[e]->points;
    for (std::size_t p = 0; p < points.size(); ++p) all.push_back(log_error(points[p], predictions[e][p]));
  }
  return all;
}

}  // namespace verbtwin::calibration
