// determine(): how well the data pin fitted parameters down, from the derivatives of the errors at the
// optimum.
//
// A pure function, callable from any thread.
#pragma once

#include <vector>

namespace verbtwin::calibration {

struct Determination {
  bool determined = false;
  double error = 0;  // standard error; of what is not determined half of its range
};

/// `columns[i][r]`: derivative of weighted error r by parameter i, on any axis; `half_ranges`: half of each
/// parameter's range on it. `squared_error`: the sum of the squared weighted errors. `independent`: as how
/// many errors that know nothing of each other they count, at most all of them.
/// Gauss-Newton: covariance s^2 (J'J)^-1, directions that no error depends on being unknown.
std::vector<Determination> determine(const std::vector<std::vector<double>>& columns,
                                     const std::vector<double>& half_ranges, double squared_error,
                                     double independent);

}  // namespace verbtwin::calibration
