// Scenarios of micro-benchmarks: workloads without a protocol.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/user_error.hpp"
#include "scenarios/catalog_for_test.hpp"
#include "scenarios/loader.hpp"
#include "scenarios/validate.hpp"

namespace verbtwin::scenarios {
namespace {

using nlohmann::json;

Catalog catalog_with_benchmark() {
  Catalog catalog = test_catalog();
  CatalogEntry& entry = catalog.workloads.emplace_back();
  entry.name = "primitive";
  entry.description = "raw verbs";
  entry.schema = json::parse(R"({"properties": {"outstanding": {"description": "window", "type": "integer",
                                                                "minimum": 1, "default": 16},
                                                "transport": {"description": "queue pairs", "type": "string",
                                                              "enum": ["rc", "uc", "ud"], "default": "rc"},
                                                "mode": {"description": "what is waited for", "type": "string",
                                                         "enum": ["pipelined", "ping_pong"],
                                                         "default": "pipelined"}}})");
  entry.family = "";
  return catalog;
}

constexpr const char* kBenchmark = R"({
  "cluster": {"nodes": 2},
  "workload": {"name": "primitive"}
})";

Scenario load(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return load_scenario(Document::parse("s.json", text), overrides, catalog_with_benchmark());
}

std::string error_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    load(text, overrides);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Benchmark, HasNeitherProtocolNorReplicasNorCheck) {
  const Scenario s = load(kBenchmark);
  EXPECT_TRUE(s.protocol.is_null());
  EXPECT_FALSE(s.resolved.contains("protocol"));
  EXPECT_EQ(s.cluster.replicas, 1);
  EXPECT_EQ(s.run.check, "none");
  EXPECT_EQ(s.workload["outstanding"], 16);
  EXPECT_FALSE(s.cluster.shared_contexts);
  EXPECT_TRUE(load(kBenchmark, {"cluster.device_context=shared"}).cluster.shared_contexts);
  EXPECT_EQ(load(s.resolved.dump()).resolved, s.resolved) << "the resolved scenario is a scenario";
}

TEST(Benchmark, PrimitivesOfAThreadCompleteAtOneQueue) {
  EXPECT_FALSE(load(kBenchmark).cluster.own_send_cqs);
  EXPECT_EQ(load(kBenchmark).resolved.at("cluster").at("completion_queues"), "worker");
  EXPECT_EQ(error_of(kBenchmark, {"cluster.completion_queues=worker"}), "accepted");
  EXPECT_EQ(error_of(kBenchmark, {"cluster.completion_queues=queue_pair"}),
            "--set cluster.completion_queues=queue_pair: /cluster/completion_queues: a thread of workload "
            "primitive has one; allowed with it: \"worker\"");
}

TEST(Benchmark, AProtocolIsRefusedWhereItStands) {
  const std::string reason =
      "\"primitive\" is a micro-benchmark and runs without a protocol; allowed: no \"protocol\"";
  EXPECT_EQ(error_of(R"({"cluster": {"nodes": 2},
  "protocol": {"name": "drtmh"}, "workload": {"name": "primitive"}})"),
            "s.json:2:3: /protocol: " + reason);
  EXPECT_EQ(error_of(kBenchmark, {"protocol.name=drtmh"}),
            "--set protocol.name=drtmh: /protocol/name: " + reason);
  EXPECT_THAT(error_of(kBenchmark, {"run.check=serializable"}), testing::HasSubstr("allowed: none"));
  EXPECT_THAT(error_of(kBenchmark, {"workload.name=smallbank"}),
              testing::HasSubstr("missing key \"protocol\""));
}

/// Over 100 Gb/s they put 294 Gb/s into one port.
TEST(Benchmark, SendersToWhomNobodyAnswersAreNotSimGrids) {
  const std::string why =
      "SimGrid does not tell when a message has left: nothing would hold back senders to whom nobody "
      "answers; "
      "allowed with \"transport\" uc and ud: \"model\" fifo";
  const auto refused = [](const std::vector<std::string>& more) {
    std::vector<std::string> overrides = more;
    overrides.insert(overrides.begin(), "cluster.network.model=simgrid");
    return error_of(kBenchmark, overrides);
  };
  EXPECT_EQ(refused({"workload.transport=uc"}),
            "--set cluster.network.model=simgrid: /cluster/network/model: " + why);
  EXPECT_THAT(refused({"workload.transport=ud"}), testing::EndsWith(why));
  EXPECT_EQ(refused({"workload.transport=rc"}), "accepted");
  EXPECT_EQ(refused({"workload.transport=uc", "workload.mode=ping_pong"}), "accepted");
}

TEST(Benchmark, TheWholeSchemaAgrees) {
  const json schema = effective_schema(catalog_with_benchmark());
  json scenario = json::parse(kBenchmark);
  EXPECT_FALSE(judge(scenario, schema));
  scenario["protocol"] = {{"name", "drtmh"}};
  EXPECT_TRUE(judge(scenario, schema));
  scenario["workload"]["name"] = "smallbank";
  EXPECT_FALSE(judge(scenario, schema));
  scenario.erase("protocol");
  EXPECT_TRUE(judge(scenario, schema));
}

}  // namespace
}  // namespace verbtwin::scenarios
