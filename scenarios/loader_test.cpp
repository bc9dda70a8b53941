#include "scenarios/loader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "backend/temporary_directory.hpp"
#include "scenarios/catalog_for_test.hpp"

namespace verbtwin::scenarios {
namespace {

using nlohmann::json;
using Overrides = std::vector<std::string>;

constexpr const char* kScenario = R"({
  "$schema": "scenario.schema.json",
  "name": "t",
  "cluster": {"nodes": 16},
  "protocol": {"name": "drtmh"},
  "workload": {"name": "smallbank", "accounts_per_thread": 1000}
})";

Scenario load(const std::string& text, const Overrides& overrides = {}) {
  return load_scenario(Document::parse("s.json", text), overrides, test_catalog());
}

std::string error_of(const std::string& text, const Overrides& overrides = {}) {
  try {
    load(text, overrides);
  } catch (const UserError& e) {
    EXPECT_EQ(e.pointer(), "") << "the message is the whole line";
    return e.what();
  }
  return "accepted";
}

/// kScenario with line 4, the cluster, replaced.
std::string error_of_cluster(const std::string& cluster, const Overrides& overrides = {}) {
  std::string text = kScenario;
  const std::string line = R"("cluster": {"nodes": 16})";
  text.replace(text.find(line), line.size(), "\"cluster\": " + cluster);
  return error_of(text, overrides);
}

std::string edited(std::string text, const std::string& where, const std::string& what) {
  return text.replace(text.find(where), where.size(), what);
}

std::string error_of_set(const std::string& override) {
  return error_of(kScenario, {override});
}

TEST(Loader, FillsEveryDefault) {
  const Scenario s = load(kScenario);
  EXPECT_EQ(s.name, "t");
  EXPECT_EQ(s.backend, "sim");
  EXPECT_EQ(s.cluster.nodes, 16);
  EXPECT_EQ(s.cluster.threads, 24);
  EXPECT_EQ(s.cluster.coroutines, 8);
  EXPECT_EQ(s.cluster.replicas, 3);
  EXPECT_EQ(s.cluster.nic, "connectx-4");
  EXPECT_EQ(s.cluster.nics_per_node, 2);
  EXPECT_EQ(s.cluster.host, "xeon-e5-2650v4");
  EXPECT_EQ(s.cluster.qps_per_peer, 1);
  EXPECT_EQ(s.cluster.network.topology, "star");
  EXPECT_EQ(s.cluster.network.platform, "");
  EXPECT_EQ(s.cluster.network.model, NetworkModel::kFifo);
  EXPECT_EQ(s.cluster.network.link_gbps, 0);
  EXPECT_EQ(s.cluster.network.cable_ns, 25);
  EXPECT_EQ(s.cluster.network.switch_ns, 130);
  EXPECT_EQ(s.protocol, json::parse(R"({"name": "drtmh", "lock": "cas", "cache_bytes": 1048576, "odd": 4,
                                        "batching": {"doorbell": true, "requests": 8}})"));
  EXPECT_EQ(s.workload["accounts_per_thread"], 1000);
  EXPECT_EQ(s.workload["hot_ratio"], 0.04);
  EXPECT_EQ(s.run.warmup_us, 200);
  EXPECT_EQ(s.run.measure_us, 1000);
  EXPECT_EQ(s.run.seed, 1U);
  EXPECT_EQ(s.run.check, "serializable");
  EXPECT_FALSE(s.resolved.contains("$schema"));
  EXPECT_EQ(s.resolved["cluster"]["network"]["switch_ns"], 130);
  EXPECT_EQ(s.resolved["protocol"], s.protocol);
}

TEST(Loader, TheResolvedScenarioIsAScenario) {
  const Scenario once = load(kScenario, {"protocol.batching.requests=2", "run.seed=9223372036854775807"});
  const Scenario again = load(once.resolved.dump());
  EXPECT_EQ(again.resolved.dump(), once.resolved.dump());
  EXPECT_EQ(again.run.seed, 9223372036854775807U);
}

