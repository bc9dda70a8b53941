// The limit of a run in one sentence: which resource it is, in plain words, and what would move it.
//
// Pure function, callable from any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace verbtwin::tools {

/// `bottleneck` is the result's (tools/RESULT.md). A resource without an entry in the table gets a sentence
/// that only names it. `workload`: its name, for what it waits with.
std::string describe_bottleneck(const nlohmann::json& bottleneck, std::string_view workload = "");

}  // namespace verbtwin::tools
