// Scenarios run end to end on the simulated binding, small enough for a test and contended enough for the
// checks to have something to find.
#include "tools/run/simulate.hpp"
#include "backend/temporary_directory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "backend/user_error.hpp"
#include "tools/tests/runs_for_test.hpp"

namespace verbtwin::tools {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

/// 3 nodes x 2 threads x 4 coroutines on 600 accounts, of which 24 get nine picks of ten.
constexpr const char* kContended = R"({
  "name": "contended",
  "cluster": {"nodes": 3, "threads": 2, "coroutines": 4, "replicas": 3, "nics_per_node": 2},
  "protocol": {"name": "drtmh"},
  "workload": {"name": "smallbank", "accounts_per_thread": 100},
  "run": {"warmup_us": 20, "measure_us": 300}
})";

/// Few accounts, all of them hot, and transactions that take their time between the first fetch and the last
/// lock: else a record stays locked for longer than another transaction needs to get to its lock, and
/// validation has little to do.
constexpr const char* kHot = R"({
  "name": "hot",
  "cluster": {"nodes": 3, "threads": 2, "coroutines": 4, "replicas": 3, "nics_per_node": 2},
  "protocol": {"name": "drtmh", "phases": {"execution": {"outstanding": false}, "validation": {"outstanding": false}}},
  "workload": {"name": "smallbank", "accounts_per_thread": 20, "hot_fraction": 1},
  "run": {"warmup_us": 20, "measure_us": 1000}
})";

/// 8 nodes x 4 threads x 8 coroutines, little contention.
constexpr const char* kMiddling = R"({
  "name": "middling",
  "cluster": {"nodes": 8, "threads": 4, "coroutines": 8, "replicas": 3, "nics_per_node": 2},
  "protocol": {"name": "drtmh"},
  "workload": {"name": "smallbank", "accounts_per_thread": 20000},
  "run": {"warmup_us": 50, "measure_us": 300}
})";

/// One coroutine a node: nobody waits for anybody.
constexpr const char* kIdle = R"({
  "name": "idle",
  "cluster": {"nodes": 4, "threads": 1, "coroutines": 1, "replicas": 3, "nics_per_node": 1},
  "protocol": {"name": "drtmh"},
  "workload": {"name": "smallbank", "accounts_per_thread": 100000},
  "run": {"warmup_us": 20, "measure_us": 2000}
})";

std::vector<std::string> family() {
  std::vector<std::string> names;
  for (const protocols::RegistryEntry& entry : protocols::occ_entries()) names.push_back(entry.name);
  return names;
}

// --- Isolation holds ---

class EachProtocol : public testing::TestWithParam<std::string> {
 protected:
  std::string protocol() const { return "protocol.name=" + GetParam(); }
};

