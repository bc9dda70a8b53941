#include "backend/number_map.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace verbtwin {
namespace {

template <typename Map>
void holds_what_was_put_in(std::uint32_t step) {
  Map map;
  EXPECT_EQ(map.find(0), nullptr) << "empty";
  constexpr std::uint32_t kCount = 1000;
  for (std::uint32_t i = 0; i < kCount; ++i) map[i * step] = std::make_unique<std::uint32_t>(i);
  EXPECT_EQ(map.size(), kCount);
  for (std::uint32_t i = 0; i < kCount; ++i) {
    ASSERT_NE(map.find(i * step), nullptr);
    EXPECT_EQ(**map.find(i * step), i);
    EXPECT_EQ(map.find(i * step + 1), nullptr);
  }
}

TEST(NumberMap, HoldsWhatWasPutIn) {
  using Value = std::unique_ptr<std::uint32_t>;
  for (const std::uint32_t step : {2U, 4096U}) {
    holds_what_was_put_in<NumberMap<Value>>(step);
    holds_what_was_put_in<NumberMap<Value, true>>(step);
  }
}

TEST(NumberMap, NeighboursStandTogether) {
  NumberMap<int, true> map;
  for (std::uint32_t number = 0; number < 100; ++number) map[number] = 1;
  const auto at = [&](std::uint32_t number) { return static_cast<const std::byte*>(map.near(number)); };
  for (std::uint32_t number = 1; number < 100; ++number)
    EXPECT_EQ(at(number) - at(number - 1), at(1) - at(0)) << number;
}

TEST(NumberMap, AValueIsMadeOnceAndListedInOrder) {
  NumberMap<int> map;
  for (const std::uint32_t number : {70U, 3U, 1U << 31, 70U, 0U}) ++map[number];
  EXPECT_EQ(map[70], 2);
  EXPECT_EQ(map.numbers(), (std::vector<std::uint32_t>{0, 3, 70, 1U << 31}));
}

}  // namespace
}  // namespace verbtwin
