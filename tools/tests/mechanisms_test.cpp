// What published measurements show must come out of a mechanism: with the shipped profiles it is there, and
// with the mechanism's parameters switched off it is gone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "calibration/profile_file.hpp"
#include "models/wqe.hpp"
#include "scenarios/loader.hpp"
#include "tools/run/catalog.hpp"
#include "tools/run/simulate.hpp"

namespace verbtwin::tools {
namespace {

using models::HostProfile;
using models::NicProfile;

constexpr const char* kScenario = R"({
  "name": "mechanism",
  "cluster": {"nodes": 3, "threads": 12, "nics_per_node": 1},
  "workload": {"name": "primitive", "outstanding": 16},
  "run": {"warmup_us": 20, "measure_us": 40}
})";
constexpr const char* kRecordsByRpc = R"({
  "name": "records",
  "cluster": {"nodes": 2, "threads": 12, "coroutines": 5, "nics_per_node": 1},
  "workload": {"name": "multi-object", "primitive": "two_sided", "own_machine": true,
               "doorbell_batching": false},
  "run": {"warmup_us": 30, "measure_us": 120}
})";
constexpr const char* kExecutionByRpc = R"({
  "name": "execution",
  "cluster": {"nodes": 2, "threads": 12, "coroutines": 8, "replicas": 1, "nics_per_node": 1},
  "protocol": {"name": "fasst-occ", "truncate_after": "execution"},
  "workload": {"name": "smallbank"},
  "run": {"warmup_us": 30, "measure_us": 100, "check": "none"}
})";
constexpr double kNever = 1e6;  // entries of a cache that never misses

NicProfile nic(const char* name) {
  return calibration::load_nic_profile(name);
}
HostProfile host(const char* name) {
  return calibration::load_host_profile(name);
}

double rate(const NicProfile& nic, const HostProfile& host, const std::vector<std::string>& overrides,
            const char* text = kScenario, const char* counted = "operations_per_s") {
  const scenarios::Scenario scenario =
      scenarios::load_scenario(scenarios::Document::parse("mechanism.json", text), overrides, make_catalog());
  RunControl control;
  control.nic = &nic;
  control.host = &host;
  return simulate(scenario, control).at(counted);
}

/// What 480 queue pairs a NIC more than needed leave of the rate of READs.
double kept_with_many_queue_pairs(const NicProfile& nic, int payload_b) {
  const auto reads = [&](int queue_pairs) {
    return rate(nic, host("ideal-host"),
                {fmt::format("workload.payload_b={}", payload_b),
                 fmt::format("cluster.qps_per_peer={}", queue_pairs)});
  };
  return reads(40) / reads(2);
}

TEST(Mechanism, ManyQueuePairsCostSmallReadsBecauseOfTheContextCache) {
  NicProfile cx4 = nic("connectx-4");
  EXPECT_LT(kept_with_many_queue_pairs(cx4, 8), 0.85);
  EXPECT_GT(kept_with_many_queue_pairs(cx4, 256), 0.93) << "hidden behind the payload";
  cx4.qp_cache_entries = kNever;
  EXPECT_NEAR(kept_with_many_queue_pairs(cx4, 8), 1, 0.02);
  NicProfile cx3 = nic("connectx-3");
  EXPECT_LT(kept_with_many_queue_pairs(cx3, 8), 0.2) << "nearly serial";
  cx3.qp_cache_entries = kNever;
  EXPECT_NEAR(kept_with_many_queue_pairs(cx3, 8), 1, 0.06);
}

TEST(Mechanism, MoreReadsOutstandingAreSlowerBecauseOfTheWqeCache) {
  const auto gained = [](const NicProfile& nic, int queue_pairs) {
    const auto reads = [&](int outstanding) {
      return rate(nic, host("ideal-host"),
                  {"workload.payload_b=256", fmt::format("workload.outstanding={}", outstanding),
                   fmt::format("cluster.qps_per_peer={}", queue_pairs), "cluster.threads=8",
                   "run.warmup_us=100", "run.measure_us=200"});  // 640 READs take 70 us
    };
    return reads(80) / reads(16);
  };
  NicProfile cx3 = nic("connectx-3");
  EXPECT_LT(gained(cx3, 3), 0.7);
  EXPECT_GT(gained(cx3, 1), 0.97)
      << "most wait for places in the windows of their queue pairs, and take none here";
  cx3.wqe_cache_entries = kNever;
  EXPECT_GT(gained(cx3, 3), 0.9);
}

