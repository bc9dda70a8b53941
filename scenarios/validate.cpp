#include "scenarios/validate.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

// GCC 12 sees copies beyond a string's end where valijson replaces "~1" in pointers: GCC's bug 105651.
#pragma GCC diagnostic push
#ifndef __clang__  // has no such warning
#pragma GCC diagnostic ignored "-Wrestrict"
#endif
#include <valijson/schema_parser.hpp>
#pragma GCC diagnostic pop

#include "scenarios/foreign_names.hpp"
#include "scenarios/text.hpp"

namespace verbtwin::scenarios {

namespace {

using nlohmann::json;

constexpr std::size_t kFindingsMax = 16;  // one is told; a hostile file has millions

/// Exact for every number JSON can hold here: 64 bits of mantissa take int64, uint64 and double.
long double number(const json& value) {
  if (value.is_number_unsigned()) return static_cast<long double>(value.get<std::uint64_t>());
  if (value.is_number_integer()) return static_cast<long double>(value.get<std::int64_t>());
  return static_cast<long double>(value.get<double>());
}

std::string shown(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
  return one_line(value.dump(), 60);
}

const char* type_name(const json& value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return "boolean";
  if (value.is_string()) return "string";
  if (value.is_array()) return "array";
  if (value.is_object()) return "object";
  return value.is_number_float() ? "number" : "integer";
}

bool has_type(const json& value, const std::string& type) {
  const std::string own = type_name(value);
  return own == type || (type == "number" && own == "integer");
}

bool type_fits(const json& value, const json& type) {
  if (type.is_string()) return has_type(value, type.get_ref<const std::string&>());
  return std::any_of(type.begin(), type.end(), [&](const json& one) { return type_fits(value, one); });
}

/// 1e6 is an integer to draft-07, but a double to the parser.
void make_integer(json& value, const json& type) {
  constexpr double kExactMax = 9007199254740992.0;  // 2^53
  if (!value.is_number_float() || type != "integer") return;
  const double v = value.get<double>();
  if (std::abs(v) <= kExactMax && v == std::trunc(v)) value = static_cast<std::int64_t>(v);
}

std::size_t characters(const std::string& text) {
  const auto starts_character = [](char c) { return (c & 0xc0) != 0x80; };
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), starts_character));
}

const json* keyword(const json& schema, const char* name) {
  const auto found = schema.find(name);
  return found == schema.end() ? nullptr : &*found;
}

bool in_range(const json& value, const json& schema) {
  const long double v = number(value);
  const json *min = keyword(schema, "minimum"), *max = keyword(schema, "maximum");
  const json *above = keyword(schema, "exclusiveMinimum"), *below = keyword(schema, "exclusiveMaximum");
  return !(min && v < number(*min)) && !(max && v > number(*max)) && !(above && v <= number(*above)) &&
         !(below && v >= number(*below));
}

std::vector<std::string> choices(const json& schema) {
  std::vector<std::string> names;
  const auto add = [&](const json& v) { names.push_back(v.is_string() ? v.get<std::string>() : v.dump()); };
  if (const json* all = keyword(schema, "enum")) std::for_each(all->begin(), all->end(), add);
  if (const json* one = keyword(schema, "const")) add(*one);
  return names;
}

bool is_choice(const json& value, const json& schema) {
  const json *all = keyword(schema, "enum"), *one = keyword(schema, "const");
  return (!all || std::find(all->begin(), all->end(), value) != all->end()) && (!one || *one == value);
}

/// A number like 1e30, which no integer type holds.
bool is_whole(const json& value) {
  return value.is_number_float() && value.get<double>() == std::trunc(value.get<double>());
}

/// What is wrong with the value itself, its members aside; empty if nothing is.
std::string problem(const json& value, const json& schema) {
  if (!fits_type(value, schema)) {
    if (is_whole(value) && !in_range(value, schema)) return "out of range: " + shown(value);
    const bool say_value = !value.is_structured() && !value.is_null();
    return std::string("wrong type: ") + type_name(value) + (say_value ? " " + shown(value) : "");
  }
  if (!is_choice(value, schema)) return "unknown value " + shown(value);
  if (value.is_number() && !in_range(value, schema)) return "out of range: " + shown(value);
  if (value.is_string()) {
    const std::size_t length = characters(value.get_ref<const std::string&>());
    if (const json* min = keyword(schema, "minLength"); min && length < *min)
      return "too short: " + shown(value);
    if (const json* max = keyword(schema, "maxLength"); max && length > *max)
      return "too long: " + shown(value);
  }
  if (value.is_array()) {
    const json *min = keyword(schema, "minItems"), *max = keyword(schema, "maxItems");
    if (min && value.size() < *min) return "too few: " + std::to_string(value.size());
    if (max && value.size() > *max) return "too many: " + std::to_string(value.size());
  }
  return "";
}