TEST(Loader, TheFileNamesAScenarioWithoutAName) {
  const Scenario s = load_scenario(Document::parse("dir/bank-16.json", kScenario), {"name="}, test_catalog());
  EXPECT_EQ(s.name, "bank-16");
  EXPECT_EQ(s.resolved["name"], "bank-16");
}

TEST(Overrides, AreTypedByTheSchema) {
  const Scenario s =
      load(kScenario, {"cluster.nodes=80", "name=16", "description=\"quoted\"", "run.measure_us=0.5",
                       "cluster.network.model=simgrid", "workload.accounts_per_thread=1e6",
                       "workload.weights=[3, 4.5]", "protocol.batching={\"doorbell\": false}"});
  EXPECT_EQ(s.cluster.nodes, 80);
  EXPECT_EQ(s.name, "16");
  EXPECT_EQ(s.resolved.at("description"), "quoted");
  EXPECT_EQ(s.run.measure_us, 0.5);
  EXPECT_EQ(s.cluster.network.model, NetworkModel::kSimgrid);
  EXPECT_EQ(s.workload["accounts_per_thread"].dump(), "1000000");
  EXPECT_EQ(s.workload["weights"], json::parse("[3, 4.5]"));
  EXPECT_EQ(s.protocol["batching"], json::parse(R"({"doorbell": false, "requests": 8})"));
}

TEST(Overrides, LaterOnesWinAndNamesComeFirst) {
  EXPECT_EQ(load(kScenario, {"run.seed=2", "run.seed=3"}).run.seed, 3U);
  // The parameter is judged by the protocol that the whole line asks for.
  EXPECT_EQ(load(kScenario, {"protocol.name=fasst-occ", "protocol.name=drtmh", "protocol.lock=rpc"})
                .protocol["lock"],
            "rpc");
  EXPECT_EQ(load(kScenario, {"protocol={\"name\": \"fasst-occ\"}"}).protocol,
            json::parse(R"({"name": "fasst-occ"})"));
}

TEST(Overrides, MayMakeWhatTheFileLeavesOut) {
  EXPECT_EQ(load("{}", {"cluster.nodes=4", "protocol.name=drtmh", "workload.name=smallbank"}).cluster.nodes,
            4);
}

TEST(OverrideErrors, NameTheOverride) {
  EXPECT_EQ(error_of_set("cluster.nodes=0"),
            "--set cluster.nodes=0: /cluster/nodes: out of range: 0; allowed: integer, 1 to 4096");
  EXPECT_EQ(
      error_of_set("cluster.nodes=many"),
      "--set cluster.nodes=many: /cluster/nodes: wrong type: string \"many\"; allowed: integer, 1 to 4096");
  EXPECT_EQ(error_of_set("cluster.nodes="),
            "--set cluster.nodes=: /cluster/nodes: wrong type: string \"\"; allowed: integer, 1 to 4096");
  EXPECT_EQ(error_of_set("cluster.nodse=80"),
            "--set cluster.nodse=80: /cluster/nodse: unknown key \"nodse\"; allowed: ack_timeout, "
            "completion_queues, "
            "coroutines, device_context, emulate_nodes, host, "
            "network, nic, "
            "nics_per_node, nodes, qps_per_peer, replicas, roles, sockets, tear_ns, threads, "
            "threads_per_queue_pair; did you mean "
            "\"nodes\"?");
  EXPECT_EQ(error_of_set("cluster.nodes.x=80"),
            "--set cluster.nodes.x=80: /cluster/nodes/x: unknown key \"x\"; /cluster/nodes is no object");
  EXPECT_EQ(error_of_set("cluster.nodes"),
            "--set cluster.nodes: expected PATH=VALUE, such as cluster.nodes=80");
  EXPECT_EQ(error_of_set("=80"), "--set =80: expected PATH=VALUE, such as cluster.nodes=80");
  EXPECT_EQ(error_of_set("cluster..nodes=80"),
            "--set cluster..nodes=80: /cluster/: unknown key \"\"; allowed: ack_timeout, completion_queues, "
            "coroutines, device_context, "
            "emulate_nodes, host, network, nic, "
            "nics_per_node, nodes, qps_per_peer, replicas, roles, sockets, tear_ns, threads, "
            "threads_per_queue_pair");
  EXPECT_EQ(error_of_set("cluster={\"nodes\": }"),
            "--set cluster={\"nodes\": }: /cluster: value:1:11: syntax error: unexpected '}'; allowed: a "
            "number, a string in double quotes, true, false, null, '[' or '{'");
  EXPECT_EQ(error_of_set("cluster={\"nodes\": 0}"),
            "--set cluster={\"nodes\": 0}: /cluster/nodes: out of range: 0; allowed: integer, 1 to 4096");
  EXPECT_EQ(error_of_set("run.check=yes"),
            "--set run.check=yes: /run/check: unknown value \"yes\"; allowed: serializable, none");
  EXPECT_EQ(error_of_set("name=\xff"), "--set name=\\xff: /name: the value is no UTF-8 text");
  EXPECT_EQ(error_of_set("protocol.name=farm"),
            "--set protocol.name=farm: /protocol/name: unknown value \"farm\"; allowed: fasst-occ, drtmh");
  EXPECT_EQ(error_of_set("protocol.locks=rpc"),
            "--set protocol.locks=rpc: /protocol/locks: unknown key \"locks\"; allowed: batching, "
            "cache_bytes, lock, "
            "name, odd; did you mean \"lock\"?");
}

