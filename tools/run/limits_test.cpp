// What limits a run, as its result names it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "tools/run/limits_for_test.hpp"

namespace verbtwin::tools {
namespace {

TEST(Limit, IsTheConflictsWhereMostAttemptsFail) {
  const json result = run(kSmallBank);
  EXPECT_GT(result.at("abort_ratio"), 0.5);
  EXPECT_EQ(limit(result), "locks");
  EXPECT_EQ(result.at("bottleneck").at("busiest"), "core");
  EXPECT_FALSE(result.at("bottleneck").contains("also"));
  EXPECT_NE(limit(run(kSmallBank, {"workload.accounts_per_thread=10000"})), "locks");
}

/// What fails fills the cores together with what commits: twice as fast ones bring a third.
TEST(Limit, IsTheConflictsAndTheCoresWhereTheseAreFullToo) {
  const json result =
      run(kSmallBank, {"workload.accounts_per_thread=200", "run.warmup_us=500", "run.measure_us=500"});
  EXPECT_EQ(limit(result), "locks");
  const json& also = result.at("bottleneck").at("also");
  ASSERT_EQ(also.size(), 1U) << also;
  EXPECT_EQ(also.at(0).at("resource"), "core");
  EXPECT_EQ(also.at(0).at("utilization"), result.at("bottleneck").at("utilization"));
}

/// Attempts that fail early cost little: twice as fast cores bring more than no conflicts would.
TEST(Limit, IsTheCoresWhereMostAttemptsFailButMostOfTheTimeIsNotTheirs) {
  const char* const kTpcc = R"(workload={"name":"tpcc","mix":"full","warehouses_per_node":9,"items":1000})";
  const json result =
      run(kSmallBank, {kTpcc, "cluster.threads=4", "cluster.coroutines=4", "protocol.log.ring_kib=64",
                       "run.warmup_us=500", "run.measure_us=3000"});
  EXPECT_GT(result.at("abort_ratio"), 0.5) << "of no use as a test";
  EXPECT_EQ(limit(result), "core") << result.at("bottleneck");
  EXPECT_LT(result.at("bottleneck").at("retry_share"), 0.5);
}

/// Of few attempts that fail, those at one record fail again and again, with waits in between.
TEST(Limit, IsTheConflictsWhereCoroutinesWaitToTryAgain) {
  const json result = run(kSmallBank, {R"(workload={"name":"ycsb","mix":"B","records_per_node":100000})",
                                       "cluster.nodes=8", "cluster.coroutines=4", "run.warmup_us=3000"});
  EXPECT_LT(result.at("abort_ratio"), 1.0 / 3) << "of no use as a test";
  EXPECT_EQ(limit(result), "locks") << result.at("bottleneck");
  EXPECT_GT(result.at("bottleneck").at("retry_share"), 1.0 / 3);
}

/// The machine of the hottest record is full of attempts at it: with twice as fast cores everywhere less
/// commits.
TEST(Limit, IsTheConflictsWhereOneMachineIsFullOfWhatFails) {
  const json result =
      run(kSmallBank, {R"(workload={"name":"ycsb","mix":"B","theta":0.99,"value_b":128})", "cluster.nodes=4",
                       "cluster.threads=16", "cluster.nic=connectx-5", "cluster.nics_per_node=1",
                       "run.warmup_us=1000", "run.measure_us=500"});
  const json& bottleneck = result.at("bottleneck");
  EXPECT_LT(result.at("abort_ratio"), 0.5);
  EXPECT_EQ(limit(result), "locks") << bottleneck;
  EXPECT_EQ(bottleneck.at("fullest"), true);
}

TEST(Limit, OfMoreThreadsThanAMachineHasCoresIsAWhatIf) {
  const auto warning = [](const char* threads) {
    return run(kSmallBank,
               {"workload.accounts_per_thread=1000", "cluster.nodes=3", threads, "run.measure_us=20"})
        .value("warning", json())
        .dump();
  };
  EXPECT_THAT(warning("cluster.threads=26"),
              testing::HasSubstr("26 threads, where a machine of xeon-e5-2650v4 has 24 cores"));
  EXPECT_THAT(warning("cluster.threads=24"), testing::Not(testing::HasSubstr("cores")));
}

TEST(Limit, IsTheConflictsWhereNothingIsFullAndAThirdOfTheAttemptsFails) {
  const auto skewed = [](const char* coroutines) {
    return run(kSmallBank, {R"(workload={"name": "ycsb", "mix": "F"})",
                            std::string("cluster.coroutines=") + coroutines, "run.measure_us=300"});
  };
  const json three = skewed("3");
  EXPECT_LT(three.at("abort_ratio"), 0.5);
  EXPECT_EQ(limit(three), "locks") << three.at("abort_ratio");
  EXPECT_EQ(limit(skewed("1")), "round_trips");
}

TEST(Limit, IsNothingWhereNothingEnded) {
  EXPECT_EQ(limit(run(kSmallBank, {"workload.accounts_per_thread=10000", "run.measure_us=0.001"})), "none");
  std::atomic<bool> stop{false};
  RunControl control;
  control.stop = &stop;
  control.progress = [&](double, double, std::uint64_t) { stop = true; };
  const json stopped = run(kSmallBank, {"run.warmup_us=100"}, control);
  EXPECT_EQ(stopped.at("partial"), true);
  EXPECT_EQ(limit(stopped), "none") << "stopped in the warm-up";
}

/// Each of a few queue pairs does one atomic at a time: cores with more to do would find them taken.
TEST(Limit, IsTheQueuePairsOfAtomicsWhereTheyDoOneAfterTheOther) {
  constexpr const char* kAtomics = R"({
    "cluster": {"nodes": 4, "threads": 4, "nics_per_node": 1},
    "workload": {"name": "primitive", "verb": "compare_swap", "words": "distinct", "outstanding": 32},
    "run": {"warmup_us": 50, "measure_us": 100}
  })";
  EXPECT_EQ(limit(run(kAtomics)), "qp_atomics");
  EXPECT_NE(limit(run(kAtomics, {"workload.outstanding=1"})), "qp_atomics");
  EXPECT_EQ(limit(run(kAtomics, {"cluster.threads=24"})), "atomic_unit");
  EXPECT_EQ(limit(run(kAtomics, {"workload.words=one"})), "atomic_lock");
}

