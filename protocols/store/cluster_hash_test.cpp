#include "protocols/store/cluster_hash.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>

namespace verbtwin::protocols {
namespace {

TEST(ClusterHash, EveryTableHasABucket) {
  EXPECT_EQ(ClusterHash::buckets_for(0), 1U);
  EXPECT_EQ(ClusterHash::buckets_for(1), 1U);
  EXPECT_EQ(ClusterHash::buckets_for(4), 1U);
  EXPECT_EQ(ClusterHash::buckets_for(5), 2U);
}

TEST(ClusterHashProperty, EveryKeyHasItsOwnSlotInABucketOfItsTable) {
  EXPECT_TRUE(rc::check([](std::uint64_t records, std::uint64_t key) {
    if (records == 0) return;
    key %= records;
    RC_ASSERT(ClusterHash::bucket_of(key) < ClusterHash::buckets_for(records));
    const std::array<std::byte, ClusterHash::kBucketBytes> untouched{};
    RC_ASSERT(ClusterHash::find(untouched, key) == key);
  }));
}

}  // namespace
}  // namespace verbtwin::protocols