TEST(OverrideErrors, ANameThatTheRestOfTheFileDoesNotSuitIsTheCause) {
  std::string text = kScenario;
  text.insert(text.find("\"drtmh\"") + 7, R"(, "lock": "rpc")");
  const std::string line = "s.json:5:33: /protocol/lock: unknown key \"lock\"; allowed: name";
  EXPECT_EQ(error_of(text, {"protocol.name=fasst-occ"}),
            line +
                "; --set protocol.name=fasst-occ changed the protocol: give all of it, --set "
                "'protocol={\"name\":\"fasst-occ\"}'");
  EXPECT_EQ(error_of(text, {"protocol={\"name\":\"fasst-occ\"}"}), "accepted");
  EXPECT_THAT(error_of(edited(text, "drtmh", "fasst-occ"), {"protocol.name=fasst-occ"}),
              testing::EndsWith("allowed: name"));
}

TEST(ScenarioErrors, UnknownKeysNameTheNearest) {
  EXPECT_EQ(error_of_cluster(R"({"nodse": 16})"),
            "s.json:4:15: /cluster/nodse: unknown key \"nodse\"; allowed: ack_timeout, completion_queues, "
            "coroutines, device_context, emulate_nodes, host, network, nic, nics_per_node, nodes, "
            "qps_per_peer, replicas, roles, sockets, tear_ns, threads, threads_per_queue_pair; did you mean "
            "\"nodes\"?")
      << "not that nodes is missing";
  EXPECT_EQ(
      error_of(R"({"extra": []})"),
      "s.json:1:2: /extra: unknown key \"extra\"; allowed: $schema, backend, cluster, description, name, "
      "protocol, run, sweep, workload");
  EXPECT_EQ(
      error_of_cluster(R"({"nodes": 16, "network": {"modell": "fifo"}})"),
      "s.json:4:40: /cluster/network/modell: unknown key \"modell\"; allowed: background_gbps, cable_ns, "
      "chassis, "
      "dimensions, group_cables, groups, leaf_ports, link_gbps, loss_ratio, model, platform, router_ports, "
      "routers, "
      "spines, switch_ns, topology; did you mean \"model\"?");
}

