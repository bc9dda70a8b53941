// The final-state checks: does the memory of primaries and backups hold what was committed last?
//
// Called once, by one thread, when every worker has stopped and no transaction is in flight.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "protocols/checks/accesses.hpp"
#include "protocols/checks/report.hpp"

namespace verbtwin::protocols {

/// A copy of a record as it lies in its holder's memory.
struct RecordCopy {
  std::uint64_t version = 0;
  std::uint64_t digest = 0;
  bool locked = false;
};

/// Fills in the copies of some records, by replica rank: those of the first record, those of the second, ...
/// Many at a time, so that whoever looks them up need not wait for one after the other.
using ReadCopies = std::function<void(std::span<const RecordId> records, std::span<RecordCopy> copies)>;

struct FinalStateReports {
  CheckReport final_state, backups;
};

/// For every record that was written, or was meant to be by an attempt that was aborted: the primary must
/// hold its last committed version, with that write's digest, unlocked (`final_state`), and so must each of
/// the other replicas when all logs have been applied (`backups`). `read` is asked once for each such record,
/// the records ascending.
FinalStateReports check_final_state(const GroupedAccesses& accesses, int replicas, const ReadCopies& read);

}  // namespace verbtwin::protocols
