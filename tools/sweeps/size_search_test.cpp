// The search for a size: which are run, and what is found.
#include "tools/sweeps/size_search.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>
#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

namespace verbtwin::tools {
namespace {

using nlohmann::json;

json result_with(double committed_per_s, double p99_us = 10) {
  return {{"committed_per_s", committed_per_s},
          {"latency_us", {{"p99", p99_us}}},
          {"bottleneck", {{"resource", "nic_recv"}}}};
}

struct Search {
  /// `rate_of`: what a cluster of so many machines reaches.
  Search(double goal, int low, int high, const std::function<double(int)>& rate_of)
      : search({{"committed_per_s", true, goal}}, low, high) {
    while (const std::optional<int> nodes = search.next()) {
      if (!ran.insert(*nodes).second) {
        ADD_FAILURE() << *nodes << " again";
        return;
      }
      search.add(*nodes, result_with(rate_of(*nodes)));
    }
  }
  SizeSearch search;
  std::set<int> ran;
};

TEST(SizeSearch, ARateInProportionTakesAFewRuns) {
  const Search in_proportion(100, 3, 256, [](int nodes) { return nodes; });
  EXPECT_EQ(in_proportion.search.found(), 100);
  EXPECT_LE(in_proportion.ran.size(), 5U);
  EXPECT_TRUE(in_proportion.ran.contains(99)) << "is shown to be too small";
}

TEST(SizeSearch, TheSmallestMayDo) {
  const Search enough(1, 3, 256, [](int nodes) { return nodes; });
  EXPECT_EQ(enough.search.found(), 3);
  EXPECT_EQ(enough.ran, std::set<int>{3});
}

TEST(SizeSearch, NoneMayDo) {
  const Search never(1000, 3, 256, [](int nodes) { return nodes; });
  EXPECT_EQ(never.search.found(), std::nullopt);
  EXPECT_TRUE(never.ran.contains(256)) << "the largest one has been tried";
  const Search nothing(1, 2, 64, [](int) { return 0.0; });
  EXPECT_EQ(nothing.search.found(), std::nullopt);
}

/// From 3 to 64 machines, the rate reached by as many as `enough`, a latency by size; its sizes.
std::set<int> search_for_limit(SizeSearch& search, int enough, const std::function<double(int)>& p99_us_of) {
  std::set<int> ran;
  while (const std::optional<int> nodes = search.next()) {
    if (!ran.insert(*nodes).second) {
      ADD_FAILURE() << *nodes << " again";
      break;
    }
    search.add(*nodes, result_with(*nodes >= enough ? 10 : 5, p99_us_of(*nodes)));
  }
  return ran;
}
SizeSearch for_rate_and_limit() {
  return {{{"committed_per_s", true, 10}, {"latency_us.p99", false, 20}}, 3, 64};
}

TEST(SizeSearch, ALatencyThatLargerClustersKeepIsFound) {
  for (const int enough : {3, 9}) {
    SizeSearch search = for_rate_and_limit();
    const std::set<int> ran = search_for_limit(search, enough, [](int nodes) { return 37.0 - nodes; });
    EXPECT_EQ(search.found(), 17);
    EXPECT_TRUE(ran.contains(16)) << "is shown to be too late";
    EXPECT_LE(ran.size(), 14U);
  }
}

TEST(SizeSearch, ALatencyThatGetsNoBetterIsGivenUpSoon) {
  SizeSearch search = for_rate_and_limit();
  EXPECT_EQ(search_for_limit(search, 3, [](int) { return 30.0; }), (std::set<int>{3, 5, 8}));
  EXPECT_EQ(search.found(), 3) << "the smallest that reaches the rate";
  SizeSearch worse = for_rate_and_limit();
  const std::set<int> ran = search_for_limit(worse, 6, [](int nodes) { return 30.0 + nodes; });
  EXPECT_EQ(worse.found(), 6);
  EXPECT_LE(*ran.rbegin(), 18);
}

/// The latency of a cluster whose machines' own clients fill a NIC's caches from some size on: what a NIC of
/// 2013 has at a load, with 10 to 13 machines short enough.
double dipped_us(int nodes) {
  if (nodes < 10) return 26;
  if (nodes < 14) return 19;
  return nodes < 32 ? 20.3 : 19.5;
}

TEST(SizeSearch, ADipBetweenSizesThatMissNarrowlyIsFound) {
  SizeSearch search({{"latency_us.p99", false, 20}}, 9, 64);
  const std::set<int> ran = search_for_limit(search, 9, dipped_us);
  EXPECT_EQ(search.found(), 10);
  EXPECT_LE(ran.size(), 16U);
  EXPECT_THAT(search.not_tried(), testing::IsEmpty());
}

TEST(SizeSearch, ADipIsFoundWhereLargerOnesAreGivenUp) {
  SizeSearch search({{"latency_us.p99", false, 20}}, 9, 64);
  search_for_limit(search, 9, [](int nodes) { return nodes < 32 ? dipped_us(nodes) : 30.0 + nodes; });
  EXPECT_EQ(search.found(), 10);
}

TEST(SizeSearch, LooksBetweenSizesAreFew) {
  SizeSearch search({{"latency_us.p99", false, 20}}, 3, 4096);
  EXPECT_LE(search_for_limit(search, 3, [](int nodes) { return 20.5 + 0.1 * (nodes % 3); }).size(), 14U);
  SizeSearch large({{"latency_us.p99", false, 20}}, 3, 4096);
  const std::set<int> ran =
      search_for_limit(large, 3, [](int nodes) { return 20 * std::pow(2000.0 / nodes, 0.1); });
  EXPECT_EQ(large.found(), 2000);
  EXPECT_LE(ran.size(), 40U);
  EXPECT_FALSE(large.not_tried().empty());
}

TEST(SizeSearch, AMissedRateCountsWhereItFallsAgain) {
  SizeSearch search({{"committed_per_s", true, 100}, {"latency_us.p99", false, 20}}, 3, 64);
  const auto p99_us_of = [](int nodes) {
    if (nodes < 13) return 40;
    return nodes == 14 || nodes == 15 ? 25 : 12;
  };
  while (const std::optional<int> nodes = search.next())
    search.add(*nodes, result_with(*nodes <= 13 ? 10.0 * *nodes : 90, p99_us_of(*nodes)));
  EXPECT_EQ(search.found(), 13) << "16 keep the latency, and miss the rate";
}

TEST(SizeSearch, WithoutARateTheSmallestThatKeepsTheLatencyIsTaken) {
  SizeSearch search({{"latency_us.p99", false, 5}}, 4, 64);
  EXPECT_EQ(search.next(), 4);
  search.add(4, result_with(1, 5));
  EXPECT_EQ(search.next(), std::nullopt);
  EXPECT_EQ(search.found(), 4);
}

RC_GTEST_PROP(SizeSearch, FindsTheSmallestOfAnyRateThatGrows, ()) {
  const int low = *rc::gen::inRange(2, 20);
  const int high = low + *rc::gen::inRange(0, 400);
  std::vector<double> rates(static_cast<std::size_t>(high) + 1);
  for (std::size_t n = 1; n < rates.size(); ++n) rates[n] = rates[n - 1] + *rc::gen::inRange(0, 5);
  const double goal = *rc::gen::inRange(0, 1200);
  const Search search(goal, low, high, [&](int nodes) { return rates[static_cast<std::size_t>(nodes)]; });
  std::optional<int> smallest;
  for (int nodes = high; nodes >= low; --nodes) {
    if (rates[static_cast<std::size_t>(nodes)] >= goal) smallest = nodes;
  }
  RC_ASSERT(search.search.found() == smallest);
  RC_ASSERT(search.ran.size() <= 2 * std::log2(high - low + 2) + 8);
}

}  // namespace
}  // namespace verbtwin::tools
