#include "tools/run/catalog.hpp"

#include <span>
#include <vector>

#include "calibration/profile_file.hpp"
#include "protocols/registry.hpp"

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

}  // namespace verbtwin::tools