TEST(ScenarioErrors, TypesAndRanges) {
  EXPECT_EQ(error_of_cluster(R"({"nodes": "16"})"),
            "s.json:4:24: /cluster/nodes: wrong type: string \"16\"; allowed: integer, 1 to 4096");
  EXPECT_EQ(error_of_cluster(R"({"nodes": 1.5})"),
            "s.json:4:24: /cluster/nodes: wrong type: number 1.5; allowed: integer, 1 to 4096");
  EXPECT_EQ(error_of_cluster(R"({"nodes": null})"),
            "s.json:4:24: /cluster/nodes: wrong type: null; allowed: integer, 1 to 4096");
  EXPECT_EQ(error_of_cluster(R"({"nodes": true})"),
            "s.json:4:24: /cluster/nodes: wrong type: boolean true; allowed: integer, 1 to 4096");
  EXPECT_EQ(error_of_cluster(R"({"nodes": [16]})"),
            "s.json:4:24: /cluster/nodes: wrong type: array; allowed: integer, 1 to 4096");
  EXPECT_EQ(error_of_cluster(R"({"nodes": 18446744073709551615})"),
            "s.json:4:24: /cluster/nodes: out of range: 18446744073709551615; allowed: integer, 1 to 4096");
  EXPECT_EQ(error_of_cluster(R"({"nodes": 1e30})"),
            "s.json:4:24: /cluster/nodes: out of range: 1e+30; allowed: integer, 1 to 4096");
  EXPECT_EQ(error_of_cluster(R"({"nodes": 1e400})"),
            "s.json:4:24: /cluster/nodes: out of range: 1e400; allowed: numbers from -1.7e308 to 1.7e308");
  EXPECT_EQ(error_of_cluster("16"),
            "s.json:4:14: /cluster: wrong type: integer 16; allowed: object, such as {\"nodes\":16}");
  EXPECT_EQ(error_of_set("run.measure_us=0"),
            "--set run.measure_us=0: /run/measure_us: out of range: 0; allowed: number, 0.001 to 1000000000");
  EXPECT_EQ(error_of_set("run.seed=9223372036854775808"),
            "--set run.seed=9223372036854775808: /run/seed: out of range: 9223372036854775808; allowed: "
            "integer, 0 to "
            "9223372036854775807");
  EXPECT_EQ(
      error_of_set("protocol.cache_bytes=-1"),
      "--set protocol.cache_bytes=-1: /protocol/cache_bytes: out of range: -1; allowed: integer, at least 0");
  EXPECT_EQ(error_of_set("cluster.nic="),
            "--set cluster.nic=: /cluster/nic: too short: \"\"; allowed: string of 1 to 4096 characters");
  EXPECT_EQ(
      error_of_set("workload.weights=[1, -2]"),
      "--set workload.weights=[1, -2]: /workload/weights/1: out of range: -2; allowed: number, at least 0");
  EXPECT_EQ(error_of("[1]"), "s.json:1:1: wrong type: array; allowed: object");
}

TEST(ScenarioErrors, TheJudgeKnowsEveryKeyword) {
  EXPECT_THAT(error_of_set("protocol.odd=3"),
              testing::StartsWith("--set protocol.odd=3: /protocol/odd: not valid: "));
}

TEST(ScenarioErrors, MissingKeys) {
  EXPECT_EQ(error_of_cluster("{}"),
            "s.json:4:14: /cluster: missing key \"nodes\"; allowed: integer, 1 to 4096");
  EXPECT_EQ(error_of("{}"), "s.json:1:1: missing key \"cluster\"; allowed: object, such as {\"nodes\":16}");
  EXPECT_EQ(error_of(R"({"cluster": {"nodes": 4}, "protocol": {}, "workload": {"name": "smallbank"}})"),
            "s.json:1:39: /protocol: missing key \"name\"; allowed: fasst-occ, drtmh");
}

TEST(ScenarioErrors, TheFirstInTheFileIsTold) {
  EXPECT_EQ(error_of_cluster(R"({"threads": 0, "nodes": 0})"),
            "s.json:4:26: /cluster/threads: out of range: 0; allowed: integer, 1 to 256");
}