std::string name_of(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

TEST_P(EachProtocol, IsSerializableUnderContention) {
  double aborts_min = 1;
  for (int seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const json result = try_run(kContended, {protocol(), fmt::format("run.seed={}", seed)});
    expect_sound(result);
    if (result.is_null()) continue;
    aborts_min = std::min(aborts_min, result.at("abort_ratio").get<double>());
  }
  EXPECT_GT(aborts_min, 0.1) << "the cluster is to be contended";
}

struct Variant {
  const char* name;
  Overrides overrides;
};

const std::vector<Variant>& variants() {
  static const std::vector<Variant> all = {
      {"one request after another",
       {"protocol.phases.execution.outstanding=false", "protocol.phases.validation.outstanding=false",
        "protocol.phases.logging.outstanding=false", "protocol.phases.commit.outstanding=false"}},
      {"a doorbell per request",
       {"protocol.phases.execution.doorbell_batching=false",
        "protocol.phases.validation.doorbell_batching=false",
        "protocol.phases.logging.doorbell_batching=false", "protocol.phases.commit.doorbell_batching=false"}},
      {"commits are waited for", {"protocol.phases.commit.passive_ack=false"}},
      {"a packet per message", {"protocol.rpc.coalescing=none"}},
      {"no batching", {"protocol.rpc.request_batching=none", "protocol.rpc.response_batching=false"}},
      {"no request batching", {"protocol.rpc.request_batching=none"}},
      {"a packet and a doorbell for a round",
       {"protocol.rpc.coalescing=round", "protocol.rpc.request_batching=round"}},
      {"no response batching", {"protocol.rpc.response_batching=false"}},
      {"locks by RPC, commit by WRITE",
       {"protocol.phases.execution.lock=false", "protocol.phases.validation.lock=rpc",
        "protocol.phases.commit.primitive=one_sided"}},
      {"locks by CAS, commit by RPC",
       {"protocol.phases.execution.lock=false", "protocol.phases.validation.lock=cas",
        "protocol.phases.commit.primitive=rpc"}},
      {"locks by CAS, commit by RPC, waited for",
       {"protocol.phases.execution.lock=false", "protocol.phases.validation.lock=cas",
        "protocol.phases.commit.primitive=rpc", "protocol.phases.commit.passive_ack=false"}},
      {"READs from a cold location cache",
       {"protocol.phases.execution.lock=false", "protocol.phases.execution.primitive=one_sided",
        "protocol.location_cache.start=cold"}},
      {"READs without a location cache",
       {"protocol.phases.execution.lock=false", "protocol.phases.execution.primitive=one_sided",
        "protocol.location_cache.start=cold", "protocol.location_cache.mib=0"}},
      {"hybrid with a cold location cache",
       {"protocol.phases.execution.lock=false", "protocol.phases.execution.primitive=hybrid",
        "protocol.location_cache.start=cold"}},
      {"a location cache that holds everything", {"protocol.location_cache.start=full"}},
      {"execution by RPC", {"protocol.phases.execution.primitive=rpc"}},
      {"checks by RPC", {"protocol.phases.validation.check=rpc"}},
      {"checks by READ", {"protocol.phases.validation.check=one_sided"}},
      {"logs by RPC", {"protocol.phases.logging.primitive=rpc"}},
      {"logs by WRITE", {"protocol.phases.logging.primitive=one_sided"}},
      {"small logs", {"protocol.log.ring_kib=4"}},
      {"small logs by RPC", {"protocol.log.ring_kib=4", "protocol.phases.logging.primitive=rpc"}},
      {"one replica", {"cluster.replicas=1"}},
      {"two replicas", {"cluster.replicas=2"}},
      {"several queue pairs", {"cluster.qps_per_peer=2"}},
      {"an emulated cluster", {"cluster.emulate_nodes=12"}},
      {"one NIC", {"cluster.nics_per_node=1"}},
      {"one thread", {"cluster.threads=1", "cluster.nics_per_node=1", "cluster.coroutines=8"}},
      {"everything is hot", {"workload.hot_fraction=1", "workload.accounts_per_thread=8"}},
      {"a slow network", {"cluster.network.link_gbps=5", "cluster.network.switch_ns=2000"}},
  };
  return all;
}

TEST_P(EachProtocol, IsSerializableWithEveryOption) {
  for (const Variant& variant : variants()) {
    for (int seed = 1; seed <= 3; ++seed) {
      SCOPED_TRACE(fmt::format("{}, seed {}", variant.name, seed));
      Overrides overrides = variant.overrides;
      overrides.insert(overrides.end(), {protocol(), fmt::format("run.seed={}", seed)});
      expect_sound(try_run(kContended, overrides));
    }
  }
}

TEST_P(EachProtocol, RunsOnOneNode) {
  const json result = run(kContended, {protocol(), "cluster.nodes=1", "cluster.replicas=1"});
  EXPECT_EQ(violations(result), 0U) << findings(result);
  EXPECT_GT(result.at("committed"), 100);
}

/// As many coroutines as the smallest log has room for: the rings are full most of the time, at the node
/// itself too.
/// Its new-order finds nearly all on its own node; who is asked from another one answers all the same.
TEST_P(EachProtocol, TransactionsThatWaitForNothingKeepNobodyWaiting) {
  const nlohmann::json result =
      run(kContended, {protocol(), R"(workload={"name":"tpcc"})", "cluster.nodes=3", "cluster.threads=2",
                       "cluster.replicas=1", "cluster.coroutines=4", "run.measure_us=2000"});
  EXPECT_GT(result.at("committed"), 100);
  EXPECT_LT(result.at("latency_us").at("max"), 500);
}

TEST_P(EachProtocol, FullLogsStopNobody) {
  const int coroutines = protocol() == "protocol.name=farm" ? 19 : 30;  // its records are longer
  for (int seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const json result = try_run(
        kContended, {protocol(), fmt::format("run.seed={}", seed), "protocol.log.ring_kib=4",
                     "workload.accounts_per_thread=2000", fmt::format("cluster.coroutines={}", coroutines)});
    expect_sound(result);
  }
}

// --- Broken protocols are caught ---

struct Fault {
  const char* name;
  bool protocols::OccOptions::Sabotage::*field;
  std::set<std::string> caught_by;  // at least one of these
};

TEST_P(EachProtocol, EachDeliberateFaultIsCaught) {
  const Fault faults[] = {
      {"skip_lock", &protocols::OccOptions::Sabotage::skip_lock, {"serializable"}},
      {"skip_validation", &protocols::OccOptions::Sabotage::skip_validation, {"serializable"}},
      {"skip_version_bump",
       &protocols::OccOptions::Sabotage::skip_version_bump,
       {"serializable", "final_state"}},
      {"skip_log", &protocols::OccOptions::Sabotage::skip_log, {"backup_logs"}},
  };
  expect_sound(try_run(kHot, {protocol()}));
  // What fetches lock needs no check, and SmallBank reads next to nothing else: see occ_family_test.cpp.
  const bool locks_when_fetching = GetParam() == "fasst" || GetParam() == "fasst-hybrid";
  for (const Fault& fault : faults) {
    if (locks_when_fetching && std::string(fault.name) == "skip_validation") continue;
    for (int seed = 1; seed <= 3; ++seed) {
      SCOPED_TRACE(fmt::format("{}, seed {}", fault.name, seed));
      RunControl control;
      control.sabotage.*fault.field = true;
      const json result = try_run(kHot, {protocol(), fmt::format("run.seed={}", seed)}, control);
      if (result.is_null()) continue;
      EXPECT_GT(violations(result), 0U);
      bool caught = false;
      for (const json& check : result.at("checks")) {
        caught = caught || (fault.caught_by.contains(check.at("name")) && check.at("violations") > 0);
      }
      EXPECT_TRUE(caught) << findings(result);
    }
  }
}

// --- Determinism ---

TEST_P(EachProtocol, ASeedGivesTheSameResultAgain) {
  const Overrides overrides = {protocol(), "run.seed=5"};
  const json first = without_simulator(run(kContended, overrides));
  run(kMiddling, {protocol(), "run.measure_us=20"});  // what else the process has simulated does not matter
  EXPECT_EQ(first.dump(), without_simulator(run(kContended, overrides)).dump());
  json other = without_simulator(run(kContended, {protocol(), "run.seed=6"}));
  EXPECT_NE(first.at("committed"), 0);
  EXPECT_NE(first.at("latency_us").dump(), other.at("latency_us").dump());
}

TEST_P(EachProtocol, RecordingForTheChecksCostsNoSimulatedTime) {
  const json checked = run(kContended, {protocol()});
  const json unchecked = run(kContended, {protocol(), "run.check=none"});
  EXPECT_THAT(unchecked.at("checks"), IsEmpty());
  EXPECT_EQ(checked.at("latency_us"), unchecked.at("latency_us"));
  EXPECT_EQ(checked.at("committed"), unchecked.at("committed"));
}

INSTANTIATE_TEST_SUITE_P(Protocols, EachProtocol, testing::ValuesIn(family()), name_of);

// --- What a result says ---

TEST(Simulate, TheResultHasTheContractsKeys) {
  const json result = run(kContended);
  for (const char* key :
       {"format", "version", "scenario", "backend", "seed", "partial", "window_us", "committed",
        "aborted_attempts", "abort_ratio", "committed_per_s", "latency_us", "phases", "transactions", "verbs",
        "resources", "bottleneck", "checks", "simulator"}) {
    EXPECT_TRUE(result.contains(key)) << key;
  }
  EXPECT_EQ(result.at("format"), "verbtwin-result");
  EXPECT_EQ(result.at("partial"), false);
  EXPECT_DOUBLE_EQ(result.at("window_us").get<double>(), 300);
  std::set<std::string> resources;
  for (const json& resource : result.at("resources")) {
    resources.insert(resource.at("name").get<std::string>());
    EXPECT_GE(resource.at("utilization_mean"), 0.0) << resource;
    EXPECT_LE(resource.at("utilization_mean"), resource.at("utilization_max")) << resource;
    EXPECT_LE(resource.at("utilization_max"), 1.0) << resource;
  }
  for (const char* name : {"core", "nic_send", "nic_recv", "pcie_up", "pcie_down", "dma_reads", "atomic_unit",
                           "link", "qp_cache"}) {
    EXPECT_TRUE(resources.contains(name)) << name;
  }
  for (const char* verb : {"read", "write", "compare_swap", "fetch_add", "send", "recv"}) {
    EXPECT_TRUE(result.at("verbs").at(verb).contains("count")) << verb;
    EXPECT_TRUE(result.at("verbs").at(verb).contains("bytes")) << verb;
  }
  for (const char* phase : {"execution", "validation", "logging", "commit"}) {
    EXPECT_GT(result.at("phases").at(phase).at("mean_us"), 0.0) << phase;
  }
}

TEST(Simulate, TheNumbersAgreeWithEachOther) {
  const json result = run(kMiddling);
  std::uint64_t committed = 0;
  for (const auto& [name, type] : result.at("transactions").items())
    committed += type.at("committed").get<std::uint64_t>();
  EXPECT_EQ(result.at("committed"), committed);
  EXPECT_NEAR(result.at("committed_per_s").get<double>(), static_cast<double>(committed) / 300e-6, 1);
  std::uint64_t aborted = 0;
  for (const auto& [reason, count] : result.at("aborts").items()) aborted += count.get<std::uint64_t>();
  EXPECT_EQ(result.at("aborted_attempts"), aborted);
  // Little's law: every coroutine always has one transaction in progress.
  const double in_progress =
      static_cast<double>(committed) * result.at("latency_us").at("mean").get<double>() / 300;
  EXPECT_NEAR(in_progress / (8 * 4 * 8), 1, 0.1);
}

TEST(Simulate, TheProtocolsUseTheVerbsTheyAreNamedFor) {
  const json drtmh = run(kContended).at("verbs");
  for (const char* verb : {"read", "write", "compare_swap"}) EXPECT_GT(drtmh.at(verb).at("count"), 0) << verb;
  const json fasst = run(kContended, {"protocol.name=fasst-occ"}).at("verbs");
  for (const char* verb : {"read", "write", "compare_swap"}) EXPECT_EQ(fasst.at(verb).at("count"), 0) << verb;
  EXPECT_GT(fasst.at("send").at("count"), 0);
  EXPECT_GT(fasst.at("recv").at("count"), 0);
}

TEST(Simulate, DrtmhIsFasterThanFasstOcc) {
  const json drtmh = run(kMiddling);
  const json fasst = run(kMiddling, {"protocol.name=fasst-occ"});
  EXPECT_EQ(violations(drtmh), 0U) << findings(drtmh);
  EXPECT_EQ(violations(fasst), 0U) << findings(fasst);
  EXPECT_GT(drtmh.at("committed_per_s"), fasst.at("committed_per_s"));
  EXPECT_LT(drtmh.at("latency_us").at("p50"), fasst.at("latency_us").at("p50"));
}

TEST(Simulate, MoreLoadTakesLongerAndDoesMore) {
  const json one = run(kMiddling, {"cluster.coroutines=1"});
  const json eight = run(kMiddling);
  EXPECT_GT(eight.at("committed"), one.at("committed"));
  EXPECT_GT(eight.at("latency_us").at("mean"), one.at("latency_us").at("mean"));
}

// --- Networks ---

TEST_P(EachProtocol, BothNetworkModelsAgreeOnAnIdleNetwork) {
  const json fifo = run(kIdle, {protocol()});
  const json simgrid = run(kIdle, {protocol(), "cluster.network.model=simgrid"});
  EXPECT_EQ(violations(simgrid), 0U) << findings(simgrid);
  EXPECT_GT(fifo.at("committed"), 500);
  const double ratio =
      simgrid.at("latency_us").at("mean").get<double>() / fifo.at("latency_us").at("mean").get<double>();
  EXPECT_NEAR(ratio, 1, 0.01);
}

TEST(Simulate, BothNetworkModelsAreSoundUnderContention) {
  const json result = run(kContended, {"cluster.network.model=simgrid", "run.measure_us=100"});
  EXPECT_EQ(violations(result), 0U) << findings(result);
  EXPECT_GT(result.at("committed"), 30);
}

TEST(Simulate, APlatformOfSixteenHostsRuns) {
  const fs::path platform = fs::path(VERBTWIN_SOURCE_DIR) / "scenarios/platforms/sixteen-hosts.xml";
  const json result = run(kContended, {"cluster.nodes=16", "cluster.network.platform=" + platform.string()});
  expect_sound(result);
}

/// Hosts have one cable, whatever NICs they have: what waits at one NIC does not wake the other.
TEST(Simulate, NicsOfAHostShareItsCable) {
  const fs::path platform = fs::path(VERBTWIN_SOURCE_DIR) / "scenarios/platforms/sixteen-hosts.xml";
  const auto rate = [&](int nics) {
    return run(R"({"cluster": {"nodes": 4, "threads": 4},
                   "workload": {"name": "primitive", "verb": "read", "payload_b": 4096, "outstanding": 16},
                   "run": {"warmup_us": 100, "measure_us": 200}})",
               {"cluster.network.platform=" + platform.string(),
                fmt::format("cluster.nics_per_node={}", nics)})
        .at("operations_per_s")
        .get<double>();
  };
  EXPECT_NEAR(rate(2) / rate(1), 1, 0.1);
}

