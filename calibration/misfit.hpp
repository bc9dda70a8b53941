// Misfit: what errors of simulated values count in the fit: of points by Cauchy's loss, of pairs of points
// where their order is another than published.
//
// A value of one fit; one thread.
#pragma once

#include <span>
#include <vector>

#include "calibration/evaluate.hpp"
#include "calibration/experiment.hpp"

namespace verbtwin::calibration {

using Values = std::vector<double>;

/// Two points that the published values tell apart; among all points of the fit.
struct Order {
  std::size_t smaller = 0, larger = 0;
  double published_step = 0;  // log of larger / smaller

  /// How far the step between the simulated values falls short of being one in the right direction.
  double shortfall(const Values& error) const;
};

/// What errors of all points, one experiment behind the other, count.
class Misfit {
 public:
  explicit Misfit(std::span<const Experiment* const> experiments);

  double value(const Values& error) const;
  /// Derivatives by the errors.
  Values slope(const Values& error) const;

  /// As how many points that know nothing of each other all of them count.
  double independent() const { return independent_; }

  /// What the square of a point's error counts where the loss is seen as a weighted square.
  double weight(std::size_t point, double error) const;

 private:
  double independent_ = 0;
  Values weight_;
  std::vector<Order> orders_;
};

/// log(simulated / published) of all points, one experiment behind the other.
Values errors_of(std::span<const Experiment* const> experiments,
                 const std::vector<std::vector<Prediction>>& predictions);

}  // namespace verbtwin::calibration
