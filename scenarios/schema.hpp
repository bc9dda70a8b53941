// The scenario schema (base.schema.json) as the program carries it, without the names of a catalog.
//
// A constant, callable from any thread. Every default and every range of a scenario stands there, but for
// those that the rest of the scenario decides (loader.cpp, catalog.cpp).
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace verbtwin::scenarios {

/// The text of base.schema.json, byte for byte.
std::string_view scenario_schema_text();

const nlohmann::json& scenario_schema();

}  // namespace verbtwin::scenarios
