// run_on_ibverbs(): a scenario run on real verbs: this process is one of its nodes.
//
// Blocks; one run at a time in a process. Throws UserError where the run cannot be assembled and
// std::runtime_error where it goes wrong. A build without libibverbs has the function too: it throws a
// UserError that says what is missing.
#pragma once

#include <nlohmann/json.hpp>

#include "scenarios/scenario.hpp"
#include "tools/ranks/rank_options.hpp"
#include "tools/run/simulate.hpp"

namespace verbtwin::tools {

/// Rank 0: the result of all ranks, as tools/RESULT.md has it; where a rank failed during the run,
/// rank 0's own part, with "partial" true and "failure" saying why. Other ranks: nothing but "partial", where
/// the run was stopped early, on whichever rank.
nlohmann::json run_on_ibverbs(const scenarios::Scenario& scenario, const RankOptions& options,
                              const RunControl& control);

}  // namespace verbtwin::tools
