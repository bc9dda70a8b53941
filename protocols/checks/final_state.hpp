// The final-state checks: does the memory of primaries and backups hold what was committed last?
//
// Called once, by one thread, when every worker has stopped and no transaction is in flight.
#pragma once

#include <cstdint>
#include <functional>

#include "protocols/checks/accesses.hpp"
#include "protocols/checks/report.hpp"

namespace verbtwin::protocols {

/// A record as it lies in its primary's memory.
struct PrimaryRecord {
  std::uint64_t version = 0;
  std::uint64_t digest = 0;
  bool locked = false;
};

/// For every record that was written: the primary must hold its last committed version, with that write's
/// digest, unlocked. `read_primary` is called once for each such record, the records ascending.
CheckReport check_final_state(Histories histories,
                              const std::function<PrimaryRecord(RecordId)>& read_primary);

/// The same for the copies at the backups, when all logs have been applied: `read_copy` is called with each
/// rank from 1 to replicas-1.
CheckReport check_backups(Histories histories, int replicas,
                          const std::function<PrimaryRecord(RecordId, int rank)>& read_copy);

}  // namespace verbtwin::protocols