std::string three_hosts(const char* latency) {
  std::string xml =
      "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
      "<platform version=\"4.1\"><zone id=\"z\" routing=\"Full\">\n";
  for (const char* name : {"a", "b", "c"}) {
    xml += fmt::format("<host id=\"{0}\" speed=\"1Gf\"/>\n", name);
  }
  for (const char* name : {"a", "b", "c"}) {
    xml += fmt::format(
        "<link id=\"{0}\" bandwidth=\"12.5GBps\" latency=\"{1}\" sharing_policy=\"SPLITDUPLEX\"/>\n", name,
        latency);
  }
  for (const char* route : {"ab", "bc", "ca"}) {
    xml += fmt::format(
        "<route src=\"{0}\" dst=\"{1}\"><link_ctn id=\"{0}\" direction=\"UP\"/>"
        "<link_ctn id=\"{1}\" direction=\"DOWN\"/></route>\n",
        route[0], route[1]);
  }
  return xml + "</zone></platform>\n";
}

TEST(Simulate, AUsersPlatformRunsAndItsLatencyCounts) {
  const TemporaryDirectory directory;
  const auto p50 = [&](const char* latency) {
    const fs::path platform = directory.write("three.xml", three_hosts(latency));
    const json result = run(
        kContended, {"cluster.network.platform=" + platform.string(), "workload.accounts_per_thread=2000"});
    EXPECT_EQ(violations(result), 0U) << findings(result);
    return result.at("latency_us").at("p50").get<double>();
  };
  const double near = p50("100ns"), far = p50("5us");
  EXPECT_GT(far, near + 4 * 10) << "a transaction crosses the network a few times, 10 us each way";
}

