// Files that a scenario names: its profiles, by name or path, and its platform.
//
// Const access to the source and the catalog; looks at the disk. Refuses by ScenarioSource.
#pragma once

#include <cstdint>
#include <string>

#include "scenarios/catalog.hpp"
#include "scenarios/source.hpp"

namespace verbtwin::scenarios {

/// Refuses a path that is no file which can be read.
void require_file(const ScenarioSource& source, const std::string& pointer, const std::string& path);

enum class ProfileField : std::uint8_t { kNic, kHost, kSockets };

/// A profile's name as it is, or its path made usable.
std::string profile_at(const ScenarioSource& source, ProfileField field, const std::string& name,
                       const Catalog& catalog);

}  // namespace verbtwin::scenarios
