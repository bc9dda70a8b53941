// The serializability check: were the committed transactions of all workers equivalent to some serial order?
//
// Called once, by one thread, when every worker has stopped. Versions are the order of a record's values: 0
// is the initial state, which nobody wrote, and each write installs the next integer. So the dependencies
// between transactions are known, not guessed, and the check is exact: it accepts a history if and only if
// executing its transactions one after another, in some order, gives every read and every version as
// recorded.
#pragma once

#include <cstdint>
#include <functional>

#include "protocols/checks/accesses.hpp"
#include "protocols/checks/report.hpp"

namespace verbtwin::protocols {

/// The digest of a record's initial value.
using InitialDigest = std::function<std::uint64_t(RecordId)>;

/// Violations: a version installed twice; a write that does not install the version behind the one its
/// transaction read; a gap in a record's versions; a read of a version that nobody committed; a read whose
/// digest is not the writer's; a transaction that read a record at two versions; and each strongly connected
/// component of the dependency graph. Without `initial_digest`, all readers of an initial value must agree
/// with each other.
CheckReport check_serializable(const GroupedAccesses& accesses, const InitialDigest& initial_digest = {});

}  // namespace verbtwin::protocols
