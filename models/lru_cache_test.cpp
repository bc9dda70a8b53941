#include "models/lru_cache.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <deque>

namespace verbtwin::models {
namespace {

/// Most recent first; touches change the order from the start.
class NaiveCache {
 public:
  explicit NaiveCache(std::size_t capacity) : capacity_(capacity) {}
  std::uint32_t add() {
    use(made_);
    return made_++;
  }
  bool touch(std::uint32_t context) {
    const bool hit = std::find(held_.begin(), held_.end(), context) != held_.end();
    use(context);
    return hit;
  }

 private:
  void use(std::uint32_t context) {
    std::erase(held_, context);
    held_.push_front(context);
    if (held_.size() > capacity_) held_.pop_back();
  }
  std::size_t capacity_;
  std::deque<std::uint32_t> held_;
  std::uint32_t made_ = 0;
};

TEST(LruCache, ANewContextIsCached) {
  LruCache cache(2);
  const std::uint32_t first = cache.add();
  EXPECT_EQ(first, 0U);
  EXPECT_TRUE(cache.touch(first));
  EXPECT_EQ(cache.add(), 1U);
  EXPECT_TRUE(cache.touch(first));
  EXPECT_EQ(cache.hits(), 2U);
  EXPECT_EQ(cache.misses(), 0U);
}

TEST(LruCache, TheLeastRecentlyUsedGoes) {
  LruCache cache(2);
  cache.add();
  cache.add();
  cache.touch(0);
  cache.add();  // 1 goes
  EXPECT_TRUE(cache.touch(0));
  EXPECT_FALSE(cache.touch(1));  // 2 goes
  EXPECT_TRUE(cache.touch(0));
  EXPECT_FALSE(cache.touch(2));
  EXPECT_EQ(cache.hits(), 3U);
  EXPECT_EQ(cache.misses(), 2U);
}

TEST(LruCache, OneMoreThanFitsInTurnAlwaysMisses) {
  constexpr std::uint32_t kCapacity = 8;
  LruCache cache(kCapacity);
  for (std::uint32_t i = 0; i <= kCapacity; ++i) cache.add();
  for (int round = 0; round < 5; ++round) {
    for (std::uint32_t i = 0; i <= kCapacity; ++i) EXPECT_FALSE(cache.touch(i));
  }
  EXPECT_EQ(cache.hits(), 0U);
}

TEST(LruCache, AgreesWithAList) {
  EXPECT_TRUE(rc::check("every touch hits where a list of the most recent hits", [] {
    const auto capacity = *rc::gen::inRange<std::uint32_t>(1, 9);
    LruCache cache(capacity);
    NaiveCache naive(capacity);
    std::uint32_t made = 0;
    std::uint64_t hits = 0, misses = 0;
    for (const auto draw :
         *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange<std::uint32_t>(0, 160))) {
      if (made == 0 || draw < 16) {
        RC_ASSERT(cache.add() == naive.add());
        ++made;
        continue;
      }
      const bool hit = naive.touch(draw % made);
      RC_ASSERT(cache.touch(draw % made) == hit);
      ++(hit ? hits : misses);
    }
    RC_ASSERT(cache.hits() == hits);
    RC_ASSERT(cache.misses() == misses);
  }));
}

}  // namespace
}  // namespace verbtwin::models
