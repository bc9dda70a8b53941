// Members of a result that may have them or not (tools/RESULT.md), for what renders results.
//
// Pure functions; callable from any thread.
#pragma once

#include <nlohmann/json.hpp>

namespace verbtwin::tools {

/// The object under `key`, or an empty one.
inline const nlohmann::json& member(const nlohmann::json& object, const char* key) {
  static const nlohmann::json kNothing = nlohmann::json::object();
  const auto found = object.find(key);
  return found == object.end() || !found->is_object() ? kNothing : *found;
}

inline double number(const nlohmann::json& object, const char* key) {
  return object.value(key, 0.0);
}

}  // namespace verbtwin::tools
