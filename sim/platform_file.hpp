// A user's SimGrid platform before SimGrid sees it: what verbtwin refuses of what the file says. What SimGrid
// makes of the rest a child process tries (platform_trial.hpp).
#pragma once

#include <filesystem>
#include <set>

namespace verbtwin::sim {

inline constexpr const char* kPlatformPointer = "/cluster/network/platform";

struct PlatformFile {
  bool has_profiles = false;  // SimGrid does not tell
  /// The files that they are in: where the program runs, and beside the XML.
  std::set<std::filesystem::path> profiles{};
};

/// Looks at the file without SimGrid. Throws UserError where it cannot be a platform, for a <config>, for
/// profiles of latencies, which are not simulated, for values in profiles that SimGrid would pass over, for
/// elements so deep that its parser breaks, for numbers of hosts that it cannot count, for dragonflies whose
/// routes it gets wrong, and for what it says too little of: elements and names that are not there, names
/// that are there twice or are no text, speeds of 0, and how a cluster is joined.
PlatformFile read_platform_file(const std::filesystem::path& file);

}  // namespace verbtwin::sim
