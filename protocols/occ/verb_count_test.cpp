// Golden counts: what each protocol posts for a transaction that reads one remote record and writes another,
// on an idle cluster (the papers that presets.cpp names). Node 0 coordinates; the record read is at
// node 1, the one written at node 2 with its backup at node 3; replicas = 2.
#include <gtest/gtest.h>

#include <array>
#include <ostream>
#include <string>

#include "protocols/occ/database_for_test.hpp"
#include "protocols/occ/preset_for_test.hpp"

namespace verbtwin::protocols {
namespace {

struct Counts {
  int reads = 0, writes = 0, compare_swaps = 0, packets = 0;
  friend bool operator==(const Counts&, const Counts&) = default;
  friend std::ostream& operator<<(std::ostream& os, const Counts& c) {
    return os << c.reads << " READ, " << c.writes << " WRITE, " << c.compare_swaps << " CAS, " << c.packets
              << " packets";
  }
  void add(Opcode opcode) {
    reads += opcode == Opcode::kRdmaRead;
    writes += opcode == Opcode::kRdmaWrite;
    compare_swaps += opcode == Opcode::kAtomicCmpAndSwp;
    packets += opcode == Opcode::kSend;
  }
};

struct Golden {
  const char* protocol;
  Counts execution, validation, logging, commit;
};

void PrintTo(const Golden& golden, std::ostream* os) {
  *os << golden.protocol;
}

class VerbCounts : public testing::TestWithParam<Golden> {};

/// What any node posts while the coordinator is in a phase.
TEST_P(VerbCounts, AreThoseOfThePaper) {
  Database db(preset(GetParam().protocol));
  const RecordId read = RecordId::make(kSmall, 1, 4), written = RecordId::make(kSmall, 2, 5);
  Attempt a{.reads = {read}, .writes = {written}, .seen = {}};
  const Transaction& tx = db.transaction(0);
  std::array<Counts, kPhases> posted;
  db.fabric().on_post = [&](const SendWr& wr) {
    posted[static_cast<std::size_t>(tx.phase())].add(wr.opcode);
  };
  db.node(0).worker.spawn(attempt(db.transaction(0), a));
  db.run();
  ASSERT_TRUE(a.committed);
  const Golden& golden = GetParam();
  EXPECT_EQ(posted, (std::array{golden.execution, golden.validation, golden.logging, golden.commit}));
}

INSTANTIATE_TEST_SUITE_P(
    Protocols, VerbCounts,
    testing::Values(
        // E: a READ each, the locations being cached. V: CAS and the READ behind it, a READ for the check.
        // L: a WRITE to the backup. C: value and unlock, both WRITTEN (OSDI 2018, section 4).
        Golden{"drtmh", {2, 0, 0, 0}, {2, 0, 1, 0}, {0, 1, 0, 0}, {0, 2, 0, 0}},
        // The same verbs: the two differ in what they do without a cached location, and in batching.
        Golden{"drtmr", {2, 0, 0, 0}, {2, 0, 1, 0}, {0, 1, 0, 0}, {0, 2, 0, 0}},
        // E: bucket and record READ, without a location cache. V: LOCK, WRITTEN into the primary's log, and
        // its answer, WRITTEN by the primary; a READ for the check. L: COMMIT-BACKUP, C: COMMIT-PRIMARY: a
        // WRITE each, which only NICs acknowledge (SOSP 2015, section 4).
        Golden{"farm", {4, 0, 0, 0}, {1, 2, 0, 0}, {0, 1, 0, 0}, {0, 1, 0, 0}},
        // E: a request and an answer for each of two machines, which lock too. V: the check, asked and
        // answered. L: to the coordinator's replica, and C: to the backup, then to the primary, all answered
        // (OSDI 2016, section 5).
        Golden{"fasst", {0, 0, 0, 4}, {0, 0, 0, 2}, {0, 0, 0, 2}, {0, 0, 0, 4}},
        // The check by READ, the log by WRITE.
        Golden{"fasst-hybrid", {0, 0, 0, 4}, {1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 0, 4}},
        // E: two requests, two answers. V: lock and check. L: one. C: one that nobody answers.
        Golden{"fasst-occ", {0, 0, 0, 4}, {0, 0, 0, 4}, {0, 0, 0, 2}, {0, 0, 0, 1}}),
    [](const auto& test) {
      std::string name = test.param.protocol;
      std::ranges::replace(name, '-', '_');
      return name;
    });

/// FaRM's own index: one READ finds a record among its neighbours, at a table's end among fewer.
TEST(VerbCountsOfANeighbourhood, AreOneReadOfARecord) {
  OccOptions options = preset("farm");
  options.index = Index::kNeighbourhoods;
  Database db(options, {.tables = {{"small", 8, 61}, {"large", 100, 61}}});
  const RecordId whole = RecordId::make(kSmall, 1, 4), at_end = RecordId::make(kSmall, 2, 60);
  std::vector<std::uint32_t> lengths;
  db.fabric().on_post = [&](const SendWr& wr) {
    if (wr.opcode == Opcode::kRdmaRead) lengths.push_back(wr.sge.length);
  };
  Attempt a{.reads = {whole, at_end}, .writes = {}, .seen = {}};
  db.node(0).worker.spawn(attempt(db.transaction(0), a));
  db.run();
  ASSERT_TRUE(a.committed);
  EXPECT_EQ(a.seen, (std::vector<std::uint64_t>{1004, 1060}));
  const RecordLayout record(8);
  ASSERT_EQ(lengths.size(), 4U) << "two of them checks of versions";
  EXPECT_EQ(lengths[0], 7 * record.stride_b + record.image_b);
  EXPECT_EQ(lengths[1], 4 * record.stride_b + record.image_b);
}

/// A transaction is certain when every log has it: until then its records stay as they were, and locked.
TEST(Commit, WaitsForEveryLog) {
  for (const RegistryEntry& protocol : occ_entries()) {
    SCOPED_TRACE(protocol.name);
    const OccOptions options = preset(protocol.name);
    Database db(options);
    const RecordId written = RecordId::make(kSmall, 2, 5);
    const int log_node = options.logging.placement == LogPlacement::kCoordinator ? 1 : 3;
    auto& to_log = static_cast<FakeQueuePair&>(*db.node(0).worker.channel(log_node, 0).queue_pair);
    to_log.hold();
    Attempt a{.reads = {}, .writes = {written}, .seen = {}};
    db.node(0).worker.spawn(attempt(db.transaction(0), a));
    for (int round = 0; round < 2000; ++round) {
      for (int node = 0; node < kNodes; ++node) {
        if (node != log_node) db.node(node).worker.step();
      }
    }
    EXPECT_FALSE(a.committed);
    EXPECT_EQ(load_word(db.record(written)), owner_word(0, 0, 0)) << "locked";
    EXPECT_EQ(load_word(db.record(written) + 8), 0U) << "its version";
    to_log.release();
    db.run();
    EXPECT_TRUE(a.committed);
    EXPECT_EQ(load_word(db.record(written)), 0U);
    EXPECT_EQ(load_word(db.record(written) + 8), 1U);
  }
}

/// How often Execution waits for NICs where two records are fetched whose locations are not known.
int round_trips(bool outstanding) {
  OccOptions options = preset("farm");
  options.execution.outstanding = outstanding;
  Database db(options);
  const auto to = [&](int node) -> FakeQueuePair& {
    return static_cast<FakeQueuePair&>(*db.node(0).worker.channel(node, 0).queue_pair);
  };
  Attempt a{.reads = {RecordId::make(kSmall, 1, 4), RecordId::make(kSmall, 2, 5)}, .writes = {}, .seen = {}};
  bool executed = false;
  for (const int node : {1, 2}) to(node).hold();
  db.node(0).worker.spawn(attempt(db.transaction(0), a, [&] { executed = true; }));
  int trips = 0;
  for (db.step(50); !executed && trips < 10; db.step(50), ++trips) {
    for (const int node : {1, 2}) {
      to(node).release();
      to(node).hold();
    }
  }
  return trips;
}

TEST(Execution, LooksUpAndFetchesRecordsTogetherOrOneAfterAnother) {
  EXPECT_EQ(round_trips(true), 2) << "buckets, records";
  EXPECT_EQ(round_trips(false), 4) << "as FaRM and DrTM+R: each bucket, each record";
}

/// Transactions whose LOCK record is refused: another locks between their fetch and their lock.
Task<void> be_refused_often(Transaction& tx, std::byte* record, RecordId id, int times, int& ended) {
  for (; ended < times; ++ended) {
    Attempt a{.reads = {}, .writes = {id}, .seen = {}};
    auto one = attempt(tx, a, [record] { store_word(record, owner_word(3, 3, 3)); });
    co_await one;
    store_word(record, 0);
  }
}

/// What FaRM commits while its COMMIT-BACKUP is held up and others fill the primary's log many times over.
std::uint64_t committed_after_a_wait(bool truncate_before_commit) {
  OccOptions options = preset("farm");
  options.sabotage.truncate_before_commit = truncate_before_commit;
  Database db(options);
  const RecordId slow = RecordId::make(kSmall, 2, 1);
  auto& to_backup = static_cast<FakeQueuePair&>(*db.node(0).worker.channel(3, 0).queue_pair);
  Attempt stalled{.reads = {}, .writes = {slow}, .add = 5, .seen = {}};
  db.node(0).worker.spawn(attempt(db.transaction(0, 0), stalled, [&] { to_backup.hold(); }));
  db.step(300);
  EXPECT_FALSE(stalled.committed);
  // LOCK records of the same coordinator, in the same log, behind the one that waits: more than it holds.
  const RecordId other = RecordId::make(kSmall, 2, 2);
  int refused = 0;
  db.node(0).worker.spawn(be_refused_often(db.transaction(0, 1), db.record(other), other, 100, refused));
  db.step(20'000);
  EXPECT_EQ(refused == 100, truncate_before_commit) << "a full log makes them wait";
  to_backup.release();
  db.step(20'000);
  EXPECT_TRUE(stalled.committed);
  EXPECT_EQ(refused, 100);
  return load_word(db.record(slow) + kRecordHeaderBytes);
}

/// TRUNCATE is lazy (SOSP 2015, section 4): who waits for locks does not wait for backups to be updated.
TEST(LockRecords, AreAnsweredBeforeTheLogIsTruncated) {
  Database db(preset("farm"));
  const RecordId before = RecordId::make(kSmall, 2, 1), locked = RecordId::make(kSmall, 3, 1);
  Attempt first{.reads = {}, .writes = {before}, .seen = {}},
      second{.reads = {}, .writes = {locked}, .seen = {}};
  db.node(0).worker.spawn(attempt(db.transaction(0), first));
  db.run();
  const auto applied = [&] { return load_word(db.record(before, 1) + 8); };  // at node 3
  EXPECT_EQ(applied(), 0U);
  std::vector<std::uint64_t> at_answer;
  db.fabric().on_post = [&](const SendWr& wr) {
    if (wr.opcode == Opcode::kRdmaWrite && wr.sge.length == sizeof(std::uint64_t))
      at_answer.push_back(applied());
  };
  db.node(0).worker.spawn(attempt(db.transaction(0), second));
  db.run();
  ASSERT_TRUE(second.committed);
  EXPECT_EQ(at_answer, std::vector<std::uint64_t>{0});
  EXPECT_EQ(applied(), 1U) << "the LOCK record said that it may be";
}

TEST(LockRecords, KeepTheirRoomUntilCommitPrimary) {
  EXPECT_EQ(committed_after_a_wait(false), 1001U + 5);
}

TEST(LockRecords, TruncatedTooEarlyLoseTheirValues) {
  EXPECT_NE(committed_after_a_wait(true), 1001U + 5);
}

}  // namespace
}  // namespace verbtwin::protocols