std::vector<std::string> keys(const json& object_schema) {
  std::vector<std::string> names;
  for (const auto& item : object_schema.at("properties").items()) names.push_back(item.key());
  return names;
}

std::string range(const json& schema) {
  const json *min = keyword(schema, "minimum"), *max = keyword(schema, "maximum");
  if (min && max) return ", " + min->dump() + " to " + max->dump();
  std::string text;
  if (min) text += ", at least " + min->dump();
  if (const json* above = keyword(schema, "exclusiveMinimum")) text += ", more than " + above->dump();
  if (max) text += ", at most " + max->dump();
  if (const json* below = keyword(schema, "exclusiveMaximum")) text += ", less than " + below->dump();
  return text;
}

/// " of 1 to 20 characters".
std::string length_range(const json& schema, const char* min_name, const char* max_name, const char* unit) {
  const json *min = keyword(schema, min_name), *max = keyword(schema, max_name);
  if (min && max && *min == *max) return " of " + min->dump() + unit;
  if (min && max) return " of " + min->dump() + " to " + max->dump() + unit;
  if (min) return " of at least " + min->dump() + unit;
  return max ? " of at most " + max->dump() + unit : "";
}

/// Of an object: `, such as {"name":"tatp"}`, with the name that was written in its place, or the nearest.
std::string example(const json& schema, const json& written = {}) {
  const json* examples = keyword(schema, "examples");
  if (!examples) return "";
  const json named = schema.value(json::json_pointer("/properties/name"), json::object());
  const std::string name = written.is_string() ? nearest(written.get<std::string>(), choices(named)) : "";
  return ", such as " + (name.empty() ? examples->front() : json{{"name", name}}).dump();
}

void check_into(std::vector<Finding>& findings, json& value, const json& schema, const std::string& pointer);

/// Of a small object without an example: what has to be in it, as `; in it "unit" (ns), "value" (...)`.
std::string members(const json& schema) {
  std::string text;
  for (const json& name : schema.value("required", json::array())) {
    const auto key = name.get<std::string>();
    const json member = schema.at("properties").value(key, json::object());
    if (fits_type(json::object(), member) || fits_type(json::array(), member)) return "";
    text += (text.empty() ? "; in it " : ", ") + in_quotes(key) + " (" + allowed(member) + ")";
  }
  return text;
}

void check_members(std::vector<Finding>& findings, json& object, const json& schema,
                   const std::string& pointer) {
  static const json none = json::object();
  const json *named = keyword(schema, "properties"), *others = keyword(schema, "additionalProperties");
  const json& properties = named ? *named : none;
  for (auto& [key, member] : object.items()) {
    if (findings.size() >= kFindingsMax) return;
    const auto known = properties.find(key);
    if (known != properties.end()) {
      check_into(findings, member, *known, child_pointer(pointer, key));
    } else if (others && others->is_object()) {
      check_into(findings, member, *others, child_pointer(pointer, key));
    } else if (others && *others == json(false)) {
      findings.push_back(unknown_key(schema, pointer, key));
    }
  }
  for (const json& name : schema.value("required", json::array())) {
    const auto key = name.get<std::string>();
    if (object.contains(key)) continue;
    const json property = properties.value(key, json::object());
    std::string takes = properties.contains(key) ? "; allowed: " + allowed(property) : "";
    takes += property.contains("examples") ? example(property) : members(property);
    findings.push_back({pointer, "missing key " + in_quotes(key) + takes, Anchor::kValue, true});
  }
}

void check_into(std::vector<Finding>& findings, json& value, const json& schema, const std::string& pointer) {
  if (const json* type = keyword(schema, "type")) make_integer(value, *type);
  if (const std::string what = problem(value, schema); !what.empty()) {
    const std::string remedy =
        value.is_string() ? did_you_mean(value.get_ref<const std::string&>(), choices(schema)) : "";
    findings.push_back({pointer, what + "; allowed: " + allowed(schema) + example(schema, value) + remedy});
    return;
  }
  if (value.is_object()) check_members(findings, value, schema, pointer);
  if (const json* items = keyword(schema, "items"); items && items->is_object() && value.is_array()) {
    for (std::size_t i = 0; i < value.size() && findings.size() < kFindingsMax; ++i) {
      check_into(findings, value[i], *items, child_pointer(pointer, std::to_string(i)));
    }
  }
}

