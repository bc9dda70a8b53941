// Calendar: the inner tier of the simulated clock. Events at integer picoseconds, in order of time and,
// within one instant, in the order they were scheduled.
//
// One Calendar belongs to one simulation and is used by its one thread. An event is a handler number and an
// index, 16 bytes in all with its key; who handles a number is registered once.
//
// Shape: a wheel of buckets, each a fraction of a nanosecond, for the next hundred nanoseconds; in front of
// it lists of what comes in each of the next eight microseconds' epochs, where nearly every event of a verb
// falls, which go into the wheel as a whole when their epoch is near; a heap for what is later. So what an
// event is put into stays in the first-level cache: the ends of the lists, and a small wheel. A bucket holds
// a handful of events and is put in order when its turn comes. Order is exact. Against a heap alone this
// halves the cost of an event (sim/calendar_bench.cpp).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <stdexcept>
#include <vector>

namespace verbtwin::sim {

class EventHandler {
 public:
  /// `index` is what schedule() was given; calendar.now_ps() is the event's time.
  virtual void handle(std::uint32_t index) = 0;

  /// The event is near: prefetch what handle() will touch, as far as it can be followed without waiting.
  /// Called with steps 3, 2, 1 and 0, some events apart, so that each call may read what the one before has
  /// fetched. A large simulation waits for memory more than for anything else. A hint: it may be left
  /// out, and must change nothing.
  virtual void prefetch(std::uint32_t index, int steps) const {
    static_cast<void>(index);
    static_cast<void>(steps);
  }

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
  bool empty() const { return pending_ == 0; }
  std::size_t pending() const { return pending_; }
  /// Time of the earliest event; undefined when empty().
  std::int64_t next_ps() {
    if (current_.empty()) turn_wheel();
    return current_.back().time_ps;
  }
  std::uint64_t executed() const { return executed_; }

  void schedule(std::int64_t time_ps, HandlerId handler, std::uint32_t index) {
    assert(time_ps >= now_ps_ && "an event in the past");
    assert(index <= kIndexMax);
    ++pending_;
    put({time_ps, sequence_++, handler << 28 | index});
  }

  /// Runs every event up to and including `until_ps`; the clock ends there. Throws std::logic_error for one
  /// that was scheduled for the past.
  void run_until(std::int64_t until_ps) {
    while (pending_ > 0 && next_ps() <= until_ps) {
      const Event event = current_.back();
      current_.pop_back();
      --pending_;
      // Also where asserts are off: time that goes back makes results that look right.
      if (event.time_ps < now_ps_) [[unlikely]]
        throw std::logic_error("an event in the past: a fault of the simulator");
      now_ps_ = event.time_ps;
      ++executed_;
      handlers_[event.what >> 28]->handle(event.what & kIndexMax);
    }
    if (until_ps > now_ps_) now_ps_ = until_ps;
  }

 private:
  static constexpr int kBucketShift = 8;        // 256 ps
  static constexpr int kEpochShift = 8;         // 256 buckets, 66 ns
  static constexpr std::int64_t kEpochs = 128;  // 8.4 us
  static constexpr std::size_t kBuckets = std::size_t{2} << kEpochShift;
  static constexpr int kLookSteps = 4;  // of prefetching: one for each of the next buckets with events
  static constexpr std::uint32_t kNone = ~0U;

  struct Event {
    std::int64_t time_ps;
    std::uint32_t sequence;  // wraps: two events of one instant are never 2^31 schedulings apart
    std::uint32_t what;      // handler in the top 4 bits, index below
  };
  struct Node {
    Event event;
    std::uint32_t next;
  };

  static bool later(const Event& a, const Event& b) {
    if (a.time_ps != b.time_ps) return a.time_ps > b.time_ps;
    return static_cast<std::int32_t>(a.sequence - b.sequence) > 0;
  }
  struct Later {
    bool operator()(const Event& a, const Event& b) const { return later(a, b); }
  };

  static std::int64_t bucket_of(const Event& event) { return event.time_ps >> kBucketShift; }
  static std::int64_t epoch_of(const Event& event) { return event.time_ps >> (kBucketShift + kEpochShift); }
  std::vector<Event>& epoch(std::int64_t number) {
    return epochs_[static_cast<std::size_t>(number & (kEpochs - 1))];
  }

  void put(const Event& event) {
    const std::int64_t bucket = bucket_of(event);
    if (bucket <= cursor_) {
      put_in_current(event);
    } else if (epoch_of(event) < wheel_end_) {
      put_in_wheel(event, bucket);
    } else if (epoch_of(event) < wheel_end_ + kEpochs) {
      epoch(epoch_of(event)).push_back(event);
      ++in_epochs_;
    } else {
      far_.push(event);
    }
  }

  void put_in_current(const Event& event) {
    current_.push_back(event);
    for (std::size_t at = current_.size() - 1; at > 0 && later(current_[at], current_[at - 1]); --at) {
      std::swap(current_[at], current_[at - 1]);
    }
  }