std::string far_network(const TemporaryDirectory& directory) {
  return "cluster.network.platform=" + directory.write("three.xml", three_hosts("900ms")).string();
}

/// Nothing ends for seconds, which is as it has to be there.
TEST(Simulate, TheLastTransactionsHaveTheTimeThatTheirNetworkTakes) {
  const TemporaryDirectory directory;
  expect_sound(run(kContended, {far_network(directory), "run.measure_us=40e6"}));
}

TEST(Simulate, ANetworkTooFarForTheLastTransactionsIsNamed) {
  const TemporaryDirectory directory;
  const json result =
      run(kContended, {far_network(directory), "run.measure_us=89.9e6", "workload.accounts_per_thread=10"});
  EXPECT_THAT(findings(result),
              HasSubstr("that were waited for the next: the network's latencies may be too long"));
}

// --- Stopping ---

TEST(Simulate, AStopOnTheWayKeepsWhatThereIs) {
  std::atomic<bool> stop{false};
  RunControl control;
  control.stop = &stop;
  double last_us = 0;
  control.progress = [&](double simulated_us, double total_us, std::uint64_t) {
    EXPECT_GE(simulated_us, last_us);
    EXPECT_DOUBLE_EQ(total_us, 350);
    last_us = simulated_us;
    if (simulated_us > 150) stop = true;
  };
  const json result = run(kMiddling, {}, control);
  EXPECT_EQ(result.at("partial"), true);
  EXPECT_GT(result.at("window_us"), 90.0);
  EXPECT_LT(result.at("window_us"), 150.0);
  EXPECT_GT(result.at("committed"), 100);
  EXPECT_EQ(violations(result), 0U) << findings(result);
  const double per_s = result.at("committed").get<double>() / (result.at("window_us").get<double>() * 1e-6);
  EXPECT_NEAR(result.at("committed_per_s").get<double>() / per_s, 1, 1e-6);
}

