// What only FaSST's options do: a fetch locks what is to be written, the log is at the coordinator's
// replicas, and the backups of the records are brought up to date before the locks go.
#include <gtest/gtest.h>

#include "protocols/checks/report.hpp"
#include "protocols/occ/database_for_test.hpp"

namespace verbtwin::protocols {
namespace {

OccOptions fasst() {
  OccOptions o;
  o.execution = {Primitive::kRpc, true, true, /*lock=*/true};
  o.validation = {LockKind::kRpc, Primitive::kRpc, true, true};
  o.logging = {Primitive::kRpc, true, true, LogPlacement::kCoordinator};
  o.commit = {Primitive::kRpc, true, true, /*passive_ack=*/false};
  o.location_cache_start = CacheStart::kCold;
  o.rpc.packet_b = 1024;
  return o;
}

// Seen from node 0: its own, two remote ones, one whose backup node 0 is.
const RecordId kRecords[] = {RecordId::make(kSmall, 0, 3), RecordId::make(kSmall, 1, 4),
                             RecordId::make(kLarge, 2, 5), RecordId::make(kLarge, 3, 6)};

/// Who stops at the first record that is locked does not know that later fetches have locked theirs.
TEST(FasstOptions, AFetchThatFindsALockFreesWhatTheOthersLocked) {
  Database db(fasst());
  for (const RecordId locked : kRecords) {
    const std::uint64_t another = owner_word(3, 3, 3);
    store_word(db.record(locked), another);
    Attempt a{.reads = {}, .writes = {std::begin(kRecords), std::end(kRecords)}, .seen = {}};
    db.node(0).worker.spawn(attempt(db.transaction(0), a));
    db.run();
    EXPECT_FALSE(a.committed);
    EXPECT_EQ(a.reason, AbortReason::kRecordLocked);
    for (const RecordId id : kRecords) {
      EXPECT_EQ(load_word(db.record(id)), id == locked ? another : 0) << to_string(id);
    }
    store_word(db.record(locked), 0);
  }
}

TEST(FasstOptions, AFetchLocksWhatIsToBeWrittenAndNothingElse) {
  Database db(fasst());
  Attempt a{.reads = {kRecords[0], kRecords[1]}, .writes = {kRecords[2], kRecords[3]}, .seen = {}};
  db.node(0).worker.spawn(attempt(db.transaction(0), a, [&] {
    for (const RecordId id : a.reads) EXPECT_EQ(load_word(db.record(id)), 0U) << to_string(id);
    for (const RecordId id : a.writes)
      EXPECT_EQ(load_word(db.record(id)), owner_word(0, 0, 0)) << to_string(id);
  }));
  db.run();
  EXPECT_TRUE(a.committed);
  for (const RecordId id : kRecords) EXPECT_EQ(load_word(db.record(id)), 0U) << to_string(id);
}

/// Its locks are there since it fetched: a Validation that has nothing to do counts, as one that took no
/// time.
TEST(FasstOptions, WhoWritesAllThatItFetchesIsValidatedInNoTime) {
  Database db(fasst());
  Attempt a{.reads = {}, .writes = {kRecords[2], kRecords[3]}, .seen = {}};
  db.node(0).worker.spawn(attempt(db.transaction(0), a));
  db.run();
  ASSERT_TRUE(a.committed);
  EXPECT_EQ(db.transaction(0).phase_ps(Phase::kValidation), 0);
}

/// Also the copy at the coordinator itself, to which it sends no message.
TEST(FasstOptions, EveryBackupIsUpToDateWhenTheTransactionEnds) {
  Database db(fasst());
  Attempt a{.reads = {}, .writes = {std::begin(kRecords), std::end(kRecords)}, .add = 10, .seen = {}};
  db.node(0).worker.spawn(attempt(db.transaction(0), a));
  db.run();
  ASSERT_TRUE(a.committed);
  for (const RecordId id : kRecords) {
    EXPECT_EQ(load_word(db.record(id, 1) + 8), 1U) << to_string(id);
    EXPECT_EQ(load_word(db.record(id, 1) + kRecordHeaderBytes), 1010 + id.key()) << to_string(id);
  }
}

Task<void> commit_often(Transaction& tx, RecordId id, int times, int& committed) {
  while (committed < times) {
    Attempt a{.reads = {}, .writes = {id}, .seen = {}};
    auto one = attempt(tx, a);
    co_await one;
    committed += a.committed ? 1 : 0;
  }
}

/// The log is not applied: it is all that there is of a transaction until the backups have been told.
TEST(FasstOptions, ALogEntryIsKeptUntilTheBackupsHaveIt) {
  constexpr int kMoreThanTheLogHolds = 100;
  Database db(fasst());
  Attempt stalled{
      .reads = {}, .writes = {RecordId::make(kSmall, 2, 1)}, .seen = {}};  // its backup is at node 3
  db.node(0).worker.spawn(attempt(db.transaction(0, 0), stalled));
  int committed = 0;
  db.node(0).worker.spawn(
      commit_often(db.transaction(0, 1), RecordId::make(kSmall, 1, 2), kMoreThanTheLogHolds, committed));
  for (int i = 0; i < 20'000; ++i)
    for (const int node : {0, 1, 2}) db.node(node).worker.step();
  EXPECT_FALSE(stalled.committed);
  EXPECT_GT(committed, 0);
  EXPECT_LT(committed, kMoreThanTheLogHolds) << "the log at node 1 is full";
  db.step(20'000);
  EXPECT_TRUE(stalled.committed);
  EXPECT_EQ(committed, kMoreThanTheLogHolds);
}

}  // namespace
}  // namespace verbtwin::protocols