  void put_in_wheel(const Event& event, std::int64_t bucket) {
    std::uint32_t node = free_;
    if (node == kNone) {
      node = static_cast<std::uint32_t>(nodes_.size());
      nodes_.emplace_back();
    } else {
      free_ = nodes_[node].next;
    }
    const std::size_t place = place_of(bucket);
    if (first_[place] == kNone) ++occupied_count_;
    nodes_[node] = {event, first_[place]};
    first_[place] = node;
    occupied_[place / 64] |= std::uint64_t{1} << place % 64;
    ++in_wheel_;
  }

  /// Moves on to the next bucket that holds an event. There is one, and the current bucket is empty.
  void turn_wheel() {
    if (in_wheel_ == 0) skip_to_next_epoch();
    const std::size_t place = next_occupied(place_of(cursor_));
    cursor_ += static_cast<std::int64_t>((place - place_of(cursor_)) % kBuckets);
    for (std::uint32_t node = first_[place]; node != kNone;) {
      put_in_current(nodes_[node].event);
      const std::uint32_t next = nodes_[node].next;
      nodes_[node].next = free_;
      free_ = node;
      node = next;
      --in_wheel_;
    }
    first_[place] = kNone;
    occupied_[place / 64] &= ~(std::uint64_t{1} << place % 64);
    --occupied_count_;
    while (wheel_end_ < (cursor_ >> kEpochShift) + 2) take_epoch();
    prefetch_ahead();
  }

  /// The wheel is empty: the next epoch that holds an event goes into it.
  void skip_to_next_epoch() {
    if (in_epochs_ > 0) {
      while (epoch(wheel_end_).empty()) ++wheel_end_;
    } else {
      wheel_end_ = epoch_of(far_.top());
    }
    fetch_far();
    cursor_ = (wheel_end_ << kEpochShift) - 1;
    take_epoch();
  }

  /// The next epoch goes into the wheel, where the buckets of the one before the last are free.
  void take_epoch() {
    std::vector<Event>& events = epoch(wheel_end_);
    for (const Event& event : events) put_in_wheel(event, bucket_of(event));
    in_epochs_ -= events.size();
    events.clear();
    ++wheel_end_;
    fetch_far();
  }

  void fetch_far() {
    while (!far_.empty() && epoch_of(far_.top()) < wheel_end_ + kEpochs) {
      epoch(epoch_of(far_.top())).push_back(far_.top());
      ++in_epochs_;
      far_.pop();
    }
  }

  /// What comes next in the wheel. The first step of the way is for what is furthest away.
  void prefetch_ahead() const {
    std::size_t place = place_of(cursor_);
    const int ahead = static_cast<int>(std::min<std::size_t>(occupied_count_, kLookSteps));
    for (int steps = 0; steps < ahead; ++steps) {
      place = next_occupied(place);
      prefetch_bucket(place, steps);
    }
  }

  void prefetch_bucket(std::size_t place, int steps) const {
    for (std::uint32_t node = first_[place]; node != kNone; node = nodes_[node].next) {
      prefetch(nodes_[node].event, steps);
    }
  }

  void prefetch(const Event& event, int steps) const {
    handlers_[event.what >> 28]->prefetch(event.what & kIndexMax, steps);
  }

  static std::size_t place_of(std::int64_t bucket) { return static_cast<std::size_t>(bucket) % kBuckets; }

  /// The place behind `place` that holds an event. There is one.
  std::size_t next_occupied(std::size_t place) const {
    const std::size_t start = (place + 1) % kBuckets;
    std::size_t word = start / 64;
    std::uint64_t bits = occupied_[word] & ~std::uint64_t{0} << start % 64;
    while (bits == 0) {
      word = (word + 1) % occupied_.size();
      bits = occupied_[word];
    }
    return word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
  }

  static constexpr auto kEmptyWheel = [] {
    std::array<std::uint32_t, kBuckets> first{};
    first.fill(kNone);
    return first;
  }();

  std::vector<Event> current_;  // the bucket at the cursor and what was scheduled before it; latest first
  // Number of the current bucket. None at first: what a large cluster schedules for time 0 goes into the
  // wheel, too, where a bucket is put in order once.
  std::int64_t cursor_ = -1;
  std::array<std::uint32_t, kBuckets> first_ = kEmptyWheel;  // by place: a list of nodes
  std::array<std::uint64_t, kBuckets / 64> occupied_{};
  std::size_t occupied_count_ = 0;
  std::int64_t wheel_end_ = 2;  // the first epoch that is not in the wheel; the cursor's and the next one are
  std::array<std::vector<Event>, kEpochs> epochs_;  // by place: the next ones behind those in the wheel
  std::size_t in_epochs_ = 0;
  std::vector<Node> nodes_;
  std::uint32_t free_ = kNone;
  std::size_t in_wheel_ = 0;
  std::priority_queue<Event, std::vector<Event>, Later> far_;
  std::size_t pending_ = 0;
  std::array<EventHandler*, kHandlersMax> handlers_{};
  std::uint32_t handler_count_ = 0;
  std::uint32_t sequence_ = 0;
  std::int64_t now_ps_ = 0;
  std::uint64_t executed_ = 0;
};

}  // namespace verbtwin::sim