TEST(Mechanism, MoreWritesOutstandingAreSlowerBecausePrefetchedWqesPushOneAnotherOut) {
  const auto gained = [](const NicProfile& nic, int queue_pairs) {
    const auto writes = [&](int outstanding) {
      return rate(
          nic, host("ideal-host"),
          {"workload.verb=write", "workload.inline=false", "workload.payload_b=256",
           fmt::format("workload.outstanding={}", outstanding), "cluster.nodes=2", "cluster.threads=8",
           fmt::format("cluster.qps_per_peer={}", queue_pairs), "run.warmup_us=200", "run.measure_us=400"});
    };
    return writes(80) / writes(10);
  };
  NicProfile cx3 = nic("connectx-3");
  EXPECT_LT(gained(cx3, 6), 0.9);
  EXPECT_GT(gained(cx3, 1), 0.97) << "2 KiB of each of 8 queue pairs' WQEs fit";
  NicProfile patient = cx3;
  patient.wqe_prefetch_b = 0;
  EXPECT_GT(gained(patient, 6), 0.97);
  cx3.wqe_cache_entries = kNever;
  EXPECT_GT(gained(cx3, 6), 0.97);
}

/// Bursts may queue, but where a server is full no time of it is lost: by the closed form, a job takes it
/// `100 ns`.
TEST(Mechanism, AFullEngineLosesNothingToBursts) {
  NicProfile engines = nic("ideal");
  engines.send_wqe_ns = 100;
  engines.recv_packet_ns = 90;
  engines.link_gbps = 1600;
  const std::vector<std::string> window = {
      "cluster.threads=8",       "workload.verb=write", "workload.inline=false", "workload.payload_b=64",
      "workload.outstanding=32", "run.warmup_us=300",   "run.measure_us=600"};
  EXPECT_NEAR(rate(engines, host("ideal-host"), window) / (1e9 / 100), 1, 0.02);
}

/// A receive engine that takes as long for an ACK as for a request: half its time, or with one completion and
/// no other ACK for 16 requests, a sixteenth of the requests'. (Of two machines: among more, random targets
/// leave one or the other engine idle.)
TEST(Mechanism, UnsignalledWritesAreFasterBecauseFewAskForAnAck) {
  NicProfile engines = nic("ideal");
  engines.recv_packet_ns = engines.recv_ack_ns = 50;
  engines.link_gbps = 1600;
  const auto writes = [&](int interval) {
    engines.ack_request_interval = interval;
    return rate(engines, host("ideal-host"),
                {"cluster.nodes=2", "cluster.threads=8", "workload.verb=write", "workload.inline=false",
                 "workload.payload_b=64", "workload.outstanding=64", "workload.signal_interval=16",
                 "run.warmup_us=100", "run.measure_us=400"});
  };
  EXPECT_NEAR(writes(1) / (1e9 / 100), 1, 0.03);
  EXPECT_NEAR(writes(32768) / (1e9 / (50 + 50 / 16.0)), 1, 0.03);
}

/// ACKs of SENDs are worked out when these arrive: a long queue there may not stand before later arrivals
/// here.
TEST(Mechanism, MoreThreadsThatSendAreNoSlower) {
  NicProfile cx4 = nic("connectx-4");
  cx4.recv_queue_cache_entries = kNever;
  const auto sends = [&](int threads) {
    return rate(
        cx4, host("xeon-e5-2650v4"),
        {"cluster.nodes=2", fmt::format("cluster.threads={}", threads), "workload.verb=send",
         "workload.payload_b=8", "workload.outstanding=8", "run.warmup_us=200", "run.measure_us=400"});
  };
  const double few = sends(8), more = sends(12), many = sends(20);
  EXPECT_GT(more, 0.99 * few);
  EXPECT_GT(many, 0.99 * more);
}

TEST(Mechanism, AnInlineWriteOf32BTakesASecondBlock) {
  const auto step = [](const HostProfile& host) {
    const auto writes = [&](int payload_b) {
      return rate(nic("connectx-4"), host,
                  {"workload.verb=write", "workload.inline=true", "workload.pattern=one_to_many",
                   "workload.issuing_threads=2", fmt::format("workload.payload_b={}", payload_b)});
    };
    EXPECT_NEAR(writes(8) / writes(16), 1, 0.02);
    return writes(16) / writes(32);
  };
  HostProfile xeon = host("xeon-e5-2650v4");
  EXPECT_GT(step(xeon), 1.025);
  xeon.blueflame_ns = 0;
  EXPECT_NEAR(step(xeon), 1, 0.01);
}

