// Arrivals: how often, how irregularly, and independent of every other random choice.
#include "protocols/arrivals.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "protocols/fake_backend_for_test.hpp"

namespace verbtwin::protocols {
namespace {

constexpr double kMeanPs = 1e6;

Task<void> take(Arrivals& arrivals, Worker& worker, const Window& window, std::size_t most,
                std::vector<std::int64_t>& taken) {
  const std::atomic<bool> stop = false;
  while (taken.size() < most) {
    auto next = arrivals.next(worker, worker.cpu(), window, stop);
    const std::optional<std::int64_t> at_ps = co_await next;
    if (!at_ps) co_return;
    taken.push_back(*at_ps);
    auto turn = worker.yield();  // what never waits deepens the stack, where calls at the end are calls
    co_await turn;
  }
}

/// As a worker takes them that never waits: late for all but the first.
std::vector<std::int64_t> arrivals_of(double per_s, std::uint64_t seed, std::uint64_t stream,
                                      std::size_t most = 1000,
                                      std::int64_t end_ps = std::numeric_limits<std::int64_t>::max()) {
  FakeCluster cluster{ClusterShape{.nodes = 1}};
  Worker worker{cluster.port(), 16};
  Arrivals arrivals(per_s, seed, stream);
  Window window;
  window.end_ps = end_ps;
  std::vector<std::int64_t> taken;
  worker.spawn(take(arrivals, worker, window, most, taken));
  worker.step();
  worker.cpu().charge_ps(std::int64_t{1} << 50);
  while (worker.step()) continue;
  return taken;
}

TEST(Arrivals, AreCountedWhetherTakenOrNot) {
  constexpr auto kEndPs = static_cast<std::int64_t>(500 * kMeanPs);
  const std::vector<std::int64_t> at_ps = arrivals_of(1e12 / kMeanPs, 1, 3, 1000, kEndPs);
  const Window window{.begin_ps = kEndPs / 4, .end_ps = kEndPs};
  const auto inside = std::ranges::count_if(at_ps, [&](std::int64_t at) { return window.contains(at); });
  ASSERT_GT(inside, 300);
  for (const std::size_t most : {std::size_t{1}, std::size_t{200}, std::size_t{1000}}) {
    FakeCluster cluster{ClusterShape{.nodes = 1}};
    Worker worker{cluster.port(), 16};
    Arrivals arrivals(1e12 / kMeanPs, 1, 3);
    std::vector<std::int64_t> taken;
    worker.spawn(take(arrivals, worker, window, most, taken));
    worker.step();
    worker.cpu().charge_ps(2 * kEndPs);
    while (worker.step()) continue;
    EXPECT_EQ(arrivals.count(window), inside) << most << " taken";
    EXPECT_EQ(arrivals.count(window), inside) << "asked again";
  }
}

TEST(Arrivals, OfABacklogOnlyTheWindowsAreCounted) {
  constexpr std::int64_t kWarmupPs = 10'000'000'000;
  for (const double expected : {1e4, 1e6}) {
    for (const std::int64_t begin_ps : {std::int64_t{0}, std::int64_t{1'000'000}, kWarmupPs}) {
      const Window window{.begin_ps = begin_ps,
                          .end_ps = begin_ps + static_cast<std::int64_t>(expected * 100)};
      FakeCluster cluster{ClusterShape{.nodes = 1}};
      Worker worker{cluster.port(), 16};
      Arrivals arrivals(1e10, 1, 3);  // every 100 ps
      std::vector<std::int64_t> taken;
      worker.spawn(take(arrivals, worker, window, 1, taken));
      worker.step();
      worker.cpu().charge_ps(2 * kWarmupPs);
      while (worker.step()) continue;
      EXPECT_NEAR(static_cast<double>(arrivals.count(window)), expected, 4 * std::sqrt(expected))
          << "from " << begin_ps;
    }
  }
}

TEST(Arrivals, AreAsManyAsAskedForAndComeAtRandom) {
  constexpr std::size_t kMost = 20'000;
  const std::vector<std::int64_t> at_ps = arrivals_of(1e12 / kMeanPs, 1, 3, kMost);
  ASSERT_EQ(at_ps.size(), kMost);
  double sum = 0, squares = 0, before = 0;
  for (const std::int64_t at : at_ps) {
    const double gap = (static_cast<double>(at) - before) / kMeanPs;
    EXPECT_GE(gap, 0);
    sum += gap;
    squares += gap * gap;
    before = static_cast<double>(at);
  }
  const double mean = sum / kMost, variance = squares / kMost - mean * mean;
  EXPECT_NEAR(mean, 1, 4 / std::sqrt(kMost));
  EXPECT_NEAR(variance, 1, 4 * std::sqrt(8.0 / kMost)) << "as gaps of a Poisson process have";
}

/// The gaps that these random numbers would give.
double correlation(const std::vector<std::int64_t>& at_ps, pcg32 random) {
  double sum = 0;
  for (std::size_t i = 1; i < at_ps.size(); ++i) {
    if (i == 1) random();
    const double gap = static_cast<double>(at_ps[i] - at_ps[i - 1]) / kMeanPs;
    sum += (gap - 1) * (-std::log((static_cast<double>(random()) + 1) / 4294967296.0) - 1);
  }
  return sum / static_cast<double>(at_ps.size());
}

TEST(Arrivals, AreNotTheNumbersOfAnythingElse) {
  for (const std::uint64_t seed : {0ULL, 1ULL, 2ULL, 0x7fffffffffffffffULL}) {
    const std::vector<std::int64_t> at_ps = arrivals_of(1e12 / kMeanPs, seed, 5);
    EXPECT_NEAR(correlation(at_ps, pcg32(seed, 5)), 0, 0.15) << "the workload's, seed " << seed;
    EXPECT_NEAR(correlation(at_ps, pcg32(~seed, 5)), 0, 0.15) << "the backoff's, seed " << seed;
    EXPECT_NE(at_ps, arrivals_of(1e12 / kMeanPs, seed, 6)) << "another worker's";
  }
}

TEST(Arrivals, OneThatIsYearsAwayIsNoneAtAll) {
  EXPECT_EQ(arrivals_of(1e-9, 1, 1, 1000, std::int64_t{1} << 40), std::vector<std::int64_t>{});
}

}  // namespace
}  // namespace verbtwin::protocols
