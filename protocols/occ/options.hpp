// OccOptions: an OCC protocol as data: which primitive each phase uses and which optimisations are on. A
// named protocol is a preset of these; a scenario may override any of them, and combinations that would be
// wrong are refused with the reason.
//
// A value; read-only during a run.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "protocols/registry.hpp"
#include "protocols/rpc/ud_rpc.hpp"
#include "protocols/store/layout.hpp"
#include "protocols/store/location_cache.hpp"

namespace verbtwin::protocols {

/// How a phase reaches a remote record. kHybrid (Execution): one-sided where its location is cached, else by
/// RPC. kLogRecord (Commit): the primary's CPU installs what the LOCK record in its log holds.
enum class Primitive : std::uint8_t { kOneSided, kRpc, kHybrid, kLogRecord };

/// Who locks: the NIC (CAS), the primary's CPU record by record (RPC), or the primary's CPU for all records
/// of a LOCK record that goes into its log (FaRM, SOSP 2015, section 4).
enum class LockKind : std::uint8_t { kCas, kRpc, kLogRecord };

/// Whose log holds a transaction: the backups of each record's partition, or the log replicas of the
/// coordinator, after which the backups are updated by RPC (FaSST, OSDI 2016, section 5); or the backups of
/// each record's partition and those of the coordinator's own, whether it writes there or not (the program of
/// Wei et al., OSDI 2018: log_remote() of src/rtx/occ.cc in SJTU-IPADS/drtmh).
enum class LogPlacement : std::uint8_t { kBackups, kCoordinator, kBackupsAndOwn };

/// Who tells backups that they may apply what their logs hold: a worker, of several transactions at once when
/// a log holds a few entries; or every transaction as soon as it is logged, before its Commit, by a call to
/// each backup that repeats the entry and is waited for where those of Commit are (the program of Wei et al.,
/// OSDI 2018: log_remote() of src/rtx/occ.cc and log_ack() of logger.hpp in SJTU-IPADS/drtmh).
enum class Reclaim : std::uint8_t { kFew, kEach };

/// What a look-up by READ finds: the bucket of an index, as in DrTM-KV, and then the record; or at once the
/// record, among neighbours of which one is the key's (FaRM, NSDI 2014, section 4: hopscotch hashing).
enum class Index : std::uint8_t { kBuckets, kNeighbourhoods };

/// Where a transaction ends, to study phases in isolation. It counts as committed and leaves no lock behind.
enum class TruncateAfter : std::uint8_t { kNone, kExecution, kValidation, kCommitWithoutLogging };

struct OccOptions {
  struct Execution {
    Primitive primitive = Primitive::kHybrid;
    bool outstanding = true;  // fetch independent records together (speculative execution)
    bool doorbell_batching = true;
    bool lock = false;  // the RPC that fetches a record to be written locks it too (FaSST)
  } execution;
  struct Validation {
    LockKind lock = LockKind::kCas;
    Primitive check = Primitive::kOneSided;
    bool outstanding = true;
    bool doorbell_batching = true;
    /// Records of one primary: beyond so many, one-sided checks go by RPC; 0: never.
    std::uint32_t check_rpc_above = 0;
  } validation;
  struct Logging {
    Primitive primitive = Primitive::kOneSided;
    bool outstanding = true;
    bool doorbell_batching = true;
    LogPlacement placement = LogPlacement::kBackups;
  } logging;
  struct Commit {
    Primitive primitive = Primitive::kOneSided;
    bool outstanding = true;
    bool doorbell_batching = true;
    bool passive_ack = true;
  } commit;
  RpcOptions rpc;
  Index index = Index::kBuckets;
  std::uint64_t location_cache_b = 300ULL << 20;
  CacheStart location_cache_start = CacheStart::kWarm;
  std::uint32_t log_ring_b = 16384;
  Reclaim reclaim = Reclaim::kFew;
  TruncateAfter truncate_after = TruncateAfter::kNone;

  /// What published artifacts do and papers do not say: to compare with their curves. The third of the four
  /// known is CacheStart::kFull, the fourth SmallBank's inverted hot set.
  struct Artifact {
    bool conflicts_commit = false;  // a record found locked or changed stops nobody
    bool versions_stay = false;     // no one-sided commit bumps a version but a record's first
  } artifact;

  /// Of logs (LogSpec). Not in any scenario: tests whose messages may not depend on time do without reclaims.
  std::uint32_t reclaim_entries = 8;

  /// Deliberate faults, for tests of the checks. Not in any scenario.
  struct Sabotage {
    bool skip_lock = false;
    bool skip_validation = false;
    bool keep_locks = false;  // whoever aborts does not give its locks back
    bool skip_version_bump = false;
    bool unlock_first = false;  // WRITEs of the commit the other way round
    bool skip_log = false;
    bool garble_log = false;  // logs hold other values of what their node does not back up
    bool accept_torn = false;
    bool skip_backup_update = false;      // coordinator logs: backups of its own records keep theirs
    bool read_backup = false;             // a record read alone comes from the copy that this node backs up
    bool truncate_before_commit = false;  // logs are applied before the transaction is certain
    bool commit_before_logged = false;    // primaries install what no backup has yet
  } sabotage;

  /// From the resolved `protocol` object of a scenario. Throws UserError where the options contradict each
  /// other.
  static OccOptions from_json(const nlohmann::json& protocol);
};

std::span<const RegistryEntry> occ_entries();

/// Throws UserError, with the pointer into the scenario, for a combination that cannot be right.
void refuse_wrong_combinations(const OccOptions& options);

}  // namespace verbtwin::protocols
