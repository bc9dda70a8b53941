#include "protocols/store/location_cache.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <list>
#include <pcg_random.hpp>
#include <unordered_map>
#include <vector>

namespace verbtwin::protocols {
namespace {

constexpr std::uint64_t kShards = 16;

/// Keys 0 .. records-1, of which nine look-ups of ten ask for the first ones.
class KeyPopularity final : public Popularity {
 public:
  KeyPopularity(std::uint64_t popular, std::uint64_t records)
      : popular_(popular),
        classes_{{1, popular, popular == 0 ? 0 : 0.9 / static_cast<double>(popular)},
                 {1, records - popular, (popular == 0 ? 1 : 0.1) / static_cast<double>(records - popular)}} {}
  const std::vector<RecordClass>& classes() const override { return classes_; }
  std::size_t class_of(RecordId record) const override { return record.key() < popular_ ? 0 : 1; }

 private:
  std::uint64_t popular_;
  std::vector<RecordClass> classes_;
};

/// So many that hardly any record is a node's own.
constexpr int kNodes = 1'000'000;

RecordId key(std::uint64_t k) {
  return RecordId::make(0, 1, k);
}

std::uint64_t bytes_for(std::uint64_t entries) {
  return entries * LocationCache::kEntryBytes;
}

/// Keys that share one shard: with room for one entry per shard, the second of two pushes the first out.
std::vector<std::uint64_t> keys_of_one_shard(std::size_t count) {
  const KeyPopularity popularity(0, 1'000'000);
  std::vector<std::uint64_t> keys{0};
  for (std::uint64_t k = 1; keys.size() < count; ++k) {
    LocationCache cache(bytes_for(kShards), CacheStart::kCold, popularity, kNodes);
    cache.put(key(0), 0);
    cache.put(key(k), k);
    if (!cache.find(key(0), 0)) keys.push_back(k);
  }
  return keys;
}

TEST(LocationCache, AColdCacheKnowsWhatItWasTold) {
  const KeyPopularity popularity(10, 100);
  LocationCache cache(bytes_for(1600), CacheStart::kCold, popularity, kNodes);
  EXPECT_FALSE(cache.find(key(3), 3));
  cache.put(key(3), 77);
  EXPECT_EQ(cache.find(key(3), 3), 77U);
  cache.put(key(3), 78);
  EXPECT_EQ(cache.find(key(3), 3), 78U) << "a record that moved";
}

TEST(LocationCache, WithoutRoomItHoldsNothing) {
  const KeyPopularity popularity(10, 100);
  for (const CacheStart start : {CacheStart::kCold, CacheStart::kWarm}) {
    LocationCache cache(0, start, popularity, kNodes);
    for (std::uint64_t k = 0; k < 100; ++k) {
      EXPECT_FALSE(cache.find(key(k), k));
      cache.put(key(k), k);
      EXPECT_FALSE(cache.find(key(k), k));
    }
  }
}

TEST(LocationCache, AFullCacheKnowsEverything) {
  const KeyPopularity popularity(10, 1'000'000);
  LocationCache cache(0, CacheStart::kFull, popularity, kNodes);
  for (std::uint64_t k = 0; k < 1'000'000; k += 997) EXPECT_EQ(cache.find(key(k), k + 5), k + 5);
  cache.put(key(1), 99);
  EXPECT_EQ(cache.find(key(1), 1), 1U);
}

/// Least recently used goes first; a look-up that hits is a use, and so is being put for the first time.
class NaiveCache {
 public:
  explicit NaiveCache(std::size_t capacity) : capacity_(capacity) {}
  std::optional<std::uint64_t> find(std::uint64_t k) {
    const auto found = at(k);
    if (found == entries_.end()) return std::nullopt;
    entries_.splice(entries_.begin(), entries_, found);
    return entries_.front().second;
  }
  void put(std::uint64_t k, std::uint64_t slot) {
    const auto found = at(k);
    if (found != entries_.end()) {
      found->second = slot;
      return;
    }
    if (entries_.size() == capacity_) entries_.pop_back();
    entries_.emplace_front(k, slot);
  }

