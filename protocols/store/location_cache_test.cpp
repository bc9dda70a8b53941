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

/// Keys 0 .. records-1, the first of them popular.
class KeyPopularity final : public Popularity {
 public:
  KeyPopularity(std::uint64_t popular, std::uint64_t records) : popular_(popular), records_(records) {}
  bool popular(RecordId record) const override { return record.key() < popular_; }
  std::uint64_t popular_records() const override { return popular_; }
  std::uint64_t records() const override { return records_; }

 private:
  std::uint64_t popular_, records_;
};

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
    LocationCache cache(bytes_for(kShards), CacheStart::kCold, popularity);
    cache.put(key(0), 0);
    cache.put(key(k), k);
    if (!cache.find(key(0), 0)) keys.push_back(k);
  }
  return keys;
}

TEST(LocationCache, AColdCacheKnowsWhatItWasTold) {
  const KeyPopularity popularity(10, 100);
  LocationCache cache(bytes_for(1600), CacheStart::kCold, popularity);
  EXPECT_FALSE(cache.find(key(3), 3));
  cache.put(key(3), 77);
  EXPECT_EQ(cache.find(key(3), 3), 77U);
  cache.put(key(3), 78);
  EXPECT_EQ(cache.find(key(3), 3), 78U) << "a record that moved";
}

TEST(LocationCache, WithoutRoomItHoldsNothing) {
  const KeyPopularity popularity(10, 100);
  for (const CacheStart start : {CacheStart::kCold, CacheStart::kWarm}) {
    LocationCache cache(0, start, popularity);
    for (std::uint64_t k = 0; k < 100; ++k) {
      EXPECT_FALSE(cache.find(key(k), k));
      cache.put(key(k), k);
      EXPECT_FALSE(cache.find(key(k), k));
    }
  }
}

TEST(LocationCache, AFullCacheKnowsEverything) {
  const KeyPopularity popularity(10, 1'000'000);
  LocationCache cache(0, CacheStart::kFull, popularity);
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
    LocationCache cache(bytes_for(kShards * capacity), CacheStart::kCold, popularity);
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
  double popular_share() const {
    const auto& [capacity, popular, records] = GetParam();
    return popular == 0 ? 1 : std::min(1.0, static_cast<double>(capacity) / static_cast<double>(popular));
  }
  double rest_share() const {
    const auto& [capacity, popular, records] = GetParam();
    if (capacity <= popular) return 0;
    return std::min(1.0, static_cast<double>(capacity - popular) / static_cast<double>(records - popular));
  }
};

TEST_P(WarmLocationCache, FindsTheShareThatFits) {
  const auto& [capacity, popular, records] = GetParam();
  const KeyPopularity popularity(popular, records);
  LocationCache cache(bytes_for(capacity), CacheStart::kWarm, popularity);
  double found_popular = 0, found_rest = 0;
  for (std::uint64_t k = 0; k < records; ++k) {
    const auto slot = cache.find(key(k), k + 9);
    if (!slot) continue;
    EXPECT_EQ(*slot, k + 9);
    ++(k < popular ? found_popular : found_rest);
  }
  if (popular > 0) {
    EXPECT_NEAR(found_popular / static_cast<double>(popular), popular_share(), 0.01);
  }
  EXPECT_NEAR(found_rest / static_cast<double>(records - popular), rest_share(), 0.01);
}

/// With room for all popular records: among more of them LRU keeps another share.
class RoomyWarmLocationCache : public WarmLocationCache {};

/// As the protocol uses it: what is missed is looked up elsewhere and put. Popular records get nine picks of
/// ten.
TEST_P(RoomyWarmLocationCache, TheHitRatioStaysWhatItWasAtTheStart) {
  const auto& [capacity, popular, records] = GetParam();
  const KeyPopularity popularity(popular, records);
  LocationCache cache(bytes_for(capacity), CacheStart::kWarm, popularity);
  pcg32 random(1);
  for (int window = 0; window < 5; ++window) {
    std::uint64_t hits = 0, picks = 0;
    for (std::uint64_t i = 0; i < records / 4; ++i) {
      const auto k = popular + random(static_cast<std::uint32_t>(records - popular));
      ++picks;
      if (cache.find(key(k), k)) {
        ++hits;
      } else {
        cache.put(key(k), k);
      }
      for (int p = 0; p < 9 && popular > 0; ++p) {
        const auto hot = random(static_cast<std::uint32_t>(popular));
        if (!cache.find(key(hot), hot)) cache.put(key(hot), hot);
      }
    }
    EXPECT_NEAR(static_cast<double>(hits) / static_cast<double>(picks), rest_share(), 0.01)
        << "window " << window;
  }
}

TEST_P(WarmLocationCache, NeverHoldsMoreThanFits) {
  const auto& [capacity, popular, records] = GetParam();
  const KeyPopularity popularity(popular, records);
  LocationCache cache(bytes_for(capacity), CacheStart::kWarm, popularity);
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

TEST_P(WarmLocationCache, WhatIsNotThereDoesNotComeBack) {
  const auto& [capacity, popular, records] = GetParam();
  const KeyPopularity popularity(popular, records);
  LocationCache cache(bytes_for(capacity), CacheStart::kWarm, popularity);
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

constexpr std::array kRoomy = {WarmCase{100'000, 2'000, 50'000}, WarmCase{25'000, 2'000, 50'000},
                               WarmCase{10'000, 2'000, 50'000}, WarmCase{30'000, 0, 60'000}};
INSTANTIATE_TEST_SUITE_P(Sizes, RoomyWarmLocationCache, testing::ValuesIn(kRoomy));
INSTANTIATE_TEST_SUITE_P(Sizes, WarmLocationCache, testing::ValuesIn(kRoomy));
INSTANTIATE_TEST_SUITE_P(SizesBelowThePopular, WarmLocationCache,
                         testing::Values(WarmCase{5'000, 10'000, 50'000}));

TEST(LocationCache, AColdOneRemembersNothingOfWhatItEvicted) {
  const KeyPopularity popularity(0, 1'000'000);
  LocationCache cache(bytes_for(kShards), CacheStart::kCold, popularity);
  for (std::uint64_t k = 0; k < 1000; ++k) cache.put(key(k), k);
  std::size_t found = 0;
  for (std::uint64_t k = 0; k < 1000; ++k) found += cache.find(key(k), k).has_value() ? 1 : 0;
  EXPECT_EQ(found, kShards) << "one in each shard";
  cache.put(key(1), 77);
  EXPECT_EQ(cache.find(key(1), 1), 77U) << "and it may come back";
}

TEST(LocationCache, AnEvictedWarmEntryStaysAway) {
  const KeyPopularity popularity(0, 32);
  LocationCache cache(bytes_for(kShards), CacheStart::kWarm, popularity);
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
