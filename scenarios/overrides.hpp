// Overrides: what `--set cluster.nodes=80` means for a scenario.
//
// Pure functions on values. Errors are UserErrors whose message is the whole line "--set PATH=VALUE:
// /pointer: ...".
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/document.hpp"

namespace verbtwin::scenarios {

struct Override {
  std::string text;  // "cluster.nodes=80", or the flag that was typed in place of --set: "--seed 7"
  std::vector<std::string> path;
  std::string pointer;  // "/cluster/nodes"
  std::string value;    // "80"
  // Where it stands, if not on the command line. Found only when asked for: a sweep has many values.
  std::shared_ptr<const Document> document{};
  std::string document_pointer{};
  std::optional<nlohmann::json> given{};  // what stands there: has its type; `value` is only its text

  /// What errors call it: "--set cluster.nodes=80", or its place in the document.
  std::string place() const;
};

Override parse_override(const std::string& text);

/// The value as JSON, or as a string where it is none.
nlohmann::json loose_value(const Override& override);

/// Sets the value in `root`, making the objects on its way. A typed value is read as JSON where that fits the
/// type which `schema` gives the place, else as a string where the schema wants one; one that was given as
/// JSON is taken as it is. Its range is not looked at.
void apply_override(nlohmann::json& root, const Override& override, const nlohmann::json& schema);

}  // namespace verbtwin::scenarios
