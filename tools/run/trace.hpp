// Trace: what `run --trace FILE` writes of a simulated run, whichever form the file has: a line for each
// request (verb_trace.hpp) or a timeline (timeline.hpp).
//
// Stands between the programs and the ports of their workers, and hears of attempts; a run without one has
// nothing in between. One thread; outlives the programs. Times in picoseconds of the simulated clock.
#pragma once

#include <cstdint>
#include <string>

#include "backend/cluster.hpp"
#include "protocols/attempts.hpp"

namespace verbtwin::tools {

class Trace {
 public:
  virtual ~Trace() = default;

  /// The port to give to the program instead; owned here.
  virtual WorkerPort& wrap(WorkerPort& port) = 0;
  /// Who wants to hear of attempts; null: nobody.
  virtual protocols::AttemptObserver* attempts() { return nullptr; }
  /// When the warm-up will be over: told before the run. A worker's clock may be there before the others'.
  virtual void measures_from(std::int64_t at_ps) { static_cast<void>(at_ps); }
  /// When the window was over: what is still under way comes to its end now.
  virtual void measured_until(std::int64_t at_ps) { static_cast<void>(at_ps); }

  /// Writes what is left; what had to be left out, in a sentence, or "". Throws std::system_error where
  /// anything could not be written.
  virtual std::string end() = 0;
};

}  // namespace verbtwin::tools
