// Moment: when something happens, as a place in the queues plus latencies passed on the way.
//
// A request crosses queues (engines, lanes) and fixed delays (a pipeline, a memory access) in turn. A queue
// behind a fixed delay behaves as the same queue before it, so the delays are carried beside: every server
// then sees its jobs in the order of queue_ps, close to the order of the calls, although their real times,
// at(), lie far apart. A whole path can so be worked out when it is entered, without an event at each queue.
//
// A message of several packets is here when its last one is; the next stage begins with its first.
#pragma once

#include <cstdint>

namespace verbtwin::models {

/// How a message is cut. Stages take its last packet for a full one, so that a longer message is never sooner
/// there than a shorter one.
struct Packets {
  std::uint32_t bytes = 0, mtu_b = 1;

  bool is_one() const { return bytes <= mtu_b; }
  /// A packet's part of what the whole message takes.
  std::int64_t each_ps(std::int64_t message_ps) const {
    return is_one() ? message_ps : message_ps * mtu_b / bytes;
  }
};

struct Moment {
  std::int64_t queue_ps = 0;   // when it stands in front of the next server, delays left out
  std::int64_t delay_ps = 0;   // the delays
  std::int64_t held_ps = 0;    // the part of them that was spent waiting for others, while servers worked on
  std::int64_t spread_ps = 0;  // how much earlier the first packet is here than the last

  std::int64_t at() const { return queue_ps + delay_ps; }
  /// As one that is here at once.
  Moment whole() const { return {queue_ps, delay_ps, held_ps}; }
  /// When the first packet is here.
  Moment first() const { return {queue_ps - spread_ps, delay_ps, held_ps}; }
  Moment plus_delay(std::int64_t ps) const { return {queue_ps, delay_ps + ps, held_ps, spread_ps}; }
  /// Held back by something that is not a server until its real time is not before `ps`.
  Moment not_before(std::int64_t ps) const {
    const std::int64_t held = ps - at();
    return held <= 0 ? *this : Moment{queue_ps, delay_ps + held, held_ps + held, spread_ps};
  }
};

}  // namespace verbtwin::models
