// How large the network of a scenario is: what a simulation makes before it begins, used or not.
//
// Pure functions.
#pragma once

#include <cstdint>

#include "scenarios/scenario.hpp"

namespace verbtwin::scenarios {

/// A place, and a cable, takes some 10 us and 2.5 KiB.
inline constexpr std::int64_t kPlacesMost = 65'536;
inline constexpr std::int64_t kCablesMost = 131'072;

struct NetworkSize {
  std::int64_t places = 0;  // for NIC ports
  std::int64_t cables = 0;  // between switches, or the routers of a torus or dragonfly
};
/// Of a topology's fields, whatever is right; none of a platform.
NetworkSize size_of(const Network& network, std::int64_t ports);

/// The field that has most cables come of it.
const char* field_of_cables(const Network& network);

}  // namespace verbtwin::scenarios
