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

/// Where a real device departs from the specification in a way that protocols can live with. Everything else
/// that differs between two bindings is a fault of one of them. Soft-RoCE is Linux 6.1's rdma_rxe.
struct Deviations {
  /// Soft-RoCE: most local failures of any kind are LOC_QP_OP_ERR, and who sent to a RECV that failed sees
  /// REM_OP_ERR.
  bool tells_local_errors_apart = true;
  /// Soft-RoCE: its library refuses a misaligned ATOMIC at once, as EINVAL.
  bool posts_misaligned_atomics = true;
  /// Soft-RoCE: a RECV posted to a failed queue pair stays there until the queue pair is reset.
  bool flushes_late_recvs = true;
  /// Soft-RoCE: the RECV that a refused WRITE_WITH_IMM would have used says REM_ACCESS_ERR.
  bool flushes_recv_of_refused_imm = true;
};

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

  virtual Deviations deviations() { return {}; }
};

/// One way to run the suite. A factory that cannot run here (no device) throws: its tests fail.
struct BindingCase {
  std::string name;
  std::function<std::unique_ptr<ConformanceBinding>()> make;
};

inline void PrintTo(const BindingCase& binding, std::ostream* out) {
  *out << binding.name;
}

}  // namespace verbtwin::conformance
