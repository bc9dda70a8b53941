// Building blocks for the JSON Schema of a protocol's or a workload's parameters (protocols/registry.hpp),
// and the words of those that are a choice.
//
// Pure functions, any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace verbtwin::protocols::parameters {

inline nlohmann::json flag(bool value, const char* text) {
  return {{"type", "boolean"}, {"default", value}, {"description", text}};
}

/// A word that a scenario may say, and what the program takes it for.
template <typename Value>
struct Word {
  std::string_view name;
  Value value;
};

/// What `name` stands for. Throws std::logic_error for none of the words: a schema lets no other pass.
template <typename Value, std::size_t size>
Value value_of(const std::array<Word<Value>, size>& words, const nlohmann::json& name) {
  for (const Word<Value>& word : words) {
    if (word.name == name.get_ref<const std::string&>()) return word.value;
  }
  throw std::logic_error(name.dump() + " is not a word of this parameter");
}

/// One of the words, `value` where a scenario says nothing.
template <typename Value, std::size_t size>
nlohmann::json choice(const char* value, const std::array<Word<Value>, size>& words, const char* text) {
  nlohmann::json names = nlohmann::json::array();
  for (const Word<Value>& word : words) names.push_back(word.name);
  return {{"type", "string"}, {"enum", std::move(names)}, {"default", value}, {"description", text}};
}

inline nlohmann::json number(std::int64_t value, std::int64_t low, std::int64_t high, const char* text) {
  return {
      {"type", "integer"}, {"minimum", low}, {"maximum", high}, {"default", value}, {"description", text}};
}

/// Need not be an integer. The values go into the schema as they are written, 1 or 1.0.
inline nlohmann::json real(nlohmann::json value, nlohmann::json low, nlohmann::json high, const char* text) {
  return {{"type", "number"},
          {"minimum", std::move(low)},
          {"maximum", std::move(high)},
          {"default", std::move(value)},
          {"description", text}};
}

/// Skew of a Zipf distribution.
inline nlohmann::json theta(const char* text) {
  return real(0.99, 0, 0.999, text);
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