/// In the published sweep, where all machines WRITE: what is too long for the first block is fetched.
TEST(Mechanism, AWriteOf32BThatIsNotInlineHasItsPayloadFetched) {
  const auto step = [](const NicProfile& nic) {
    const auto writes = [&](int payload_b, bool is_inline) {
      return rate(
          nic, host("xeon-e5-2650v4"),
          {"cluster.nodes=3", "cluster.threads=12", "cluster.nics_per_node=1", "cluster.qps_per_peer=8",
           "workload.verb=write", "workload.outstanding=16", fmt::format("workload.inline={}", is_inline),
           fmt::format("workload.payload_b={}", payload_b), "run.warmup_us=45", "run.measure_us=90"});
    };
    return writes(16, true) / writes(32, false);
  };
  NicProfile connectx4 = nic("connectx-4");
  EXPECT_GT(step(connectx4), 1.05);
  connectx4.send_fetch_ns = connectx4.send_fetch_block_ns = 0;
  connectx4.dma_reads_outstanding = 1024;
  connectx4.recv_block_ns = 0;  // 32 B arrive, not 16
  EXPECT_NEAR(step(connectx4), 1, 0.02);
}

/// What one machine takes from many.
double taken(const NicProfile& nic, int machines, const std::vector<std::string>& overrides) {
  std::vector<std::string> all = {"workload.pattern=many_to_one", "workload.inline=true",
                                  "workload.payload_b=32", "cluster.threads=8",
                                  fmt::format("cluster.nodes={}", machines)};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return rate(nic, host("rf-rpc-host"), all);
}

/// Who WRITEs over RC while others WRITE to it serves those in the engine that sends its own. Over UC nothing
/// is served.
TEST(Mechanism, WhoServesSendsTheFewer) {
  for (const char* name : {"connectx-3", "connect-ib"}) {
    NicProfile profile = nic(name);
    const auto writes = [&](const char* transport, const char* pattern) {
      return rate(
          profile, host("ideal-host"),
          {"workload.verb=write", "workload.inline=true", "workload.payload_b=16", "workload.outstanding=32",
           "workload.signal_interval=8", "cluster.nodes=2", fmt::format("workload.transport={}", transport),
           fmt::format("workload.pattern={}", pattern), "run.warmup_us=100", "run.measure_us=100"});
    };
    const double alone = writes("rc", "one_to_many"), uc = writes("uc", "symmetric");
    const double both = writes("rc", "symmetric");
    EXPECT_LT(both, 0.8 * alone) << name;
    EXPECT_LT(both, 0.8 * uc) << name;
    profile.serve_request_ns = 0;
    EXPECT_GT(writes("rc", "symmetric"), 1.08 * both) << name;
  }
}

/// A server that only serves takes in more than it could send (Kalia et al., ATC 2016: Connect-IB).
TEST(Mechanism, ServingIsFasterThanIssuing) {
  for (const char* is_inline : {"false", "true"}) {
    const auto reached = [&](const char* pattern) {
      return rate(nic("connect-ib"), host("ideal-host"),
                  {"workload.verb=write", fmt::format("workload.inline={}", is_inline),
                   "workload.payload_b=16", "workload.outstanding=32", "cluster.nodes=5",
                   fmt::format("workload.pattern={}", pattern), "run.warmup_us=100", "run.measure_us=100"});
    };
    EXPECT_GT(reached("many_to_one"), 1.1 * reached("one_to_many")) << is_inline;
  }
}

/// Sixteen machines that flood one: its port is full, and the links on the way carry no more than they can
/// while their queues build up.
TEST(Mechanism, NoLinkCarriesMoreThanItsCapacity) {
  const NicProfile ideal = nic("ideal");
  for (const char* network :
       {R"({"topology": "star"})", R"({"topology": "torus"})", R"({"topology": "dragonfly"})",
        R"({"topology": "fat_tree", "leaf_ports": 4, "spines": 4})"}) {
    for (const char* transport : {"rc", "uc"}) {
      const double writes_per_s = rate(
          ideal, host("ideal-host"),
          {fmt::format("cluster.network={}", network), fmt::format("workload.transport={}", transport),
           "cluster.nodes=16", "cluster.threads=24", "workload.pattern=many_to_one", "workload.verb=write",
           "workload.payload_b=1024", "workload.inline=false", "run.warmup_us=50", "run.measure_us=400"});
      const double wire_b = models::message_bytes(1024, models::kRethBytes, 4096, 0);
      EXPECT_NEAR(writes_per_s * wire_b * 8 / 1e9 / ideal.link_gbps, 1, 0.01) << network << " " << transport;
    }
  }
}

