#include "backend/ibverbs/fabric.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace verbtwin::ibverbs {
namespace {

using testing::HasSubstr;

TEST(Fabric, ThePKeyIsTheFirstWithFullMembership) {
  const auto chosen = [](std::vector<std::uint16_t> table) { return first_full_pkey(table); };
  EXPECT_EQ(chosen({0xFFFF, 0x8001}), 0U);
  EXPECT_EQ(chosen({0x7FFF, 0, 0x8001, 0xFFFF}), 2U);
  EXPECT_EQ(chosen({0x7FFF, 0x8000}), 0U) << "partition 0 is none";
  EXPECT_EQ(chosen({}), 0U);
}

TEST(Fabric, PartitionsAreApart) {
  EXPECT_EQ(why_apart(0, {.pkey = 0xFFFF}, 1, {.pkey = 0x7FFF}), "") << "a full member and a limited one";
  EXPECT_THAT(why_apart(0, {.pkey = 0x8001}, 2, {.pkey = 0xFFFF}),
              HasSubstr("rank 0's port has P_Key 0x8001 and rank 2's 0xffff"));
}

}  // namespace
}  // namespace verbtwin::ibverbs
