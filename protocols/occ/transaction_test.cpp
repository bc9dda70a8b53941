#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "protocols/checks/report.hpp"
#include "protocols/occ/database_for_test.hpp"
#include "protocols/occ/messages.hpp"

namespace verbtwin::protocols {
namespace {

struct Case {
  const char* name;
  Primitive execution;
  LockKind lock;
  Primitive others;  // check, logging, commit
  bool passive_ack = true;
  bool outstanding = true;
  Index index = Index::kBuckets;
};

void PrintTo(const Case& c, std::ostream* os) {
  *os << c.name;
}

OccOptions options_of(const Case& c) {
  OccOptions o;
  o.execution = {c.execution, c.outstanding, true};
  o.validation = {c.lock, c.others, c.outstanding, true};
  o.logging = {c.others, c.outstanding, true};
  const bool lock_records = c.lock == LockKind::kLogRecord;
  o.commit = {lock_records ? Primitive::kLogRecord : c.others, c.outstanding, true, c.passive_ack};
  o.index = c.index;
  o.location_cache_start = CacheStart::kCold;
  o.rpc.packet_b = 1024;
  return o;
}

class TransactionTest : public testing::TestWithParam<Case> {
 protected:
  Attempt run(int node, Attempt a, std::function<void()> interfere = {}) {
    db.node(node).worker.spawn(attempt(db.transaction(node), a, std::move(interfere)));
    db.run();
    EXPECT_EQ(db.node(node).worker.unfinished(), 0U);
    return a;
  }
  std::uint64_t lock_of(RecordId id) { return load_word(db.record(id)); }
  std::uint64_t version_of(RecordId id) { return load_word(db.record(id) + 8); }
  std::uint64_t value_of(RecordId id) { return load_word(db.record(id) + kRecordHeaderBytes); }

