#include "backend/cluster.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace verbtwin {
namespace {

std::vector<int> nics_of(int threads, int nics_per_node) {
  ClusterShape shape;
  shape.threads = threads;
  shape.nics_per_node = nics_per_node;
  std::vector<int> nics;
  for (int thread = 0; thread < threads; ++thread) nics.push_back(shape.nic_of_thread(thread));
  return nics;
}

TEST(ClusterShape, DealsThreadsToNicsInEqualBlocks) {
  EXPECT_EQ(nics_of(4, 1), (std::vector{0, 0, 0, 0}));
  EXPECT_EQ(nics_of(4, 2), (std::vector{0, 0, 1, 1}));
  EXPECT_EQ(nics_of(6, 3), (std::vector{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(nics_of(2, 2), (std::vector{0, 1}));
}

TEST(ClusterShape, UnevenBlocksDifferByOneAndUseEveryNic) {
  EXPECT_EQ(nics_of(5, 2), (std::vector{0, 0, 0, 1, 1}));
  EXPECT_EQ(nics_of(1, 2), (std::vector{0}));
}

}  // namespace
}  // namespace verbtwin