// --- What cannot be assembled ---

struct BadCombination {
  Overrides overrides;
  const char* pointer;
  const char* says;
};

TEST(Simulate, BadCombinationsAreTheUsersErrorsWithTheirPlace) {
  const TemporaryDirectory directory;
  const std::string platform = directory.write("three.xml", three_hosts("1us")).string();
  const std::string no_platform = directory.write("broken.xml", "<platform>").string();
  const BadCombination all[] = {
      {{"cluster.threads=3"}, "/cluster/threads", "multiple of 2"},
      {{"protocol.log.ring_kib=4", "cluster.coroutines=100"}, "/protocol/log/ring_kib", "at least"},
      {{"cluster.nodes=4", "cluster.network.platform=" + platform}, "/cluster/network/platform", "3"},
      {{"cluster.network.platform=" + no_platform}, "/cluster/network/platform", "broken.xml"},
  };
  for (const BadCombination& bad : all) {
    SCOPED_TRACE(bad.overrides.front());
    const scenarios::Scenario scenario = load(kContended, bad.overrides);
    try {
      simulate(scenario, {});
      ADD_FAILURE() << "accepted";
    } catch (const UserError& error) {
      EXPECT_EQ(error.pointer(), bad.pointer);
      EXPECT_THAT(error.what(), HasSubstr(bad.says));
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(violations(run(kContended)), 0U) << "a run that failed leaves nothing behind";
}

}  // namespace
}  // namespace verbtwin::tools
