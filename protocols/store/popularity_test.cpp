#include "protocols/store/popularity.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbtwin::protocols {
namespace {

using testing::ElementsAre;

TEST(Popularity, IsMoreThanTwiceTheAverage) {
  EXPECT_THAT(popular_classes({{0, 100, 0.009}, {0, 900, 0.0001}}), ElementsAre(true, false));
  EXPECT_THAT(popular_classes({{0, 100, 3}, {1, 100, 1}}), ElementsAre(false, false)) << "2 is the average";
  EXPECT_THAT(popular_classes({{0, 100, 9}, {1, 300, 1}}), ElementsAre(true, false)) << "3 is";
}

}  // namespace
}  // namespace verbtwin::protocols
