// Micro-benchmarks end to end on the simulated binding: what they count, what goes over the wire, and what
// must emerge from the models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "backend/user_error.hpp"
#include "scenarios/loader.hpp"
#include "tools/report/summary.hpp"
#include "tools/run/catalog.hpp"
#include "tools/run/simulate.hpp"

namespace verbtwin::tools {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kPrimitive = R"({
  "name": "small",
  "cluster": {"nodes": 4, "threads": 4, "nics_per_node": 2},
  "workload": {"name": "primitive"},
  "run": {"warmup_us": 20, "measure_us": 100}
})";
constexpr const char* kEcho = R"({
  "name": "small",
  "cluster": {"nodes": 4, "threads": 4, "coroutines": 4, "nics_per_node": 2},
  "workload": {"name": "echo"},
  "run": {"warmup_us": 20, "measure_us": 100}
})";
constexpr const char* kMultiObject = R"({
  "name": "small",
  "cluster": {"nodes": 4, "threads": 4, "coroutines": 4, "nics_per_node": 2},
  "workload": {"name": "multi-object"},
  "run": {"warmup_us": 50, "measure_us": 300}
})";

json run(const char* text, const std::vector<std::string>& overrides) {
  const scenarios::Scenario scenario =
      scenarios::load_scenario(scenarios::Document::parse("small.json", text), overrides, make_catalog());
  return simulate(scenario, {});
}

double rate(const json& result) {
  return result.at("operations_per_s");
}

double used(const json& result, const std::string& name, const char* which = "utilization_mean") {
  const json& resources = result.at("resources");
  const auto found = std::ranges::find_if(resources, [&](const json& r) { return r.at("name") == name; });
  return found->at(which);
}

/// Bytes that an operation puts on the wire between two machines, in both directions.
double wire_bytes(const json& result) {
  constexpr double kLinkBytesPerUs = 100e3 / 8;
  // Each NIC has a cable each way, and a message takes two of them.
  const double cables = 4 * 2 * 2;
  const double bytes = used(result, "link") * cables * kLinkBytesPerUs * result.at("window_us").get<double>();
  return bytes / 2 / result.at("operations").get<double>();
}

TEST(Micro, ResultHasTheContractsShape) {
  const json result = run(kPrimitive, {});
  EXPECT_GT(result.at("operations"), 1000);
  EXPECT_EQ(result.at("operations_failed"), 0);
  EXPECT_EQ(result.at("machines"), 4);
  EXPECT_NEAR(rate(result), result.at("operations").get<double>() / 100e-6 / 4, 1);
  EXPECT_EQ(result.at("scenario").at("workload").at("verb"), "read");
  EXPECT_FALSE(result.at("scenario").contains("protocol"));
  EXPECT_FALSE(result.contains("committed"));
  for (const char* quantile : {"mean", "p50", "p90", "p99", "p999", "max"}) {
    EXPECT_GT(result.at("latency_us").at(quantile), 1.0) << quantile;
  }
  // What is in flight when the window begins and ends is all that may differ.
  EXPECT_NEAR(result.at("verbs").at("read").at("count").get<double>(), result.at("operations").get<double>(),
              4 * 4 * 16);
  const std::string summary = render_summary(result, {});
  EXPECT_THAT(summary, HasSubstr("small: primitive\n4 machines x 4 threads; 2 x connectx-4"));
  EXPECT_THAT(summary, HasSubstr("operations/s per machine"));
}

TEST(Micro, BytesOnTheWireAreThePackets) {
  struct Case {
    std::vector<std::string> overrides;
    double bytes;  // request and response or ACK with InfiniBand headers
  };
  const Case cases[] = {
      {{"workload.verb=read", "workload.payload_b=64"}, 42 + 30 + 64},
      {{"workload.verb=write", "workload.payload_b=64"}, 42 + 64 + 30},
      {{"workload.verb=write", "workload.payload_b=64", "workload.inline=true"}, 42 + 64 + 30},
      {{"workload.verb=write", "workload.payload_b=64", "workload.transport=uc"}, 42 + 64},
      {{"workload.verb=compare_swap"}, 54 + 38},
      {{"workload.verb=fetch_add"}, 54 + 38},
      {{"workload.verb=send", "workload.transport=ud", "workload.payload_b=64"}, 34 + 64},
  };
  for (const Case& c : cases) {
    std::vector<std::string> overrides = c.overrides;
    overrides.push_back("run.measure_us=400");
    EXPECT_NEAR(wire_bytes(run(kPrimitive, overrides)), c.bytes, c.bytes * 0.03)
        << fmt::format("{}", c.bytes);
  }
}

