// Parts of JSON Schemas (draft-07), for formats that are described in the program and not in a file of
// theirs.
//
// Pure functions, callable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace verbtwin::scenarios::json_schema {

nlohmann::json text(std::size_t length_min = 1, std::size_t length_max = 10000);
nlohmann::json one_of(nlohmann::json names);
/// A text or a whole number that can be no other.
nlohmann::json exactly(nlohmann::json value);
nlohmann::json whole(std::int64_t min);
nlohmann::json whole(std::int64_t min, std::int64_t max);
/// A number above 0.
nlohmann::json positive();

nlohmann::json list_of(nlohmann::json items);
nlohmann::json list_of(nlohmann::json items, std::size_t least, std::size_t most);

/// Every one of these keys, and no other.
nlohmann::json object(nlohmann::json properties);
/// Of these keys at least the `required`, and no other.
nlohmann::json object(nlohmann::json properties, nlohmann::json required);
/// The same with whatever other keys.
nlohmann::json open(nlohmann::json object);

}  // namespace verbtwin::scenarios::json_schema