/// Nor does a slot of PCIe, whoever writes: links hold back those to whom nobody answers.
TEST(Mechanism, NoSlotCarriesMoreThanItsCapacity) {
  NicProfile narrow = nic("connectx-4");
  narrow.pcie_gbps = 40;
  const auto writes = [&](const char* transport) {
    return rate(narrow, host("ideal-host"),
                {fmt::format("workload.transport={}", transport), "workload.pattern=many_to_one",
                 "workload.verb=write", "workload.payload_b=4096", "workload.outstanding=32",
                 "run.warmup_us=500", "run.measure_us=500"});
  };
  EXPECT_LT(writes("uc") * 4096 * 8 / 1e9, narrow.pcie_gbps);
  EXPECT_NEAR(writes("uc") / writes("rc"), 1, 0.02);
}

/// Each direction of a cable is its own: who is also sent to sends as much, ACKs and completions among it.
TEST(Mechanism, BothWaysAtOnceAreAsFastAsOneWay) {
  for (const char* transport : {"rc", "uc"}) {
    const auto sends = [&](const char* pattern) {
      return rate(nic("connectx-4"), host("ideal-host"),
                  {fmt::format("workload.transport={}", transport),
                   fmt::format("workload.pattern={}", pattern), "cluster.nodes=2", "cluster.threads=2",
                   "workload.verb=send", "workload.payload_b=2048", "workload.mode=synchronous",
                   "workload.signal_interval=4", "run.warmup_us=100", "run.measure_us=200"});
    };
    EXPECT_GT(sends("symmetric"), 0.93 * sends("one_to_many")) << transport;
  }
}

/// Calls that write to a server and read from it: while nothing is full, more clients do as many calls each.
TEST(Mechanism, WritesAndReadsOfOneServerMeetAsTheyArrive) {
  const auto calls_each = [&](int machines) {
    return rate(
               nic("connectx-4"), host("xeon-e5-2650v4"),
               {R"(workload={"name":"echo","transport":"rf_rpc","pattern":"many_to_one","issuing_threads":3,)"
                R"("payload_b":24,"reply_b":32,"process_ns":300})",
                fmt::format("cluster.nodes={}", machines + 1), "cluster.threads=16", "cluster.coroutines=1",
                "cluster.device_context=shared", "run.warmup_us=100", "run.measure_us=200"}) /
           machines;
  };
  const double few = calls_each(8);
  for (const int machines : {15, 17, 20}) EXPECT_GT(calls_each(machines), 0.97 * few) << machines;
}

/// Those that wait for the engine hold no RECV, or a receiver that is flooded would be left without.
TEST(Mechanism, AServerThatIsFloodedWithDatagramsTakesAsManyAsItCan) {
  const std::vector<std::string> sends = {"workload.verb=send", "workload.transport=ud",
                                          "workload.issuing_threads=1", "run.warmup_us=200",
                                          "run.measure_us=300"};
  const NicProfile cx3 = nic("connectx-3");
  EXPECT_GT(taken(cx3, 8, sends), 0.95 * taken(cx3, 4, sends));
}

/// Whose engine is the limit loses none for want of RECVs: more are on their way than their senders' windows.
TEST(Mechanism, AFasterNicTakesNoFewerDatagrams) {
  const std::vector<std::string> flood = {"workload.pattern=many_to_one",
                                          "workload.verb=send",
                                          "workload.transport=ud",
                                          "workload.outstanding=16",
                                          "workload.signal_interval=16",
                                          "cluster.nodes=4",
                                          "cluster.threads=8",
                                          "run.warmup_us=100",
                                          "run.measure_us=100"};
  const double slower = rate(nic("connectx-4"), host("xeon-e5-2650v4"), flood);
  EXPECT_GT(rate(nic("connectx-6"), host("xeon-e5-2650v4"), flood), slower);
}

