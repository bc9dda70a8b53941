// Members of a result that may have them or not (tools/RESULT.md), for what renders results.
//
// Pure functions; callable from any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace verbtwin::tools {

/// The object under `key`, or an empty one.
inline const nlohmann::json& member(const nlohmann::json& object, const char* key) {
  static const nlohmann::json kNothing = nlohmann::json::object();
  const auto found = object.find(key);
  return found == object.end() || !found->is_object() ? kNothing : *found;
}

/// Names of a result's phases in the order in which a transaction goes through them, then whatever else a
/// protocol reports.
inline std::vector<std::string> phases_in_order(const nlohmann::json& phases) {
  std::vector<std::string> names;
  for (const char* name : {"execution", "validation", "logging", "get", "prepare", "commit"})
    if (phases.contains(name)) names.emplace_back(name);
  for (const auto& [name, phase] : phases.items())
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  return names;
}

/// "seed 7", or "seed 7, run 2" of one with an index.
inline std::string seed_text(const nlohmann::json& result) {
  const std::string seed = "seed " + std::to_string(result.value("seed", std::uint64_t{0}));
  const auto index = result.find("run_index");
  return index == result.end() ? seed : seed + ", run " + index->dump();
}

inline double number(const nlohmann::json& object, const char* key) {
  return object.value(key, 0.0);
}

}  // namespace verbtwin::tools
