// Runs that are offered a load (run.offered_per_s): who is asked little answers soon, who is asked too much
// falls behind, and latency counts from when a transaction was asked for.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <string>

#include "backend/user_error.hpp"
#include "tools/report/sweep_table.hpp"
#include "tools/tests/runs_for_test.hpp"

namespace verbtwin::tools {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kSmallBank = R"({
  "cluster": {"nodes": 4, "threads": 2, "coroutines": 4, "nics_per_node": 1},
  "protocol": {"name": "drtmh"},
  "workload": {"name": "smallbank", "accounts_per_thread": 10000},
  "run": {"warmup_us": 100, "measure_us": 1000, "check": "serializable"}
})";

constexpr const char* kRamp = R"({
  "cluster": {"nodes": 3, "threads": 2, "coroutines": 4, "nics_per_node": 1, "roles": {"servers": 1, "clients": 2}},
  "protocol": {"name": "ramp-fast"},
  "workload": {"name": "read-write-mix", "operations": 4, "read_ratio": 0.95, "keys": 1000, "value_b": 64},
  "run": {"warmup_us": 100, "measure_us": 1000, "check": "read-atomic"}
})";

constexpr const char* kEcho = R"({
  "cluster": {"nodes": 4, "threads": 4, "coroutines": 16, "nics_per_node": 1},
  "workload": {"name": "echo", "pattern": "many_to_one", "issuing_threads": 2, "process_ns": 500},
  "run": {"warmup_us": 100, "measure_us": 1000}
})";

constexpr const char* kMultiObject = R"({
  "cluster": {"nodes": 3, "threads": 2, "coroutines": 16, "nics_per_node": 1},
  "workload": {"name": "multi-object", "objects": 4},
  "run": {"warmup_us": 100, "measure_us": 1000}
})";

json run_offered(const char* scenario, double per_s, Overrides overrides = {}) {
  overrides.push_back("run.offered_per_s=" + std::to_string(per_s));
  return run(scenario, overrides);
}

double ended(const json& result) {
  return result.value("operations", 0.0) + result.value("committed", 0.0) + result.value("user_aborts", 0.0);
}

class OfferedLoad : public testing::TestWithParam<const char*> {
 protected:
  const double most_per_s_ = rate_per_s(run(GetParam()));
};

TEST_P(OfferedLoad, WhatIsAskedForIsDone) {
  const double offered = most_per_s_ / 3;
  const json result = run_offered(GetParam(), offered);
  EXPECT_EQ(violations(result), 0U) << findings(result);
  const double asked = offered * 1e-3;  // in the window
  EXPECT_NEAR(ended(result), asked, 4 * std::sqrt(asked));
  EXPECT_NEAR(result.at("offered"), ended(result), 8) << "but for those under way";
  EXPECT_EQ(result.at("bottleneck").at("resource"), "offered_load");
  EXPECT_FALSE(result.contains("warning")) << result["warning"];
}

TEST_P(OfferedLoad, WhoIsAskedLittleAnswersSooner) {
  const json busy = run(GetParam());
  const json idle = run_offered(GetParam(), most_per_s_ / 10);
  EXPECT_LT(idle.at("latency_us").at("mean"), busy.at("latency_us").at("mean"));
}

TEST_P(OfferedLoad, BeyondTheLimitTheBacklogGrows) {
  const double offered = most_per_s_ * 2;
  const json result = run_offered(GetParam(), offered);
  EXPECT_GT(rate_per_s(result), 0.8 * most_per_s_);
  EXPECT_LT(rate_per_s(result), 1.1 * most_per_s_);
  EXPECT_NE(result.at("bottleneck").at("resource"), "offered_load");
  EXPECT_THAT(result.at("warning").dump(), HasSubstr("more is asked for than the cluster does"));
  // Half of what is asked for is done: who comes at t ends at about 2 t, in a window from 100 to 1,100 us.
  const double p50_us = result.at("latency_us").at("p50");
  EXPECT_GT(p50_us, 200);
  EXPECT_LT(p50_us, 400);
}

