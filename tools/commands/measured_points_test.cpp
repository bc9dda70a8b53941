#include "tools/commands/measured_points.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/user_error.hpp"

namespace verbtwin::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MeasuredPoints, AtomicsHaveOneSize) {
  MeasuredGrid grid;
  grid.sizes = {8, 64};
  grid.windows = {4};
  grid.verbs = {"read", "fetch_add"};
  const MeasuredPoints all = measured_points(grid);
  ASSERT_EQ(all.points.size(), 3U);
  EXPECT_EQ(all.points[1].payload_b, 64);
  EXPECT_EQ(all.points[2].verb, "fetch_add");
  EXPECT_EQ(all.points[2].payload_b, 8);
}

TEST(MeasuredPoints, WhatCannotBeIsSaidOnce) {
  MeasuredGrid grid;
  grid.sizes = {8, 8000};
  grid.windows = {1, 4};
  grid.batches = {2};
  grid.verbs = {"read", "send_ud"};
  const MeasuredPoints all = measured_points(grid);
  EXPECT_EQ(all.points.size(), 3U) << "READs of two sizes and datagrams of one, two at a time";
  EXPECT_THAT(all.skipped, ElementsAre(HasSubstr("-l 2 does not fit in a window of -t 1"),
                                       HasSubstr("a datagram holds up to 4096 B, not 8000")));
}

TEST(MeasuredPoints, OneAtATimeIsTimedAsPerftestDoes) {
  MeasuredGrid grid;
  grid.sizes = {8};
  grid.windows = {1, 16};
  grid.verbs = {"write"};
  const MeasuredPoints all = measured_points(grid);
  ASSERT_EQ(all.points.size(), 2U);
  EXPECT_EQ(all.points[0].mode, "ping_pong");
  EXPECT_TRUE(all.points[0].is_inline);
  EXPECT_NE(all.points[1].mode, "ping_pong");
  EXPECT_FALSE(all.points[1].is_inline);
}

TEST(MeasuredPoints, NothingIsRefused) {
  MeasuredGrid grid;
  grid.windows = {1};
  grid.batches = {2};
  EXPECT_THROW(measured_points(grid), UserError);
}

}  // namespace
}  // namespace verbtwin::tools
