#include "calibration/sensitivity.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

namespace verbtwin::calibration {

std::vector<Determination> determine(const std::vector<std::vector<double>>& columns,
                                     const std::vector<double>& half_ranges, double squared_error,
                                     double independent) {
  const auto parameters = static_cast<Eigen::Index>(columns.size());
  if (parameters == 0) return {};
  const auto errors = static_cast<Eigen::Index>(columns[0].size());
  Eigen::MatrixXd jacobian(errors, parameters);
  for (Eigen::Index i = 0; i < parameters; ++i) {
    for (Eigen::Index r = 0; r < errors; ++r) {
      jacobian(r, i) = columns[static_cast<std::size_t>(i)][static_cast<std::size_t>(r)];
    }
  }
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> eigen(jacobian.transpose() * jacobian);
  // A perfect fit of few points would claim certainty: published values are read off figures (about 2 %).
  constexpr double kReadingError = 0.02;
  const auto all = static_cast<double>(errors);
  const double freedom = std::max<double>(1, static_cast<double>(errors - parameters));
  const double square = std::max(squared_error * all / freedom, kReadingError * kReadingError);
  const double variance = square / independent;
  const double weakest = eigen.eigenvalues().maxCoeff() * 1e-9;
  std::vector<Determination> result;
  for (Eigen::Index i = 0; i < parameters; ++i) {
    double sum = 0;
    for (Eigen::Index k = 0; k < parameters; ++k) {
      const double share = eigen.eigenvectors()(i, k) * eigen.eigenvectors()(i, k);
      sum += share / std::max(eigen.eigenvalues()(k), weakest);
    }
    const double error = std::sqrt(variance * sum);
    const double half_range = half_ranges[static_cast<std::size_t>(i)];
    const bool determined = std::isfinite(error) && error < half_range / 2;
    result.push_back({determined, determined ? error : half_range});
  }
  return result;
}

}  // namespace verbtwin::calibration
