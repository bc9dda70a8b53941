// Networks that others use as well, or that lose packets: whole runs, checked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "backend/user_error.hpp"
#include "tools/tests/ramp_runs_for_test.hpp"

namespace verbtwin::tools {
namespace {

constexpr const char* kReads = R"({
  "cluster": {"nodes": 3, "threads": 4, "nics_per_node": 1},
  "workload": {"name": "primitive", "verb": "read", "payload_b": 256, "outstanding": 16},
  "run": {"warmup_us": 20, "measure_us": 200}
})";
constexpr const char* kSmallBank = R"({
  "cluster": {"nodes": 4, "threads": 4, "coroutines": 4, "nics_per_node": 1},
  "protocol": {"name": "drtmh"},
  "workload": {"name": "smallbank"},
  "run": {"warmup_us": 50, "measure_us": 200}
})";

double p50_us(const json& result) {
  return result.at("latency_us").at("p50");
}
double mean_use(const json& result, const std::string& name) {
  for (const json& resource : result.at("resources"))
    if (resource.at("name") == name) return resource.at("utilization_mean");
  return -1;
}

/// Of what a machine posts.
double most_posted_to_mean(const json& result) {
  for (const json& resource : result.at("resources"))
    if (resource.at("name") == "mmio")
      return resource.at("utilization_max").get<double>() / resource.at("utilization_mean").get<double>();
  return std::numeric_limits<double>::infinity();
}

TEST(SharedNetwork, WhatOthersSendTakesTimeOfLinksAndOfTransactions) {
  const json alone = run(kSmallBank), beside = run(kSmallBank, {"cluster.network.background_gbps=50"});
  EXPECT_NEAR(mean_use(beside, "link"), 0.5 + mean_use(alone, "link"), 0.05);
  EXPECT_GT(mean_use(beside, "pcie_up"), mean_use(alone, "pcie_up") + 0.4);
  EXPECT_GT(p50_us(beside), p50_us(alone) * 1.05);
  EXPECT_LT(p50_us(beside), p50_us(alone) * 3);
  EXPECT_EQ(violations(beside), 0U) << findings(beside);
}

/// Atomics' requests are longer than their answers: who sends more of them must not hold the answers up.
TEST(SharedNetwork, MachinesThatFillLinksWithRequestsAreServedAlike) {
  const auto atomics = [](const std::string& outstanding) {
    return run(R"({
      "cluster": {"nodes": 4, "threads": 4, "nics_per_node": 1, "nic": "ideal", "host": "ideal-host",
                  "network": {"link_gbps": 25}},
      "workload": {"name": "primitive", "verb": "fetch_add", "payload_b": 8},
      "run": {"warmup_us": 1000, "measure_us": 500}})",
               {"workload.outstanding=" + outstanding});
  };
  const json some = atomics("16"), many = atomics("64");
  EXPECT_LT(most_posted_to_mean(many), 1.05);
  EXPECT_GT(many.at("operations"), 0.97 * some.at("operations").get<double>());
}

/// A machine's own ACKs must not stand behind what the others send it: they wait for less, send it more, and
/// in the end it sends nothing.
TEST(SharedNetwork, MachinesThatFillEnginesWithSendsAreServedAlike) {
  const json sends = run(R"({
    "cluster": {"nodes": 4, "threads": 8, "nics_per_node": 1, "nic": "connectx-4", "host": "ideal-host"},
    "workload": {"name": "primitive", "verb": "send", "transport": "rc", "payload_b": 64, "inline": false,
                 "outstanding": 64},
    "run": {"warmup_us": 1000, "measure_us": 500}})");
  EXPECT_LT(most_posted_to_mean(sends), 1.1);
}

