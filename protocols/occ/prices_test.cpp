// What a transaction costs the cores that take part in it, one kind of work at a time. Partition p is at node
// p, backed up at p + 1; node 0 coordinates.
#include <gtest/gtest.h>

#include <utility>

#include "protocols/occ/database_for_test.hpp"
#include "protocols/occ/preset_for_test.hpp"

namespace verbtwin::protocols {
namespace {

struct Bill {
  OccOptions options;
  Attempt attempt;
  int times = 1;
  DatabaseSpec spec{};

  /// Of so many transactions like this, one after another, with these prices at one node.
  std::int64_t of(int node, const CpuPrices& prices, const PhaseCycles& cycles = {}) const {
    Database db(options, spec);
    db.cpu(node).prices() = prices;
    for (int n = 0; n < kNodes; ++n) db.node(n).cycles = cycles;
    const std::int64_t begin_ps = db.cpu(node).now_ps();
    for (int i = 0; i < times; ++i) {
      Attempt one = attempt;
      db.node(0).worker.spawn(protocols::attempt(db.transaction(0), one));
      db.run();
      EXPECT_TRUE(one.committed);
    }
    return db.cpu(node).now_ps() - begin_ps;
  }
  /// How often that is charged there.
  std::int64_t of(int node, Cost cost) const {
    CpuPrices prices;
    prices.cost_ps[static_cast<std::size_t>(cost)] = 1;
    return of(node, prices);
  }
};

Attempt reading(std::vector<RecordId> records) {
  return {.reads = std::move(records), .writes = {}, .seen = {}};
}

/// Caches that hold nothing: a look-up waits for the bucket, then for the record.
TEST(Prices, RecordsOfTheOwnNodeAreWaitedForTogether) {
  const Bill one{preset("drtmh"), reading({small(0, 1)})};
  const Bill three{preset("drtmh"), reading({small(0, 1), small(0, 2), small(0, 3)})};
  EXPECT_EQ(one.of(0, Cost::kMemoryMiss), 2);
  EXPECT_EQ(three.of(0, Cost::kMemoryMiss), 2);
  EXPECT_EQ(three.of(0, Cost::kIndexLookup), 3);
}

TEST(Prices, WhoServesAFetchLooksTheRecordUpAndHasItAtHandToLockIt) {
  for (const Attempt& wanted : {reading({small(1, 1)}), writing({small(1, 1)})}) {
    const Bill bill{preset("fasst-occ"), wanted};
    EXPECT_EQ(bill.of(1, Cost::kMemoryMiss), 2);
    EXPECT_EQ(bill.of(1, Cost::kIndexLookup), 1);
  }
}

/// A NIC that was READ through has left the record where it was.
TEST(Prices, ALockOfWhatHasBeenReadByANicIsWaitedForOnce) {
  Bill bill{preset("drtmh"), writing({small(1, 1)})};
  bill.options.validation.lock = LockKind::kRpc;
  EXPECT_EQ(bill.of(1, Cost::kMemoryMiss), 1);
  EXPECT_EQ(bill.of(1, Cost::kIndexLookup), 0) << "the request says where it is";
  const Bill lock_record{preset("farm"), writing({small(1, 1), small(1, 2)})};
  EXPECT_EQ(lock_record.of(1, Cost::kMemoryMiss), 1) << "its records together";
  EXPECT_EQ(lock_record.of(1, Cost::kLocalAtomic), 2);
}

/// Nobody else looks for a backup's record: bucket and record are in no cache. It takes what installing it
/// takes a primary.
TEST(Prices, ABackupThatIsToldLooksTheRecordUp) {
  const Bill bill{preset("fasst"), writing({small(2, 1)})};
  EXPECT_EQ(bill.of(3, Cost::kMemoryMiss), 2);
  EXPECT_EQ(bill.of(3, Cost::kIndexLookup), 1);
  EXPECT_EQ(bill.of(3, Cost::kLocalAtomic), 1);
  CpuPrices cycles;
  cycles.cycle_ps = 1;
  EXPECT_EQ(bill.of(3, cycles, {.commit = 87}), 87);
}

/// Those of an entry together, each looked up for itself.
TEST(Prices, ABackupThatAppliesItsLogWaitsTwiceForAnEntry) {
  Bill bill{preset("drtmh"), writing({small(2, 1), small(2, 2), small(2, 3)}), 10};
  bill.spec.reclaim_entries = 1;
  const std::int64_t looked_up = bill.of(3, Cost::kIndexLookup);
  EXPECT_GE(looked_up, 3 * 3);
  EXPECT_EQ(looked_up % 3, 0);
  EXPECT_EQ(bill.of(3, Cost::kLocalAtomic), looked_up);
  EXPECT_EQ(bill.of(3, Cost::kMemoryMiss), looked_up / 3 * 2);
}

/// An entry is built and digested once; every other log gets a copy.
TEST(Prices, AnEntryIsGoneOverOnceAndCopiedForEachOtherLog) {
  const auto blocks = [](std::size_t records) {
    return static_cast<std::int64_t>(log_entry_bytes(records, records * 104) / kCacheLineBytes);
  };
  const auto large = [](std::uint32_t partition) { return RecordId::make(kLarge, partition, 7); };
  EXPECT_EQ((Bill{preset("drtmh"), writing({large(1)})}.of(0, Cost::kCopyBlock)), 2 * blocks(1));
  EXPECT_EQ((Bill{preset("drtmh"), writing({large(1), large(2)})}.of(0, Cost::kCopyBlock)), 3 * blocks(2));
}

/// As a message's are by whoever packs and serves it.
TEST(Prices, RecordsOfTheOwnNodeAreCopiedLineByLine) {
  const RecordId own = RecordId::make(kLarge, 0, 7);
  Bill bill{preset("drtmh"), reading({own})};
  const std::int64_t record = RecordLayout(bill.spec.tables[kLarge].value_b).image_b / kCacheLineBytes;
  ASSERT_GT(record, 1);
  EXPECT_EQ(bill.of(0, Cost::kCopyBlock), record);
  bill.options.truncate_after = TruncateAfter::kCommitWithoutLogging;
  std::swap(bill.attempt.reads, bill.attempt.writes);
  EXPECT_EQ(bill.of(0, Cost::kCopyBlock), 2 * record) << "fetched, and installed";
}

/// Of a record longer than two lines the value is digested: as fetched, and as it is to be.
TEST(Prices, DigestsOfLongRecordsAreGoneOver) {
  Bill bill{preset("drtmh"), reading({RecordId::make(1, 1, 7)})};
  bill.spec.tables = {{"small", 8, 64}, {"long", 300, 64}};
  const RecordLayout layout(300);
  ASSERT_TRUE(layout.digests);
  const std::int64_t record = layout.image_b / kCacheLineBytes;
  const auto entry = static_cast<std::int64_t>(log_entry_bytes(1, 304) / kCacheLineBytes);
  EXPECT_EQ(bill.of(0, Cost::kCopyBlock), record);
  std::swap(bill.attempt.reads, bill.attempt.writes);
  EXPECT_EQ(bill.of(0, Cost::kCopyBlock), 2 * record + 2 * entry);
}

/// Going through a bucket that a READ brought costs what a location cache look-up does.
TEST(Prices, EachRemoteRecordIsLocatedOnce) {
  const Attempt three = reading({small(0, 1), small(1, 1), small(2, 1)});
  for (const char* protocol : {"drtmh", "drtmr", "farm"})
    EXPECT_EQ((Bill{preset(protocol), three}.of(0, Cost::kCacheLookup)), 2) << protocol;
  EXPECT_EQ((Bill{preset("fasst"), three}.of(0, Cost::kCacheLookup)), 0) << "the server looks them up";
}

/// A machine that stands for several has a log of each.
TEST(Prices, ARoundLooksAtTheLogsOfAllWhomAMachineStandsFor) {
  const auto looks = [](int stands_for) {
    Bill bill{preset("farm"), reading({small(0, 1)})};
    bill.spec.shape.stands_for = stands_for;
    return bill.of(0, Cost::kPollSlot);
  };
  EXPECT_GT(looks(1), 0);
  EXPECT_EQ(looks(5), 5 * looks(1));
}

/// Application work is that of the core which serves the request; of what a NIC serves there is none.
TEST(Prices, ApplicationWorkIsDoneByWhoServesTheRequest) {
  constexpr PhaseCycles kCycles{.execution = 1, .validation = 100, .logging = 10'000, .commit = 1'000'000};
  CpuPrices prices;
  prices.cycle_ps = 1;
  const Bill own{preset("drtmh"), {.reads = {small(0, 1), small(0, 2)}, .writes = {small(0, 3)}, .seen = {}}};
  EXPECT_EQ(own.of(0, prices, kCycles), 1'000'203) << "locked and logged by NICs";
  for (const int node : {1, 2, 3}) EXPECT_EQ(own.of(node, prices, kCycles), 0) << node;
  const Bill by_rpc{preset("fasst-occ"), {.reads = {small(1, 1)}, .writes = {small(1, 2)}, .seen = {}}};
  EXPECT_EQ(by_rpc.of(0, prices, kCycles), 0);
  EXPECT_EQ(by_rpc.of(1, prices, kCycles), 1'000'202);
  EXPECT_EQ(by_rpc.of(2, prices, kCycles), 10'000);
}

}  // namespace
}  // namespace verbtwin::protocols