/// Clients whose requests a server takes in turn come round in the same order: a NIC that let go of exactly
/// the least recently used context would miss nearly every one as soon as there is one too many.
TEST(Mechanism, AFewQueuePairsMoreThanFitAreNoCliff) {
  NicProfile cx3 = nic("connectx-3");
  cx3.serve_request_ns = 0;  // which limits them where the contexts do not
  const auto writes = [&](int threads) {
    return taken(cx3, 8,
                 {"workload.verb=write", "cluster.threads=16", "run.warmup_us=100", "run.measure_us=100",
                  fmt::format("workload.issuing_threads={}", threads)});
  };
  const double fitting = writes(11), more = writes(12);  // 77 queue pairs, 84
  EXPECT_LT(more, 0.7 * fitting) << "the contexts do not fit";
  EXPECT_GT(more, 0.25 * fitting);
}

TEST(Mechanism, FewThreadsAreFasterEachBecauseOfTurbo) {
  const auto gain = [](const HostProfile& host) {
    const auto each = [&](int threads) {
      return rate(nic("connectx-4"), host,
                  {"workload.verb=write", "workload.inline=true", "workload.pattern=one_to_many",
                   "workload.outstanding=64", fmt::format("workload.issuing_threads={}", threads)}) /
             threads;
    };
    return each(2) / each(8);
  };
  HostProfile xeon = host("xeon-e5-2650v4");
  EXPECT_GT(gain(xeon), 1.1);
  xeon.turbo_few_ghz = xeon.turbo_all_ghz;
  EXPECT_NEAR(gain(xeon), 1, 0.05);
}

TEST(Mechanism, IssuingIsSlowerThanServingBecauseOfTheLockAndTheContexts) {
  const auto ratio = [](const NicProfile& nic, const HostProfile& host) {
    const std::vector<std::string> server = {"cluster.nodes=8", "cluster.threads=16",
                                             "cluster.device_context=shared", "workload.outstanding=1"};
    std::vector<std::string> in = server, out = server;
    in.insert(in.end(), {"workload.pattern=many_to_one", "workload.issuing_threads=5"});
    out.insert(out.end(), {"workload.verb=write", "workload.inline=true", "workload.pattern=one_to_many"});
    return rate(nic, host, in) / rate(nic, host, out);
  };
  NicProfile cx3 = nic("connectx-3");
  HostProfile rf = host("rf-rpc-host");
  EXPECT_GT(ratio(cx3, rf), 3) << "in-bound READs against out-bound WRITEs";
  rf.lock_ns = rf.lock_handover_ns = rf.lock_handover_far_ns = rf.lock_waiter_ns = 0;
  rf.locked_flush_ns = 0;
  cx3.qp_cache_entries = kNever;
  EXPECT_LT(ratio(cx3, rf), 2) << "what serving is cheaper";
}

TEST(Mechanism, SharedQueuePairsFitTheCacheAndCostTheCores) {
  const auto reads = [](const NicProfile& nic, int threads_per_queue_pair) {
    return rate(nic, host("ideal-host"),
                {"cluster.qps_per_peer=40", "cluster.threads=8",
                 fmt::format("cluster.threads_per_queue_pair={}", threads_per_queue_pair)});
  };
  NicProfile cx3 = nic("connectx-3");
  EXPECT_GT(reads(cx3, 8), 1.5 * reads(cx3, 1)) << "320 contexts towards each peer, or 40";
  cx3.qp_cache_entries = kNever;
  EXPECT_LT(reads(cx3, 8), 1.1 * reads(cx3, 1));

  NicProfile cx4 = nic("connectx-4");
  cx4.queue_pair_gap_ns = 0;
  const auto writes = [&cx4](const HostProfile& host, int threads_per_queue_pair) {
    return rate(cx4, host,
                {"workload.verb=write", "workload.inline=true", "workload.pattern=one_to_many",
                 "workload.outstanding=32",
                 fmt::format("cluster.threads_per_queue_pair={}", threads_per_queue_pair)});
  };
  EXPECT_LT(writes(host("xeon-e5-2650v4"), 12), 0.5 * writes(host("xeon-e5-2650v4"), 1));
  EXPECT_GT(writes(host("ideal-host"), 12), 0.9 * writes(host("ideal-host"), 1)) << "no time under the lock";
}

