// What a run's resources were in use, and which of them limits it (tools/RESULT.md "The bottleneck").
//
// Pure functions; the pointers in their input are only read during the call.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "tools/run/result.hpp"

namespace verbtwin::tools {

/// Of queue pairs' contexts, by all NICs between two looks.
sim::Usage::LookUps context_look_ups(const sim::Usage& before, const sim::Usage& after);

/// null: nothing was looked up.
nlohmann::json hit_ratio(std::uint64_t hits, std::uint64_t misses);

/// Adds "resources" and "bottleneck" to a result that has its counts and latencies. `one_machine`: what is
/// full on one machine limits the run, the others face it.
void add_resources(const RunInput& input, bool one_machine, nlohmann::json& result);

}  // namespace verbtwin::tools
