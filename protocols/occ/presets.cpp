// The named OCC protocols, as data: the same options with different defaults. Which phase uses which verbs is
// as in Wei et al., OSDI 2018, table 1, and in the systems' own papers: FaRM (SOSP 2015), DrTM+R (EuroSys
// 2016), FaSST (OSDI 2016).
#include <array>

#include "backend/user_error.hpp"
#include "protocols/occ/options.hpp"
#include "protocols/parameters.hpp"
#include "protocols/registry.hpp"

namespace verbtwin::protocols {

namespace {

using nlohmann::json;

using parameters::choice;
using parameters::flag;
using parameters::group;
using parameters::number;
using parameters::value_of;
using parameters::Word;

constexpr auto kExecution = std::to_array<Word<Primitive>>(
    {{"one_sided", Primitive::kOneSided}, {"rpc", Primitive::kRpc}, {"hybrid", Primitive::kHybrid}});
constexpr auto kLock = std::to_array<Word<LockKind>>(
    {{"cas", LockKind::kCas}, {"rpc", LockKind::kRpc}, {"log_record", LockKind::kLogRecord}});
constexpr auto kCheckOrLogging =
    std::to_array<Word<Primitive>>({{"one_sided", Primitive::kOneSided}, {"rpc", Primitive::kRpc}});
constexpr auto kPlacement =
    std::to_array<Word<LogPlacement>>({{"backups", LogPlacement::kBackups},
                                       {"coordinator", LogPlacement::kCoordinator},
                                       {"backups_and_own", LogPlacement::kBackupsAndOwn}});
constexpr auto kCommit = std::to_array<Word<Primitive>>(
    {{"one_sided", Primitive::kOneSided}, {"rpc", Primitive::kRpc}, {"log_record", Primitive::kLogRecord}});
constexpr auto kShared = std::to_array<Word<Shared>>(
    {{"none", Shared::kByNone}, {"coroutine", Shared::kByCoroutine}, {"round", Shared::kByRound}});
constexpr auto kIndex =
    std::to_array<Word<Index>>({{"buckets", Index::kBuckets}, {"neighbourhoods", Index::kNeighbourhoods}});
constexpr auto kCacheStart = std::to_array<Word<CacheStart>>(
    {{"cold", CacheStart::kCold}, {"warm", CacheStart::kWarm}, {"full", CacheStart::kFull}});
constexpr auto kReclaim = std::to_array<Word<Reclaim>>({{"few", Reclaim::kFew}, {"each", Reclaim::kEach}});
constexpr auto kTruncateAfter =
    std::to_array<Word<TruncateAfter>>({{"none", TruncateAfter::kNone},
                                        {"execution", TruncateAfter::kExecution},
                                        {"validation", TruncateAfter::kValidation},
                                        {"commit_without_logging", TruncateAfter::kCommitWithoutLogging}});

/// What named protocols differ in: the defaults of their options.
struct Preset {
  const char* execution = "rpc";
  bool execution_outstanding = false;
  bool execution_lock = false;
  const char* lock = "rpc";
  const char* check = "rpc";
  int check_rpc_above = 0;
  const char* logging = "rpc";
  const char* placement = "backups";
  const char* commit = "rpc";
  bool passive_ack = true;
  int location_cache_mib = 300;
};

json phases_schema(const Preset& preset) {
  const char* outstanding = "independent requests are sent together instead of one after another";
  // For one-sided verbs on in Validation and Commit and off elsewhere (table 1).
  const char* doorbell =
      "one-sided requests to one queue pair share a doorbell; calls do by protocol.rpc.request_batching";
  json phases;
  phases["execution"] = group(
      "fetch the records",
      {{"primitive", choice(preset.execution, kExecution,
                            "READ, RPC, or READ where the location is cached and RPC where not")},
       {"outstanding", flag(preset.execution_outstanding, outstanding)},
       {"doorbell_batching", flag(false, doorbell)},
       {"lock", flag(preset.execution_lock, "the RPC that fetches a record to be written locks it too")}});
  phases["validation"] = group(
      "lock the write set, check the read set",
      {{"lock",
        choice(preset.lock, kLock,
               "lock by the NIC's compare-and-swap, by the primary's CPU, or by it for all records of "
               "a LOCK record in its log")},
       {"check", choice(preset.check, kCheckOrLogging, "check versions by READ or by RPC")},
       {"check_rpc_above",
        number(preset.check_rpc_above, 0, 64,
               "check by RPC where more records than this were read of one primary; 0: as `check` says")},
       {"outstanding", flag(true, outstanding)},
       {"doorbell_batching",
        flag(
            true,
            "requests to one destination share a doorbell; where a transaction only reads, they never do")}});
  phases["logging"] =
      group("write the updates to the logs",
            {{"primitive", choice(preset.logging, kCheckOrLogging, "WRITE into the log, or RPC")},
             {"placement", choice(preset.placement, kPlacement,
                                  "in the logs of each record's backups; of the coordinator's, the backups "
                                  "being updated by RPC before the commit; or of each record's backups and "
                                  "of the coordinator's, whether it writes there or not")},
             {"outstanding", flag(true, outstanding)},
             {"doorbell_batching", flag(false, doorbell)}});
  phases["commit"] = group(
      "install the updates at the primaries and unlock",
      {{"primitive", choice(preset.commit, kCommit,
                            "WRITE value and lock, RPC, or a COMMIT-PRIMARY record that has the primary "
                            "install its LOCK record")},
       {"outstanding", flag(true, outstanding)},
       {"doorbell_batching", flag(true, doorbell)},
       {"passive_ack",
        flag(preset.passive_ack, "nobody waits for the answer; with log records: for a COMMIT-PRIMARY")}});
  return phases;
}

json options_schema(const Preset& preset) {
  json rpc = group(
      "remote procedure calls over UD SEND/RECV",
      {{"coalescing", choice("coroutine", kShared,
                             "which messages to one destination share a packet: none; what a coroutine "
                             "writes before it waits, and the answers to one packet (FaSST); or all of a "
                             "worker's round")},
       {"request_batching",
        choice("coroutine", kShared,
               "which requests share a doorbell; none: nor a packet; round: with the answers, "
               "too")},
       {"response_batching",
        flag(true,
             "responses that are ready together share a doorbell; off: also no packet, since "
             "each is posted as soon as it is written")}});
  json cache =
      group("locations of remote records, one cache per node",
            {{"mib", number(preset.location_cache_mib, 0, 1 << 20, "size")},
             {"start", choice("warm", kCacheStart,
                              "empty; as after long use; or holding everything, whatever its size (artifact "
                              "compatibility)")}});
  json log = group("ring logs, one at each node for each worker of the cluster",
                   {{"ring_kib", number(0, 0, 1 << 16,
                                        "size of one sender's log at one node; 0: 16, or twice what an entry "
                                        "of each coroutine takes where that is more")},
                    {"reclaim", choice("few", kReclaim,
                                       "who has backups apply what is logged: a worker, a few transactions' "
                                       "entries by one call; or each transaction, by a call that repeats "
                                       "its entry before its Commit, waited for as those of Commit are")}});
  json artifact = group(
      "what published artifacts do and papers do not say, to compare with their curves; runs with these fail "
      "the isolation checks, as they should",
      {{"conflicts_commit",
        flag(false, "a record found locked or changed stops nobody: the transaction goes on and counts")},
       {"versions_stay", flag(false, "no one-sided commit bumps a version but a record's first")}});
  return {
      {"properties",
       {{"phases", group("primitive and optimisations of each phase", phases_schema(preset))},
        {"rpc", std::move(rpc)},
        {"index", choice("buckets", kIndex,
                         "what a READ of a record finds whose location is not cached: a bucket of 128 B, "
                         "and another READ the record; or the record among eight neighbours (FaRM's own)")},
        {"location_cache", std::move(cache)},
        {"log", std::move(log)},
        {"truncate_after",
         choice("none", kTruncateAfter,
                "end every transaction behind this phase, or leave its logging out; it counts as "
                "committed")},
        {"artifact", std::move(artifact)}}}};
}

const Preset kDrtmh{.execution = "hybrid",
                    .execution_outstanding = true,
                    .lock = "cas",
                    .check = "one_sided",
                    .logging = "one_sided",
                    .commit = "one_sided"};
const Preset kDrtmr{.execution = "one_sided",
                    .lock = "cas",
                    .check = "one_sided",
                    .logging = "one_sided",
                    .commit = "one_sided"};
// As the OSDI 2018 comparison runs it: on that hash index (protocol.index has its own), without the location
// cache.
const Preset kFarm{.execution = "one_sided",
                   .lock = "log_record",
                   .check = "one_sided",
                   .check_rpc_above = 4,
                   .logging = "one_sided",
                   .commit = "log_record",
                   .passive_ack = false,
                   .location_cache_mib = 0};
const Preset kFasst{
    .execution_outstanding = true, .execution_lock = true, .placement = "coordinator", .passive_ack = false};
const Preset kFasstHybrid{.execution_outstanding = true,
                          .execution_lock = true,
                          .check = "one_sided",
                          .logging = "one_sided",
                          .placement = "coordinator",
                          .passive_ack = false};
const Preset kFasstOcc;

}  // namespace

std::span<const RegistryEntry> occ_entries() {
  static const auto entries = std::to_array<RegistryEntry>(
      {{"drtmh", "DrTM+H: READ or RPC by location cache, CAS locks, one-sided logs and commits (OSDI 2018)",
        options_schema(kDrtmh)},
       {"drtmr", "DrTM+R: one-sided throughout, CAS locks, location cache (EuroSys 2016)",
        options_schema(kDrtmr)},
       {"farm", "FaRM: READs, LOCK records in the primaries' logs, one-sided checks and logs (SOSP 2015)",
        options_schema(kFarm)},
       {"fasst", "FaSST: RPC throughout, locks when fetching, the coordinator's log (OSDI 2016)",
        options_schema(kFasst)},
       {"fasst-hybrid", "FaSST with one-sided checks and logs", options_schema(kFasstHybrid)},
       {"fasst-occ", "FaSST-OCC: the same four phases, each by RPC over UD (OSDI 2016, 2018)",
        options_schema(kFasstOcc)}});
  return entries;
}

void refuse_wrong_combinations(const OccOptions& o) {
  const auto refuse = [](const char* field, const char* reason) {
    throw UserError(std::string("/protocol/phases/") + field, reason);
  };
  if (o.execution.lock && o.execution.primitive != Primitive::kRpc) {
    refuse("execution/lock",
           "a READ cannot lock what it fetches; allowed: false, or execution.primitive \"rpc\"");
  }
  if (o.execution.lock && o.validation.lock == LockKind::kCas) {
    refuse("validation/lock",
           "execution.lock locks with the primary's CPU, and a CPU's atomics and a NIC's are not atomic with "
           "each other on one word (IBV_ATOMIC_HCA); allowed: \"rpc\"");
  }
  if (o.execution.lock && o.validation.lock == LockKind::kLogRecord) {
    refuse("validation/lock", "LOCK records lock what execution.lock has locked already; allowed: \"rpc\"");
  }
  const auto refuse_each = [&](const char* reason) {
    if (o.reclaim == Reclaim::kEach) throw UserError("/protocol/log/reclaim", reason);
  };
  if (o.validation.lock == LockKind::kLogRecord)
    refuse_each("every record in these logs says how far its log may be applied; allowed: \"few\"");
  if (o.logging.placement == LogPlacement::kCoordinator)
    refuse_each("the coordinator's log is kept, not applied: backups are updated by calls; allowed: \"few\"");
  const bool locks_by_record = o.validation.lock == LockKind::kLogRecord;
  const bool commits_by_record = o.commit.primitive == Primitive::kLogRecord;
  if (locks_by_record && !commits_by_record) {
    refuse("commit/primitive",
           "validation.lock \"log_record\" (farm's default) leaves LOCK records in the primaries' logs until "
           "these are told to install them; allowed with it: \"log_record\"");
  }
  if (commits_by_record && !locks_by_record) {
    refuse("commit/primitive",
           "\"log_record\" (farm's default) has the primaries install LOCK records, and with this "
           "validation.lock there are none; allowed: \"one_sided\", \"rpc\", or validation.lock "
           "\"log_record\"");
  }
}

OccOptions OccOptions::from_json(const json& protocol) {
  OccOptions o;
  const json& phases = protocol.at("phases");
  const json& execution = phases.at("execution");
  o.execution = {.primitive = value_of(kExecution, execution.at("primitive")),
                 .outstanding = execution.at("outstanding"),
                 .doorbell_batching = execution.at("doorbell_batching"),
                 .lock = execution.at("lock")};
  const json& validation = phases.at("validation");
  o.validation = {.lock = value_of(kLock, validation.at("lock")),
                  .check = value_of(kCheckOrLogging, validation.at("check")),
                  .outstanding = validation.at("outstanding"),
                  .doorbell_batching = validation.at("doorbell_batching"),
                  .check_rpc_above = validation.at("check_rpc_above")};
  const json& logging = phases.at("logging");
  o.logging = {.primitive = value_of(kCheckOrLogging, logging.at("primitive")),
               .outstanding = logging.at("outstanding"),
               .doorbell_batching = logging.at("doorbell_batching"),
               .placement = value_of(kPlacement, logging.at("placement"))};
  const json& commit = phases.at("commit");
  o.commit = {.primitive = value_of(kCommit, commit.at("primitive")),
              .outstanding = commit.at("outstanding"),
              .doorbell_batching = commit.at("doorbell_batching"),
              .passive_ack = commit.at("passive_ack")};
  const json& rpc = protocol.at("rpc");
  o.rpc.coalescing = value_of(kShared, rpc.at("coalescing"));
  o.rpc.request_batching = value_of(kShared, rpc.at("request_batching"));
  o.rpc.response_batching = rpc.at("response_batching");
  o.index = value_of(kIndex, protocol.at("index"));
  const json& cache = protocol.at("location_cache");
  o.location_cache_b = cache.at("mib").get<std::uint64_t>() << 20;
  o.location_cache_start = value_of(kCacheStart, cache.at("start"));
  const json& log = protocol.at("log");
  o.log_ring_b = log.at("ring_kib").get<std::uint32_t>() << 10;
  o.reclaim = value_of(kReclaim, log.at("reclaim"));
  o.truncate_after = value_of(kTruncateAfter, protocol.at("truncate_after"));
  const json& artifact = protocol.at("artifact");
  o.artifact = {.conflicts_commit = artifact.at("conflicts_commit"),
                .versions_stay = artifact.at("versions_stay")};
  refuse_wrong_combinations(o);
  return o;
}

}  // namespace verbtwin::protocols
