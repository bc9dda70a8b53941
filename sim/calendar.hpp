// Calendar: the inner tier of the simulated clock. Events at integer picoseconds, in order of time and, within one
// instant, in the order they were scheduled.
//
// One Calendar belongs to one simulation and is used by its one thread. An event is a handler number and an index, 16
// bytes in all with its key, so that the heap stays in cache; who handles a number is registered once.
//
// Shape: a 4-ary implicit heap. A binary heap touches twice the levels, a pairing heap of nodes costs an allocation
// and a cache miss an event; both were slower (bench: sim/calendar_bench.cpp).
#pragma once

#include <array>
#include <cassert>
#include <cstdint>
#include <vector>

namespace verbtwin::sim {

class EventHandler {
 public:
  /// `index` is what schedule() was given; calendar.now_ps() is the event's time.
  virtual void handle(std::uint32_t index) = 0;

 protected:
  ~EventHandler() = default;
};

class Calendar {
 public:
  using HandlerId = std::uint32_t;
  static constexpr std::uint32_t kHandlersMax = 16;
  static constexpr std::uint32_t kIndexMax = (1U << 28) - 1;

  /// The handler is not owned and must outlive its events.
  HandlerId add_handler(EventHandler& handler) {
    assert(handler_count_ < kHandlersMax);
    handlers_[handler_count_] = &handler;
    return handler_count_++;
  }

  std::int64_t now_ps() const { return now_ps_; }
  bool empty() const { return heap_.empty(); }
  std::size_t pending() const { return heap_.size(); }
  /// Time of the earliest event; undefined when empty().
  std::int64_t next_ps() const { return heap_.front().time_ps; }
  std::uint64_t executed() const { return executed_; }

  void schedule(std::int64_t time_ps, HandlerId handler, std::uint32_t index) {
    assert(time_ps >= now_ps_ && "an event in the past");
    assert(index <= kIndexMax);
    push({time_ps, sequence_++, handler << 28 | index});
  }

  /// Runs every event up to and including `until_ps`; the clock ends there.
  void run_until(std::int64_t until_ps) {
    while (!heap_.empty() && heap_.front().time_ps <= until_ps) {
      const Event event = pop();
      now_ps_ = event.time_ps;
      ++executed_;
      handlers_[event.what >> 28]->handle(event.what & kIndexMax);
    }
    if (until_ps > now_ps_) now_ps_ = until_ps;
  }

 private:
  struct Event {
    std::int64_t time_ps;
    std::uint32_t sequence;  // wraps: two events of one instant are never 2^31 schedulings apart
    std::uint32_t what;      // handler in the top 4 bits, index below
  };

  static bool before(const Event& a, const Event& b) {
    if (a.time_ps != b.time_ps) return a.time_ps < b.time_ps;
    return static_cast<std::int32_t>(a.sequence - b.sequence) < 0;
  }

  void push(const Event& event) {
    std::size_t hole = heap_.size();
    heap_.push_back(event);
    while (hole > 0) {
      const std::size_t parent = (hole - 1) / 4;
      if (!before(event, heap_[parent])) break;
      heap_[hole] = heap_[parent];
      hole = parent;
    }
    heap_[hole] = event;
  }

  Event pop() {
    const Event top = heap_.front();
    const Event last = heap_.back();
    heap_.pop_back();
    const std::size_t size = heap_.size();
    if (size == 0) return top;
    std::size_t hole = 0;
    for (std::size_t child = 1; child < size; child = 4 * hole + 1) {
      std::size_t least = child;
      const std::size_t end = child + 4 < size ? child + 4 : size;
      for (std::size_t other = child + 1; other < end; ++other) {
        if (before(heap_[other], heap_[least])) least = other;
      }
      if (!before(heap_[least], last)) break;
      heap_[hole] = heap_[least];
      hole = least;
    }
    heap_[hole] = last;
    return top;
  }

  std::vector<Event> heap_;
  std::array<EventHandler*, kHandlersMax> handlers_{};
  std::uint32_t handler_count_ = 0;
  std::uint32_t sequence_ = 0;
  std::int64_t now_ps_ = 0;
  std::uint64_t executed_ = 0;
};

}  // namespace verbtwin::sim
