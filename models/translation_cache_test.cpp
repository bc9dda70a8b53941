#include "models/translation_cache.hpp"

#include <gtest/gtest.h>

#include "models/profiles_for_test.hpp"

namespace verbtwin::models {
namespace {

TranslationCache cache_of(double entries) {
  NicProfile nic = round_nic();
  nic.translation_cache_entries = entries;
  nic.translation_page_b = 4096;
  return TranslationCache(nic);
}

TEST(TranslationCache, APageIsAMissOnceAndThenAHit) {
  TranslationCache cache = cache_of(4);
  EXPECT_FALSE(cache.touch(0));
  EXPECT_TRUE(cache.touch(4095));
  EXPECT_FALSE(cache.touch(4096));
  EXPECT_TRUE(cache.touch(64));
}

TEST(TranslationCache, HoldsAsManyPagesAsItHasEntries) {
  TranslationCache cache = cache_of(4);
  for (std::uint64_t page = 0; page < 5; ++page) cache.touch(page * 4096);
  TranslationCache after = cache;  // a miss changes what is held
  int held = 0;
  for (std::uint64_t page = 0; page < 5; ++page) {
    TranslationCache asked = cache;
    held += asked.touch(page * 4096) ? 1 : 0;
  }
  EXPECT_EQ(held, 4);
  EXPECT_TRUE(after.touch(4 * 4096)) << "the fifth page came in";
}

}  // namespace
}  // namespace verbtwin::models