TEST(ScenarioErrors, FieldsThatMustAgree) {
  EXPECT_EQ(error_of_cluster(R"({"nodes": 2, "replicas": 3})"),
            "s.json:4:39: /cluster/replicas: out of range: 3; allowed: integer, 1 to 2 (cluster.nodes)");
  EXPECT_EQ(error_of_set("cluster.nodes=2"),
            "s.json:4:14: /cluster/replicas: out of range: 3 (the default); allowed: integer, 1 to 2 "
            "(cluster.nodes)");
  EXPECT_EQ(
      error_of_cluster(R"({"nodes": 4})", {"cluster.threads=2", "cluster.nics_per_node=4"}),
      "--set cluster.nics_per_node=4: /cluster/nics_per_node: out of range: 4; allowed: integer, 1 to 2 "
      "(cluster.threads)");
  EXPECT_EQ(error_of_cluster(R"({"nodes": 4, "network": {"spines": 5}})"),
            "s.json:4:39: /cluster/network/spines: \"spines\" is of a fat tree; allowed: with \"topology\": "
            "\"fat_tree\"");
  EXPECT_EQ(error_of_cluster(R"({"nodes": 4, "network": {"topology": "torus", "groups": 5}})"),
            "s.json:4:60: /cluster/network/groups: \"groups\" is of a dragonfly; allowed: with \"topology\": "
            "\"dragonfly\"");
  EXPECT_EQ(error_of_cluster(R"({"nodes": 10, "network": {"topology": "torus", "dimensions": [3, 3]}})"),
            "s.json:4:75: /cluster/network/dimensions: out of range: 9 places for 20 NIC ports (nodes x "
            "nics_per_node); allowed: at least 20");
  EXPECT_EQ(error_of_cluster(R"({"nodes": 4, "network": {"topology": "torus", "dimensions": [3, 0]}})"),
            "s.json:4:78: /cluster/network/dimensions/1: out of range: 0; allowed: integer, 1 to 1024");
  EXPECT_EQ(
      error_of_cluster(R"({"nodes": 4, "network": {"topology": "dragonfly", "groups": 9}})"),
      "s.json:4:74: /cluster/network/groups: out of range: 9; allowed: integer, 1 to 8 (the routers of a "
      "group, each of which holds the cables to one other)");
  EXPECT_EQ(error_of_cluster(R"({"nodes": 200, "network": {"topology": "dragonfly"}})"),
            "s.json:4:40: /cluster/network/groups: out of range: 128 places for 400 NIC ports (nodes x "
            "nics_per_node); allowed: at least 400");
  EXPECT_EQ(
      error_of_cluster(R"({"nodes": 4, "network": {"topology": "torus", "model": "simgrid"}})"),
      "s.json:4:69: /cluster/network/model: SimGrid has no link between a port of a torus and its router: "
      "a port would send as fast as all of the router's cables; allowed with \"topology\" torus: "
      "\"model\" fifo");
  EXPECT_EQ(error_of_cluster(R"({"nodes": 4, "network": {"platform": "p.xml", "cable_ns": 5}})"),
            "s.json:4:60: /cluster/network/cable_ns: \"cable_ns\" and \"platform\" exclude each other; "
            "allowed: one of "
            "them");
}

TEST(ScenarioErrors, OthersNeedSomebodyToSendToAndLinksToQueueAt) {
  EXPECT_EQ(error_of_cluster(R"({"nodes": 3, "network": {"background_gbps": 20}})"), "accepted");
  EXPECT_EQ(error_of_cluster(R"({"nodes": 3, "network": {"background_gbps": -1}})"),
            "s.json:4:58: /cluster/network/background_gbps: out of range: -1; allowed: number, 0 to 1600");
  EXPECT_EQ(
      error_of_cluster(R"({"nodes": 1, "replicas": 1, "network": {"background_gbps": 20}})"),
      "s.json:4:73: /cluster/network/background_gbps: a single node has nobody to send to; allowed with "
      "one node: 0");
  EXPECT_EQ(error_of_cluster(R"({"nodes": 3, "network": {"background_gbps": 20, "model": "simgrid"}})"),
            "s.json:4:71: /cluster/network/model: SimGrid's communications meet no packets of others; "
            "allowed with \"background_gbps\": \"model\" fifo");
}