TEST(Micro, OneMachineFacingTheOthersIsRatedAlone) {
  const json out = run(kPrimitive, {"workload.pattern=one_to_many"});
  const json in = run(kPrimitive, {"workload.pattern=many_to_one"});
  EXPECT_EQ(out.at("machines"), 1);
  EXPECT_EQ(out.at("bottleneck").at("resource"), "core") << "judged by the machine that posts";
  EXPECT_GT(rate(in), rate(out)) << "serving costs less than issuing";
  EXPECT_THAT(render_summary(in, {}), HasSubstr("at the one machine"));
}

TEST(Micro, DatagramsThatAreDroppedAreNotCounted) {
  const json in =
      run(kPrimitive, {"cluster.nodes=16", "cluster.threads=8", "cluster.nics_per_node=1",
                       "workload.pattern=many_to_one", "workload.verb=send", "workload.transport=ud",
                       "run.measure_us=200", "workload.issuing_threads=1"});
  const double received = in.at("verbs").at("recv").at("count");
  EXPECT_GT(in.at("datagrams_dropped"), 0.2 * received) << "or there is nothing to see";
  EXPECT_NEAR(in.at("operations").get<double>(), received, 0.05 * received);
}

/// Who is held back by a PCIe slot that is slower than the link loses nothing, over whatever transport.
TEST(Primitive, ASlowSlotDropsNothing) {
  for (const char* transport : {"rc", "uc", "ud"}) {
    const json result =
        run(kPrimitive, {"workload.verb=send", std::string("workload.transport=") + transport,
                         "workload.payload_b=1024", "workload.pattern=many_to_one", "cluster.nic=connectx-2",
                         "cluster.nics_per_node=1", "cluster.host=ideal-host", "run.measure_us=500"});
    EXPECT_GT(used(result, "pcie_up", "utilization_max"), 0.95) << "of no use as a test";
    EXPECT_EQ(result.at("datagrams_dropped"), 0) << transport;
  }
}

/// Where serving alone fills an engine, a machine that is asked without a pause still asks others.
TEST(Micro, WhoIsAskedWithoutAPauseAsksToo) {
  const json result = run(kPrimitive, {"cluster.nic=connectx-3", "cluster.nics_per_node=1", "cluster.nodes=2",
                                       "workload.payload_b=65536", "workload.outstanding=16",
                                       "run.warmup_us=5000", "run.measure_us=10000"});
  EXPECT_GT(used(result, "nic_send"), 0.98);
  EXPECT_GT(used(result, "link"), 0.9);
}

/// A message costs a link the same whoever carries it.
TEST(Micro, LinksAreInUseWithSimGridsMessagesToo) {
  const auto used_by = [](const char* model) {
    return used(run(kPrimitive, {"workload.verb=write", "workload.payload_b=1024", "workload.outstanding=2",
                                 std::string("cluster.network.model=") + model}),
                "link");
  };
  const double ours = used_by("fifo");
  EXPECT_GT(ours, 0.01);
  EXPECT_NEAR(used_by("simgrid"), ours, 0.05 * ours);
}

TEST(Micro, OneAtATimeIsBoundByLatency) {
  const json result = run(kPrimitive, {"workload.mode=synchronous", "workload.outstanding=1"});
  EXPECT_EQ(result.at("bottleneck").at("resource"), "round_trips");
  EXPECT_NEAR(rate(result) * result.at("latency_us").at("mean").get<double>() / 1e6, 4, 0.2)
      << "one in flight per thread";
}

TEST(Micro, AtomicsOnOneWordQueueForItsLock) {
  const double distinct = rate(run(kPrimitive, {"workload.verb=fetch_add"}));
  const double one = rate(run(kPrimitive, {"workload.verb=fetch_add", "workload.words=one"}));
  EXPECT_GT(distinct, 5 * one);
}

