// Arrivals: when a worker's transactions, calls or groups are asked for, where a run is offered a load (open
// loop) instead of beginning each when the one before has ended (closed loop).
//
// A Poisson process for each worker, drawn ahead: a coroutine with nothing to do takes the next arrival and
// sleeps until then; one that comes late begins at once. So arrivals are served in their order by as many
// coroutines as there are, those that find none free wait, and their latency counts that wait (without it, a
// system that stalls would seem to be asked less: "coordinated omission").
//
// Not chosen: think times between what a coroutine does (still a closed loop: a slow system is asked
// less), and a coroutine that deals arrivals out to the others (a queue and a switch more, in the same
// order).
//
// One per worker, which owns it; used by its thread only. Times in picoseconds of the worker's clock.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <pcg_random.hpp>

#include "backend/cpu.hpp"
#include "protocols/program.hpp"
#include "protocols/runtime/task.hpp"
#include "protocols/runtime/worker.hpp"

namespace verbtwin::protocols {

/// When a transaction, call or group began: asked for, and taken up by a coroutine. In a closed loop both are
/// the same.
struct Start {
  std::int64_t asked_ps = 0, taken_up_ps = 0;
  std::int64_t waited_ps() const { return taken_up_ps - asked_ps; }
};

class Arrivals {
 public:
  /// `per_s`: of this worker; 0: a closed loop. `stream`: the worker's own number in the cluster.
  Arrivals(double per_s, std::uint64_t seed, std::uint64_t stream);

  bool open() const { return mean_ps_ > 0; }

  /// Takes the next arrival, sleeps until it is due and says when it was. Nothing where it is due behind the
  /// window, or `stop` was set before (looked at now and then).
  Task<std::optional<std::int64_t>> next(Worker& worker, Cpu& cpu, const Window& window,
                                         const std::atomic<bool>& stop);

  /// How many are due in the window. Asked behind it: who draws what nobody took has no next() any more.
  std::uint64_t count(const Window& window);

 private:
  double draw_ps(std::int64_t now_ps, const Window& window);

  pcg32 random_;
  double mean_ps_ = 0;
  double at_ps_ = -1;  // the last one drawn; load begins when the first is asked for
  std::uint64_t drawn_in_window_ = 0;
};

}  // namespace verbtwin::protocols
