// ConformanceBinding: what a binding of backend/verbs.hpp gives the conformance suite so that it can be
// tested.
//
// A binding adds one file, a test program's: it implements this interface, includes
// backend/conformance/suite.hpp once and names its cases, as sim/conformance_test.cpp does:
//
//   INSTANTIATE_TEST_SUITE_P(Simulated, VerbsConformance, testing::Values(BindingCase{"star", make_star}),
//   case_name);
//
// Each test makes a binding of its own and owns it; everything runs in the test's thread.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "backend/verbs.hpp"

namespace verbtwin::conformance {

class ConformanceBinding {
 public:
  static constexpr int kEndpoints = 3;

  virtual ~ConformanceBinding() = default;

  /// The device of endpoint 0, 1 or 2: different machines where the binding has them. Lives as long as the
  /// binding.
  virtual Device& device(int endpoint) = 0;

  /// Lets the devices work until `done` holds, asking often; false if it does not hold within the binding's
  /// limit, which is well beyond any time-out that the suite asks of a queue pair (under a millisecond).
  virtual bool run_until(const std::function<bool()>& done) = 0;

  /// Lets the devices work for so long that whatever is under way, retries included, has come to its end.
  virtual void settle() = 0;
};

/// One way to run the suite. A factory that cannot run here (no device) returns null: its tests are skipped.
struct BindingCase {
  std::string name;
  std::function<std::unique_ptr<ConformanceBinding>()> make;
};

inline void PrintTo(const BindingCase& binding, std::ostream* out) {
  *out << binding.name;
}

}  // namespace verbtwin::conformance
