// Checks a JSON value against a JSON Schema and says in the user's words what is wrong with it.
//
// Pure functions, callable from any thread. check() phrases the keywords that scenario and profile schemas
// use (type, properties, required, additionalProperties, items, enum, const, minimum, maximum,
// exclusiveMinimum, exclusiveMaximum, minLength, maxLength, minItems, maxItems); judge() is the whole of
// draft-07 and the last word.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/document.hpp"

namespace verbtwin::scenarios {

/// One thing that is wrong: where, and what, with what is allowed.
struct Finding {
  std::string pointer;
  std::string message;
  Anchor anchor = Anchor::kValue;
  bool missing = false;  // something is absent: often the echo of a misspelt key, so told last
};

/// What is wrong with `value`, up to a dozen or so findings. Whole numbers written as fractions (1e6 where an
/// integer is wanted) become integers.
std::vector<Finding> check(nlohmann::json& value, const nlohmann::json& schema,
                           const std::string& pointer = "");

/// The one to tell: what is missing last, what was typed (not in the file) before the rest, then by place.
const Finding& first_of(const Document& document, const std::vector<Finding>& findings,
                        const std::function<bool(const Finding&)>& typed = {});

/// The document's root, checked; throws UserError with its place for what is wrong first.
nlohmann::json require(const Document& document, const nlohmann::json& schema);

/// The text at `pointer`, which names a file that is written too: letters, digits, '_', '-' and, behind the
/// first of them, '.'; 60 at most. Throws UserError with its place for another one.
std::string require_file_name(const Document& document, const std::string& pointer);

/// Adds what `value` leaves out and the schema has a default for, objects first, so that defaults nest.
void fill_defaults(nlohmann::json& value, const nlohmann::json& schema);

/// What valijson objects to, in its words; nothing where the value is valid. For keywords that check() does
/// not know.
std::optional<Finding> judge(const nlohmann::json& value, const nlohmann::json& schema);

/// Whether the value is of the schema's type (any is, where it names none).
bool fits_type(const nlohmann::json& value, const nlohmann::json& schema);

/// "integer, 1 to 4096": what the schema takes, for a message.
std::string allowed(const nlohmann::json& schema);

/// `unknown key "x"`, the keys there are, and the nearest of them.
Finding unknown_key(const nlohmann::json& object_schema, const std::string& pointer, const std::string& key);

}  // namespace verbtwin::scenarios
