// Catalog: the names a scenario may use, and what each protocol and workload takes as parameters.
//
// A value, filled by whoever knows the registries (the command line) and read by the loader; const calls from
// any thread. A name may stand once per list. Parameters are JSON Schema draft-07; the loader refuses a
// parameter that its entry does not describe.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace verbtwin::scenarios {

struct CatalogEntry {
  std::string name;
  std::string description;
  /// What may stand beside "name": {"properties": {"lock_primitive": {"description", "type", "default",
  /// "minimum" | "enum" ...}, ...}, "required": [...]}. Objects may nest. "name" itself is not in it.
  nlohmann::json schema = nlohmann::json::object();
  /// "occ" or "ramp": a protocol runs the workloads of its own family. Empty: a micro-benchmark, a workload
  /// that takes no protocol, no replicas and no isolation check.
  std::string family = "occ";
};

struct Catalog {
  std::vector<CatalogEntry> protocols;
  std::vector<CatalogEntry> workloads;
  std::vector<std::string> nics;   // beside these, any path ending in .json
  std::vector<std::string> hosts;  // likewise
  std::vector<std::string> sockets;
};

std::vector<std::string> names_of(const std::vector<CatalogEntry>& entries);

/// Whether the workload of this name runs under a protocol (any that the catalog does not know does).
bool needs_protocol(const Catalog& catalog, const std::string& workload);

/// The family of the entry of this name; empty where there is none.
std::string family_of(const std::vector<CatalogEntry>& entries, const std::string& name);
/// The names of those of a family.
std::vector<std::string> names_of_family(const std::vector<CatalogEntry>& entries, const std::string& family);

/// What `verbtwin schema` prints: the scenario schema with the catalog's names as enums and, for each
/// protocol and workload, its parameters under if/then. What the loader accepts is what this schema accepts,
/// and a few rules between fields.
nlohmann::json effective_schema(const Catalog& catalog);

/// The schema of one scenario: the parameters of its protocol and workload stand in it without conditions, so
/// that every key has exactly one place that describes it. Where the catalog has no such name, the name is
/// refused and the parameters beside it are left open.
nlohmann::json schema_for(const Catalog& catalog, const std::string& protocol, const std::string& workload);

}  // namespace verbtwin::scenarios
