// The serializability check: were the committed transactions of all workers equivalent to some serial order,
// and one in which nobody comes before a transaction that had ended when theirs began (strict
// serializability: Papadimitriou, "The Serializability of Concurrent Database Updates", JACM 1979)?
//
// Called once, by one thread, when every worker has stopped. Versions are the order of a record's values: 0
// is the initial state, which nobody wrote, and each write installs the next integer. So the dependencies
// between transactions are known, not guessed, and the check is exact: it accepts a history if and only if
// executing its transactions one after another, in some order that agrees with their times, gives every read
// and every version as recorded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>

#include "protocols/checks/accesses.hpp"
#include "protocols/checks/report.hpp"

namespace verbtwin::protocols {

/// The digest of a record's initial value.
using InitialDigest = std::function<std::uint64_t(RecordId)>;

/// Violations: a version installed twice; a write that does not install the version behind the one its
/// transaction read; a gap in a record's versions; a read of a version that nobody committed; a read whose
/// digest is not the writer's; a transaction that read a record at two versions; each strongly connected
/// component of the dependency graph; and, where there is none, each transaction that comes before one that
/// had ended when it began; and, where there is none on any clock, each component of dependencies and all
/// clocks. Without `initial_digest`, all readers of an initial value must agree with each other. Times are
/// compared among so many histories in a row, of workers that share a clock.
CheckReport check_serializable(const GroupedAccesses& accesses, const InitialDigest& initial_digest = {},
                               std::size_t histories_per_clock = std::numeric_limits<std::size_t>::max());

}  // namespace verbtwin::protocols
