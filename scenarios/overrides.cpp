#include "scenarios/overrides.hpp"

#include <optional>

#include "backend/user_error.hpp"
#include "scenarios/text.hpp"
#include "scenarios/validate.hpp"

namespace verbtwin::scenarios {

namespace {

using nlohmann::json;

[[noreturn]] void refuse(const Override& override, const std::string& pointer, const std::string& why) {
  throw UserError("", format_error(override.place(), UserError(pointer, why)));
}

bool is_utf8(const std::string& text) {
  try {
    (void)json(text).dump();
    return true;
  } catch (const json::type_error&) {
    return false;
  }
}

json typed_value(const Override& override, const json& schema) {
  if (override.given) return *override.given;
  const std::string& text = override.value;
  std::optional<json> parsed;
  std::string syntax_error;
  try {
    parsed = Document::parse("value", text).root();
  } catch (const UserError& e) {
    syntax_error = e.what();
  }
  if (parsed && fits_type(*parsed, schema)) return *parsed;
  const bool meant_as_json = !text.empty() && (text[0] == '{' || text[0] == '[');
  if (fits_type(json(""), schema)) {
    if (!is_utf8(text)) refuse(override, override.pointer, "the value is no UTF-8 text");
    return text;
  }
  if (!parsed && meant_as_json) refuse(override, override.pointer, syntax_error);
  return parsed ? *parsed : json(text);  // of a wrong type: check() says so in the schema's words
}

/// "cluster.nodes": where a schema has members of that name further in.
void find_paths(const json& schema, const std::string& key, const std::string& path,
                std::vector<std::string>& found) {
  if (!schema.contains("properties")) return;
  for (const auto& [name, member] : schema.at("properties").items()) {
    if (name == key && !path.empty()) found.push_back(path + name);
    find_paths(member, key, path + name + ".", found);
  }
}

/// For a first key: the only place where it would be known.
std::string path_meant(const json& schema, const std::string& key) {
  std::vector<std::string> found;
  find_paths(schema, key, "", found);
  return found.size() == 1 ? "; did you mean " + in_quotes(found.front()) + "?" : "";
}

/// The schema of member `key`; an empty one where the object is open and does not know it.
json member_schema(const Override& override, const json& schema, const std::string& pointer,
                   const std::string& key) {
  const bool closed = schema.value("additionalProperties", json(true)) == json(false);
  if (schema.contains("properties")) {
    const json& properties = schema.at("properties");
    if (properties.contains(key)) return properties.at(key);
    if (closed) {
      const Finding finding = unknown_key(schema, pointer, key);
      refuse(override, finding.pointer, finding.message + (pointer.empty() ? path_meant(schema, key) : ""));
    }
  } else if (!fits_type(json::object(), schema)) {
    refuse(override, child_pointer(pointer, key),
           "unknown key " + in_quotes(key) + "; " + pointer + " is no object");
  }
  return json::object();
}

}  // namespace

std::string Override::place() const {
  if (document) return document->place(document_pointer);
  return (text.starts_with("--") ? "" : "--set ") + one_line(text, 120);
}

Override parse_override(const std::string& text) {
  Override override{text, {""}, "", ""};
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw UserError("", override.place() + ": expected PATH=VALUE, such as cluster.nodes=80");
  }
  for (const char c : text.substr(0, equals)) {
    if (c == '.') {
      override.path.emplace_back();
    } else {
      override.path.back() += c;
    }
  }
  for (const std::string& key : override.path) override.pointer = child_pointer(override.pointer, key);
  override.value = text.substr(equals + 1);
  return override;
}

json loose_value(const Override& override) {
  return typed_value(override, json::object());
}

void apply_override(json& root, const Override& override, const json& schema) {
  json here_schema = schema;
  json* here = &root;
  std::string pointer;
  for (const std::string& key : override.path) {
    here_schema = member_schema(override, here_schema, pointer, key);
    pointer = child_pointer(pointer, key);
    if (!here) continue;
    if (here->is_null() && here != &root) *here = json::object();
    // Where the file has something else than an object on the way, check() will refuse that.
    here = here->is_object() ? &(*here)[key] : nullptr;
  }
  const json value = typed_value(override, here_schema);
  if (here) *here = value;
}

}  // namespace verbtwin::scenarios
