// SharedEngine: an engine that two kinds of work take turns at. At the one that sends: a machine's own
// requests and what it serves for others. At the one that receives: the ACKs of its own requests and what
// brings or asks for data. And PCIe's ways: to the device what a CPU stores there, and what the device reads;
// to memory the completions of own requests, and what others write.
//
// Owned by a Nic or its Pcie; one thread. Round robin of two queues (Nagle, RFC 970) as arithmetic over time:
// a job is done when all that stands in front of the engine is, and no later than it would be if one of the
// other kind passed between every two of its own. So work of one kind that never ends leaves the other every
// second turn, and a lone job of one kind passes a long queue of the other.
//
// Three shapes tried before: first come, first served (a burst of own requests holds up what other machines
// wait for: two machines that do the same slowed each other; and a machine that is sent a lot has its ACKs
// late, sends less, and is sent the more); what is served always first (a machine that is asked without a
// pause sends nothing of its own); and half of the engine's time for each kind (NOTES.md: equal machines
// drifted apart).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "models/moment.hpp"
#include "models/server.hpp"

namespace verbtwin::models {

class SharedEngine {
 public:
  SharedEngine() = default;
  /// One that interrupts its jobs: a turn takes no longer than this.
  explicit SharedEngine(std::int64_t turn_max_ps) : turn_max_ps_(turn_max_ps) {}

  /// When a job of the machine's own has passed: a request that is ready to leave, an ACK that has come.
  Moment take_own(Moment ready, std::int64_t service_ps, Packets packets) {
    return take(own_in_turn_, ready, service_ps, packets);
  }
  Moment take_others(Moment ready, std::int64_t service_ps, Packets packets) {
    return take(others_in_turn_, ready, service_ps, packets);
  }

  /// The same, told of before it stands there: it must not move the time up to which the engine's work is
  /// known.
  Moment take_others_early(Moment ready, std::int64_t service_ps, Packets packets) {
    const std::int64_t behind_all_ps = ready.queue_ps + all_.wait_ps(ready) + service_ps;
    all_.owe(service_ps);
    const Moment alone = early_.serve(ready, service_ps, packets);
    const std::int64_t turn_ps = turn_of(own_in_turn_, service_ps, packets);
    const std::int64_t in_turn_ps = others_in_turn_.serve(ready, service_ps, turn_ps, behind_all_ps);
    if (behind_all_ps <= in_turn_ps) return alone.not_before(behind_all_ps + ready.delay_ps);
    return in_turn(ready, in_turn_ps, service_ps, packets);
  }

  /// The engine's time for something that nobody waits for the end of.
  void owe_own(std::int64_t service_ps) { owe(own_in_turn_, service_ps); }
  void owe_others(std::int64_t service_ps) { owe(others_in_turn_, service_ps); }

  /// How long one of the others' has to wait at most.
  std::int64_t others_wait_ps(Moment ready) const {
    return std::min(all_.wait_ps(ready), others_in_turn_.wait_ps(ready));
  }

  /// All of its work.
  const Server& all() const { return all_; }

 private:
  /// The turns of one kind: the latest time at which a job passes, and from when the next one may.
  class Turns {
   public:
    /// `turn_ps`: what one of the other kind takes in between. `behind_all_ps`: when all in front of the
    /// engine has passed; where that is sooner, the next job's turn comes from then on.
    std::int64_t serve(const Moment& ready, std::int64_t service_ps, std::int64_t turn_ps,
                       std::int64_t behind_all_ps) {
      const std::int64_t done_ps = ready.queue_ps + wait_ps(ready) + service_ps + turn_ps;
      const std::int64_t passed_ps = std::min(done_ps, behind_all_ps) + ready.held_ps;
      free_ps_ =
          std::max(free_ps_, std::min(std::max(free_ps_, ready.queue_ps) + service_ps + turn_ps, passed_ps));
      last_service_ps_ = service_ps;
      return done_ps;
    }
    std::int64_t wait_ps(const Moment& ready) const {
      return std::max<std::int64_t>(0, free_ps_ - ready.queue_ps - ready.held_ps);
    }
    void owe(std::int64_t service_ps) { free_ps_ += service_ps; }
    std::int64_t last_service_ps() const { return last_service_ps_; }

   private:
    std::int64_t free_ps_ = 0, last_service_ps_ = 0;
  };

  /// One of each kind after the other, as long as its last one; of several packets, packet by packet.
  std::int64_t turn_of(const Turns& other, std::int64_t service_ps, const Packets& packets) const {
    return packets.is_one() ? std::min(other.last_service_ps(), turn_max_ps_) : service_ps;
  }

  Moment take(Turns& kind, const Moment& ready, std::int64_t service_ps, const Packets& packets) {
    const Turns& other = &kind == &own_in_turn_ ? others_in_turn_ : own_in_turn_;
    const Moment behind_all = all_.serve(ready, service_ps, packets);
    const std::int64_t turn_ps = turn_of(other, service_ps, packets);
    const std::int64_t in_turn_ps = kind.serve(ready, service_ps, turn_ps, behind_all.queue_ps);
    if (behind_all.queue_ps <= in_turn_ps) return behind_all;
    return in_turn(ready, in_turn_ps, service_ps, packets);
  }
  void owe(Turns& kind, std::int64_t service_ps) {
    all_.owe(service_ps);
    kind.owe(service_ps);
  }
  static Moment in_turn(const Moment& ready, std::int64_t done_ps, std::int64_t service_ps,
                        const Packets& packets) {
    // Its packets come no closer to each other than they were.
    const std::int64_t passes_ps = 2 * (service_ps - packets.each_ps(service_ps));
    return {done_ps, ready.delay_ps, ready.held_ps, std::max(ready.spread_ps, passes_ps)};
  }

  Server all_;
  Server early_;  // what is told of early, as if it had all of the engine
  Turns own_in_turn_, others_in_turn_;
  std::int64_t turn_max_ps_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace verbtwin::models
