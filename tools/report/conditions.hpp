// The network and the load of a run in words: what of it is not the default, each with its unit, so that a
// slip of unit is seen.
//
// Pure functions of a scenario with its defaults (a result's "scenario"); callable from any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace verbtwin::tools {

/// "a star network (fifo model; links of 12.5 Gb/s, 10 % of packets lost)".
std::string describe_network(const nlohmann::json& scenario);

/// What follows the machines: ", links of 12.5 Gb/s, 10 % of packets lost; 50.0 M transactions/s offered".
/// Empty where all is the default.
std::string describe_conditions(const nlohmann::json& scenario);

/// "50.0 M transactions/s"; empty: a closed loop.
std::string describe_offered(const nlohmann::json& scenario);

}  // namespace verbtwin::tools