TEST(Mechanism, CompletionQueuesOfTheirOwnCostTheCoresALookEach) {
  const auto kept = [](const HostProfile& host) {
    const auto reads = [&host](const char* queues) {
      return rate(nic("ideal"), host,
                  {"cluster.coroutines=8", "cluster.qps_per_peer=8", "run.measure_us=400",
                   fmt::format("cluster.completion_queues={}", queues),
                   R"(workload={"name":"multi-object","outstanding":false})"});
    };
    return reads("queue_pair") / reads("worker");
  };
  HostProfile xeon = host("xeon-e5-2650v4");
  EXPECT_LT(kept(xeon), 0.95);
  xeon.poll_ns = 0;
  EXPECT_NEAR(kept(xeon), 1, 0.02);
}

TEST(Mechanism, PayloadsSlowSendsMoreThanWritesThatTakeARecvBecauseTheyAreScattered) {
  const auto kept = [](const NicProfile& nic, const char* transport) {
    const auto calls = [&](int payload_b) {
      return rate(nic, host("xeon-e5-2650v4"),
                  {"cluster.nodes=8", "cluster.coroutines=16", "run.warmup_us=100", "run.measure_us=200",
                   fmt::format(R"(workload={{"name":"echo","transport":"{}","payload_b":{},"reply_b":8,)"
                               R"("inline_max_b":64}})",
                               transport, payload_b)});
    };
    return calls(128) / calls(8);
  };
  NicProfile cx4 = nic("connectx-4");
  EXPECT_LT(kept(cx4, "rc_send"), kept(cx4, "rc_write_imm") - 0.015);
  cx4.recv_scatter_block_ns = 0;
  EXPECT_GT(kept(cx4, "rc_send"), kept(cx4, "rc_write_imm"));
}

TEST(Mechanism, AReadBeyond256BTakesASecondDmaRead) {
  const auto reads = [](const NicProfile& nic, const char* payload_b) {
    return rate(nic, host("ideal-host"), {payload_b, "run.warmup_us=100", "run.measure_us=400"});
  };
  const auto step = [&reads](const NicProfile& nic) {
    return reads(nic, "workload.payload_b=232") / reads(nic, "workload.payload_b=264");
  };
  NicProfile cx3 = nic("connectx-3");
  EXPECT_GT(step(cx3), 1.25);
  cx3.send_response_tlp_ns = cx3.recv_tlp_ns = 0;
  EXPECT_LT(step(cx3), 264.0 / 232) << "no more than by the byte";
  cx3.recv_block_ns = 0;
  EXPECT_LT(step(cx3), 1.1);
}

/// How much longer it takes to write records than to read them, a message for each.
double writes_against_reads(const HostProfile& host, int payload_b) {
  const auto groups = [&](const char* access) {
    return rate(nic("connectx-5"), host,
                {fmt::format("workload.access={}", access), fmt::format("workload.payload_b={}", payload_b)},
                kRecordsByRpc);
  };
  return groups("read") / groups("write");
}

TEST(Mechanism, WritingLongRecordsIsSlowerThanReadingThemBecauseStoresAreInOrder) {
  HostProfile cx5 = host("osdi18-connectx-5-host");
  const double slower = writes_against_reads(cx5, 256) - 1;
  EXPECT_GT(slower, 0.2);
  EXPECT_LT(writes_against_reads(cx5, 64), 1.02) << "one line: no store waits for another";
  cx5.memory_miss_ns = 0;
  EXPECT_LT(writes_against_reads(cx5, 256) - 1, 0.6 * slower) << "the rest is copied";
}

/// How much faster records are looked up where the popular ones, of which SmallBank mostly asks, are in a
/// cache.
double gained_by_caches(HostProfile host, const char* accounts) {
  const auto transactions = [&] {
    return rate(nic("connectx-4"), host, {fmt::format("workload.accounts_per_thread={}", accounts)},
                kExecutionByRpc, "committed_per_s");
  };
  const double cached = transactions();
  host.last_level_cache_mib = 0;
  return cached / transactions();
}

TEST(Mechanism, PopularRecordsAreCheaperToLookUpBecauseTheCachesHoldThem) {
  HostProfile host_profile = host("xeon-e5-2650v4");
  EXPECT_GT(gained_by_caches(host_profile, "100000"), 1.1);
  EXPECT_NEAR(gained_by_caches(host_profile, "1000000"), 1, 0.01) << "they are too many";
  host_profile.memory_miss_ns = 0;
  EXPECT_NEAR(gained_by_caches(host_profile, "100000"), 1, 0.01);
}

}  // namespace
}  // namespace verbtwin::tools