/// valijson names a place as {"<root>", "[cluster]", "[nodes]"}.
std::string pointer_of(const std::vector<std::string>& context) {
  std::string pointer;
  for (std::size_t i = 1; i < context.size(); ++i) {
    if (context[i].size() >= 2) pointer = child_pointer(pointer, context[i].substr(1, context[i].size() - 2));
  }
  return pointer;
}

}  // namespace

bool fits_type(const json& value, const json& schema) {
  const json* type = keyword(schema, "type");
  return !type || type_fits(value, *type);
}

std::string allowed(const json& schema) {
  if (const auto names = choices(schema); !names.empty()) return listed(names);
  std::string types;
  const json type = schema.value("type", json("any value"));
  if (type == "boolean") return "true, false";
  for (const json& one : type.is_array() ? type : json::array({type})) {
    types += (types.empty() ? "" : " or ") + one.get<std::string>();
  }
  return types + range(schema) + length_range(schema, "minLength", "maxLength", " characters") +
         length_range(schema, "minItems", "maxItems", " items");
}

Finding unknown_key(const json& object_schema, const std::string& pointer, const std::string& key) {
  const std::vector<std::string> known = keys(object_schema);
  std::string hint = foreign_name_hint(object_schema, pointer, key);
  if (hint.empty()) hint = did_you_mean(key, known);
  return {child_pointer(pointer, key), "unknown key " + in_quotes(key) + "; allowed: " + listed(known) + hint,
          Anchor::kKey};
}

std::vector<Finding> check(json& value, const json& schema, const std::string& pointer) {
  std::vector<Finding> findings;
  check_into(findings, value, schema, pointer);
  return findings;
}

const Finding& first_of(const Document& document, const std::vector<Finding>& findings,
                        const std::function<bool(const Finding&)>& typed) {
  const auto rank = [&](const Finding& f) {
    return std::tuple(f.missing, !(typed && typed(f)), document.position(f.pointer, f.anchor));
  };
  return *std::ranges::min_element(findings, {}, rank);
}

json require(const Document& document, const json& schema) {
  json value = document.root();
  if (const auto findings = check(value, schema); !findings.empty()) {
    const Finding& first = first_of(document, findings);
    refuse(document, first.pointer, first.message, first.anchor);
  }
  return value;
}

std::string require_file_name(const Document& document, const std::string& pointer) {
  constexpr std::size_t kMost = 60;
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  const std::string name = document.root().at(json::json_pointer(pointer));
  if (name.empty() || name.size() > kMost || name[0] == '.' || name.find_first_not_of(kPlain) != name.npos) {
    refuse(document, pointer,
           in_quotes(name) + " is a file's name too; allowed: up to 60 letters, digits, '_', '-' and '.'");
  }
  return name;
}

void fill_defaults(json& value, const json& schema) {
  if (!value.is_object() || !schema.contains("properties")) return;
  for (const auto& [key, property] : schema.at("properties").items()) {
    const bool may_be_empty = property.contains("properties") && !property.contains("required");
    if (!value.contains(key) && property.contains("default")) value[key] = property.at("default");
    if (!value.contains(key) && may_be_empty) value[key] = json::object();
    if (value.contains(key)) fill_defaults(value[key], property);
  }
}

std::optional<Finding> judge(const json& value, const json& schema) {
  valijson::Schema parsed;
  valijson::SchemaParser(valijson::SchemaParser::kDraft7)
      .populateSchema(valijson::adapters::NlohmannJsonAdapter(schema), parsed);
  valijson::ValidationResults results;
  valijson::Validator validator;
  if (validator.validate(parsed, valijson::adapters::NlohmannJsonAdapter(value), &results))
    return std::nullopt;
  // The deepest place says most.
  valijson::ValidationResults::Error error, deepest;
  while (results.popError(error)) {
    if (error.context.size() > deepest.context.size()) deepest = error;
  }
  return Finding{pointer_of(deepest.context), "not valid: " + one_line(deepest.description)};
}

}  // namespace verbtwin::scenarios
