// What a simulated result says of where it came from, and whether it is what a scenario would give again.
//
// Reads the files that the scenario names. Callable from any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "scenarios/scenario.hpp"

namespace verbtwin::tools {

/// "0.1.0, build 1f2e...": the version, and the build as the linker numbered it, where it did.
std::string program_name();

/// Of the files that a scenario names, by the fields that name them: a path says nothing of what is there. A
/// platform's is also of the profiles that it names.
nlohmann::json file_digests(const scenarios::Cluster& cluster);

/// A whole result of this program, of this scenario and of the files as they are.
bool is_outcome_of(const nlohmann::json& result, const scenarios::Scenario& scenario);

}  // namespace verbtwin::tools
