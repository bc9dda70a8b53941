// When an aborted transaction is tried again: at once the first time, as the published systems do, and soon
// after that.
//
// A pure function of its arguments and the generator; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <pcg_random.hpp>

namespace verbtwin::protocols {

/// How long to wait before another attempt when `aborted` ones, the last of which took `attempt_ps`, have
/// been in vain. Two that go on at once may keep aborting each other in step for ever, where nothing disturbs
/// them: chance, of up to an attempt's time, breaks the rhythm (a lock is held for about as long). Only who
/// has come to nothing many times makes room for longer and longer (binary exponential backoff).
inline std::int64_t retry_delay_ps(int aborted, std::int64_t attempt_ps, pcg32& random) {
  constexpr int kAtOnce = 1, kSoon = 8, kDoublingsMax = 8;
  constexpr std::uint32_t kParts = 1024;  // of an attempt's time
  if (aborted <= kAtOnce) return 0;
  const int doublings = std::clamp(aborted - kSoon, 0, kDoublingsMax);
  return attempt_ps * random(kParts << doublings) / kParts;
}

}  // namespace verbtwin::protocols
