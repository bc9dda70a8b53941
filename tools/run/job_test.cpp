#include "tools/run/job.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

#include "tools/tests/runs_for_test.hpp"

namespace verbtwin::tools {
namespace {

constexpr const char* kSmallBank = R"({
  "cluster": {"nodes": 3, "threads": 2, "coroutines": 4},
  "protocol": {"name": "drtmh"},
  "workload": {"name": "smallbank", "accounts_per_thread": 100},
  "run": {"warmup_us": 20, "measure_us": 100}
})";

scenarios::Run run_of(std::uint64_t seed, std::uint64_t index) {
  scenarios::Run run;
  run.seed = seed;
  run.index = index;
  return run;
}

TEST(SeedOf, IsTheSeedItselfWithoutAnIndex) {
  for (const std::uint64_t seed : {0ULL, 1ULL, 0x7fffffffffffffffULL})
    EXPECT_EQ(seed_of(run_of(seed, 0)), seed);
}

TEST(SeedOf, IsAnotherForEachSeedAndIndex) {
  std::set<std::uint64_t> seeds;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    for (std::uint64_t index = 1; index <= 200; ++index) {
      const std::uint64_t mixed = seed_of(run_of(seed, index));
      EXPECT_TRUE(seeds.insert(mixed).second) << seed << ", " << index;
      EXPECT_GT(mixed, 0x7fffffffffffffffULL) << "a scenario may say it for a seed";
      EXPECT_NE(mixed, ~0ULL);
    }
  }
}

TEST(RunIndex, MakesRunsOfTheirOwn) {
  const json plain = run(kSmallBank);
  EXPECT_FALSE(plain.contains("run_index"));
  EXPECT_EQ(without_simulator(plain), without_simulator(run(kSmallBank, {"run.index=0"})));
  const json first = run(kSmallBank, {"run.index=1"});
  EXPECT_EQ(first.at("run_index"), 1);
  EXPECT_EQ(first.at("seed"), 1);
  EXPECT_EQ(without_simulator(first), without_simulator(run(kSmallBank, {"run.index=1"})));
  std::set<std::string> seen;
  for (const Overrides& overrides : {Overrides{}, Overrides{"run.index=1"}, Overrides{"run.index=2"},
                                     Overrides{"run.seed=2"}, Overrides{"run.seed=2", "run.index=1"}})
    EXPECT_TRUE(seen.insert(run(kSmallBank, overrides).at("latency_quantiles_us").dump()).second);
}

/// What is random beside the workers.
TEST(RunIndex, IsOfLossesAndOtherTrafficToo) {
  constexpr const char* kReads = R"({
    "cluster": {"nodes": 2, "threads": 1, "network": {"loss_ratio": 0.02, "background_gbps": 20}},
    "workload": {"name": "primitive", "verb": "write", "pattern": "one_to_many"},
    "run": {"warmup_us": 20, "measure_us": 300}
  })";
  const auto lost = [&](const char* index) { return run(kReads, {index}).at("packets_lost"); };
  EXPECT_GT(lost("run.index=0"), 10);
  EXPECT_TRUE(lost("run.index=0") != lost("run.index=1") || lost("run.index=0") != lost("run.index=2"));
}

}  // namespace
}  // namespace verbtwin::tools
