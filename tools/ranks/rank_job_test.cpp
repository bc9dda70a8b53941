#include "tools/ranks/rank_job.hpp"

#include <gtest/gtest.h>

namespace verbtwin::tools {
namespace {

using nlohmann::json;

TEST(RankJob, WhatRankZeroCountedIsOfOneMachine) {
  json transactions = {{"partial", false}, {"committed_per_s", 1000.0}, {"warning", {"latencies add up"}}};
  mark_failed(transactions, "rank 1 was lost");
  EXPECT_EQ(transactions,
            json({{"partial", true}, {"committed_per_s", 1000.0}, {"failure", "rank 1 was lost"}}));

  // 3,000 a second of rank 0's, which the result had divided by all four.
  json operations = {{"partial", false}, {"operations_per_s", 750.0}, {"machines", 4}};
  mark_failed(operations, "rank 1 was lost");
  EXPECT_EQ(operations.at("machines"), 1);
  EXPECT_EQ(operations.at("operations_per_s"), 3000.0);
}

}  // namespace
}  // namespace verbtwin::tools
