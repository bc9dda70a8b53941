// load_runnable_points(): the points of a scenario, each of which could run. check_runnable(): one of them.
// inputs_of(): the files that they are read from. with_other_seeds(): of one.
//
// Reads files; forks where a point has a platform file: the calling process needs no SimGrid engine and gets
// none. One thread.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "scenarios/catalog.hpp"
#include "scenarios/scenario.hpp"
#include "scenarios/sweep.hpp"
#include "tools/console/output_file.hpp"

namespace verbtwin::tools {

/// What only the parts of a run know to refuse: the profiles, what a device with such a NIC cannot carry, the
/// protocol's and workload's parameters together, the platform file. Throws UserError with the place in the
/// scenario.
void check_runnable(const scenarios::Scenario& scenario);

/// load_points(), and check_runnable() of each; and points that are not all simulated or all for the same
/// ranks are refused. Throws UserError whose message is the whole line.
std::vector<scenarios::SweepPoint> load_runnable_points(const std::filesystem::path& file,
                                                        const std::vector<std::string>& overrides,
                                                        const std::vector<scenarios::Override>& flags = {},
                                                        const std::vector<std::string>& sweeps = {});

/// A line about points that take more memory than there is, `jobs` of them at a time: the kernel would end
/// them without a word. Empty: none do.
std::string memory_warning(const std::vector<scenarios::SweepPoint>& points, int jobs);

/// The scenario with another seed and with a third, which say what is chance.
std::array<scenarios::Scenario, 2> with_other_seeds(const scenarios::Scenario& scenario,
                                                    const scenarios::Catalog& catalog);

/// The scenario, its platforms and its profiles.
std::vector<InputFile> inputs_of(const std::filesystem::path& scenario,
                                 const std::vector<scenarios::SweepPoint>& points);

}  // namespace verbtwin::tools
