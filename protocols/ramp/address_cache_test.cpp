#include "protocols/ramp/address_cache.hpp"

#include <gtest/gtest.h>

#include "protocols/workloads/draws.hpp"

namespace verbtwin::protocols {
namespace {

RampLayout four_servers() {
  RampLayout layout;
  layout.servers = 4;
  layout.keys = 100;
  return layout;
}

TEST(AddressCache, KnowsWhatItWasTold) {
  const RampLayout layout = four_servers();
  AddressCache cold(layout, false), warm(layout, true);
  EXPECT_EQ(cold.find(9), std::nullopt);
  EXPECT_EQ(warm.find(9), layout.slot_of(9));
  cold.set(9, 0, 28);
  EXPECT_EQ(cold.find(9), 0U);
  EXPECT_EQ(cold.find(8), std::nullopt);
  EXPECT_EQ(cold.metadata_b(), 28U);
  cold.set(8, 77, 4);
  EXPECT_EQ(cold.find(8), 77U);
  EXPECT_EQ(cold.metadata_b(), 28U);  // of the longest
}

TEST(AddressCache, WaitsTwiceAsLongAfterEachReadInVain) {
  const RampLayout layout = four_servers();
  AddressCache cache(layout, true);
  for (const int waits : {1, 3, 7}) {
    cache.read_in_vain(5);
    for (int i = 0; i < waits; ++i) {
      EXPECT_EQ(cache.find(5), std::nullopt) << waits;
      cache.set(5, 1, 0);
    }
    EXPECT_EQ(cache.find(5), 1U) << waits;
  }
  for (int i = 0; i < 7; ++i) cache.read_well(5);
  cache.read_in_vain(5);
  cache.set(5, 1, 0);
  EXPECT_EQ(cache.find(5), 1U);
}

/// The share of accesses that READ in vain, of a key whose READs are in vain with this probability.
double in_vain(double probability) {
  const RampLayout layout = four_servers();
  AddressCache cache(layout, true);
  pcg32 random(1);
  int in_vain = 0;
  constexpr int kAccesses = 100'000;
  for (int i = 0; i < kAccesses; ++i) {
    if (!cache.find(5)) {
      cache.set(5, 1, 0);
    } else if (draw_chance(random, per_million(probability))) {
      cache.read_in_vain(5);
      ++in_vain;
    } else {
      cache.read_well(5);
    }
  }
  return static_cast<double>(in_vain) / kAccesses;
}

TEST(AddressCache, KeysThatAreWrittenOftenAreAskedFor) {
  EXPECT_NEAR(in_vain(0.02), 0.02, 0.005);
  EXPECT_LT(in_vain(0.2), 0.03);
  EXPECT_LT(in_vain(0.5), 0.002);
}

}  // namespace
}  // namespace verbtwin::protocols
