// What protocols and workloads there are, by name, with what a scenario may say of each.
//
// Fixed tables, read-only, any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

namespace verbtwin::protocols {

struct RegistryEntry {
  std::string name;
  std::string description;
  nlohmann::json schema;  // {"properties": {...}}: the entry's own parameters, each with its default
  /// "occ" or "ramp": a protocol runs the workloads of its own family. Empty: a micro-benchmark.
  std::string family = "occ";
};

std::span<const RegistryEntry> protocol_entries();
std::span<const RegistryEntry> workload_entries();

}  // namespace verbtwin::protocols
