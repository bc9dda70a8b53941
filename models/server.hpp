// Server: a resource that does one thing at a time (an engine, a PCIe direction, a link), as arithmetic over time.
//
// Owned by what it is part of; one thread. reserve() says when a job starts and marks the server busy for it.
// Requests need not come in order of their ready times: a request posted now may become ready after one that is
// announced later. Where a job left an idle gap before it, a later call that is ready earlier fills the gap, so that
// order of calls costs no capacity. The last kGaps gaps are remembered; older ones are lost, on the safe side.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace verbtwin::models {

class Server {
 public:
  /// The start, at or after `ready_ps`, of a job that takes `service_ps`.
  std::int64_t reserve(std::int64_t ready_ps, std::int64_t service_ps) {
    busy_ps_ += service_ps;
    if (ready_ps >= free_ps_) {
      if (ready_ps > free_ps_) remember({free_ps_, ready_ps});
      free_ps_ = ready_ps + service_ps;
      return ready_ps;
    }
    if (ready_ps < gaps_end_ps_) {
      const std::int64_t start_ps = fill(ready_ps, service_ps);
      if (start_ps >= 0) return start_ps;
    }
    const std::int64_t start_ps = free_ps_;
    free_ps_ += service_ps;
    return start_ps;
  }

  /// Total time of all jobs so far, those that start in the future included.
  std::int64_t busy_ps() const { return busy_ps_; }
  /// When the last job ends.
  std::int64_t free_ps() const { return free_ps_; }

 private:
  static constexpr std::size_t kGaps = 8;
  struct Gap {
    std::int64_t begin_ps = 0, end_ps = 0;
  };

  void remember(Gap gap) {
    gaps_[gap_next_] = gap;
    gap_next_ = (gap_next_ + 1) % kGaps;
    gaps_end_ps_ = std::max(gaps_end_ps_, gap.end_ps);
  }

  std::int64_t fill(std::int64_t ready_ps, std::int64_t service_ps) {
    Gap* best = nullptr;
    for (Gap& gap : gaps_) {
      if (std::max(gap.begin_ps, ready_ps) + service_ps > gap.end_ps) continue;
      if (best == nullptr || gap.begin_ps < best->begin_ps) best = &gap;
    }
    if (best == nullptr) return -1;
    const std::int64_t start_ps = std::max(best->begin_ps, ready_ps);
    const Gap before{best->begin_ps, start_ps};
    best->begin_ps = start_ps + service_ps;
    if (before.end_ps > before.begin_ps) remember(before);
    return start_ps;
  }

  std::int64_t free_ps_ = 0;
  std::int64_t gaps_end_ps_ = 0;
  std::int64_t busy_ps_ = 0;
  std::array<Gap, kGaps> gaps_{};
  std::size_t gap_next_ = 0;
};

}  // namespace verbtwin::models
