// The catalog of this program: every protocol, workload and profile that it has, as scenarios may name them.
//
// Free function, callable from any thread. It is the one place where the registries of protocols/ and the
// profiles of calibration/ meet the schema of scenarios/.
#pragma once

#include "scenarios/catalog.hpp"

namespace verbtwin::tools {

scenarios::Catalog make_catalog();

}  // namespace verbtwin::tools