/// Whose own READs are cheaper than what it serves must not get ahead of those it serves, the more the
/// longer.
TEST(SharedNetwork, MachinesThatReadEachOtherAreServedAlikeHoweverLong) {
  const auto reads = [](const std::string& warmup_us) {
    return run(R"({
      "cluster": {"nodes": 4, "threads": 12, "nics_per_node": 1, "nic": "connectx-4", "host": "xeon-e5-2650v4"},
      "workload": {"name": "primitive", "verb": "read", "payload_b": 256, "outstanding": 16},
      "run": {"measure_us": 300}})",
               {"run.warmup_us=" + warmup_us});
  };
  const json soon = reads("50"), late = reads("2000");
  EXPECT_LT(most_posted_to_mean(late), 1.15);
  EXPECT_NEAR(late.at("operations").get<double>() / soon.at("operations").get<double>(), 1, 0.02);
}

/// Nor may data that it sends wait for its own READs, which wait for the engine. With windows as deep as
/// these something is always there to do: an event for everything would find one resource full, and equal
/// machines equal.
TEST(SharedNetwork, MachinesThatReadWithDeepWindowsFillWhatLimitsThemAndAreServedAlike) {
  struct Reads {
    const char *nic, *host;
    int nodes, payload_b;
  };
  for (const auto& [nic, host, nodes, payload_b] : {
           Reads{"connectx-3", "fasst-connectx-3-host", 6, 384},
           {"connectx-3", "fasst-connectx-3-host", 8, 1024},
           {"connect-ib", "fasst-connect-ib-host", 3, 256},
           {"connectx-4", "xeon-e5-2650v4", 2, 128},
           {"connectx-4", "xeon-e5-2650v4", 2, 256},
           {"connectx-5", "osdi18-connectx-5-host", 3, 384},
       }) {
    const json reads = run(
        R"({"workload": {"name": "primitive", "verb": "read", "outstanding": 16},
            "run": {"warmup_us": 1000, "measure_us": 200}})",
        {"cluster.nodes=" + std::to_string(nodes), "cluster.threads=8", "cluster.nics_per_node=1",
         std::string("cluster.nic=") + nic, std::string("cluster.host=") + host,
         "workload.payload_b=" + std::to_string(payload_b)});
    const double full =
        std::max({mean_use(reads, "nic_send"), mean_use(reads, "nic_recv"), mean_use(reads, "link")});
    EXPECT_GT(full, 0.97) << nic << ", " << payload_b << " B";
    EXPECT_LT(most_posted_to_mean(reads), 1.05) << nic << ", " << payload_b << " B";
  }
}

TEST(SharedNetwork, WhatOthersSendIsTheSameAgain) {
  const Overrides both = {"cluster.network.background_gbps=30", "cluster.network.loss_ratio=0.001",
                          "cluster.ack_timeout=3"};
  EXPECT_EQ(without_simulator(run(kReads, both)), without_simulator(run(kReads, both)));
}

TEST(LossyNetwork, RequestsOverRcAreDoneAndTakeLonger) {
  const json lossless = run(kReads);
  const json lossy = run(kReads, {"cluster.network.loss_ratio=0.001", "cluster.ack_timeout=2"});
  EXPECT_EQ(lossless.at("packets_lost"), 0);
  EXPECT_GT(lossy.at("packets_lost"), 20);
  EXPECT_LT(lossy.at("operations"), lossless.at("operations"));
  EXPECT_GT(lossy.at("operations"), 0.1 * lossless.at("operations").get<double>());
  EXPECT_LT(lossless.at("latency_us").at("max"), 16);
  EXPECT_LT(lossy.at("latency_us").at("p99"), 16) << "others come behind what is lost, and tell";

  const json alone = run(kReads, {"cluster.network.loss_ratio=0.01", "cluster.ack_timeout=2",
                                  "workload.outstanding=1", "workload.mode=synchronous"});
  EXPECT_GT(alone.at("ack_timeouts"), 4);
  EXPECT_GE(alone.at("ack_timeouts"), alone.at("packets_lost").get<int>() - 4) << "one a thread is not over";
  EXPECT_GT(alone.at("latency_us").at("max"), 16.4) << "the timeout";
}

