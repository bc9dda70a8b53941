#include "protocols/ramp/version_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "protocols/checks/history.hpp"
#include "protocols/fake_backend_for_test.hpp"
#include "protocols/ramp/bloom.hpp"

namespace verbtwin::protocols {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000'000;
using Found = VersionStore::Found;

class VersionStoreTest : public testing::Test {
 protected:
  static RampLayout layout_for(std::uint64_t versions) {
    RampLayout l;
    l.keys = l.slots = 4;
    l.value_b = 16;
    l.metadata_max_b = 8;
    l.places = l.slots + versions;
    l.stride_b = 128;
    l.total_b = l.places * l.stride_b;
    return l;
  }
  explicit VersionStoreTest(std::uint64_t versions = 64)
      : layout(layout_for(versions)), memory(layout.total_b), store(layout, 0, memory, {4 * kSecond, true}) {}

  void prepare(std::uint64_t key, std::uint64_t timestamp, std::int64_t now_ps = 0) {
    std::vector<std::byte> value(layout.value_b, static_cast<std::byte>(timestamp));
    store.prepare(key, timestamp, {}, value, now_ps);
  }
  void put(std::uint64_t key, std::uint64_t timestamp, std::int64_t now_ps = 0) {
    prepare(key, timestamp, now_ps);
    store.commit(key, timestamp, now_ps);
  }
  VersionStore::View last(std::uint64_t key) {
    VersionStore::View seen;
    store.read_last(key, [&](const VersionStore::View& view) { seen = view; });
    return seen;
  }
  std::pair<Found, std::uint64_t> newest_of(std::uint64_t key, std::vector<std::uint64_t> timestamps,
                                            std::int64_t now_ps = 0) {
    std::uint64_t seen = 0;
    const Found found = store.read_newest_of(key, timestamps, now_ps,
                                             [&](const VersionStore::View& v) { seen = v.timestamp; });
    return {found, seen};
  }
  VersionHead own_place(std::uint64_t key) {
    VersionHead head;
    std::memcpy(&head, memory.local().data() + layout.place_offset(layout.slot_of(key)), sizeof head);
    return head;
  }

