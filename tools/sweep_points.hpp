// load_runnable_points(): the points of a scenario, each of which could run.
//
// Reads files; forks where a point has a platform file: the calling process needs no SimGrid engine and gets
// none. One thread.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "scenarios/sweep.hpp"

namespace verbtwin::tools {

/// load_points(), and what only the parts of a run know to refuse: the profiles, what a device with such a
/// NIC cannot carry, the protocol's and workload's parameters together, the platform file; and points that
/// are not all simulated or all for the same ranks. Throws UserError whose message is the whole line.
std::vector<scenarios::SweepPoint> load_runnable_points(const std::filesystem::path& file,
                                                        const std::vector<std::string>& overrides,
                                                        const std::vector<scenarios::Override>& flags = {});

}  // namespace verbtwin::tools
