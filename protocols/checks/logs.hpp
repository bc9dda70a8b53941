// The log check: is what backups logged exactly what was committed?
//
// Called once, by one thread, when every worker has stopped and no log entry is in flight.
#pragma once

#include <span>

#include "protocols/checks/accesses.hpp"
#include "protocols/checks/report.hpp"

namespace verbtwin::protocols {

/// A committed write of partition p must stand once, with its version and digest, in the log of each of the
/// nodes (p+1) % nodes ... (p+replicas-1) % nodes, and nothing else in any log. `logged` is what was found in
/// all logs, in any order. 1 <= replicas <= nodes.
CheckReport check_logs(Histories histories, std::span<const LoggedWrite> logged, int replicas, int nodes);

}  // namespace verbtwin::protocols