  RampLayout layout;
  FakeMemory memory;
  VersionStore store;
};

TEST_F(VersionStoreTest, APreparedVersionIsSeenOnceItIsCommitted) {
  EXPECT_EQ(last(1).timestamp, 0U);
  prepare(1, 10);
  EXPECT_EQ(last(1).timestamp, 0U);
  store.commit(1, 10, 0);
  EXPECT_EQ(last(1).timestamp, 10U);
  EXPECT_EQ(last(1).value[0], std::byte{10});
  EXPECT_EQ(last(2).timestamp, 0U);
}

TEST_F(VersionStoreTest, TellsWhatItHoldsInTheEnd) {
  put(1, 10);
  put(1, 20);
  put(3, 30);
  prepare(3, 40);
  prepare(2, 50);
  const std::vector<LastVersion> held = store.last_versions();
  ASSERT_EQ(held.size(), 2U) << "of what was committed";
  for (const LastVersion& version : held) {
    EXPECT_EQ(version.timestamp, version.key == 1 ? 20U : 30U);
    EXPECT_EQ(version.digest, value_digest(last(version.key).value));
  }
}

TEST_F(VersionStoreTest, ALateCommitOfAnOlderVersionChangesNothingButIsThere) {
  prepare(1, 10);
  put(1, 20);
  store.commit(1, 10, 0);
  EXPECT_EQ(last(1).timestamp, 20U);
  EXPECT_EQ(newest_of(1, {10}), std::pair(Found::kYes, std::uint64_t{10}));
  EXPECT_EQ(newest_of(1, {10, 20, 30}), std::pair(Found::kYes, std::uint64_t{20}));
  EXPECT_EQ(newest_of(1, {15}).first, Found::kNone);
  EXPECT_EQ(newest_of(1, {0, 15}), std::pair(Found::kYes, std::uint64_t{0}));
}

TEST_F(VersionStoreTest, WhatAReaderAsksForIsCommitted) {
  prepare(1, 10);
  EXPECT_EQ(newest_of(1, {10}), std::pair(Found::kYes, std::uint64_t{10}));
  EXPECT_EQ(last(1).timestamp, 10U);
  store.commit(1, 10, 0);  // the writer's own comes behind
  EXPECT_EQ(last(1).last_commit, 10U);
}

TEST_F(VersionStoreTest, AKeysOwnPlaceIsInvalidFromPrepareToCommit) {
  EXPECT_EQ(own_place(1).stamp, 0U);
  EXPECT_TRUE(last(1).in_place);
  prepare(1, 10);
  EXPECT_EQ(own_place(1).stamp, kInvalidVersion);
  EXPECT_FALSE(last(1).in_place);
  EXPECT_EQ(store.commit(1, 10, 0), layout.image_b(0));
  EXPECT_EQ(own_place(1).stamp, 20U);
  EXPECT_EQ(own_place(1).key, 1U);
  EXPECT_TRUE(last(1).in_place);
  EXPECT_EQ(store.commit(1, 10, 0), 0U);
  EXPECT_EQ(own_place(2).stamp, 0U);
}

TEST_F(VersionStoreTest, AKeysOwnPlaceStaysInvalidWhileANewerVersionIsPrepared) {
  put(1, 10);
  prepare(1, 20);
  prepare(1, 30);
  EXPECT_EQ(store.commit(1, 20, 0), 0U);
  EXPECT_EQ(last(1).timestamp, 20U);
  EXPECT_FALSE(last(1).in_place);
  EXPECT_EQ(own_place(1).stamp, 20 + kInvalidVersion);
  EXPECT_EQ(newest_of(1, {30}).first, Found::kYes);  // committed by its reader, who copies nothing
  EXPECT_EQ(own_place(1).stamp, 20 + kInvalidVersion);
  EXPECT_GT(store.commit(1, 30, 0), 0U);
  EXPECT_EQ(own_place(1).stamp, 60U);
}

TEST_F(VersionStoreTest, AVersionWithTheNumberOfACollectedOneIsCopiedAsWell) {
  put(1, 10);
  prepare(1, 20);
  prepare(1, 30);
  store.commit(1, 20, 0);  // not copied, and the first one may go
  prepare(1, 40, 5 * kSecond);
  EXPECT_EQ(newest_of(1, {10}).first, Found::kCollected);
  EXPECT_GT(store.commit(1, 40, 5 * kSecond), 0U);
  EXPECT_EQ(own_place(1).stamp, 80U);
}

TEST_F(VersionStoreTest, OverwrittenVersionsGoWhenTheirTimeHasCome) {
  put(1, 10);
  put(1, 20, kSecond);
  put(2, 30, 4 * kSecond);
  EXPECT_EQ(newest_of(1, {10}).first, Found::kYes);
  put(2, 40, 5 * kSecond);
  EXPECT_EQ(newest_of(1, {10}).first, Found::kCollected);
  EXPECT_EQ(newest_of(1, {5, 20}).second, 20U);
  EXPECT_EQ(newest_of(1, {5, 7}).first, Found::kCollected);  // may have been
  EXPECT_EQ(last(1).timestamp, 20U);
  EXPECT_EQ(store.collected_early(), 0U);
}

class SmallVersionStoreTest : public VersionStoreTest {
 protected:
  SmallVersionStoreTest() : VersionStoreTest(3) {}
};

TEST_F(SmallVersionStoreTest, WithoutRoomTheOldestGoesEarly) {
  put(1, 10);
  put(1, 20);
  put(1, 30);
  EXPECT_EQ(newest_of(1, {10}).first, Found::kYes);
  put(2, 40);
  EXPECT_EQ(newest_of(1, {10}).first, Found::kCollected);
  EXPECT_EQ(newest_of(1, {20}).first, Found::kYes);
  EXPECT_EQ(store.collected_early(), 1U);
}

TEST_F(VersionStoreTest, AnOlderVersionThatComesLateLeavesTheKeysPlaceValid) {
  put(1, 20);
  prepare(1, 10);
  EXPECT_EQ(own_place(1).stamp, 2 * 20U);
}

/// In the order in which they were overwritten, which need not be that of their timestamps.
TEST_F(VersionStoreTest, TheLargestTimestampThatIsLostIsRemembered) {
  put(1, 20);
  put(1, 30);
  put(1, 10);  // late
  put(2, 40, 5 * kSecond);
  put(2, 50, 5 * kSecond);
  EXPECT_EQ(newest_of(1, {10}, 5 * kSecond).first, Found::kCollected);
  EXPECT_EQ(newest_of(1, {20}, 5 * kSecond).first, Found::kCollected);
  EXPECT_EQ(newest_of(1, {30}, 5 * kSecond).first, Found::kYes);
}

/// By a second round that asked for it, and by its COMMIT.
TEST_F(VersionStoreTest, AVersionThatIsCommittedTwiceIsNotOverwritten) {
  put(1, 10);
  store.commit(1, 10, 0);
  put(2, 20, 5 * kSecond);
  EXPECT_EQ(newest_of(1, {10}, 5 * kSecond).first, Found::kYes);
  EXPECT_EQ(last(1).value[0], std::byte{10});
}

TEST_F(VersionStoreTest, ManyThreadsKeepTheNewestOfEachKey) {
  constexpr std::uint64_t kEach = 5000;
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uint64_t i = 1; i <= kEach; ++i) {
        const std::uint64_t timestamp = i << 8 | thread;
        put(i % 4, timestamp, static_cast<std::int64_t>(i) * kSecond);
        bool read = false;
        store.read_last(i % 4, [&](const VersionStore::View& view) {
          read = true;
          EXPECT_GE(view.timestamp, timestamp);
          EXPECT_EQ(view.value[0], view.value[15]);
        });
        EXPECT_TRUE(read);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::uint64_t key = 0; key < 4; ++key)
    EXPECT_EQ(last(key).timestamp, (kEach - (kEach - key) % 4) << 8 | 3) << key;
}

TEST(Bloom, HoldsWhatWasAddedAndLittleElse) {
  std::vector<std::byte> filter(32);
  for (std::uint64_t key = 0; key < 8; ++key) bloom_add(filter, 256, 4, key);
  int wrong = 0;
  for (std::uint64_t key = 0; key < 8; ++key) EXPECT_TRUE(bloom_holds(filter, 256, 4, key));
  for (std::uint64_t key = 8; key < 10'008; ++key) wrong += bloom_holds(filter, 256, 4, key) ? 1 : 0;
  EXPECT_LT(wrong, 50);  // (1 - e^(-4*8/256))^4 = 0.02 %: 2
}

}  // namespace
}  // namespace verbtwin::protocols