TEST(ScenarioErrors, OnlyPacketsOfOursAreLost) {
  EXPECT_EQ(error_of_cluster(R"({"nodes": 3, "ack_timeout": 1, "network": {"loss_ratio": 0.1}})"),
            "accepted");
  EXPECT_EQ(error_of_cluster(R"({"nodes": 3, "ack_timeout": 0})"),
            "s.json:4:42: /cluster/ack_timeout: out of range: 0; allowed: integer, 1 to 31");
  EXPECT_EQ(error_of_cluster(R"({"nodes": 3, "network": {"loss_ratio": 0.2}})"),
            "s.json:4:53: /cluster/network/loss_ratio: out of range: 0.2; allowed: number, 0 to 0.1");
  EXPECT_EQ(error_of_cluster(R"({"nodes": 3, "network": {"loss_ratio": 0.1, "model": "simgrid"}})"),
            "s.json:4:67: /cluster/network/model: SimGrid's communications lose nothing; allowed with "
            "\"loss_ratio\": \"model\" fifo");
}

TEST(ScenarioErrors, RealNicsAreNotToldToTear) {
  const std::string tearing = R"({"nodes": 16, "tear_ns": 500})";
  EXPECT_EQ(error_of_cluster(tearing), "accepted");
  EXPECT_EQ(error_of_cluster(tearing, {"backend=ibverbs"}),
            "s.json:4:39: /cluster/tear_ns: out of range: 500; allowed with \"backend\" ibverbs: 0, because "
            "real NICs are not told how to write");
  EXPECT_EQ(error_of_cluster(tearing, {"backend=ibverbs", "cluster.tear_ns=0"}), "accepted");
}

TEST(ScenarioErrors, ThreadsOfRealNodesShareNoContext) {
  const std::string shared = R"({"nodes": 16, "device_context": "shared"})";
  EXPECT_EQ(error_of_cluster(shared), "accepted");
  EXPECT_EQ(error_of_cluster(shared, {"backend=ibverbs"}),
            "s.json:4:46: /cluster/device_context: out of range: \"shared\"; allowed with \"backend\" "
            "ibverbs: \"per_thread\", "
            "because each thread opens its device for itself");
}

TEST(ScenarioErrors, ThreadsShareQueuePairsEvenlyAndInSimulationOnly) {
  const std::string sharing =
      R"({"nodes": 4, "threads": 12, "nics_per_node": 2, "threads_per_queue_pair": 3})";
  EXPECT_EQ(error_of_cluster(sharing), "accepted");
  EXPECT_EQ(
      error_of_cluster(sharing, {"cluster.threads_per_queue_pair=4"}),
      "--set cluster.threads_per_queue_pair=4: /cluster/threads_per_queue_pair: 6 threads of a NIC "
      "(cluster.threads / cluster.nics_per_node) cannot be dealt evenly to queue pairs of 4; allowed: 1, "
      "2, 3, 6");
  EXPECT_EQ(
      error_of_cluster(sharing, {"backend=ibverbs"}),
      "s.json:4:88: /cluster/threads_per_queue_pair: out of range: 3; allowed with \"backend\" ibverbs: 1, "
      "because queue pairs that threads share are simulated only");
}