 private:
  using Entries = std::list<std::pair<std::uint64_t, std::uint64_t>>;
  Entries::iterator at(std::uint64_t k) {
    return std::find_if(entries_.begin(), entries_.end(),
                        [k](const auto& entry) { return entry.first == k; });
  }
  std::size_t capacity_;
  Entries entries_;  // the most recently used first
};

TEST(LocationCacheProperty, AColdShardIsAnLruList) {
  static const std::vector<std::uint64_t> keys = keys_of_one_shard(12);
  EXPECT_TRUE(rc::check([] {
    const KeyPopularity popularity(0, 1'000'000);
    const auto capacity = *rc::gen::inRange<std::size_t>(1, 9);
    LocationCache cache(bytes_for(kShards * capacity), CacheStart::kCold, popularity, kNodes);
    NaiveCache naive(capacity);
    const auto steps = *rc::gen::container<std::vector<std::pair<std::uint8_t, bool>>>(
        rc::gen::arbitrary<std::pair<std::uint8_t, bool>>());
    std::uint64_t slot = 1000;
    for (const auto& [pick, put] : steps) {
      const std::uint64_t k = keys[pick % keys.size()];
      if (put) {
        cache.put(key(k), ++slot);
        naive.put(k, slot);
      } else {
        const auto expected = naive.find(k);
        RC_ASSERT(cache.find(key(k), k) == expected);
      }
    }
  }));
}

struct WarmCase {
  std::uint64_t capacity, popular, records;
};

void PrintTo(const WarmCase& c, std::ostream* os) {
  *os << c.capacity << " entries for " << c.popular << " popular of " << c.records;
}

class WarmLocationCache : public testing::TestWithParam<WarmCase> {
 protected:
  /// As the protocol uses it: what is missed is looked up elsewhere and put. The share of hits in `picks`.
  static double hit_ratio(LocationCache& cache, std::uint64_t picks, pcg32& random) {
    const auto& [capacity, popular, records] = GetParam();
    std::uint64_t hits = 0;
    for (std::uint64_t i = 0; i < picks; ++i) {
      const bool is_popular = popular > 0 && random(10) != 0;
      const std::uint64_t k = is_popular ? random(static_cast<std::uint32_t>(popular))
                                         : popular + random(static_cast<std::uint32_t>(records - popular));
      if (cache.find(key(k), k)) {
        ++hits;
      } else {
        cache.put(key(k), k);
      }
    }
    return static_cast<double>(hits) / static_cast<double>(picks);
  }
};

/// A cold one, filled by a hundred times as many look-ups as there are records.
TEST_P(WarmLocationCache, HitsAsOftenAsOneThatHasLongBeenInUse) {
  const auto& [capacity, popular, records] = GetParam();
  const KeyPopularity popularity(popular, records);
  LocationCache warm(bytes_for(capacity), CacheStart::kWarm, popularity, kNodes);
  LocationCache cold(bytes_for(capacity), CacheStart::kCold, popularity, kNodes);
  pcg32 random(1);
  hit_ratio(cold, 100 * records, random);
  const double expected = hit_ratio(cold, records, random);
  for (int window = 0; window < 8; ++window)
    EXPECT_NEAR(hit_ratio(warm, records / 4, random), expected, 0.018) << "window " << window;
}

/// A node does not look up its own records: its cache is for the others'.
TEST_P(WarmLocationCache, HasTheMoreRoomTheMoreRecordsAreItsNodesOwn) {
  const auto& [capacity, popular, records] = GetParam();
  const KeyPopularity popularity(popular, records);
  const auto found = [&, room = capacity, keys = records](int nodes) {
    LocationCache cache(bytes_for(room), CacheStart::kWarm, popularity, nodes);
    double count = 0;
    for (std::uint64_t k = 0; k < keys; k += 2) {
      const auto slot = cache.find(key(k), k + 9);
      if (!slot) continue;
      EXPECT_EQ(*slot, k + 9);
      ++count;
    }
    return count;
  };
  const double half = static_cast<double>(records) / 2, room = static_cast<double>(capacity);
  EXPECT_NEAR(found(kNodes), std::min(room / 2, half), 0.01 * static_cast<double>(records));
  EXPECT_NEAR(found(2), std::min(room, half), 0.01 * static_cast<double>(records)) << "the rest is its own";
}

TEST_P(WarmLocationCache, NeverHoldsMoreThanFits) {
  const auto& [capacity, popular, records] = GetParam();
  const KeyPopularity popularity(popular, records);
  LocationCache cache(bytes_for(capacity), CacheStart::kWarm, popularity, kNodes);
  pcg32 random(2);
  for (std::uint64_t i = 0; i < records / 2; ++i) {
    const auto k = random(static_cast<std::uint32_t>(records));
    if (!cache.find(key(k), k)) cache.put(key(k), k);
  }
  std::uint64_t held = 0;
  for (std::uint64_t k = 0; k < records; ++k) held += cache.find(key(k), k).has_value();
  EXPECT_LE(static_cast<double>(held), static_cast<double>(capacity) + 0.01 * static_cast<double>(records));
  EXPECT_GE(static_cast<double>(held), static_cast<double>(std::min(capacity, records)) * 0.98);
}

TEST_P(WarmLocationCache, RemembersNothingOfWhatItEvicted) {
  const auto& [capacity, popular, records] = GetParam();
  const KeyPopularity popularity(popular, records);
  LocationCache cache(bytes_for(capacity), CacheStart::kWarm, popularity, kNodes);
  const std::uint64_t asked = 5 * std::max(capacity, records);
  for (std::uint64_t k = 0; k < asked; ++k) {
    if (!cache.find(key(k), k)) cache.put(key(k), k);
    ASSERT_LE(cache.seen(), capacity) << k;
  }
  EXPECT_EQ(cache.seen(), capacity / kShards * kShards);
}

TEST_P(WarmLocationCache, WhatIsNotThereDoesNotComeBack) {
  const auto& [capacity, popular, records] = GetParam();
  const KeyPopularity popularity(popular, records);
  LocationCache cache(bytes_for(capacity), CacheStart::kWarm, popularity, kNodes);
  pcg32 random(3);
  std::vector<bool> gone(records);
  std::uint64_t came_back = 0;
  for (std::uint64_t i = 0; i < 3 * records; ++i) {
    const auto k = random(static_cast<std::uint32_t>(records));
    const bool found = cache.find(key(k), k).has_value();
    if (found && gone[k]) ++came_back;
    if (found) continue;
    gone[k] = true;
    if (random(4) == 0) {  // the others stay unknown: nobody asked again
      cache.put(key(k), k);
      gone[k] = false;
    }
  }
  EXPECT_EQ(came_back, 0U);
}

INSTANTIATE_TEST_SUITE_P(Sizes, WarmLocationCache,
                         testing::Values(WarmCase{100'000, 2'000, 50'000}, WarmCase{25'000, 2'000, 50'000},
                                         WarmCase{10'000, 2'000, 50'000}, WarmCase{30'000, 0, 60'000},
                                         WarmCase{5'000, 10'000, 50'000}));

TEST(LocationCache, AColdOneRemembersNothingOfWhatItEvicted) {
  const KeyPopularity popularity(0, 1'000'000);
  LocationCache cache(bytes_for(kShards), CacheStart::kCold, popularity, kNodes);
  for (std::uint64_t k = 0; k < 1000; ++k) cache.put(key(k), k);
  std::size_t found = 0;
  for (std::uint64_t k = 0; k < 1000; ++k) found += cache.find(key(k), k).has_value() ? 1 : 0;
  EXPECT_EQ(found, kShards) << "one in each shard";
  cache.put(key(1), 77);
  EXPECT_EQ(cache.find(key(1), 1), 77U) << "and it may come back";
}

TEST(LocationCache, AnEvictedWarmEntryStaysAway) {
  const KeyPopularity popularity(0, 32);
  LocationCache cache(bytes_for(kShards), CacheStart::kWarm, popularity, kNodes);
  std::vector<std::uint64_t> seen;
  for (std::uint64_t k = 0; k < 32; ++k) {
    if (cache.find(key(k), k)) seen.push_back(k);
  }
  ASSERT_FALSE(seen.empty());
  for (std::uint64_t k = 1000; k < 2000; ++k) cache.put(key(k), k);
  for (int again = 0; again < 3; ++again) {
    for (const std::uint64_t k : seen) EXPECT_FALSE(cache.find(key(k), k)) << k;
  }
}

}  // namespace
}  // namespace verbtwin::protocols
