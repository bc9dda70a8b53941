// The read-atomic check: did every transaction see all or nothing of every other one?
//
// Called once, by one thread, when every worker has stopped. Read Atomic isolation is that of Bailis et al.,
// "Scalable Atomic Visibility with RAMP Transactions" (SIGMOD 2014), section 3.1: no fractured reads, no
// dirty ones. Linear in the history but for a sort: a transaction costs the versions it read, times the keys
// that were written with them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "protocols/checks/history.hpp"
#include "protocols/checks/ramp_history.hpp"
#include "protocols/checks/report.hpp"

namespace verbtwin::protocols {

/// The digest of a key's initial value.
using InitialKeyDigest = std::function<std::uint64_t(std::uint64_t key)>;

/// Violations, of committed transactions:
/// * a fractured read: a version of one key, and of another key that was written with it an older version;
/// * a read of a version that nobody committed, that was aborted, or that its transaction did not write;
/// * a read whose digest is not the writer's. Of an initial value: not `initial_digest`, or without that,
///   not what other readers saw;
/// * a read older than what its server named as committed;
/// * a client that goes back: lastCommit[key] below what the same client was told, or committed, earlier.
///   (The versions returned may go back: a second round may fetch one that a server is yet to commit, and
///   the client's next read of that key alone may come before it does.)
/// * two transactions that wrote under one timestamp, or under 0.
///
/// Allowed by this level, and counted: `lost_updates`, transactions that read a version and wrote its key
/// though another one had done the same; `write_skews`, pairs that each overwrote what the other one read,
/// none of it lost updates. Of overwriters, the immediate one counts.
CheckReport check_read_atomic(RampHistories histories, const InitialKeyDigest& initial_digest = {});

/// The same histories with committed transactions alone and each key's versions numbered 1, 2, ... by
/// timestamp, for check_serializable(). A version that nobody committed gets a number that nobody wrote. Only
/// for protocols whose timestamps are the order in which a key's versions replaced each other (S2PL).
std::vector<History> number_versions(RampHistories histories);

}  // namespace verbtwin::protocols
