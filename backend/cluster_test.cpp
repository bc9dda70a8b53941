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

TEST(ClusterShape, TheTwoEndsOfAQueuePairNameEachOther) {
  ClusterShape shape;
  shape.threads = 6;
  shape.nics_per_node = 3;
  EXPECT_EQ(shape.far_thread(0, 2), 4);
  EXPECT_EQ(shape.far_thread(5, 0), 1);
  for (int thread = 0; thread < shape.threads; ++thread) {
    for (int nic = 0; nic < shape.nics_per_node; ++nic) {
      const int far = shape.far_thread(thread, nic);
      EXPECT_EQ(shape.nic_of_thread(far), nic);
      EXPECT_EQ(shape.far_thread(far, shape.nic_of_thread(thread)), thread);
    }
  }
}

}  // namespace
}  // namespace verbtwin