/// A transaction whose attempt stood still for a time-out of 67 ms does not sleep for hundreds of such.
TEST(LossyNetwork, TransactionsOverRcEndWhateverIsLost) {
  int lost = 0;
  for (int seed = 1; seed <= 30; ++seed) {
    const json result = run(R"({
      "cluster": {"nodes": 3, "threads": 1, "coroutines": 8, "replicas": 1, "nics_per_node": 1,
                  "network": {"loss_ratio": 0.005}},
      "protocol": {"name": "drtmr"},
      "workload": {"name": "smallbank", "accounts_per_thread": 2},
      "run": {"warmup_us": 200, "measure_us": 2000}})",
                            {"run.seed=" + std::to_string(seed)});
    EXPECT_EQ(violations(result), 0U) << findings(result);
    lost += result.at("packets_lost").get<int>();
  }
  EXPECT_GT(lost, 200);
}

/// What is measured stays, and says so.
TEST(LossyNetwork, ATransactionWhoseRpcIsADatagramNeverEnds) {
  const json result = run(kSmallBank, {"protocol.name=fasst-occ", "cluster.network.loss_ratio=0.001"});
  EXPECT_GT(result.at("committed"), 0);
  EXPECT_FALSE(result.at("partial"));
  const json& checks = result.at("checks");
  ASSERT_EQ(checks.size(), 1U) << "the others need a quiet cluster";
  EXPECT_EQ(checks[0].at("name"), "finished");
  EXPECT_GT(checks[0].at("violations"), 0);
  EXPECT_GT(checks[0].at("transactions"), result.at("committed"));
  EXPECT_THAT(checks[0].at("examples").at(0).get<std::string>(),
              testing::ContainsRegex("transactions never finished: [0-9]+ packets lost "
                                     "\\(cluster.network.loss_ratio\\), and nobody sends a datagram again.*"
                                     "; nothing else is checked"));
}

/// Their sender hears nothing of it, but who reads the rate does.
TEST(LossyNetwork, DatagramsThatAreLostCountAsDoneAndAreToldOf) {
  const auto warnings = [](const Overrides& overrides) {
    const char* kSends = R"({
      "cluster": {"nodes": 3, "threads": 2, "nics_per_node": 1},
      "workload": {"name": "primitive", "verb": "send", "transport": "ud", "payload_b": 64},
      "run": {"warmup_us": 50, "measure_us": 100}})";
    return run(kSends, overrides).value("warning", json::array()).dump();
  };
  const auto told = testing::HasSubstr("packets lost or dropped: over UC and UD the sender hears nothing");
  EXPECT_THAT(warnings({"cluster.network.loss_ratio=0.1"}), told);
  EXPECT_THAT(warnings({"cluster.network.loss_ratio=0.1", "workload.transport=rc"}), testing::Not(told));
  EXPECT_THAT(warnings({"cluster.network.loss_ratio=0.1", "workload.pattern=many_to_one"}),
              testing::Not(told));
  EXPECT_THAT(warnings({}), testing::Not(told));
}

/// RPCs over RC, READs and WRITEs under it: no fractured read, no lost write.
TEST(LossyNetwork, RampStaysAtomic) {
  for (const char* protocol : {"ramp-fast", "ramp-small", "ramp-hybrid"}) {
    for (const Variant& variant : variants_of(protocol, "rdma_write")) {
      const json result = try_run(kContended, [&] {
        Overrides all = variant.overrides;
        all.insert(all.end(),
                   {"cluster.network.loss_ratio=0.003", "cluster.ack_timeout=2", "run.measure_us=400"});
        return all;
      }());
      if (result.is_null()) continue;
      SCOPED_TRACE(variant.name);
      EXPECT_EQ(violations(result), 0U) << findings(result);
      EXPECT_GT(result.at("packets_lost"), 5);
      EXPECT_GT(result.at("committed"), 50);
    }
  }
}

TEST(LossyNetwork, TcpLosesNothingHere) {
  EXPECT_THROW(load(kContended, {"protocol.transport=ipoib_tcp", "cluster.network.loss_ratio=0.003"}),
               UserError);
  EXPECT_NO_THROW(load(kContended, {"protocol.transport=ipoib_tcp", "cluster.network.loss_ratio=0"}));
}

}  // namespace
}  // namespace verbtwin::tools
