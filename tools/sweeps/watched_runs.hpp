// run_watched(), run_points(): runs that can be stopped by a signal and that show how far they are.
//
// One thread, in a process that has no other run.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "scenarios/sweep.hpp"
#include "tools/console/stop_signals.hpp"
#include "tools/ranks/rank_options.hpp"
#include "tools/run/trace.hpp"

namespace verbtwin::tools {

/// Simulated, or this process's part of a real run; little there but for rank 0. `may_show`: progress, where
/// standard error is a terminal. Throws UserError whose message is the whole line.
nlohmann::json run_watched(const scenarios::Scenario& scenario, const RankFlags& flags,
                           const StopSignals& signals, bool may_show, Trace* trace = nullptr);

/// The points one after another, or `jobs` simulated ones at a time; `finished` gets the results in their
/// order, as run_watched() has them. A signal ends what runs, with partial results, and nothing new begins.
/// What is thrown names the point.
void run_points(const std::vector<scenarios::SweepPoint>& points, const RankFlags& flags, int jobs,
                const StopSignals& signals, bool may_show,
                const std::function<void(std::size_t point, nlohmann::json result)>& finished);

}  // namespace verbtwin::tools
