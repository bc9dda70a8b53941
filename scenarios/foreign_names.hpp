// What YCSB and BenchBase call the fields of a scenario, for who brings a key from there.
//
// Pure functions, callable from any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace verbtwin::scenarios {

/// `; YCSB's "recordcount" is workload.records_per_node here: of each node`, for an unknown key of the object
/// at `pointer` that this schema is of. Nothing for a key of no such program, where the scenario's workload
/// has no such field, or in an object that is no part of a scenario.
std::string foreign_name_hint(const nlohmann::json& object_schema, const std::string& pointer,
                              std::string_view key);

}  // namespace verbtwin::scenarios
