// Server: a resource that does one thing at a time (an engine, a PCIe direction, a link), as arithmetic over
// time.
//
// Owned by what it is part of; one thread. reserve() says when a job starts and marks the server busy for it.
// Requests need not come in order of their ready times: a request posted now may become ready after one that
// is announced later. A job takes the earliest idle time at or after its ready time that is long enough, so
// that the order of calls costs no capacity; among jobs that wait, the one announced first goes first. The
// last kGaps idle times are remembered; older ones are lost, on the safe side (more than any two ready times
// lie apart in practice).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "models/moment.hpp"

namespace verbtwin::models {

class Server {
 public:
  /// The start, at or after `ready_ps`, of a job that takes `service_ps`.
  std::int64_t reserve(std::int64_t ready_ps, std::int64_t service_ps) {
    busy_ps_ += service_ps;
    if (ready_ps >= free_ps_) {
      if (ready_ps - free_ps_ >= kGapMinPs) insert(gaps_end_, {free_ps_, ready_ps});
      free_ps_ = ready_ps + service_ps;
      return ready_ps;
    }
    if (gaps_end_ != gaps_begin_ && at(gaps_end_ - 1).end_ps > ready_ps) {
      const std::int64_t start_ps = fill(ready_ps, service_ps);
      if (start_ps >= 0) return start_ps;
    }
    const std::int64_t start_ps = free_ps_;
    free_ps_ += service_ps;
    return start_ps;
  }

  /// When a job that stands in front of the server at `ready` is done.
  Moment serve(Moment ready, std::int64_t service_ps) {
    return {reserve(ready.queue_ps, service_ps) + service_ps, ready.delay_ps};
  }

  /// Total time of all jobs so far, those that start in the future included.
  std::int64_t busy_ps() const { return busy_ps_; }
  /// When the last job ends.
  std::int64_t free_ps() const { return free_ps_; }

 private:
  static constexpr std::uint32_t kGaps = 16;
  static constexpr std::int64_t kGapMinPs = 2000;  // shorter ones fit no job worth the search
  struct Gap {
    std::int64_t begin_ps = 0, end_ps = 0;
  };

  Gap& at(std::uint32_t place) { return gaps_[place % kGaps]; }

  std::int64_t fill(std::int64_t ready_ps, std::int64_t service_ps) {
    std::uint32_t first = gaps_begin_;  // that ends after ready_ps: gaps are in order of time
    for (std::uint32_t count = gaps_end_ - gaps_begin_; count > 0;) {
      const std::uint32_t half = count / 2;
      const bool over = at(first + half).end_ps <= ready_ps;
      first = over ? first + half + 1 : first;
      count = over ? count - half - 1 : half;
    }
    for (std::uint32_t place = first; place != gaps_end_; ++place) {
      const std::int64_t start_ps = std::max(at(place).begin_ps, ready_ps);
      if (start_ps + service_ps > at(place).end_ps) continue;
      take(place, start_ps, start_ps + service_ps);
      return start_ps;
    }
    return -1;
  }

  void take(std::uint32_t place, std::int64_t begin_ps, std::int64_t end_ps) {
    Gap& gap = at(place);
    const Gap before{gap.begin_ps, begin_ps};
    const Gap after{end_ps, gap.end_ps};
    const bool keep_before = before.end_ps - before.begin_ps >= kGapMinPs;
    const bool keep_after = after.end_ps - after.begin_ps >= kGapMinPs;
    if (keep_before) {
      gap = before;
      if (keep_after) insert(place + 1, after);
    } else if (keep_after) {
      gap = after;
    } else {
      for (; place + 1 != gaps_end_; ++place) at(place) = at(place + 1);
      --gaps_end_;
    }
  }

  void insert(std::uint32_t place, const Gap& gap) {
    for (std::uint32_t to = gaps_end_; to != place; --to) at(to) = at(to - 1);
    at(place) = gap;
    if (++gaps_end_ - gaps_begin_ > kGaps) ++gaps_begin_;
  }

  std::int64_t free_ps_ = 0;
  std::int64_t busy_ps_ = 0;
  std::uint32_t gaps_begin_ = 0, gaps_end_ = 0;  // remembered: [begin, end), places repeat every kGaps
  std::array<Gap, kGaps> gaps_{};
};

}  // namespace verbtwin::models
