// The catalog of this program: every protocol, workload and profile that it has, as scenarios may name them.
//
// Free functions, callable from any thread. It is the one place where the registries of protocols/ and the
// profiles of calibration/ meet the schema of scenarios/.
#pragma once

#include <string>
#include <string_view>

#include "scenarios/catalog.hpp"

namespace verbtwin::tools {

scenarios::Catalog make_catalog();

/// The largest whole number that a scenario may have at "cluster.nodes", or, with this workload, at
/// "workload.payload_b": what a flag that stands for it allows.
int most_allowed(const std::string& path, std::string_view workload = "");

}  // namespace verbtwin::tools