TEST(Micro, ASharedContextCostsAndTheLockIsNamed) {
  // As the published comparison: 24 threads over both NICs, or with one context, which is one of one NIC. It
  // then has the 360 queue pairs of sixteen machines.
  const std::vector<std::string> writes = {"cluster.threads=24", "workload.verb=write",
                                           "workload.inline=true", "workload.pattern=one_to_many",
                                           "workload.outstanding=32"};
  std::vector<std::string> shared = writes;
  shared.insert(shared.end(),
                {"cluster.device_context=shared", "cluster.nics_per_node=1", "cluster.qps_per_peer=5",
                 "run.warmup_us=100", "run.measure_us=300"});  // the convoy takes a while to form
  const json alone = run(kPrimitive, writes);
  const json together = run(kPrimitive, shared);
  EXPECT_LT(rate(together), 0.8 * rate(alone));
  EXPECT_EQ(together.at("bottleneck").at("resource"), "doorbell");
  EXPECT_NE(alone.at("bottleneck").at("resource"), "doorbell");
  const json& bottleneck = together.at("bottleneck");
  EXPECT_GT(bottleneck.at("waiting_share"), 0.1);
  for (const json& resource : together.at("resources")) {
    if (resource.at("name") != bottleneck.at("busiest")) continue;
    EXPECT_EQ(bottleneck.at("utilization"), resource.at("utilization_max"));
  }
}

TEST(Micro, MachinesThatPingPongAreEquals) {
  const json pair = run(kPrimitive, {"cluster.nodes=3", "workload.mode=ping_pong", "workload.verb=write",
                                     "workload.outstanding=1"});
  EXPECT_EQ(pair.at("machines"), 1);
  EXPECT_EQ(pair.at("bottleneck").at("busiest"), "core");
  EXPECT_EQ(pair.at("bottleneck").at("utilization"), used(pair, "core"));
  EXPECT_THAT(render_summary(pair, {}), HasSubstr("per pair"));
}

TEST(Micro, EveryTransportEchoes) {
  for (const char* transport : {"ud_send", "rc_send", "rc_write_imm", "rc_write_poll", "herd"}) {
    const json result = run(kEcho, {fmt::format("workload.transport={}", transport)});
    EXPECT_GT(result.at("operations"), 1000) << transport;
    EXPECT_EQ(result.at("datagrams_dropped"), 0) << transport;
    const json& verbs = result.at("verbs");
    const double messages =
        verbs.at("send").at("count").get<double>() + verbs.at("write").at("count").get<double>();
    EXPECT_NEAR(messages, 2 * result.at("operations").get<double>(), 4 * 4 * 4 * 2) << transport;
    EXPECT_EQ(verbs.at("read").at("count"), 0) << transport;
  }
}