/// Coordinated omission: who counts from when a coroutine took it up sees no backlog.
TEST_P(OfferedLoad, UncorrectedLatenciesLeaveTheWaitOut) {
  const json busy = run(GetParam());
  EXPECT_FALSE(busy.contains("latency_uncorrected_us"));
  const auto mean = [](const json& result, const char* key) {
    return result.at(key).at("mean").get<double>();
  };
  const json idle = run_offered(GetParam(), most_per_s_ / 10);
  EXPECT_LE(mean(idle, "latency_uncorrected_us"), mean(idle, "latency_us"));
  EXPECT_GT(mean(idle, "latency_uncorrected_us"), 0.5 * mean(idle, "latency_us"));
  const json behind = run_offered(GetParam(), most_per_s_ * 2);
  EXPECT_NEAR(mean(behind, "latency_uncorrected_us") / mean(busy, "latency_us"), 1, 0.25);
  EXPECT_GT(mean(behind, "latency_us"), 4 * mean(behind, "latency_uncorrected_us"));
  EXPECT_EQ(behind.at("latency_uncorrected_quantiles_us").at("1"),
            behind.at("latency_uncorrected_us").at("max"));
  const std::string csv = sweep_csv({{{}, behind, 0}});
  EXPECT_THAT(csv, HasSubstr(",latency_uncorrected_p99_us,"));
}

TEST_P(OfferedLoad, FallingBehindByALittleIsTold) {
  const Overrides longer = {"run.measure_us=20000"};
  const double offered = ended(run(GetParam(), longer)) / 20e-3 * 1.04;
  const json result = run_offered(GetParam(), offered, longer);
  EXPECT_NE(result.at("bottleneck").at("resource"), "offered_load");
  ASSERT_TRUE(result.contains("warning"));
  EXPECT_THAT(result.at("warning").dump(), HasSubstr("more is asked for than the cluster does"));
  EXPECT_THAT(result.at("warning").dump(), Not(HasSubstr("lengthen run.warmup_us\""))) << "would not help";
}

/// Nor is a window that chance could hide it in called one in which the load was done, or would have been.
TEST_P(OfferedLoad, FallingBehindByALittleIsNotDone) {
  const Overrides larger = {"cluster.threads=8", "cluster.coroutines=8"};
  const double offered = ended(run(GetParam(), larger)) / 1e-3 * 1.03;
  for (int seed = 1; seed <= 3; ++seed) {
    Overrides overrides = larger;
    overrides.push_back(fmt::format("run.seed={}", seed));
    const json result = run_offered(GetParam(), offered, overrides);
    EXPECT_NE(result.at("bottleneck").at("resource"), "offered_load") << seed;
    EXPECT_TRUE(result.contains("warning")) << seed;
  }
}

TEST_P(OfferedLoad, AWindowOfFewTransactionsTellsItToo) {
  const double offered = most_per_s_ * 2;
  const json result = run_offered(GetParam(), offered,
                                  {"run.warmup_us=50", fmt::format("run.measure_us={}", 300e6 / offered)});
  EXPECT_NEAR(result.at("offered"), 300, 4 * std::sqrt(300));
  EXPECT_NE(result.at("bottleneck").at("resource"), "offered_load");
  EXPECT_THAT(result.value("warning", json()).dump(), HasSubstr("more is asked for than the cluster does"));
}

/// However few there are: what chance could hide is not called done.
TEST_P(OfferedLoad, AShortWindowDoesNotHideAGoodShareOfTheLoad) {
  const double offered = most_per_s_ * 1.4;
  for (int seed = 1; seed <= 5; ++seed) {
    const json result = run_offered(GetParam(), offered,
                                    {"run.warmup_us=50", fmt::format("run.measure_us={}", 200e6 / offered),
                                     fmt::format("run.seed={}", seed)});
    EXPECT_LT(ended(result), 0.93 * result.at("offered").get<double>()) << "of no use as a test";
    EXPECT_NE(result.at("bottleneck").at("resource"), "offered_load") << seed;
    EXPECT_THAT(result.value("warning", json()).dump(),
                testing::AnyOf(HasSubstr("more is asked for"), HasSubstr("too short to tell")))
        << seed;
  }
}

/// Queues at the window's two ends differ by more than those of independent transactions would.
TEST_P(OfferedLoad, ALongQueueIsNotBehind) {
  const Overrides alone = {"cluster.coroutines=1"};
  const double offered = 0.83 * ended(run(GetParam(), alone)) / 1e-3;
  for (int seed = 1; seed <= 20; ++seed) {
    Overrides overrides = alone;
    overrides.push_back(fmt::format("run.seed={}", seed));
    const json result = run_offered(GetParam(), offered, overrides);
    EXPECT_FALSE(result.contains("warning")) << seed << result["warning"];
    EXPECT_EQ(result.at("bottleneck").at("resource"), "offered_load") << seed;
  }
}

