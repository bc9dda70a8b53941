// Turbo: a core's clock depends on how many of its socket's cores are busy: fastest with one or two, less
// with each further one until the clock of a full socket (Intel, "Available Bins of Intel Turbo Boost
// Technology": steps of 100 MHz by busy cores). A simulated worker polls, so its core is always busy.
//
// Pure arithmetic; costs in a host profile hold for a full socket.
#pragma once

#include <algorithm>

#include "models/profile.hpp"

namespace verbtwin::models {

/// What work takes with `busy_cores` of a socket in use, relative to a full socket.
inline double turbo_slowness(const HostProfile& host, int busy_cores) {
  constexpr double kFew = 2;  // cores at the highest clock
  const double share = std::clamp((busy_cores - kFew) / (host.turbo_cores - kFew), 0.0, 1.0);
  return host.turbo_all_ghz / (host.turbo_few_ghz + share * (host.turbo_all_ghz - host.turbo_few_ghz));
}

}  // namespace verbtwin::models
