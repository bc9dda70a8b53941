#include "scenarios/catalog.hpp"

#include <algorithm>

#include "scenarios/schema.hpp"

namespace verbtwin::scenarios {

namespace {

using nlohmann::json;

/// Makes every object that lists its properties refuse others.
void close_objects(json& schema) {
  if (!schema.contains("properties")) return;
  schema["type"] = "object";
  if (!schema.contains("additionalProperties")) schema["additionalProperties"] = false;
  for (json& property : schema["properties"]) close_objects(property);
}

/// The whole object of one entry: its own parameters and "name".
json entry_schema(const CatalogEntry& entry, const json& base) {
  json schema = entry.schema;
  schema["properties"]["name"] = base.at("properties").at("name");
  schema["properties"]["name"]["const"] = entry.name;
  schema["required"].push_back("name");
  schema["description"] = entry.description;
  close_objects(schema);
  return schema;
}

void add_names(json& object, const std::vector<CatalogEntry>& entries) {
  if (entries.empty()) return;
  const json base = object;
  object["properties"]["name"]["enum"] = names_of(entries);
  object.erase("additionalProperties");  // each branch below refuses what it does not know
  for (const CatalogEntry& entry : entries) {
    const json condition = {{"properties", {{"name", {{"const", entry.name}}}}},
                            {"required", json::array({"name"})}};
    object["allOf"].push_back({{"if", condition}, {"then", entry_schema(entry, base)}});
  }
}

void add_profiles(json& property, const std::vector<std::string>& names) {
  property["anyOf"].push_back({{"pattern", "\\.json$"}});
  if (!names.empty()) property["anyOf"].push_back({{"enum", names}});
}

/// What a family has of the fields that not all have.
void choose_family(json& schema, const std::string& family) {
  json& properties = schema["properties"];
  json& check = properties["run"]["properties"]["check"];
  if (family == "ramp") {
    properties["cluster"]["properties"]["replicas"]["default"] = 1;
    check["enum"] = {"read-atomic", "none"};
    check["default"] = "read-atomic";
  } else {
    check["enum"] = {"serializable", "none"};
  }
}

/// Under a micro-benchmark: no protocol, and nothing of what only transactions have.
void leave_out_protocol(json& schema) {
  json& properties = schema["properties"];
  properties.erase("protocol");
  properties["cluster"]["properties"]["replicas"]["default"] = 1;
  json& check = properties["run"]["properties"]["check"];
  check["enum"] = {"none"};
  check["default"] = "none";
}

void require_protocol(json& schema) {
  schema["required"].push_back("protocol");
}

/// The same as a condition, for the schema of every scenario.
void require_protocol_of_transactions(json& schema, const Catalog& catalog) {
  std::vector<std::string> without;
  for (const CatalogEntry& entry : catalog.workloads) {
    if (entry.family.empty()) without.push_back(entry.name);
  }
  if (without.empty()) return require_protocol(schema);
  const json named = {{"properties", {{"name", {{"enum", without}}}}}, {"required", {"name"}}};
  schema["if"] = {{"properties", {{"workload", named}}}};
  schema["then"] = {{"not", {{"required", {"protocol"}}}}};
  schema["else"] = {{"required", {"protocol"}}};
}

/// Puts the parameters of the entry called `name` into `object`.
void choose(json& object, const std::vector<CatalogEntry>& entries, const std::string& name) {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return e.name == name; });
  if (found != entries.end()) {
    object = entry_schema(*found, object);
  } else {
    object["properties"]["name"]["enum"] = names_of(entries);
  }
}

}  // namespace

std::vector<std::string> names_of(const std::vector<CatalogEntry>& entries) {
  std::vector<std::string> names;
  for (const CatalogEntry& entry : entries) names.push_back(entry.name);
  return names;
}

bool needs_protocol(const Catalog& catalog, const std::string& workload) {
  return std::ranges::none_of(catalog.workloads, [&](const CatalogEntry& entry) {
    return entry.name == workload && entry.family.empty();
  });
}

std::string family_of(const std::vector<CatalogEntry>& entries, const std::string& name) {
  const auto found = std::ranges::find(entries, name, &CatalogEntry::name);
  return found == entries.end() ? "" : found->family;
}

std::vector<std::string> names_of_family(const std::vector<CatalogEntry>& entries,
                                         const std::string& family) {
  std::vector<std::string> names;
  for (const CatalogEntry& entry : entries) {
    if (entry.family == family) names.push_back(entry.name);
  }
  return names;
}

json effective_schema(const Catalog& catalog) {
  json schema = scenario_schema();
  json& properties = schema["properties"];
  add_names(properties["protocol"], catalog.protocols);
  add_names(properties["workload"], catalog.workloads);
  require_protocol_of_transactions(schema, catalog);
  add_profiles(properties["cluster"]["properties"]["nic"], catalog.nics);
  add_profiles(properties["cluster"]["properties"]["host"], catalog.hosts);
  std::vector<std::string> sockets = catalog.sockets;
  sockets.emplace_back("");  // the transport's own
  add_profiles(properties["cluster"]["properties"]["sockets"], sockets);
  return schema;
}

json schema_for(const Catalog& catalog, const std::string& protocol, const std::string& workload) {
  json schema = scenario_schema();
  json& properties = schema["properties"];
  choose(properties["workload"], catalog.workloads, workload);
  if (needs_protocol(catalog, workload)) {
    choose(properties["protocol"], catalog.protocols, protocol);
    require_protocol(schema);
    choose_family(schema, family_of(catalog.protocols, protocol));
  } else {
    leave_out_protocol(schema);
  }
  return schema;
}

}  // namespace verbtwin::scenarios
