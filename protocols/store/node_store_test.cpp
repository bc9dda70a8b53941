// A node's backup copies, and what it applies to them from its log rings. Node 1 of three backs up partition
// 0; partition 1 is its own, partition 2 lives at the other two.
#include "protocols/store/node_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "protocols/fake_backend_for_test.hpp"
#include "protocols/store/ring_log.hpp"

namespace verbtwin::protocols {
namespace {

using testing::IsEmpty;

constexpr RecordId kBackedUp = RecordId::make(0, 0, 5);
constexpr RecordId kOwn = RecordId::make(0, 1, 5);
constexpr RecordId kElsewhere = RecordId::make(0, 2, 5);
constexpr std::uint32_t kSlot = 5;

class NodeStoreTest : public testing::Test {
 protected:
  void update(RecordId record, std::uint64_t version, std::uint64_t value) {
    std::byte bytes[8];
    store_word(bytes, value);
    store.update_backup(record, version, bytes);
  }
  std::uint64_t version() { return load_word(copy() + 8); }
  std::uint64_t value() { return load_word(copy() + kRecordHeaderBytes); }
  std::uint64_t lock() { return load_word(copy()); }
  std::byte* copy() { return store.record_copy(0, 1, kSlot); }

  /// Node 0 appends an entry of that kind that writes these records at version 1.
  void append(LogKind kind, const std::vector<RecordId>& records, std::uint32_t slot = kSlot) {
    const bool has_head = kind != LogKind::kBackup;
    const std::size_t bytes = log_entry_bytes(records.size() + (has_head ? 1 : 0), 8 * records.size());
    std::vector<std::byte> entry(bytes);
    std::byte* at = entry.data() + kLogFrameBytes;
    if (has_head) {
      new (at) LogHead{0, 0, 0, 0, kind};
      at += sizeof(LogHead);
    }
    for (const RecordId record : records) {
      new (at) LogRecord{record.packed, 1, slot, 8, kind};
      store_word(at + sizeof(LogRecord), 77);
      at += sizeof(LogRecord) + 8;
    }
    const LogWriter::Place place = *writer.reserve(bytes);
    seal_log_entry(entry, place.frame);
    std::memcpy(store.ring(0, 0).at(place.offset), entry.data(), bytes);
    writer.make_certain(place.frame);
  }

  StoreLayout layout{{{"table", 8, 16}}, {1024, 512}, 3, 1, 2, 4096};
  FakeCluster cluster{ClusterShape{.nodes = 3}, layout.total_bytes()};
  NodeStore store{layout, 1, 1, cluster.memory(1), LogWrites::kAreApplied, KeepLogged::kAll};
  LogWriter writer{layout.log()};
};

/// Logs of several senders are applied in any order.
TEST_F(NodeStoreTest, ABackupKeepsTheNewestWrite) {
  update(kBackedUp, 2, 20);
  update(kBackedUp, 1, 10);
  EXPECT_EQ(version(), 2U);
  EXPECT_EQ(value(), 20U);
  update(kBackedUp, 3, 30);
  EXPECT_EQ(version(), 3U);
  EXPECT_EQ(value(), 30U);
  EXPECT_EQ(lock(), 0U);
}

/// The bit that marks a deletion is the highest of the word.
TEST_F(NodeStoreTest, WhatIsWrittenBehindADeletionIsNewer) {
  update(kBackedUp, 1, 10);
  update(kBackedUp, kDeletedBit | 2, 0);
  EXPECT_EQ(version(), kDeletedBit | 2);
  update(kBackedUp, 3, 30);
  EXPECT_EQ(version(), 3U);
  EXPECT_EQ(value(), 30U);
  update(kBackedUp, kDeletedBit | 2, 0);
  EXPECT_EQ(version(), 3U) << "a deletion may come late, too";
}

TEST_F(NodeStoreTest, WhatIsNotBackedUpHereIsLeftAlone) {
  const std::span<std::byte> memory = cluster.memory(1).local();
  const std::vector<std::byte> before(memory.begin(), memory.end());
  update(kOwn, 1, 10);
  update(kElsewhere, 1, 10);
  EXPECT_TRUE(std::ranges::equal(memory, before));
}

/// What the log says of a primary's slot is not where a backup keeps the record.
TEST_F(NodeStoreTest, ABackupFindsARecordInItsOwnIndex) {
  append(LogKind::kBackup, {kBackedUp}, kSlot + 1);
  store.reclaim(0, 0, writer.certain());
  EXPECT_EQ(version(), 1U);
  EXPECT_EQ(value(), 77U);
}

/// Entries hold whole transactions; a backup takes its records from them, and the checks hear of all.
TEST_F(NodeStoreTest, AnEntryIsAppliedToWhatIsBackedUpHere) {
  append(LogKind::kBackup, {kOwn, kBackedUp, kElsewhere});
  const NodeStore::Reclaimed done = store.reclaim(0, 0, writer.certain());
  EXPECT_EQ(done.head, writer.certain());
  EXPECT_EQ(done.entries, 1U);
  EXPECT_EQ(done.records, 1U);
  EXPECT_EQ(done.lines, 2U) << "96 B of body";
  EXPECT_EQ(version(), 1U);
  EXPECT_EQ(value(), 77U);
  ASSERT_EQ(store.logged().all().size(), 3U);
  EXPECT_EQ(store.logged().all()[0].write.record, kOwn);
  EXPECT_EQ(store.logged().all()[1].write.record, kBackedUp);
  EXPECT_EQ(store.logged().all()[1].backup, 1U);
}

TEST_F(NodeStoreTest, WhatTellsAPrimaryIsPassedOver) {
  append(LogKind::kClosedLock, {kBackedUp});
  append(LogKind::kCommitBackup, {kBackedUp});
  const NodeStore::Reclaimed done = store.reclaim(0, 0, writer.certain());
  EXPECT_EQ(done.head, writer.certain());
  EXPECT_EQ(done.entries, 2U);
  EXPECT_EQ(done.records, 1U) << "of COMMIT-BACKUP";
  EXPECT_EQ(done.applied, 1U);
  EXPECT_EQ(store.logged().all().size(), 1U);
}

/// Its records' backups are told by themselves, the node of the log among them or not.
TEST_F(NodeStoreTest, ACoordinatorsLogIsKeptAndNotApplied) {
  NodeStore keeps{layout, 1, 1, cluster.memory(1), LogWrites::kAreKept, KeepLogged::kAll};
  append(LogKind::kBackup, {kOwn, kBackedUp, kElsewhere});
  const NodeStore::Reclaimed done = keeps.reclaim(0, 0, writer.certain());
  EXPECT_EQ(done.head, writer.certain());
  EXPECT_EQ(done.entries, 1U);
  EXPECT_EQ(done.applied, 0U);
  EXPECT_EQ(done.records, 0U);
  EXPECT_EQ(version(), 0U);
  EXPECT_EQ(keeps.logged().all().size(), 3U) << "for the checks";
}

TEST_F(NodeStoreTest, NothingIsAppliedThatIsNotCertain) {
  append(LogKind::kBackup, {kBackedUp});
  EXPECT_EQ(store.reclaim(0, 0, 0).entries, 0U);
  EXPECT_EQ(version(), 0U);
  EXPECT_THAT(store.logged().all(), IsEmpty());
}

}  // namespace
}  // namespace verbtwin::protocols