/// One server of four threads, three machines of which three threads each call it.
json serve(const std::vector<std::string>& overrides) {
  std::vector<std::string> all = {"workload.pattern=many_to_one", "workload.issuing_threads=3",
                                  "cluster.coroutines=1", "cluster.nics_per_node=1"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return run(kEcho, all);
}

double per_operation(const json& result, const char* verb) {
  return result.at("verbs").at(verb).at("count").get<double>() / result.at("operations").get<double>();
}

/// What takes one way only cannot come later than what is fetched.
TEST(Micro, NoResultIsFetchedBeforeItIsThere) {
  const auto latency_us = [](const char* transport, int process_ns) {
    const json result =
        run(kEcho, {"cluster.nodes=2", "cluster.threads=1", "cluster.coroutines=1", "cluster.nics_per_node=1",
                    "workload.pattern=many_to_one", "cluster.nic=ideal", "cluster.host=ideal-host",
                    fmt::format("workload.transport={}", transport),
                    fmt::format("workload.process_ns={}", process_ns)});
    return result.at("latency_us").at("mean").get<double>();
  };
  for (const int process_ns : {0, 500, 1000, 1500}) {
    EXPECT_GE(latency_us("rf_rpc", process_ns), latency_us("rc_write_poll", process_ns)) << process_ns;
  }
}

TEST(Micro, TwoServersServeTwiceAsMany) {
  const auto served = [](int servers) {
    return serve({"cluster.nodes=9", "cluster.coroutines=4", "workload.process_ns=2000",
                  fmt::format("workload.servers={}", servers)});
  };
  const json one = served(1), two = served(2);
  EXPECT_NEAR(rate(two), rate(one), 0.05 * rate(one)) << "each of them";
  EXPECT_EQ(two.at("machines"), 2);
}

/// The message's share of a call's cost goes, the handler's stays.
TEST(Micro, CallsOfAMessageShareItsCost) {
  const auto served = [](int calls, int process_ns) {
    return serve({"cluster.nodes=9", "cluster.coroutines=4", "workload.transport=rc_write_poll",
                  "workload.payload_b=16", fmt::format("workload.calls_per_message={}", calls),
                  fmt::format("workload.process_ns={}", process_ns), "workload.doorbell_batching=false",
                  "run.warmup_us=1000", "run.measure_us=2000"});
  };
  EXPECT_NEAR(per_operation(served(1, 0), "write"), 2, 0.05);
  EXPECT_NEAR(per_operation(served(8, 0), "write"), 2.0 / 8, 0.02);
  EXPECT_GT(rate(served(8, 0)), 4 * rate(served(1, 0)));
  const double slow = rate(served(1, 1000));
  EXPECT_LT(rate(served(8, 1000)), 1.2 * slow);
  EXPECT_FALSE(served(8, 1000).contains("warning")) << "their latencies add up";
}

/// Who polled places in memory and took one message of each peer a round would answer a single peer's one by
/// one, and so be slower where there are two machines only.
TEST(Micro, AServerAnswersWhatOnePeerSentTogether) {
  const auto per_machine = [](int nodes) {
    return rate(run(kEcho, {fmt::format("cluster.nodes={}", nodes), "workload.transport=rc_write_poll",
                            "cluster.coroutines=16", "run.measure_us=200"}));
  };
  const double three = per_machine(3);
  EXPECT_GT(per_machine(2), 0.9 * three);
}

TEST(Micro, ResultsAreFetchedWhileTheServerIsFast) {
  const json fetched = serve({"workload.transport=rf_rpc"});
  EXPECT_EQ(fetched.at("machines"), 1);
  EXPECT_GT(fetched.at("operations"), 150);
  EXPECT_NEAR(per_operation(fetched, "write"), 1, 0.1);
  EXPECT_NEAR(per_operation(fetched, "read"), 1, 0.1);
  const json twice = serve({"workload.transport=rf_rpc", "workload.reply_b=512"});
  EXPECT_NEAR(per_operation(twice, "read"), 2, 0.2) << "longer than fetch_b";
  const json slower = serve({"workload.transport=rf_rpc", "workload.process_ns=5000"});
  EXPECT_GT(per_operation(slower, "read"), 2) << "in vain";
  const json replied = serve(
      {"workload.transport=rf_rpc", "workload.process_ns=20000", "run.warmup_us=200", "run.measure_us=500"});
  EXPECT_EQ(replied.at("verbs").at("read").at("count"), 0) << "asks for replies by then";
  EXPECT_NEAR(per_operation(replied, "write"), 2, 0.3);
}

TEST(Micro, AServersTimeIsItsCoresWhateverCarriesTheCalls) {
  for (const char* transport : {"ud_send", "rc_send", "rc_write_imm", "rc_write_poll", "herd", "rf_rpc"}) {
    const json result = serve({fmt::format("workload.transport={}", transport), "workload.process_ns=4000",
                               "run.warmup_us=200", "run.measure_us=500"});
    EXPECT_LE(rate(result), 4 / 4e-6) << transport;
    EXPECT_GT(rate(result), 0.8 * 4 / 4e-6) << transport;
    EXPECT_EQ(result.at("bottleneck").at("resource"), "core") << transport;
  }
}

TEST(Micro, BypassedServersTakeReadsOnly) {
  const json result = serve({"workload.transport=server_bypass", "run.measure_us=400"});
  EXPECT_GT(result.at("operations"), 200);
  EXPECT_NEAR(per_operation(result, "read"), 3.2, 0.1);
  EXPECT_EQ(result.at("verbs").at("write").at("count"), 0);
}

TEST(Micro, EachOptionOfMultiObjectBringsSomething) {
  const auto groups = [](std::vector<std::string> overrides) {
    overrides.insert(overrides.end(), {"workload.access=write", "cluster.nodes=4"});
    return rate(run(kMultiObject, overrides));
  };
  const double base =
      groups({"cluster.coroutines=1", "workload.outstanding=false", "workload.doorbell_batching=false"});
  const double coroutines = groups({"workload.outstanding=false", "workload.doorbell_batching=false"});
  const double outstanding = groups({"workload.doorbell_batching=false"});
  const double doorbell = groups({});
  const double passive = groups({"workload.passive_ack=true"});
  EXPECT_GT(coroutines, 2 * base);
  EXPECT_GT(outstanding, coroutines);
  EXPECT_GT(doorbell, outstanding);
  EXPECT_GT(passive, doorbell);
}

TEST(Micro, ASeedGivesTheSameResultAgain) {
  for (const char* text : {kPrimitive, kEcho, kMultiObject}) {
    json first = run(text, {}), again = run(text, {});
    first.erase("simulator");
    again.erase("simulator");
    EXPECT_EQ(first.dump(), again.dump());
  }
  EXPECT_NE(run(kMultiObject, {}).at("latency_us").dump(),
            run(kMultiObject, {"run.seed=2"}).at("latency_us").dump());
}

TEST(Micro, WhatHasNoMeaningHereIsRefused) {
  const auto error = [](const std::vector<std::string>& overrides) {
    try {
      run(kPrimitive, overrides);
    } catch (const UserError& e) {
      return e.pointer() + " " + e.what();
    }
    return std::string("accepted");
  };
  EXPECT_THAT(error({"protocol.name=drtmh"}), HasSubstr("micro-benchmark and runs without a protocol"));
  EXPECT_THAT(error({"run.check=serializable"}), HasSubstr("unknown value \"serializable\"; allowed: none"));
  EXPECT_THAT(error({"cluster.nodes=1"}), HasSubstr("/cluster/nodes"));
  EXPECT_THAT(error({"workload.verb=read", "workload.transport=ud"}), HasSubstr("UD carries no read"));
  EXPECT_THAT(error({"workload.accounts=3"}), HasSubstr("accounts"));
}

TEST(PingPong, HalfARoundTripIsLessThanTheWayToTheAcknowledgement) {
  const std::vector<std::string> lone = {"workload.verb=write", "workload.outstanding=1",
                                         "workload.inline=true", "workload.issuing_threads=1",
                                         "cluster.nodes=2"};
  std::vector<std::string> turns = lone;
  turns.emplace_back("workload.mode=ping_pong");
  const json acknowledged = run(kPrimitive, lone);
  const json seen = run(kPrimitive, turns);
  EXPECT_GT(seen.at("operations"), 10);
  EXPECT_LT(seen.at("latency_us").at("p50"), acknowledged.at("latency_us").at("p50"));
  EXPECT_GT(seen.at("latency_us").at("p50").get<double>(),
            0.3 * acknowledged.at("latency_us").at("p50").get<double>());
  // Two messages a round trip; at the edges of the window one may be without the other.
  EXPECT_NEAR(seen.at("verbs").at("write").at("count").get<double>(), 2 * seen.at("operations").get<double>(),
              2);
}

TEST(PingPong, WhatCannotBeSeenToArriveIsRefused) {
  const auto complaint = [](const std::vector<std::string>& changes) {
    std::vector<std::string> all = {"workload.verb=write", "workload.mode=ping_pong",
                                    "workload.outstanding=1"};
    all.insert(all.end(), changes.begin(), changes.end());
    try {
      run(kPrimitive, all);
      return std::string();
    } catch (const UserError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(complaint({"workload.issuing_threads=2"}), "");
  EXPECT_THAT(complaint({"workload.verb=read"}), HasSubstr("verb write is allowed"));
  EXPECT_THAT(complaint({"workload.payload_b=4"}), HasSubstr("8 or more is allowed"));
  EXPECT_THAT(complaint({"workload.outstanding=2"}), HasSubstr("1 is allowed"));
}

/// Whoever has many long messages outstanding fills what they go through, and gains nothing by more of them.
TEST(Micro, LongQueuesLoseNoRate) {
  const auto links = [](int outstanding) {
    return used(run(kPrimitive, {"cluster.nodes=3", "cluster.nic=ideal", "cluster.nics_per_node=1",
                                 "cluster.threads=8", "workload.payload_b=4096", "run.warmup_us=2000",
                                 "run.measure_us=3000", fmt::format("workload.outstanding={}", outstanding)}),
                "link");
  };
  EXPECT_GT(links(16), 0.97);
  const auto sends = [](int outstanding) {
    return rate(
        run(kPrimitive, {"cluster.nodes=2", "cluster.nics_per_node=1", "workload.verb=send",
                         "cluster.threads=8", "workload.payload_b=32768", "run.warmup_us=3000",
                         "run.measure_us=3000", fmt::format("workload.outstanding={}", outstanding)}));
  };
  EXPECT_NEAR(sends(64) / sends(4), 1, 0.03);
}

/// A receiver whose engine is busy takes its RECVs as it gets to them: what is posted by then is not missed.
TEST(Micro, ABusyReceiverDropsNoMoreOverUcThanItHasTo) {
  const auto received = [](const char* transport) {
    return rate(run(kPrimitive, {"cluster.nic=connectx-3", "cluster.nics_per_node=1", "cluster.threads=2",
                                 "workload.pattern=many_to_one", "workload.verb=send", "workload.inline=true",
                                 "workload.payload_b=64", "workload.outstanding=8", "run.warmup_us=300",
                                 "run.measure_us=300", std::string("workload.transport=") + transport}));
  };
  EXPECT_GT(received("uc"), 0.5 * received("rc"));
}

}  // namespace
}  // namespace verbtwin::tools