TEST(Limit, IsALinkThatAllShare) {
  // Half of the messages cross the one cable between the two groups.
  const json result = run(R"({
    "cluster": {"nodes": 8, "threads": 4, "nics_per_node": 1, "network": {"topology": "dragonfly", "groups": 2, "chassis": 1,
                "routers": 2, "router_ports": 2, "group_cables": 1}},
    "workload": {"name": "primitive", "verb": "write", "payload_b": 2048},
    "run": {"warmup_us": 50, "measure_us": 100}
  })");
  EXPECT_EQ(limit(result), "link");
  EXPECT_GT(result.at("bottleneck").at("utilization"), 0.9);
}

TEST(Limit, IsTheFullestMachineWhereOthersAreNotFull) {
  // A popular record's NIC answers all the time, the others do not.
  const json result =
      run(kSmallBank, {R"(workload={"name": "ycsb", "mix": "C"})", "cluster.nodes=8",
                       "cluster.nics_per_node=1", "cluster.network.link_gbps=200", "run.measure_us=200"});
  EXPECT_EQ(limit(result), "nic_send") << result.at("resources");
  EXPECT_EQ(result.at("bottleneck").at("fullest"), true);
  for (const json& resource : result.at("resources")) {
    if (resource.at("name") != "nic_send") continue;
    EXPECT_LT(resource.at("utilization_mean"), 0.8) << "of no use as a test";
    EXPECT_EQ(resource.at("utilization_max"), result.at("bottleneck").at("utilization"));
  }
  EXPECT_FALSE(run(kSmallBank, {"workload.accounts_per_thread=10000"}).at("bottleneck").contains("fullest"));
}

TEST(Limit, ComparesTheFullestWithTheFullest) {
  // Of four servers one has what most ask for: its link is fuller than any engine, if not the links' mean.
  const json result = run(R"({
    "cluster": {"nodes": 8, "threads": 8, "coroutines": 8, "nics_per_node": 1, "roles": {"servers": 4, "clients": 4}},
    "protocol": {"name": "ramp-fast", "transport": "rdma_write", "get": "get_star", "put": "put_plus",
                 "versions_mib": 64},
    "workload": {"name": "ycsb-groups", "mix": "C"},
    "run": {"warmup_us": 200, "measure_us": 400, "check": "none"}
  })");
  EXPECT_EQ(limit(result), "link") << result.at("resources");
}

}  // namespace
}  // namespace verbtwin::tools
