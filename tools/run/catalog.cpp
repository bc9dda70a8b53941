#include "tools/run/catalog.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "calibration/profile_file.hpp"
#include "protocols/registry.hpp"
#include "scenarios/schema.hpp"

namespace verbtwin::tools {

namespace {

std::vector<scenarios::CatalogEntry> catalog_entries(std::span<const protocols::RegistryEntry> registered) {
  std::vector<scenarios::CatalogEntry> entries;
  for (const protocols::RegistryEntry& entry : registered) {
    entries.push_back({entry.name, entry.description, entry.schema, entry.family});
  }
  return entries;
}

}  // namespace

scenarios::Catalog make_catalog() {
  scenarios::Catalog catalog;
  catalog.protocols = catalog_entries(protocols::protocol_entries());
  catalog.workloads = catalog_entries(protocols::workload_entries());
  for (const calibration::ProfileInfo& profile :
       calibration::list_profiles(calibration::profile_directory())) {
    switch (profile.kind) {
      case calibration::ProfileKind::kNic:
        catalog.nics.push_back(profile.name);
        break;
      case calibration::ProfileKind::kHost:
        catalog.hosts.push_back(profile.name);
        break;
      case calibration::ProfileKind::kSocket:
        catalog.sockets.push_back(profile.name);
        break;
    }
  }
  return catalog;
}

int most_allowed(const std::string& path, std::string_view workload) {
  const std::size_t dot = path.find('.');
  const std::string part = path.substr(0, dot), key = path.substr(dot + 1);
  if (part != "workload")
    return scenarios::scenario_schema().at("properties").at(part).at("properties").at(key).at("maximum");
  const auto entries = protocols::workload_entries();
  const auto entry = std::ranges::find(entries, workload, &protocols::RegistryEntry::name);
  if (entry == entries.end()) throw std::out_of_range("no workload " + std::string(workload));
  return entry->schema.at("properties").at(key).at("maximum");
}

}  // namespace verbtwin::tools
