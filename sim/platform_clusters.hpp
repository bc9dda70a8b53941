// What SimGrid would not put into words of a platform's <cluster>: how many hosts, and how they are joined.
#pragma once

#include <string_view>

#include "sim/platform_tags.hpp"

namespace verbtwin::sim {

/// Of any element: a list of hosts' numbers.
void check_radical(const PlatformText& xml, std::string_view radical);
void check_topology(const PlatformText& xml, const Tag& tag);
void check_torus(const PlatformText& xml, const Tag& tag);

}  // namespace verbtwin::sim
