// What SimGrid would not put into words of a platform's <cluster>: how many hosts, and how they are joined.
// Pure functions.
#pragma once

#include <optional>
#include <string_view>

#include "sim/platform_tags.hpp"

namespace verbtwin::sim {

/// A number from 0, as SimGrid reads it; `text` is without it then. None: it is no number, or too large.
std::optional<int> take_number(std::string_view& text);

/// Of any element: a list of hosts' numbers. Both throw UserError.
void check_radical(const PlatformText& xml, std::string_view radical);
void check_topology(const PlatformText& xml, const Tag& tag);

}  // namespace verbtwin::sim
