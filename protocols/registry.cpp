#include "protocols/registry.hpp"

#include <vector>

#include "protocols/occ/options.hpp"
#include "protocols/ramp/options.hpp"

namespace verbtwin::protocols {

std::span<const RegistryEntry> protocol_entries() {
  static const std::vector<RegistryEntry> entries = [] {
    std::vector<RegistryEntry> list;
    for (const auto& family : {occ_entries(), ramp_entries()})
      list.insert(list.end(), family.begin(), family.end());
    return list;
  }();
  return entries;
}

}  // namespace verbtwin::protocols
