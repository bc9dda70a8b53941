#include "protocols/store/cluster_hash.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>

namespace verbtwin::protocols {
namespace {

using Kind = ClusterHash::Found::Kind;
using Bucket = std::array<std::byte, ClusterHash::kBucketBytes>;

constexpr std::uint64_t kRecordBit = 1ULL << 63;
constexpr std::uint64_t kLinkBit = 1ULL << 62;

void set(Bucket& bucket, std::uint32_t slot, std::uint64_t key, std::uint64_t word) {
  store_word(bucket.data() + slot * ClusterHash::kSlotBytes, key);
  store_word(bucket.data() + slot * ClusterHash::kSlotBytes + 8, word);
}

TEST(ClusterHash, AnUntouchedTableHoldsItsInitialKeys) {
  const Bucket untouched{};
  for (const std::uint64_t records : {1ULL, 3ULL, 4ULL, 5ULL, 1000ULL}) {
    const std::uint64_t buckets = ClusterHash::buckets_for(records);
    for (std::uint64_t key = 0; key < records + 20; ++key) {
      const auto found = ClusterHash::find(untouched, ClusterHash::home_bucket(key, buckets), key, records);
      if (key < records) {
        ASSERT_EQ(found.kind, Kind::kRecord) << key << " of " << records;
        ASSERT_EQ(found.value, key);
      } else {
        ASSERT_EQ(found.kind, Kind::kAbsent) << key << " of " << records;
      }
    }
  }
}

TEST(ClusterHash, EveryTableHasABucket) {
  EXPECT_EQ(ClusterHash::buckets_for(0), 1U);
  EXPECT_EQ(ClusterHash::buckets_for(1), 1U);
  EXPECT_EQ(ClusterHash::buckets_for(4), 1U);
  EXPECT_EQ(ClusterHash::buckets_for(5), 2U);
}

TEST(ClusterHash, AnUntouchedBucketIsNotAnothersHome) {
  const Bucket untouched{};
  EXPECT_EQ(ClusterHash::find(untouched, 1, 0, 100).kind, Kind::kAbsent);
  EXPECT_EQ(ClusterHash::find(untouched, 0, 4, 100).kind, Kind::kAbsent);
}

TEST(ClusterHash, ALinkedBucketHasNoInitialKeys) {
  const Bucket untouched{};
  EXPECT_EQ(ClusterHash::find(untouched, ClusterHash::kLinked, 0, 100).kind, Kind::kAbsent);
}

TEST(ClusterHash, ASlotThatWasSetSaysWhereTheRecordIs) {
  Bucket bucket{};
  set(bucket, 5, 777, kRecordBit | 42);
  const auto found = ClusterHash::find(bucket, 2, 777, 100);
  EXPECT_EQ(found.kind, Kind::kRecord);
  EXPECT_EQ(found.value, 42U);
  EXPECT_EQ(ClusterHash::find(bucket, 2, 778, 100).kind, Kind::kAbsent);
  EXPECT_EQ(ClusterHash::find(bucket, 2, 8, 100).kind, Kind::kRecord) << "its initial keys are still there";
}

TEST(ClusterHash, AnInitialSlotThatWasSetAnewHoldsWhatWasSet) {
  Bucket bucket{};
  set(bucket, 1, 777, kRecordBit | 42);
  EXPECT_EQ(ClusterHash::find(bucket, 0, 1, 100).kind, Kind::kAbsent) << "key 1 was there";
  EXPECT_EQ(ClusterHash::find(bucket, 0, 777, 100).value, 42U);
}

TEST(ClusterHash, AFullBucketLinksToTheNext) {
  Bucket bucket{};
  for (std::uint32_t slot = 0; slot + 1 < ClusterHash::kSlots; ++slot)
    set(bucket, slot, 900 + slot, kRecordBit | slot);
  set(bucket, ClusterHash::kSlots - 1, 0, kLinkBit | 0x12340);
  EXPECT_EQ(ClusterHash::find(bucket, 0, 903, 100).value, 3U);
  const auto found = ClusterHash::find(bucket, 0, 12345, 100);
  EXPECT_EQ(found.kind, Kind::kLink);
  EXPECT_EQ(found.value, 0x12340U);
  EXPECT_EQ(ClusterHash::find(bucket, ClusterHash::kLinked, 12345, 100).kind, Kind::kLink);
}

TEST(ClusterHash, ARecordSlotOfZeroIsARecord) {
  Bucket bucket{};
  set(bucket, 6, 777, kRecordBit);
  const auto found = ClusterHash::find(bucket, 0, 777, 100);
  EXPECT_EQ(found.kind, Kind::kRecord);
  EXPECT_EQ(found.value, 0U);
}

TEST(ClusterHashProperty, FindsExactlyTheKeysOfABucket) {
  EXPECT_TRUE(rc::check([](std::uint8_t home, bool linked) {
    const std::uint64_t bucket = linked ? ClusterHash::kLinked : home;
    const auto records = *rc::gen::inRange<std::uint64_t>(0, 1200);
    Bucket image{};
    std::array<bool, ClusterHash::kSlots> was_set{};
    for (std::uint32_t slot = 0; slot < ClusterHash::kSlots; ++slot) {
      was_set[slot] = *rc::gen::arbitrary<bool>();
      if (was_set[slot]) set(image, slot, 5000 + slot, kRecordBit | (70 + slot));
    }
    for (std::uint32_t slot = 0; slot < ClusterHash::kSlots; ++slot) {
      const auto found = ClusterHash::find(image, bucket, 5000 + slot, records);
      RC_ASSERT(found.kind == (was_set[slot] ? Kind::kRecord : Kind::kAbsent));
      if (was_set[slot]) RC_ASSERT(found.value == 70U + slot);
    }
    for (std::uint32_t i = 0; i < ClusterHash::kInitialPerBucket; ++i) {
      const std::uint64_t key = std::uint64_t{home} * ClusterHash::kInitialPerBucket + i;
      const bool there = !linked && !was_set[i] && key < records;
      const auto found = ClusterHash::find(image, bucket, key, records);
      RC_ASSERT(found.kind == (there ? Kind::kRecord : Kind::kAbsent));
      if (there) RC_ASSERT(found.value == key);
    }
  }));
}

}  // namespace
}  // namespace verbtwin::protocols
