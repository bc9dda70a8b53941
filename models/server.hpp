// Server: a resource that does one thing at a time (an engine, a PCIe direction, a link), as arithmetic over time.
//
// Owned by what it is part of; one thread. reserve() says when a job starts and marks the server busy for it.
// Requests need not come in order of their ready times: a request posted now may become ready after one that is
// announced later. A job takes the earliest idle time at or after its ready time that is long enough, so that the order
// of calls costs no capacity; among jobs that wait, the one announced first goes first. The last kGaps idle times are
// remembered; older ones are lost, on the safe side (more than any two ready times lie apart in practice).
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
      if (ready_ps - free_ps_ >= kGapMinPs) gaps_[gaps_end_++ % kGaps] = {free_ps_, ready_ps};
      free_ps_ = ready_ps + service_ps;
      return ready_ps;
    }
    if (gaps_[(gaps_end_ - 1) % kGaps].end_ps > ready_ps) {
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
  static constexpr std::uint32_t kGaps = 32;
  static constexpr std::int64_t kGapMinPs = 2000;  // shorter ones fit no job worth the search
  struct Gap {
    std::int64_t begin_ps = 0, end_ps = 0;
  };

  std::int64_t fill(std::int64_t ready_ps, std::int64_t service_ps) {
    // Gaps are in order of time; only those that end after ready_ps can serve.
    const std::uint32_t none = gaps_end_;
    std::uint32_t best = none;
    for (std::uint32_t back = 1; back <= kGaps; ++back) {
      const Gap& gap = gaps_[(gaps_end_ - back) % kGaps];
      if (gap.end_ps <= ready_ps) break;
      if (std::max(gap.begin_ps, ready_ps) + service_ps <= gap.end_ps) best = gaps_end_ - back;
    }
    if (best == none) return -1;
    Gap& gap = gaps_[best % kGaps];
    const std::int64_t start_ps = std::max(gap.begin_ps, ready_ps);
    const Gap after{start_ps + service_ps, gap.end_ps};
    if (start_ps == gap.begin_ps) {
      gap = after;
    } else {
      gap.end_ps = start_ps;
      if (after.end_ps - after.begin_ps >= kGapMinPs) insert_behind(best, after);
    }
    return start_ps;
  }

  void insert_behind(std::uint32_t place, const Gap& gap) {
    for (std::uint32_t at = gaps_end_; at > place + 1; --at) gaps_[at % kGaps] = gaps_[(at - 1) % kGaps];
    gaps_[(place + 1) % kGaps] = gap;
    ++gaps_end_;
  }

  std::int64_t free_ps_ = 0;
  std::int64_t busy_ps_ = 0;
  std::uint32_t gaps_end_ = kGaps;  // the next to be remembered; indices run on, places repeat
  std::array<Gap, kGaps> gaps_{};
};

}  // namespace verbtwin::models
