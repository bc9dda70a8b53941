// The check of what servers hold in the end: of each key the newest version that was committed, whole.
//
// Called once, by one thread, when every worker has stopped. It sees what no read shows: a COMMIT that was
// lost, which readers make good where they come by, and what nobody read any more.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "protocols/checks/ramp_history.hpp"
#include "protocols/checks/report.hpp"

namespace verbtwin::protocols {

/// `last`: of every key with another version than its initial one, in any order. Violations, by key: another
/// timestamp than the largest that a committed transaction wrote it under; another digest. And each of the
/// keys that are still `locked`, by transactions that have ended.
CheckReport check_last_versions(RampHistories histories, std::vector<LastVersion> last,
                                std::span<const std::uint64_t> locked = {});

}  // namespace verbtwin::protocols
