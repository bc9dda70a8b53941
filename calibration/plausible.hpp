// What no device can have measured: more, or sooner, than its link or slot carries, and rates beside
// latencies that cannot both be true. Such values are of another unit than ours, or of another device.
//
// Pure functions, callable from any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "calibration/evaluate.hpp"
#include "calibration/experiment.hpp"
#include "calibration/measurement.hpp"
#include "scenarios/document.hpp"

namespace verbtwin::calibration {

/// Throws a UserError with the place in `document`, which `measurement` was read from.
void refuse_impossible(const scenarios::Document& document, const Measurement& measurement);

/// What is to be said of points whose unit nothing beside them confirms, a rate without a latency or the
/// other way round, and that are more than a hundred times off what is simulated, about a power of a
/// thousand. Empty: nothing.
std::string unit_doubts(const Measurement& measurement, std::span<const Experiment* const> experiments,
                        const std::vector<std::vector<Prediction>>& predictions);

/// Why there is no such latency of a message that has to arrive: its bits alone take longer on the link,
/// whose rate `key` says. Empty: there may be.
std::string sooner_than_link(double latency_us, int payload_b, double link_gbps, std::string_view key);

/// A question for a message where a bandwidth is too small for what it has to carry, and would not be in
/// bytes.
std::string guessed_gbps(double said_gbps, double needed_gbps);

}  // namespace verbtwin::calibration
