#include "models/lru_cache.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <random>
#include <vector>

namespace verbtwin::models {
namespace {

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

TEST(LruCache, ANewContextPushesNoneOut) {
  LruCache cache(1);
  const std::uint32_t first = cache.add(), second = cache.add();
  EXPECT_TRUE(cache.touch(first));
  EXPECT_FALSE(cache.touch(second)) << "it comes in when it is used";
  EXPECT_TRUE(cache.touch(second));
  EXPECT_FALSE(cache.touch(first));
}

TEST(LruCache, WhatWasUsedLastStays) {
  constexpr std::uint32_t kCapacity = 8;
  LruCache cache(kCapacity);
  for (std::uint32_t i = 0; i < 4 * kCapacity; ++i) cache.add();
  // The latest of all is never the less recently used of two, unless it is drawn twice.
  std::uint32_t hits = 0;
  constexpr std::uint32_t kRounds = 4000;
  for (std::uint32_t i = 0; i < kRounds; ++i) {
    cache.touch(i % 31);
    cache.touch((i + 1) % 31);
    hits += cache.touch(i % 31) ? 1 : 0;
  }
  EXPECT_GT(hits, kRounds * 97 / 100);  // 1 - 1/64 at least
}

/// Whatever goes, of N that are used at random a cache of C holds C.
TEST(LruCache, RandomUsesHitAsOftenAsThereAreHeld) {
  constexpr std::uint32_t kCapacity = 64, kThings = 160;
  LruCache cache(kCapacity);
  for (std::uint32_t i = 0; i < kThings; ++i) cache.add();
  std::mt19937 random(1);
  for (int i = 0; i < 100'000; ++i) cache.touch(static_cast<std::uint32_t>(random() % kThings));
  EXPECT_NEAR(static_cast<double>(cache.hits()) / 100'000, 64.0 / 160, 0.01);
}

/// Clients that come round in the same order: those that do not fit cost what they are, not everything.
TEST(LruCache, AFewMoreThanFitInTurnMissALittle) {
  constexpr std::uint32_t kCapacity = 78, kThings = 84, kRounds = 1000;
  LruCache cache(kCapacity);
  for (std::uint32_t i = 0; i < kThings; ++i) cache.add();
  for (std::uint32_t i = 0; i < kRounds * kThings; ++i) cache.touch(i % kThings);
  const double hit_ratio = static_cast<double>(cache.hits()) / (kRounds * kThings);
  EXPECT_GT(hit_ratio, 0.7);  // the least recently used of all: 0; any by random order: 0.93
  EXPECT_LT(hit_ratio, 0.93);
}

/// As a list of who is held, which is told of every touch's outcome, can say it.
TEST(LruCache, HoldsAsManyAsFitAndCountsWhatItFound) {
  EXPECT_TRUE(rc::check("hits are of what was held, and never more than fit are", [] {
    const auto capacity = *rc::gen::inRange<std::uint32_t>(1, 9);
    LruCache cache(capacity);
    std::uint32_t made = 0;
    std::uint64_t hits = 0, misses = 0;
    for (const auto draw :
         *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange<std::uint32_t>(0, 160))) {
      if (made == 0 || draw < 16) {
        RC_ASSERT(cache.add() == made++);
      } else {
        const std::uint32_t number = draw % made;
        const bool hit = cache.touch(number);
        RC_ASSERT(hit || made > capacity);
        ++(hit ? hits : misses);
        RC_ASSERT(cache.touch(number));  // it has come in
        ++hits;
      }
    }
    RC_ASSERT(cache.hits() == hits);
    RC_ASSERT(cache.misses() == misses);
    LruCache copy = cache;
    std::uint32_t held = 0;
    for (std::uint32_t i = 0; i < made; ++i) {
      LruCache asked = copy;
      held += asked.touch(i) ? 1 : 0;
    }
    RC_ASSERT(held == std::min(made, capacity));
  }));
}

}  // namespace
}  // namespace verbtwin::models
