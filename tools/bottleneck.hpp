// The limit of a run in one sentence: which resource it is, in plain words, and what would move it.
//
// Pure function, callable from any thread.
#pragma once

#include <string>
#include <string_view>

namespace verbtwin::tools {

/// `resource` is the result's bottleneck.resource, `utilization` its share of time in use, 0 to 1. Where
/// nothing is saturated ("round_trips") or conflicts are the limit ("locks"), `utilization` is of the busiest
/// resource, which `busiest` names. "none": nothing ended in the window. A resource without an entry in the
/// table gets a sentence that only names it. `role`: "servers" or "clients", whose resource it is, where
/// nodes have roles.
std::string describe_bottleneck(std::string_view resource, double utilization, std::string_view busiest = "",
                                std::string_view role = "");

}  // namespace verbtwin::tools
