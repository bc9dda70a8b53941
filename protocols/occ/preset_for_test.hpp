// The options of the named protocols, for tests of transactions.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "protocols/occ/options.hpp"

namespace verbtwin::protocols {

/// Fills in what a scenario would leave to the schema's defaults.
inline void fill(nlohmann::json& value, const nlohmann::json& schema) {
  if (!schema.contains("properties")) return;
  for (const auto& [key, property] : schema.at("properties").items()) {
    if (!value.contains(key)) value[key] = property.value("default", nlohmann::json::object());
    fill(value[key], property);
  }
}

/// A named protocol as a scenario has it that says no more.
inline OccOptions preset(const std::string& name) {
  for (const RegistryEntry& entry : occ_entries()) {
    if (entry.name != name) continue;
    nlohmann::json protocol = {{"name", name}};
    fill(protocol, entry.schema);
    OccOptions options = OccOptions::from_json(protocol);
    options.rpc.packet_b = 1024;
    return options;
  }
  throw std::invalid_argument(name);
}

}  // namespace verbtwin::protocols