TEST(ScenarioErrors, EmulationMustMakeSense) {
  EXPECT_EQ(error_of_cluster(R"({"nodes": 16, "emulate_nodes": 40})"),
            "s.json:4:45: /cluster/emulate_nodes: 40 machines cannot be dealt evenly to 16; allowed: 0, or a "
            "multiple of 16 (cluster.nodes)");
  EXPECT_EQ(error_of_cluster(R"({"nodes": 16, "emulate_nodes": 8})"),
            "s.json:4:45: /cluster/emulate_nodes: 8 machines cannot be dealt evenly to 16; allowed: 0, or a "
            "multiple of 16 (cluster.nodes)");
  EXPECT_EQ(
      error_of_cluster(R"({"nodes": 1, "replicas": 1, "emulate_nodes": 8})"),
      "s.json:4:59: /cluster/emulate_nodes: a single node has no peers to stand for others; allowed with "
      "one node: 0");
  EXPECT_EQ(
      error_of_cluster(R"({"nodes": 16, "emulate_nodes": 4096, "qps_per_peer": 16})"),
      "s.json:4:45: /cluster/emulate_nodes: more queue pairs than a thread can have; allowed here: 0 to "
      "2048");
}

TEST(ScenarioErrors, NamesOfTheCatalog) {
  EXPECT_EQ(
      error_of(R"({"cluster": {"nodes": 4}, "protocol": {"name": "drtm-h", "lock": 1}, "workload": {}})"),
      "s.json:1:48: /protocol/name: unknown value \"drtm-h\"; allowed: fasst-occ, drtmh; did you mean "
      "\"drtmh\"?");
  EXPECT_EQ(
      error_of_set("workload.name=smalbank"),
      "--set workload.name=smalbank: /workload/name: unknown value \"smalbank\"; allowed: smallbank; did you "
      "mean \"smallbank\"?");
  EXPECT_EQ(error_of_cluster(R"({"nodes": 4, "nic": "connectx-44"})"),
            "s.json:4:34: /cluster/nic: unknown profile \"connectx-44\"; allowed: connectx-4, connectx-5, or "
            "a path "
            "ending in .json; did you mean \"connectx-4\"?");
  EXPECT_EQ(error_of_cluster(R"({"nodes": 4, "host": "no/such.json"})"),
            "s.json:4:35: /cluster/host: no such file: \"no/such.json\"");
}

TEST(ScenarioErrors, OfAFileThatCannotBeReadItIsSaidWhyAndWhichFieldNamesIt) {
  const TemporaryDirectory directory;
  const std::filesystem::path loop = directory.path() / "loop.json";
  std::filesystem::create_symlink("loop.json", loop);
  EXPECT_EQ(error_of_set("cluster.nic=" + loop.string()),
            "--set cluster.nic=" + loop.string() + ": /cluster/nic: cannot be read: \"" + loop.string() +
                "\" (Too many levels of symbolic links)");
  EXPECT_THAT(error_of_set("cluster.network={\"platform\":\"" + loop.string() + "\"}"),
              testing::HasSubstr("/cluster/network/platform: cannot be read: "));
  EXPECT_THAT(error_of_set("cluster.host=" + std::string(300, 'x') + ".json"),
              testing::EndsWith("(File name too long)"));
}

class ScenarioFiles : public testing::Test {
 protected:
  void SetUp() override {
    write("nic.json", "{}");
    write("cluster.xml", "<platform/>");
  }

  std::string write(const std::string& name, const std::string& text) const {
    return made_.write(name, text).string();
  }

  TemporaryDirectory made_;
  const std::filesystem::path dir_ = made_.path();
};

TEST_F(ScenarioFiles, PathsAreRelativeToTheFile) {
  const std::string file = write("s.json", R"({
    "cluster": {"nodes": 4, "nic": "nic.json", "network": {"platform": "cluster.xml"}},
    "protocol": {"name": "drtmh"}, "workload": {"name": "smallbank"}})");
  const Scenario s = load_scenario(file, {}, test_catalog());
  EXPECT_EQ(s.cluster.nic, (dir_ / "nic.json").string());
  EXPECT_EQ(s.cluster.network.platform, (dir_ / "cluster.xml").string());
  EXPECT_EQ(s.cluster.network.topology, "");
  EXPECT_EQ(s.resolved["cluster"]["nic"], "nic.json") << "the result does not depend on where the file lies";
  EXPECT_EQ(s.resolved["cluster"]["network"].dump(),
            R"({"background_gbps":0,"loss_ratio":0,"model":"fifo","platform":"cluster.xml"})");
  EXPECT_EQ(load_scenario(write("r.json", s.resolved.dump()), {}, test_catalog()).resolved, s.resolved);
  const std::string other = (dir_ / "cluster.xml").string();
  EXPECT_EQ(
      load_scenario(file, {"cluster.network.platform=" + other}, test_catalog()).cluster.network.platform,
      other);
}

