// Whether SimGrid can do with a user's platform what a simulation will ask of it.
//
// SimGrid 3.32 throws for most mistakes in an XML, aborts for some (a missing profile, an actor), crashes
// where two hosts have no route, never ends where a profile repeats at once, and takes any number for a
// bandwidth or a latency. Its parser cannot be used again after a parse error. So a forked child loads the
// file, looks every route up and runs the first microsecond; this process loads only what the child got
// through.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <simgrid/forward.h>

namespace verbtwin::sim {

/// What the child has loaded.
struct PlatformTrial {
  std::vector<simgrid::s4u::Host*> hosts;
  std::function<void(double time_s)> run_until;
};

/// Has a child process try the file: `load` is called there. Throws UserError, on one line, for whatever goes
/// wrong.
void try_platform(const std::filesystem::path& file, std::size_t nodes,
                  const std::function<PlatformTrial()>& load);

/// Empty: nothing. For values of the file and for those of its profiles.
std::string what_is_wrong_with(const simgrid::s4u::Link& link);
std::string what_is_wrong_with(const simgrid::s4u::Host& host);

}  // namespace verbtwin::sim
