// What the runs of all transaction protocols have in common.
//
// A value; any thread. `observer` is not owned and outlives the run.
#pragma once

#include <cstdint>

#include "backend/cluster.hpp"
#include "protocols/attempts.hpp"

namespace verbtwin::protocols {

/// Of a run of transactions, whatever their protocol.
struct RunParameters {
  ClusterShape shape;
  int coroutines = 1;
  std::uint64_t seed = 1;
  bool check = true;                    // record what the checks look at
  bool one_clock = true;                // of all nodes; else each has its own
  double offered_per_s = 0;             // transactions, to all clients; 0: as many as they take (Arrivals)
  AttemptObserver* observer = nullptr;  // none: nobody hears of attempts
};

}  // namespace verbtwin::protocols
