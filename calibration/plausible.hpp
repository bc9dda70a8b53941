// What no device can have measured: more, or sooner, than its link or slot carries, and rates beside
// latencies that cannot both be true. Such values are of another unit than ours, or of another device.
//
// Pure functions, callable from any thread.
#pragma once

#include <string>
#include <string_view>

#include "calibration/measurement.hpp"
#include "scenarios/document.hpp"

namespace verbtwin::calibration {

/// Throws a UserError with the place in `document`, which `measurement` was read from.
void refuse_impossible(const scenarios::Document& document, const Measurement& measurement);

/// Why there is no such latency of a message that has to arrive: its bits alone take longer on the link,
/// whose rate `key` says. Empty: there may be.
std::string sooner_than_link(double latency_us, int payload_b, double link_gbps, std::string_view key);

/// A question for a message where a bandwidth is too small for what it has to carry, and would not be in
/// bytes.
std::string guessed_gbps(double said_gbps, double needed_gbps);

}  // namespace verbtwin::calibration
