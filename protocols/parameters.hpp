// Building blocks for the JSON Schema of a protocol's or a workload's parameters (protocols/registry.hpp).
//
// Pure functions, any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

namespace verbtwin::protocols::parameters {

inline nlohmann::json flag(bool value, const char* text) {
  return {{"type", "boolean"}, {"default", value}, {"description", text}};
}

inline nlohmann::json choice(const char* value, nlohmann::json names, const char* text) {
  return {{"type", "string"}, {"enum", std::move(names)}, {"default", value}, {"description", text}};
}

inline nlohmann::json number(std::int64_t value, std::int64_t low, std::int64_t high, const char* text) {
  return {
      {"type", "integer"}, {"minimum", low}, {"maximum", high}, {"default", value}, {"description", text}};
}

inline nlohmann::json inline_limit(const char* text) {
  return number(4096, 0, 4096, text);
}

inline nlohmann::json group(const char* text, nlohmann::json properties) {
  return {{"type", "object"},
          {"additionalProperties", false},
          {"default", nlohmann::json::object()},
          {"description", text},
          {"properties", std::move(properties)}};
}

}  // namespace verbtwin::protocols::parameters
