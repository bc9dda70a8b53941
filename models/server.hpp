// Server: a resource that does one thing at a time (an engine, a PCIe direction, a link), as arithmetic over
// time: how much work stands in front of it at the latest time it knows of.
//
// Owned by what it is part of; one thread. serve() says when a job is done. Jobs announced in the order of
// their ready times are served first come, first served, exactly. A job announced with an earlier ready time
// than one before it is done at once in the server's last idle time, as long as there is some left. Else it
// meets the work that is known by then: its own wait may be off by the work announced for the time in
// between, but no capacity is lost and none is made up, which is what a rate or a queue depends on. Whoever
// announces keeps ready times close to the order of calls (Moment: fixed delays and waits for others are
// carried beside them).
//
// Three shapes tried before: a clock of when the server is free (loses all idle time before a job announced
// early), a list of the idle intervals (exact, but a third of the simulator's instructions), and none of
// them (a completion waited for a payload that had been announced for a microsecond later).
#pragma once

#include <algorithm>
#include <cstdint>

#include "models/moment.hpp"

namespace verbtwin::models {

class Server {
 public:
  /// When a job that stands in front of the server at `ready` and takes `service_ps` is done.
  Moment serve(Moment ready, std::int64_t service_ps) {
    if (ready.queue_ps < idle_to_ps_ && ready.queue_ps + service_ps <= idle_to_ps_ &&
        service_ps <= idle_ps_) {
      idle_ps_ -= service_ps;
      busy_ps_ += service_ps;
      return {ready.queue_ps + service_ps, ready.delay_ps, ready.held_ps};
    }
    return serve_behind(ready, service_ps);
  }

  /// The same, behind all that is known, idle time or not.
  Moment serve_behind(Moment ready, std::int64_t service_ps) {
    advance(ready.queue_ps);
    const std::int64_t done_ps = ready.queue_ps + behind_known_ps(ready) + service_ps;
    owe(service_ps);
    return {done_ps, ready.delay_ps, ready.held_ps};
  }

  /// The same of a message: the server begins with its first packet, is done with the last no sooner than the
  /// last can be, and hands on each when it is done with it. Jobs of one packet that come while it arrives
  /// pass before those that are not here yet; other messages stand behind it as a whole.
  Moment serve(Moment ready, std::int64_t service_ps, Packets packets) {
    if (packets.is_one()) return serve(ready, service_ps);
    const std::int64_t packet_ps = packets.each_ps(service_ps);
    const Moment first = ready.first();
    advance(first.queue_ps);
    Moment done{first.queue_ps + backlog_before_ps(first) + service_ps, first.delay_ps, first.held_ps};
    owe(service_ps);
    if (ready.spread_ps > 0) arriving_ = {ready.queue_ps, ready.spread_ps, service_ps};
    const std::int64_t first_ps = done.queue_ps - service_ps + packet_ps;
    done.queue_ps = std::max(done.queue_ps, ready.queue_ps + packet_ps);
    done.spread_ps = done.queue_ps - first_ps;
    return done;
  }

  /// A job of which nobody waits for the end: it takes its time from those that come after.
  void owe(std::int64_t service_ps) {
    backlog_ps_ += service_ps;
    busy_ps_ += service_ps;
  }

  /// How long a job of one packet that comes at `ready` waits for those in front of it. What was done while
  /// it was held back elsewhere does not stand there, nor do packets that have yet to come.
  std::int64_t wait_ps(Moment ready) const {
    return ready.queue_ps < idle_to_ps_ && idle_ps_ > 0 ? 0 : behind_known_ps(ready);
  }

  /// Total time of all jobs so far, those that wait included.
  std::int64_t busy_ps() const { return busy_ps_; }
  /// What of it is done by `at_ps`: all but the work that stands in front of the server then. Where jobs have
  /// been announced for later, when it was idle before them is not known: taken is its mean use from 0 to the
  /// latest of them.
  std::int64_t done_ps(std::int64_t at_ps) const {
    if (at_ps >= latest_ps_) return busy_ps_ - std::max<std::int64_t>(0, backlog_ps_ - (at_ps - latest_ps_));
    const auto share = static_cast<double>(busy_ps_ - backlog_ps_) / static_cast<double>(latest_ps_);
    return static_cast<std::int64_t>(share * static_cast<double>(at_ps));
  }

 private:
  /// The last message of several packets.
  struct Arriving {
    std::int64_t last_ps = 0, spread_ps = 1;  // when its last packet comes, and how much earlier its first
    std::int64_t service_ps = 0;

    /// What the packets take that come after `at_ps`.
    std::int64_t rest_ps(std::int64_t at_ps) const {
      const auto share = static_cast<double>(last_ps - at_ps) / static_cast<double>(spread_ps);
      return static_cast<std::int64_t>(static_cast<double>(service_ps) * std::min(share, 1.0));
    }
  };

  std::int64_t behind_known_ps(const Moment& ready) const {
    const std::int64_t all_ps = backlog_before_ps(ready);
    if (ready.queue_ps >= arriving_.last_ps || all_ps == 0) return all_ps;
    return std::max<std::int64_t>(0, all_ps - arriving_.rest_ps(ready.queue_ps));
  }
  void advance(std::int64_t to_ps) {
    if (to_ps <= latest_ps_) return;
    const std::int64_t left_ps = to_ps - latest_ps_ - backlog_ps_;
    if (left_ps > 0) {
      idle_ps_ = left_ps;
      idle_to_ps_ = to_ps;
    }
    backlog_ps_ = std::max<std::int64_t>(0, -left_ps);
    latest_ps_ = to_ps;
  }
  std::int64_t backlog_before_ps(const Moment& ready) const {
    const std::int64_t passed_ps = std::max<std::int64_t>(0, ready.queue_ps - latest_ps_);
    return std::max<std::int64_t>(0, backlog_ps_ - passed_ps - ready.held_ps);
  }

  Arriving arriving_;
  std::int64_t latest_ps_ = 0;   // of the ready times so far
  std::int64_t backlog_ps_ = 0;  // work not done at latest_ps_
  std::int64_t busy_ps_ = 0;
  std::int64_t idle_to_ps_ = 0, idle_ps_ = 0;  // when the last time without work ends; what is left of it
};

}  // namespace verbtwin::models
