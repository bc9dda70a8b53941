// What a transaction waits for and what it does not: acknowledgements, its buffers, whose NIC.
#include <gtest/gtest.h>

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "protocols/occ/database_for_test.hpp"
#include "protocols/occ/preset_for_test.hpp"

namespace verbtwin::protocols {
namespace {

RecordId large(std::uint32_t partition, std::uint64_t key) {
  return RecordId::make(kLarge, partition, key);
}

/// Whether a FaRM transaction of node 0 is over while nothing that it has sent to node `slow` since its
/// Execution is acknowledged.
bool ends_without(int slow, std::vector<RecordId> written, bool passive_ack) {
  OccOptions options = preset("farm");
  options.commit.passive_ack = passive_ack;
  Database db(options);
  Attempt a = writing(std::move(written));
  FakeQueuePair& to_slow = db.queue_pair(0, slow);
  db.node(0).worker.spawn(attempt(db.transaction(0), a, [&] { to_slow.hold(); }));
  db.step(2000);
  const bool ended = a.committed;
  to_slow.release();
  db.run();
  EXPECT_TRUE(a.committed);
  return ended;
}

/// SOSP 2015, section 4: the coordinator reports success when it has the acknowledgement of one
/// COMMIT-PRIMARY; one in its own log is there at once. Their backups are others.
TEST(CommitPrimary, TheFirstIsWaitedForAndNoOther) {
  const std::vector<RecordId> two = {small(1, 4), small(3, 4)};
  EXPECT_FALSE(ends_without(1, two, false));
  EXPECT_TRUE(ends_without(3, two, false));
}

TEST(CommitPrimary, NoneIsWaitedForWhereOneIsInTheOwnLog) {
  EXPECT_TRUE(ends_without(2, {small(0, 4), small(2, 4)}, false));
  EXPECT_TRUE(ends_without(2, {small(2, 4), small(0, 4)}, false));
}

TEST(CommitPrimary, NoneIsWaitedForWherePassive) {
  EXPECT_FALSE(ends_without(2, {small(2, 4)}, false));
  EXPECT_TRUE(ends_without(2, {small(2, 4)}, true));
}

/// Time for a phase is only of who had one.
TEST(CommitPrimary, WithoutALogThereIsNoLogging) {
  OccOptions options = preset("farm");
  options.truncate_after = TruncateAfter::kCommitWithoutLogging;
  Database db(options);
  db.cpu(0).per_look_ps = 7;
  Attempt a = writing({small(2, 4)});
  db.node(0).worker.spawn(attempt(db.transaction(0), a));
  db.run();
  ASSERT_TRUE(a.committed);
  EXPECT_EQ(db.transaction(0).phase_ps(Phase::kLogging), kNoPhase);
  EXPECT_GT(db.transaction(0).phase_ps(Phase::kCommit), 0);
}

/// What a NIC writes is seen by who polls; an entry that comes by RPC has to be told to who sleeps.
TEST(PolledLogs, WhoStoresAnEntryForAPeerLooksAtItsLogsAgain) {
  const auto wakes = [](const char* protocol) {
    OccOptions options = preset(protocol);
    options.logging.primitive = Primitive::kRpc;
    Database db(options);
    Attempt a = writing({small(2, 4)});
    db.node(0).worker.spawn(attempt(db.transaction(0), a));
    db.run();
    EXPECT_TRUE(a.committed);
    return db.wakes();
  };
  EXPECT_EQ(wakes("farm"), 1U);
  EXPECT_EQ(wakes("drtmh"), 0U) << "whose logs nobody polls";
}

Task<void> write_often(Transaction& tx, RecordId id, int times, int& committed) {
  for (int i = 0; i < times; ++i) {
    Attempt a = writing({id});
    auto one = attempt(tx, a);
    co_await one;
    committed += a.committed ? 1 : 0;
  }
}

/// More entries come than the backup reads in a round, and in that round it is asked to truncate more of
/// them: room that were given back unread would be written over, and it would wait for an entry that has
/// gone.
TEST(PolledLogs, WhatHasNotBeenReadIsNotTruncated) {
  constexpr int kReadInARound = 16, kTimes = 200;
  DatabaseSpec spec;
  spec.log_ring_b = 4096;  // half of it, when room is asked for, is more than that
  Database db(preset("farm"), spec);
  // Locked at node 0 itself: all that node 1 gets are COMMIT-BACKUPs, which NICs acknowledge.
  int committed = 0;
  const RecordId own = small(0, 4);
  db.node(0).worker.spawn(write_often(db.transaction(0), own, kTimes, committed));
  const auto fill = [&] {
    for (int i = 0; i < 2000; ++i) db.node(0).worker.step();
    return committed;
  };
  ASSERT_GT(fill(), 2 * kReadInARound);
  ASSERT_LT(committed, kTimes) << "the log at node 1 is full";
  const std::uint64_t packets = db.packets();
  for (int i = 0; i < 100 && db.packets() == packets; ++i) db.node(1).worker.step();
  EXPECT_EQ(writes_of(load_word(db.record(own, 1) + 8)), kReadInARound) << "applied as far as it was read";
  fill();
  db.run();
  EXPECT_EQ(committed, kTimes);
  Attempt a = writing({small(1, 9)});
  db.node(0).worker.spawn(attempt(db.transaction(0), a));
  db.run();
  EXPECT_TRUE(a.committed) << "its LOCK record was read";
}

/// Two NICs of a node are not atomic with each other: a record has a home NIC for its lock, the READ behind
/// it, its value and its unlock, whichever NIC the coordinator's thread uses.
TEST(HomeNic, ARecordsLockValueAndUnlockTakeTheNicOfItsPlace) {
  DatabaseSpec spec;
  spec.shape = {.nodes = kNodes, .threads = 2, .nics_per_node = 2};
  Database db(preset("drtmh"), spec);
  for (const std::uint64_t key : {4, 5}) {
    Attempt a = writing({small(1, key)});
    std::array<std::size_t, 2> fetched{};
    db.node(0).worker.spawn(attempt(db.transaction(0), a, [&] {
      for (const int nic : {0, 1})
        fetched[static_cast<std::size_t>(nic)] = db.queue_pair(0, 1, nic).posted.size();
    }));
    db.run();
    ASSERT_TRUE(a.committed);
    const int home = static_cast<int>(key % 2);
    for (const int nic : {0, 1}) {
      const auto behind =
          std::span(db.queue_pair(0, 1, nic).posted).subspan(fetched[static_cast<std::size_t>(nic)]);
      EXPECT_EQ(behind.size(), nic == home ? 4U : 0U) << "CAS, READ, value and unlock of key " << key;
    }
  }
}

/// A value that the NIC reads from the transaction's buffers after its end: the next attempt takes the spare
/// ones, and who has none of these, waits.
TEST(PassiveCommit, BuffersAreUsedAgainWhenTheirValueIsOut) {
  for (const bool has_spare : {false, true}) {
    SCOPED_TRACE(has_spare);
    OccOptions options = preset("fasst-occ");
    options.commit = {Primitive::kOneSided, true, true, /*passive_ack=*/true};
    DatabaseSpec spec;
    spec.spare_b = has_spare ? kArenaB : 0;
    Database db(options, spec);
    FakeQueuePair& to_primary = db.queue_pair(0, 2);  // carries the commit alone
    to_primary.hold();
    int committed = 0;
    db.node(0).worker.spawn(write_often(db.transaction(0), large(2, 4), 3, committed));
    db.step(2000);
    EXPECT_EQ(committed, has_spare ? 2 : 1);
    to_primary.release();
    db.run();
    EXPECT_EQ(committed, 3);
  }
}

/// One that goes with its request is out when it is posted.
TEST(PassiveCommit, AnInlineValueIsOutAtOnce) {
  OccOptions options = preset("fasst-occ");
  options.commit = {Primitive::kOneSided, true, true, /*passive_ack=*/true};
  Database db(options);
  db.queue_pair(0, 2).hold();
  int committed = 0;
  db.node(0).worker.spawn(write_often(db.transaction(0), small(2, 4), 3, committed));
  db.step(2000);
  EXPECT_EQ(committed, 3);
}

}  // namespace
}  // namespace verbtwin::protocols