TEST(Loader, AThreadHasOneNicByDefault) {
  EXPECT_EQ(load(kScenario, {"cluster.threads=1"}).cluster.nics_per_node, 1);
  EXPECT_EQ(load(kScenario, {"cluster.threads=2"}).cluster.nics_per_node, 2);
  EXPECT_EQ(load(kScenario, {"cluster.threads=1"}).resolved.at("cluster").at("nics_per_node"), 1);
  EXPECT_THAT(error_of(kScenario, {"cluster.threads=1", "cluster.nics_per_node=2"}),
              testing::HasSubstr("/cluster/nics_per_node: out of range: 2; allowed: integer, 1 to 1"));
}

TEST(Loader, AResultIsNoScenario) {
  EXPECT_EQ(error_of(R"({"format": "verbtwin-result", "scenario": {}})"),
            "s.json:1:12: /format: this is a verbtwin-result, not a scenario; its own stands at /scenario");
  EXPECT_EQ(error_of(R"({"format": "verbtwin-measurement"})"),
            "s.json:1:12: /format: this is a verbtwin-measurement, not a scenario");
}

TEST_F(ScenarioFiles, ThatAreMissingOrNoFiles) {
  const auto error_of_file = [](const std::string& file) -> std::string {
    try {
      load_scenario(file, {}, test_catalog());
    } catch (const UserError& e) {
      return e.what();
    }
    return "accepted";
  };
  const std::string missing = (dir_ / "nothing-like-it.json").string();
  EXPECT_EQ(error_of_file(missing), missing + ": no such file");
  EXPECT_EQ(error_of_file(dir_.string()), dir_.string() + ": is a directory; a file is expected");
  const std::string empty = write("empty.json", "");
  EXPECT_EQ(error_of_file(empty), empty + ":1:1: the file is empty; a JSON object is expected");
  const std::string cut =
      write("cut.json", std::string(kScenario).substr(0, std::string(kScenario).find("16}")));
  EXPECT_EQ(error_of_file(cut),
            cut +
                ":4:24: syntax error: the text ends too early; allowed: a number, a string in double quotes, "
                "true, false, null, '[' or '{'");
}

TEST(Describe, PlacesErrorsFoundLater) {
  const Scenario s = load(kScenario, {"cluster.coroutines=9"});
  EXPECT_EQ(describe(s, UserError("/workload/accounts_per_thread", "too many")),
            "s.json:6:60: /workload/accounts_per_thread: too many");
  EXPECT_EQ(describe(s, UserError("/cluster/coroutines", "too many")),
            "--set cluster.coroutines=9: /cluster/coroutines: too many");
  EXPECT_EQ(describe(s, UserError("", "out/result.json: cannot be written")),
            "out/result.json: cannot be written");
}

TEST(HostileFiles, AreRefusedQuickly) {
  std::string many_keys = "{";
  for (int i = 0; many_keys.size() < 2U << 20; ++i) many_keys += "\"k" + std::to_string(i) + "\":0,";
  many_keys += "\"end\":0}";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(error_of(many_keys), testing::StartsWith("s.json:1:2: /k0: unknown key \"k0\""));
  EXPECT_THAT(error_of("{\"" + std::string(8 << 20, 'x') + "\": 1}"), testing::SizeIs(testing::Lt(1000U)));
  EXPECT_THAT(error_of_set("name=" + std::string(1 << 20, '[')), testing::SizeIs(testing::Lt(1000U)));
  // Generous, for a sanitizer build on a busy machine: work that grows with the square would take hours.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

}  // namespace
}  // namespace verbtwin::scenarios
