// run_side_by_side(): the simulated points of a sweep, a few at a time, each in a process of its own
// (SimGrid's engine is one per process), with the results that they have one after another.
//
// One thread, which has no simulation of its own.
#pragma once

#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "scenarios/sweep.hpp"

namespace verbtwin::tools {

/// `finished` gets the results in the order of the points, each as soon as those before it are there. Once
/// `stop` is set, what runs ends early with a partial result and nothing new begins. Throws what a single run
/// throws, naming the point; the other points are stopped then, and `finished` has got what was complete.
void run_side_by_side(const std::vector<scenarios::SweepPoint>& points, int jobs,
                      const std::atomic<bool>& stop, bool show_progress,
                      const std::function<void(std::size_t point, nlohmann::json result)>& finished);

}  // namespace verbtwin::tools
