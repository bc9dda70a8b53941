// The log check: is what backups logged exactly what was committed?
//
// Called once, by one thread, when every worker has stopped and no log entry is in flight.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "protocols/checks/accesses.hpp"
#include "protocols/checks/report.hpp"

namespace verbtwin::protocols {

inline constexpr std::string_view kLogsCheck = "backup_logs";

using LoggedParts = std::span<const std::span<const LoggedWrite>>;

/// Behind which nodes a history's writes are logged: the partition of each record, the node of the worker
/// that wrote them (by the history's place in the span), or both.
struct LoggedBehind {
  bool records = true;
  std::function<std::uint32_t(std::size_t worker)> coordinator_of = {};  // null: not behind it
};

/// All that a transaction wrote must stand once, with versions and digests, in the logs of each node that
/// logs any of it, which are (p+1) % nodes ... (p+replicas-1) % nodes for each node p that writes are logged
/// behind; and nothing else in any log. `logged` is what was found in all logs, in any order and any number
/// of parts. 1 <= replicas <= nodes.
CheckReport check_logs(Histories histories, LoggedParts logged, int replicas, int nodes,
                       const LoggedBehind& behind = {});

}  // namespace verbtwin::protocols
