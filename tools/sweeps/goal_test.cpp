// Goals: what is one, what meets it, and of how many it is.
#include "tools/sweeps/goal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/user_error.hpp"

namespace verbtwin::tools {
namespace {

using nlohmann::json;
using testing::EndsWith;
using testing::HasSubstr;

json result_with(double committed_per_s, double p99_us = 10) {
  return {{"committed_per_s", committed_per_s},
          {"latency_us", {{"p99", p99_us}}},
          {"bottleneck", {{"resource", "nic_recv"}}}};
}

std::string refusal(const std::string& text) {
  try {
    parse_goal(text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Goal, IsAQuantityAndItsBound) {
  const Goal rate = parse_goal("committed_per_s>=2.5e6");
  EXPECT_TRUE(rate.met_by(result_with(2.5e6)));
  EXPECT_FALSE(rate.met_by(result_with(2.4e6)));
  EXPECT_EQ(describe(rate), "committed_per_s >= 2.50 M/s");
  EXPECT_EQ(parse_goal("committed_per_s >= 2.5e6").path, rate.path);
  EXPECT_EQ(parse_goal("committed_per_s >= 2.5e6").bound, rate.bound);
  const Goal latency = parse_goal("latency_us.p99<=40");
  EXPECT_TRUE(latency.met_by(result_with(1, 40)));
  EXPECT_FALSE(latency.met_by(result_with(1, 40.1)));
  EXPECT_FALSE(latency.met_by(result_with(0, 0))) << "nothing was committed";
}

TEST(Goal, WhatIsNoneIsRefused) {
  EXPECT_EQ(refusal("committed_per_s"),
            "--goal committed_per_s: a goal is NAME>=VALUE or NAME<=VALUE, as committed_per_s>=100e6");
  EXPECT_THAT(refusal("latency.p99<=4"),
              HasSubstr("unknown quantity \"latency.p99\"; allowed: committed_per_s, "));
  EXPECT_THAT(refusal("latency.p99<=4"), HasSubstr("did you mean \"latency_us.p99\"?"));
  for (const char* value : {"", "x", "1x", "-1", "nan", "inf", "1e999", "1 "}) {
    EXPECT_THAT(refusal(std::string("abort_ratio<=") + value), HasSubstr("the value is no number")) << value;
  }
  EXPECT_THAT(refusal("latency_us.p99<=60us"),
              EndsWith(": the value is no number of 0 or more; allowed: microseconds without a unit, as 60"));
  EXPECT_THAT(refusal("committed_per_s>=100M"), EndsWith("; allowed: as 100e6"));
  EXPECT_THAT(refusal("abort_ratio<=2%"), EndsWith("; allowed: as 0.02"));
  EXPECT_THAT(refusal("abort_ratio<=2"), EndsWith("allowed: as 0.02 for two percent"));
  for (const char* none : {">=", ">=1", "  >= 1"}) {
    EXPECT_THAT(refusal(none), EndsWith("no quantity in front of >=; allowed: as latency_us.p99<=60"))
        << none;
  }
  EXPECT_THAT(refusal("<=1"), HasSubstr("no quantity in front of <=;"));
  EXPECT_THAT(refusal("committed_per_s<=1"), HasSubstr("a rate is wanted at least"));
  EXPECT_THAT(refusal("latency_us.p99>=1"), HasSubstr("latency_us.p99 is allowed at most"));
  EXPECT_THAT(refusal("a\nb>=1"), HasSubstr("a\\nb"));
}

}  // namespace
}  // namespace verbtwin::tools
