// Clock: the pump that nests the Calendar inside SimGrid's clock.
//
// The Calendar's integer picoseconds are the truth; SimGrid, whose clock is a double in seconds, is told
// where to go in absolute terms, so rounding never adds up. Nothing runs on a SimGrid actor: run_until()
// alternates between SimGrid and the Calendar on the caller's stack, and exceptions from handlers pass
// through it.
//
// Without messages SimGrid goes first, in windows of 1 us (or to the next event, if that is later and there
// are no profiles), and the Calendar catches up; a link that changed meanwhile changes in the Calendar at its
// exact instant. With messages (the `network.model = simgrid` of a scenario: slow, small clusters) the pump
// stops at every event, start and arrival.
//
// One Clock per Platform and Calendar, both new when it is made, both outliving it. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include <simgrid/forward.h>

#include "sim/calendar.hpp"
#include "sim/platform.hpp"

namespace verbtwin::sim {

class Clock final : private EventHandler {
 public:
  enum class Messages { kNone, kSimulated };
  /// Beyond, a double in seconds is too coarse.
  static constexpr std::int64_t kUntilMaxPs = 100'000'000'000'000;

  Clock(Platform& platform, Calendar& calendar, Messages messages = Messages::kNone);
  ~Clock();
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;

  /// Runs every event up to and including `until_ps`. Asks `keep_going` before each window and returns false,
  /// early, as soon as it says no. May be called again and again, up to kUntilMaxPs.
  bool run_until(std::int64_t until_ps, const std::function<bool()>& keep_going);

  /// Starts a SimGrid communication at `start_ps` (not in the past) and runs the event (handler, index) when
  /// it has arrived, rounded up to a picosecond. From an endpoint to itself takes no time, a message of 0
  /// bytes the route's latency. A message whose link is or goes down never arrives. Needs
  /// Messages::kSimulated.
  void send(int from_endpoint, int to_endpoint, std::uint64_t bytes, std::int64_t start_ps,
            Calendar::HandlerId handler, std::uint32_t index);

 private:
  struct Message {
    Clock* clock;
    std::uint32_t slot;
    simgrid::s4u::CommPtr comm;
    int from_endpoint;
    int to_endpoint;
    std::uint64_t bytes;
    Calendar::HandlerId handler;
    std::uint32_t index;
  };

  void handle(std::uint32_t index) override;
  std::int64_t window_end_ps(std::int64_t until_ps) const;
  void run_window(std::int64_t end_ps);
  void run_window_with_messages(std::int64_t end_ps);
  void advance_simgrid(std::int64_t target_ps);
  void start(Message& message);
  void finish(Message& message, std::int64_t arrival_ps);
  void retire(const Message& message, bool arrived, std::int64_t arrival_ps);

  Platform& platform_;
  Calendar& calendar_;
  const Messages mode_;
  Calendar::HandlerId self_;
  std::deque<Message> messages_;  // by slot; a deque, because SimGrid keeps pointers
  std::vector<std::uint32_t> free_slots_;
  std::vector<Message*> completed_;  // by SimGrid, not yet in the calendar
  int in_flight_ = 0;                // messages that SimGrid is carrying
};

}  // namespace verbtwin::sim