TEST_P(OfferedLoad, WhatIsUnderWayAtTheEndIsNotBehind) {
  const json result = run_offered(GetParam(), most_per_s_ / 3, {"run.warmup_us=0", "run.measure_us=20000"});
  EXPECT_EQ(result.at("bottleneck").at("resource"), "offered_load");
  EXPECT_FALSE(result.contains("warning")) << result["warning"];
}

TEST_P(OfferedLoad, LatencyCountsTheWaitForACoroutine) {
  const json alone = run(GetParam(), {"cluster.coroutines=1"});
  const double most_per_s = rate_per_s(alone);
  const json asked = run_offered(GetParam(), 0.8 * most_per_s, {"cluster.coroutines=1"});
  // A queue with random arrivals that is served 80 % of the time: who arrives waits for two more on average,
  // where all take equally long.
  EXPECT_GT(asked.at("latency_us").at("mean").get<double>(),
            1.8 * alone.at("latency_us").at("mean").get<double>());
}

TEST_P(OfferedLoad, RepeatsAndDependsOnTheSeed) {
  const auto of_seed = [&](int seed) {
    return without_simulator(run_offered(GetParam(), most_per_s_ / 3, {"run.seed=" + std::to_string(seed)}));
  };
  EXPECT_EQ(of_seed(1), of_seed(1));
  EXPECT_NE(of_seed(1).at("latency_us"), of_seed(2).at("latency_us"));
}

TEST_P(OfferedLoad, NobodyAskingIsNoFailure) {
  const json result = run_offered(GetParam(), 1);
  EXPECT_EQ(ended(result), 0);
  EXPECT_EQ(result.at("window_us"), 1000);
  EXPECT_EQ(result.at("bottleneck").at("resource"), "none");
}

INSTANTIATE_TEST_SUITE_P(Families, OfferedLoad, testing::Values(kSmallBank, kRamp),
                         [](const auto& family) { return family.index == 0 ? "occ" : "ramp"; });

/// Micro-benchmarks have no attempts that fail, and their closed loop may run in step.
class OfferedCalls : public OfferedLoad {};

TEST_P(OfferedCalls, WhatIsAskedForIsDone) {
  const double offered = most_per_s_ / 3;
  const json result = run_offered(GetParam(), offered);
  const double asked = offered * 1e-3;  // in the window
  EXPECT_NEAR(result.at("offered"), asked, 4 * std::sqrt(asked));
  EXPECT_NEAR(ended(result), result.at("offered"), std::sqrt(asked)) << "but for those under way";
  EXPECT_EQ(result.at("bottleneck").at("resource"), "offered_load");
  EXPECT_FALSE(result.contains("warning")) << result["warning"];
}

TEST_P(OfferedCalls, BeyondTheLimitTheBacklogGrows) {
  const json result = run_offered(GetParam(), most_per_s_ * 2);
  EXPECT_NEAR(rate_per_s(result), most_per_s_, 0.15 * most_per_s_);
  EXPECT_NE(result.at("bottleneck").at("resource"), "offered_load");
  EXPECT_THAT(result.at("warning").dump(), HasSubstr("more is asked for than the cluster does"));
  const double p50_us = result.at("latency_us").at("p50");
  EXPECT_GT(p50_us, 200) << "half of what is asked for is done: who comes at t ends at about 2 t";
  EXPECT_LT(p50_us, 400);
}

TEST_P(OfferedCalls, RepeatAndDependOnTheSeed) {
  const auto of_seed = [&](int seed) {
    return without_simulator(run_offered(GetParam(), most_per_s_ / 3, {"run.seed=" + std::to_string(seed)}));
  };
  EXPECT_EQ(of_seed(1), of_seed(1));
  EXPECT_NE(of_seed(1).at("latency_us"), of_seed(2).at("latency_us"));
}

INSTANTIATE_TEST_SUITE_P(Benchmarks, OfferedCalls, testing::Values(kEcho, kMultiObject),
                         [](const auto& workload) { return workload.index == 0 ? "echo" : "multi_object"; });

TEST(OfferedLoadRefusals, PrimitiveTakesNone) {
  const char* primitive = R"({"cluster": {"nodes": 2}, "workload": {"name": "primitive"}})";
  try {
    load(primitive, {"run.offered_per_s=1000"});
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("/run/offered_per_s: workload primitive asks for the next request when"));
  }
}

}  // namespace
}  // namespace verbtwin::tools
