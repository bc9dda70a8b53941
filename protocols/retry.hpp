// When an aborted transaction is tried again: at once the first time, as the published systems do, and soon
// after that.
//
// One Retries for each transaction, on its coroutine's frame; the generator is its worker's. Times in
// picoseconds of the worker's clock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <pcg_random.hpp>

namespace verbtwin::protocols {

class Retries {
 public:
  /// When to begin again after an attempt that began at `began_ps` and has come to nothing by `now_ps`. Two
  /// that go on at once may keep aborting each other in step for ever, where nothing disturbs them: chance,
  /// of up to an attempt's time, breaks the rhythm (a lock is held for about as long). Only who has come to
  /// nothing many times makes room for longer and longer (binary exponential backoff).
  ///
  /// An attempt that stood still, for a lost packet's time-out or because its core did something else, says
  /// nothing of how long locks are held: it counts as a few of the shortest. Behind `end_ps`, when nothing
  /// new begins, waits stay short, so that who has slept through the others' ends soon follows.
  std::int64_t next_ps(std::int64_t began_ps, std::int64_t now_ps, std::int64_t end_ps, pcg32& random) {
    constexpr int kAtOnce = 1, kSoon = 8, kDoublingsMax = 8, kDoublingsAtEnd = 4;
    constexpr std::int64_t kShortestMost = 8;
    constexpr std::uint32_t kParts = 1024;  // of an attempt's time
    const std::int64_t attempt_ps = now_ps - began_ps;
    shortest_ps_ = std::min(shortest_ps_, attempt_ps);
    if (++aborted_ <= kAtOnce) return now_ps;
    const int doublings = std::clamp(aborted_ - kSoon, 0, kDoublingsMax);
    const std::uint32_t drawn = random(kParts << doublings);
    const std::uint32_t drawn_at_end = drawn % (kParts << std::min(doublings, kDoublingsAtEnd));
    return std::min(now_ps + std::min(attempt_ps, kShortestMost * shortest_ps_) * drawn / kParts,
                    std::max(now_ps, end_ps) + shortest_ps_ * drawn_at_end / kParts);
  }

 private:
  int aborted_ = 0;
  // Of the attempts so far; not so long that eight of it are no number any more.
  std::int64_t shortest_ps_ = std::numeric_limits<std::int64_t>::max() / 16;
};

}  // namespace verbtwin::protocols