  Database db{options_of(GetParam())};
  // Seen from node 0: its own, two remote ones, one whose backup node 0 is.
  const RecordId own = RecordId::make(kSmall, 0, 3);
  const RecordId remote = RecordId::make(kSmall, 1, 4);
  const RecordId large = RecordId::make(kLarge, 2, 5);
  const RecordId backed_up_here = RecordId::make(kLarge, 3, 6);
  const std::vector<RecordId> all{own, remote, large, backed_up_here};
};

TEST_P(TransactionTest, ReadsInitialValuesOfUntouchedRecords) {
  const Attempt a = run(0, {.reads = all, .writes = {}, .seen = {}});
  EXPECT_TRUE(a.committed);
  EXPECT_EQ(a.seen, (std::vector<std::uint64_t>{1003, 1004, 1005, 1006}));
  for (const RecordId id : all) EXPECT_EQ(version_of(id), 0U) << "reading wrote";
}

TEST_P(TransactionTest, InstallsItsWritesAndUnlocks) {
  const Attempt a = run(0, {.reads = {}, .writes = all, .add = 10, .seen = {}});
  ASSERT_TRUE(a.committed);
  for (const RecordId id : all) {
    EXPECT_EQ(lock_of(id), 0U) << to_string(id);
    EXPECT_EQ(version_of(id), 1U) << to_string(id);
    EXPECT_EQ(value_of(id), 1010 + id.key()) << to_string(id);
  }
  for (const RecordId id : {large, backed_up_here}) {
    const RecordLayout layout(100);
    EXPECT_EQ(inspect(layout, db.record(id)).state, RecordState::kStable);
    EXPECT_EQ(db.record(id)[kRecordHeaderBytes + 99], std::byte{7}) << "the rest of the value is what it was";
  }
}

/// A workload may still call its transaction off when it has committed: others hold the locks by then.
TEST_P(TransactionTest, ThereIsNothingToAbandonBehindACommit) {
  ASSERT_TRUE(run(0, {.reads = {}, .writes = all, .add = 10, .seen = {}}).committed);
  for (const RecordId id : all) store_word(db.record(id), 77);
  db.transaction(0).abandon();
  db.run();
  for (const RecordId id : all) EXPECT_EQ(lock_of(id), 77U) << to_string(id);
}

/// Results leave out who had no such phase, by its time.
TEST_P(TransactionTest, APhaseThatThereWasNotTookNoTime) {
  const Transaction& tx = db.transaction(0);
  static_cast<FakeCpu&>(db.node(0).worker.cpu()).per_look_ps = 7;
  ASSERT_TRUE(run(0, {.reads = {remote}, .writes = {}, .seen = {}}).committed);
  EXPECT_GT(tx.phase_ps(Phase::kExecution), 0);
  EXPECT_EQ(tx.phase_ps(Phase::kValidation), kNoPhase) << "one record's fetch is its own snapshot";
  ASSERT_TRUE(run(0, {.reads = all, .writes = {}, .seen = {}}).committed);
  EXPECT_GT(tx.phase_ps(Phase::kValidation), 0);
  EXPECT_EQ(tx.phase_ps(Phase::kLogging), kNoPhase);
  EXPECT_EQ(tx.phase_ps(Phase::kCommit), kNoPhase);
  ASSERT_TRUE(run(0, {.reads = {}, .writes = {remote}, .seen = {}}).committed);
  for (const Phase phase : {Phase::kExecution, Phase::kValidation, Phase::kLogging, Phase::kCommit})
    EXPECT_GT(tx.phase_ps(phase), 0) << to_string(phase);
}

TEST_P(TransactionTest, AnotherNodeSeesWhatWasCommitted) {
  for (std::uint64_t times = 1; times <= 5; ++times) {
    for (int node = 0; node < kNodes; ++node) {
      const Attempt a = run(node, {.reads = {}, .writes = all, .seen = {}});
      ASSERT_TRUE(a.committed);
      EXPECT_EQ(a.seen[2], 1005 + (times - 1) * kNodes + static_cast<std::uint64_t>(node));
    }
  }
  EXPECT_EQ(version_of(remote), 5U * kNodes);
}

TEST_P(TransactionTest, BackupsLogEveryWrite) {
  ASSERT_TRUE(run(0, {.reads = {}, .writes = all, .add = 10, .seen = {}}).committed);
  for (const RecordId id : all) {
    const int backup = (static_cast<int>(id.partition()) + 1) % kNodes;
    NodeStore& store = db.node(backup).store;
    store.drain_logs();
    const auto logged = std::ranges::count_if(store.logged().all(), [&](const LoggedWrite& w) {
      return w.write.record == id && w.write.version == 1;
    });
    EXPECT_EQ(logged, 1) << to_string(id);
    EXPECT_EQ(load_word(db.record(id, 1) + 8), 1U) << "and apply it to their copy";
    EXPECT_EQ(load_word(db.record(id, 1) + kRecordHeaderBytes), 1010 + id.key());
  }
}

TEST_P(TransactionTest, EachBackupsLogTellsTheWholeTransaction) {
  ASSERT_TRUE(run(0, {.reads = {}, .writes = all, .add = 10, .seen = {}}).committed);
  for (int backup = 0; backup < kNodes; ++backup) {
    const NodeStore& store = db.node(backup).store;
    LogReader reader;
    std::vector<RecordId> logged;
    while (const auto entry = reader.take(store.layout().log(), store.ring(0, 0))) {
      const std::span<const std::byte> body = log_entry_body(entry->data());
      const LogKind kind = log_head(body).kind;
      if (kind != LogKind::kBackup && kind != LogKind::kCommitBackup) continue;
      for_each_logged(log_writes(body), [&](const LogRecord& record, std::span<const std::byte> value) {
        logged.push_back(RecordId{record.record});
        EXPECT_EQ(load_word(value.data()), 1010 + logged.back().key());
      });
    }
    EXPECT_THAT(logged, testing::ElementsAreArray(all)) << "in the log of node " << backup;
  }
}

TEST_P(TransactionTest, ALockedRecordAborts) {
  for (const RecordId id : all) {
    store_word(db.record(id), owner_word(3, 3, 3));
    const Attempt a = run(0, {.reads = {}, .writes = all, .seen = {}});
    EXPECT_FALSE(a.committed);
    EXPECT_EQ(a.reason, AbortReason::kRecordLocked);
    if (id == remote) {
      EXPECT_EQ(db.transaction(0).describe(),
                "execution, record_locked: 0/1/4 of node 1 locked by node 3 thread 3 coroutine 3");
    }
    EXPECT_EQ(lock_of(id), owner_word(3, 3, 3)) << "another's lock is not ours to free";
    store_word(db.record(id), 0);
  }
  for (const RecordId id : all) EXPECT_EQ(version_of(id), 0U);
}

TEST_P(TransactionTest, AnotherThatLocksFirstAborts) {
  for (const RecordId id : all) {
    const Attempt a = run(0, {.reads = {}, .writes = all, .seen = {}},
                          [&] { store_word(db.record(id), owner_word(3, 3, 3)); });
    EXPECT_FALSE(a.committed) << to_string(id);
    EXPECT_EQ(a.reason, AbortReason::kLockFailed) << to_string(id);
    // An RPC's answer does not say whose.
    const std::string whose = GetParam().lock == LockKind::kCas ? ": " + to_string(id) + " of node " : "";
    EXPECT_THAT(db.transaction(0).describe(), testing::StartsWith("validation, lock_failed" + whose));
    for (const RecordId other : all) {
      EXPECT_EQ(lock_of(other), other == id ? owner_word(3, 3, 3) : 0) << "what was locked is free again";
      EXPECT_EQ(version_of(other), 0U);
    }
    store_word(db.record(id), 0);
  }
}

TEST_P(TransactionTest, AWriteBehindItsReadAborts) {
  std::uint64_t version = 0;
  for (const RecordId id : all) {
    ++version;
    const Attempt written = run(0, {.reads = {}, .writes = all, .seen = {}},
                                [&] { store_word(db.record(id) + 8, version_of(id) + 1); });
    EXPECT_FALSE(written.committed);
    EXPECT_EQ(written.reason, AbortReason::kWriteSetChanged) << to_string(id);
    for (const RecordId other : all) EXPECT_EQ(lock_of(other), 0U);
    if (id.table() == kLarge) store_word(db.record(id) + RecordLayout(100).tail_offset(), version_of(id));
  }
}

TEST_P(TransactionTest, AChangedReadSetAborts) {
  const RecordId written = RecordId::make(kSmall, 1, 40);
  for (const RecordId id : all) {
    const Attempt a = run(0, {.reads = all, .writes = {written}, .seen = {}},
                          [&] { store_word(db.record(id) + 8, version_of(id) + 1); });
    EXPECT_FALSE(a.committed);
    EXPECT_EQ(a.reason, AbortReason::kReadSetChanged) << to_string(id);
    EXPECT_EQ(lock_of(written), 0U);
    EXPECT_EQ(version_of(written), 0U);
    if (id.table() == kLarge) store_word(db.record(id) + RecordLayout(100).tail_offset(), version_of(id));
  }
}

TEST_P(TransactionTest, ALockedReadSetAborts) {
  const RecordId written = RecordId::make(kSmall, 1, 40);
  for (const RecordId id : all) {
    const Attempt a = run(0, {.reads = all, .writes = {written}, .seen = {}},
                          [&] { store_word(db.record(id), owner_word(3, 3, 3)); });
    EXPECT_FALSE(a.committed) << to_string(id);
    EXPECT_EQ(a.reason, AbortReason::kReadSetChanged) << to_string(id);
    store_word(db.record(id), 0);
  }
}

/// Deletes the records, or writes them anew.
Task<void> set_existence(Transaction& tx, std::vector<RecordId> records, bool exist, bool& committed) {
  WaitGroup& buffers = tx.begin();
  co_await buffers;
  std::vector<int> items;
  for (const RecordId record : records) items.push_back(tx.update(record));
  auto executing = tx.execute();
  if (!co_await executing) co_return;
  for (const int item : items) exist ? tx.insert(item) : tx.erase(item);
  auto committing = tx.commit(0);
  committed = co_await committing;
}

/// A version word tells of the deletion, too: that is no change which anybody made in between.
TEST_P(TransactionTest, ADeletedRecordIsWrittenAnew) {
  for (std::uint64_t round = 1; round <= 4; ++round) {
    const bool exist = round % 2 == 0;
    bool committed = false;
    db.node(0).worker.spawn(set_existence(db.transaction(0), all, exist, committed));
    db.run();
    EXPECT_TRUE(committed) << round;
    for (const RecordId id : all)
      EXPECT_EQ(version_of(id), exist ? round : kDeletedBit | round) << to_string(id);
  }
}

TEST_P(TransactionTest, TheHistoryTellsWhatWasReadAndWritten) {
  ASSERT_TRUE(run(0, {.reads = {own}, .writes = {large}, .seen = {}}).committed);
  ASSERT_FALSE(run(0, {.reads = {}, .writes = {large}, .seen = {}}, [&] {
                 store_word(db.record(large), 1);
               }).committed);
  const History& history = db.node(0).history;
  ASSERT_EQ(history.size(), 1U) << "only what committed";
  const History::Transaction tx = history[0];
  ASSERT_EQ(tx.reads.size(), 2U);
  EXPECT_EQ(tx.reads[0].record, own);
  EXPECT_EQ(tx.reads[1].version, 0U);
  ASSERT_EQ(tx.writes.size(), 1U);
  EXPECT_EQ(tx.writes[0].record, large);
  EXPECT_EQ(tx.writes[0].version, 1U);
  EXPECT_EQ(tx.writes[0].digest, value_digest({db.record(large) + kRecordHeaderBytes, 100}));
}

Attempt run_alone(Database& db, Attempt a) {
  db.node(0).worker.spawn(attempt(db.transaction(0), a));
  db.run();
  EXPECT_TRUE(a.committed);
  return a;
}

/// One-sided where nothing else is, so that any datagram is a check.
TEST(Validation, AsksAPrimaryByRpcBeyondSoManyOfItsRecordsRead) {
  OccOptions options =
      options_of({"", Primitive::kOneSided, LockKind::kCas, Primitive::kOneSided, /*passive_ack=*/false});
  options.validation.check_rpc_above = 2;
  const auto packets = [&options](std::uint64_t reads_there, const RecordId& written) {
    Database db(options);
    Attempt a{.reads = {}, .writes = {written}, .seen = {}};
    for (std::uint64_t key = 0; key < reads_there; ++key) a.reads.push_back(RecordId::make(kSmall, 1, key));
    run_alone(db, a);
    return db.packets();
  };
  const RecordId elsewhere = RecordId::make(kSmall, 2, 40), there = RecordId::make(kSmall, 1, 40);
  EXPECT_EQ(packets(2, elsewhere), 0U);
  EXPECT_GT(packets(3, elsewhere), 0U);
  EXPECT_EQ(packets(2, there), 0U) << "what is written is locked, not checked";
}

TEST(Execution, RemembersWhereARecordIsHoweverItFoundOut) {
  for (const Primitive primitive : {Primitive::kOneSided, Primitive::kHybrid}) {
    Database db(options_of({"", primitive, LockKind::kCas, Primitive::kOneSided}));
    const Attempt reads{
        .reads = {RecordId::make(kSmall, 1, 4), RecordId::make(kLarge, 2, 5)}, .writes = {}, .seen = {}};
    run_alone(db, reads);
    EXPECT_EQ(db.transaction(0).locations_missed(), 2U);
    EXPECT_EQ(db.transaction(0).locations_cached(), 0U);
    run_alone(db, reads);
    EXPECT_EQ(db.transaction(0).locations_missed(), 0U) << "of this attempt";
    EXPECT_EQ(db.transaction(0).locations_cached(), 2U);
  }
}

Task<void> update_often(Transaction& tx, RecordId record, int times, int& committed) {
  for (int i = 0; i < times; ++i) {
    Attempt a{.reads = {}, .writes = {record}, .seen = {}};
    auto one = attempt(tx, a);
    co_await one;
    committed += a.committed;
  }
}

/// Node 0 backs up partition 3 in a log of its own. An entry there that is long uncertain (its transaction
/// waits for a slow backup elsewhere) keeps the log from being reclaimed; whoever needs room must wait for it
/// without holding up the worker, which alone can make it certain.
int wait_for_room(const OccOptions& options) {
  Database db(options);
  auto& slow = static_cast<FakeQueuePair&>(*db.node(0).worker.channel(2, 0).queue_pair);
  Attempt stalled{
      .reads = {}, .writes = {RecordId::make(kSmall, 3, 1), RecordId::make(kSmall, 1, 1)}, .seen = {}};
  db.node(0).worker.spawn(attempt(db.transaction(0, 0), stalled, [&] { slow.hold(); }));
  for (int i = 0; i < 200; ++i) {
    for (int node = 0; node < kNodes; ++node) db.node(node).worker.step();
  }
  if (stalled.committed) return 1;  // it was to wait for node 2
  int committed = 0;
  db.node(0).worker.spawn(update_often(db.transaction(0, 1), RecordId::make(kSmall, 3, 2), 200, committed));
  for (int i = 0; i < 20'000; ++i) {
    for (int node = 0; node < kNodes; ++node) db.node(node).worker.step();
  }
  if (committed == 0 || committed == 200) return 2;  // the log was to fill up
  slow.release();
  for (int i = 0; i < 20'000; ++i) {
    for (int node = 0; node < kNodes; ++node) db.node(node).worker.step();
  }
  return stalled.committed && committed == 200 ? 0 : 3;
}

TEST(TransactionLogs, WaitingForRoomDoesNotHoldUpTheWorker) {
  EXPECT_EXIT(
      {
        alarm(5);  // it takes milliseconds
        std::_Exit(wait_for_room(options_of({"", Primitive::kHybrid, LockKind::kCas, Primitive::kOneSided})));
      },
      testing::ExitedWithCode(0), "");
}

/// Every backup's log has all that is written, in as many entries as it takes, each with frames and an
/// answer.
TEST(TransactionLogs, TheArenaHoldsTheEntriesOfEveryBackup) {
  TransactionMaxima most;
  most.records = most.writes = 64;
  most.value_b = 1024;
  most.image_b = RecordLayout(1024).image_b;
  most.written_b = most.writes * most.value_b;
  most.replicas = 3;
  most.backups = 128;
  most.log_entries = 22;
  const std::size_t images_b = most.records * (2 * most.image_b + sizeof(FetchReply));
  const std::size_t records_b = log_entry_bytes(most.writes, most.written_b) - log_entry_bytes(0, 0);
  const std::size_t entries_b = most.log_entries * (log_entry_bytes(0, 0) + sizeof(VerdictReply));
  EXPECT_GE(Transaction::arena_bytes(most, {}), images_b + most.backups * (records_b + entries_b));
}

/// In every build: what would follow is lost memory, or a lock that its holder waits for.
TEST_P(TransactionTest, WhatAWorkloadMayNotDeclareIsRefused) {
  using testing::HasSubstr;
  constexpr std::uint64_t kRecordsMax = 64;  // a Transaction's where it is not told
  Transaction& tx = db.transaction(0);
  const auto refusal = [&](RecordId record, bool is_write = false) -> std::string {
    try {
      is_write ? tx.update(record) : tx.read(record);
    } catch (const std::logic_error& error) {
      return error.what();
    }
    return "";
  };
  tx.begin();
  EXPECT_EQ(refusal(remote), "");
  EXPECT_EQ(refusal(remote), "") << "reading twice does no harm";
  EXPECT_THAT(refusal(remote, true), HasSubstr("declared before"));
  tx.begin();
  EXPECT_EQ(refusal(remote, true), "");
  EXPECT_THAT(refusal(remote), HasSubstr("declared before"));
  EXPECT_EQ(refusal(own), "");
  EXPECT_THAT(refusal(RecordId::make(kSmall, 1, 64)), HasSubstr("beyond its table"));
  EXPECT_THAT(refusal(RecordId::make(kLarge + 1, 1, 0)), HasSubstr("a table that there is not"));
  EXPECT_THAT(refusal(RecordId::make(kSmall, kNodes, 0)), HasSubstr("a node that there is not"));
  tx.begin();
  for (std::uint64_t i = 0; i < kRecordsMax; ++i)
    EXPECT_EQ(refusal(RecordId::make(kSmall, static_cast<std::uint32_t>(i / 32), i % 32)), "");
  EXPECT_THAT(refusal(large), HasSubstr("one more"));
}

/// Rings fill by as many records a round as the peer has coroutines: who took one a round would lag behind.
TEST(PolledLogs, ARoundTakesAllThatIsThere) {
  Database db(options_of(
      {"", Primitive::kOneSided, LockKind::kLogRecord, Primitive::kOneSided, /*passive_ack=*/false}));
  Worker& coordinator = db.node(0).worker;
  Worker& primary = db.node(1).worker;
  std::vector<Attempt> attempts(kCoroutines);
  std::vector<RecordId> records;
  for (int i = 0; i < kCoroutines; ++i) {
    records.push_back(RecordId::make(kSmall, 1, static_cast<std::uint64_t>(i)));
    Attempt& one = attempts[static_cast<std::size_t>(i)];
    one.writes = {records.back()};
    coordinator.spawn(attempt(db.transaction(0, i), one));
  }
  const auto locked = [&] {
    return std::ranges::count_if(records, [&](RecordId id) { return load_word(db.record(id)) != 0; });
  };
  for (int i = 0; i < 100; ++i) coordinator.step();  // until all wait for the primary
  EXPECT_EQ(locked(), 0);
  primary.step();
  EXPECT_EQ(locked(), kCoroutines) << "LOCK records";
  const auto logged = [&] {
    const NodeStore& store = db.node(2).store;
    LogReader reader;
    int entries = 0;
    while (reader.take(store.layout().log(), store.ring(0, 0))) ++entries;
    return entries;
  };
  EXPECT_EQ(logged(), 0);
  coordinator.step();
  EXPECT_EQ(logged(), kCoroutines) << "answers, each of which has a transaction go on to COMMIT-BACKUP";
  db.run();
  for (const Attempt& one : attempts) EXPECT_TRUE(one.committed);
}

INSTANTIATE_TEST_SUITE_P(
    Options, TransactionTest,
    testing::Values(
        Case{"drtmh", Primitive::kHybrid, LockKind::kCas, Primitive::kOneSided},
        Case{"fasst_occ", Primitive::kRpc, LockKind::kRpc, Primitive::kRpc},
        Case{"one_sided", Primitive::kOneSided, LockKind::kCas, Primitive::kOneSided},
        Case{"one_sided_with_rpc_locks", Primitive::kOneSided, LockKind::kRpc, Primitive::kOneSided},
        Case{"cas_locks_and_rpc", Primitive::kRpc, LockKind::kCas, Primitive::kRpc},
        Case{"farm", Primitive::kOneSided, LockKind::kLogRecord, Primitive::kOneSided, false},
        Case{"farm_one_by_one", Primitive::kOneSided, LockKind::kLogRecord, Primitive::kOneSided, true,
             false},
        Case{"farm_with_its_index", Primitive::kOneSided, LockKind::kLogRecord, Primitive::kOneSided, false,
             true, Index::kNeighbourhoods},
        Case{"lock_records_and_rpc", Primitive::kRpc, LockKind::kLogRecord, Primitive::kRpc},
        Case{"drtmh_one_by_one", Primitive::kHybrid, LockKind::kCas, Primitive::kOneSided, false, false},
        Case{"fasst_occ_one_by_one", Primitive::kRpc, LockKind::kRpc, Primitive::kRpc, false, false}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace verbtwin::protocols
