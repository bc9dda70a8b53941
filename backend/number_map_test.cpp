#include "backend/number_map.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace verbtwin {
namespace {

TEST(NumberMap, HoldsWhatWasPutIn) {
  NumberMap<std::unique_ptr<std::uint32_t>> map;
  EXPECT_EQ(map.find(0), nullptr) << "empty";
  constexpr std::uint32_t kCount = 1000;
  for (std::uint32_t i = 0; i < kCount; ++i) map[i * 4096] = std::make_unique<std::uint32_t>(i);
  EXPECT_EQ(map.size(), kCount);
  for (std::uint32_t i = 0; i < kCount; ++i) {
    ASSERT_NE(map.find(i * 4096), nullptr);
    EXPECT_EQ(**map.find(i * 4096), i);
    EXPECT_EQ(map.find(i * 4096 + 1), nullptr);
  }
}

TEST(NumberMap, AValueIsMadeOnceAndListedInOrder) {
  NumberMap<int> map;
  for (const std::uint32_t number : {70U, 3U, 1U << 31, 70U, 0U}) ++map[number];
  EXPECT_EQ(map[70], 2);
  EXPECT_EQ(map.numbers(), (std::vector<std::uint32_t>{0, 3, 70, 1U << 31}));
}

}  // namespace
}  // namespace verbtwin
