#include "scenarios/json_schema.hpp"

#include <utility>

namespace verbtwin::scenarios::json_schema {

using nlohmann::json;

json text(std::size_t length_min, std::size_t length_max) {
  return {{"type", "string"}, {"minLength", length_min}, {"maxLength", length_max}};
}

json one_of(json names) {
  return {{"type", "string"}, {"enum", std::move(names)}};
}

json exactly(json value) {
  const char* type = value.is_string() ? "string" : "integer";
  return {{"type", type}, {"const", std::move(value)}};
}

json whole(std::int64_t min) {
  return {{"type", "integer"}, {"minimum", min}};
}

json whole(std::int64_t min, std::int64_t max) {
  return {{"type", "integer"}, {"minimum", min}, {"maximum", max}};
}

json positive() {
  return {{"type", "number"}, {"exclusiveMinimum", 0}};
}

json list_of(json items) {
  return {{"type", "array"}, {"items", std::move(items)}};
}

json list_of(json items, std::size_t least, std::size_t most) {
  return {{"type", "array"}, {"items", std::move(items)}, {"minItems", least}, {"maxItems", most}};
}

json object(json properties) {
  json required = json::array();
  for (const auto& item : properties.items()) required.push_back(item.key());
  return object(std::move(properties), std::move(required));
}

json object(json properties, json required) {
  return {{"type", "object"},
          {"additionalProperties", false},
          {"required", std::move(required)},
          {"properties", std::move(properties)}};
}

json open(json object) {
  object.erase("additionalProperties");
  return object;
}

}  // namespace verbtwin::scenarios::json_schema
