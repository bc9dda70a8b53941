// SharedEngine: an engine that a NIC's own requests and what it serves for other machines take turns at.
//
// Owned by a Nic; one thread. Generalised processor sharing with equal weights (Parekh and Gallager, IEEE/ACM
// Transactions on Networking 1(3), 1993) as arithmetic over time: a job is done when all that stands in front
// of the engine is, and no later than it would be at an engine half as fast that its own kind has for itself.
// So work of one kind that never ends leaves the other half of the engine, and a lone job of one kind passes
// a long queue of the other.
//
// Two shapes tried before: first come, first served (a burst of own requests holds up what other machines
// wait for: two machines that do the same slowed each other), and what is served always first (a machine that
// is asked without a pause sends nothing of its own).
#pragma once

#include <algorithm>
#include <cstdint>

#include "models/moment.hpp"
#include "models/server.hpp"

namespace verbtwin::models {

class SharedEngine {
 public:
  /// When a request of the machine's own that is ready to leave has passed.
  Moment send(Moment ready, std::int64_t service_ps, Packets packets) {
    const Moment behind_all = all_.serve(ready, service_ps, packets);
    const std::int64_t in_turn_ps = sends_in_turn_.serve(ready, service_ps);
    if (behind_all.queue_ps <= in_turn_ps) return behind_all;
    return at_half(ready, in_turn_ps, service_ps, packets);
  }

  /// The engine's time for something of its own that nobody waits for the end of.
  void owe(std::int64_t service_ps) {
    all_.owe(service_ps);
    sends_in_turn_.owe(service_ps);
  }

  /// When what another machine asks for has passed. It is told of before it stands there, and so must not
  /// move the time up to which the engine's work is known.
  Moment serve(Moment ready, std::int64_t service_ps, Packets packets) {
    const std::int64_t behind_all_ps = ready.queue_ps + all_.wait_ps(ready) + service_ps;
    all_.owe(service_ps);
    const Moment alone = served_.serve(ready, service_ps, packets);
    const std::int64_t in_turn_ps = served_in_turn_.serve(ready, service_ps);
    if (behind_all_ps <= in_turn_ps) return alone.not_before(behind_all_ps + ready.delay_ps);
    return at_half(ready, in_turn_ps, service_ps, packets);
  }

  /// All of its work.
  const Server& all() const { return all_; }

 private:
  /// Half of the engine, for one kind: when a job has passed. A bound, for which a clock of when it is free
  /// does.
  class Half {
   public:
    std::int64_t serve(const Moment& ready, std::int64_t service_ps) {
      const std::int64_t taken_ps = std::max<std::int64_t>(0, free_ps_ - ready.queue_ps);
      free_ps_ = ready.queue_ps + taken_ps + 2 * service_ps;
      return ready.queue_ps + std::max<std::int64_t>(0, taken_ps - ready.held_ps) + 2 * service_ps;
    }
    void owe(std::int64_t service_ps) { free_ps_ += 2 * service_ps; }

   private:
    std::int64_t free_ps_ = 0;
  };

  static Moment at_half(const Moment& ready, std::int64_t done_ps, std::int64_t service_ps,
                        const Packets& packets) {
    const std::int64_t spread_ps = 2 * (service_ps - packets.each_ps(service_ps));
    return {done_ps, ready.delay_ps, ready.held_ps, spread_ps};
  }

  Server all_;
  Server served_;  // what is served, as if it had all of the engine
  Half sends_in_turn_, served_in_turn_;
};

}  // namespace verbtwin::models
