// What a refusal says of what was meant.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "backend/temporary_directory.hpp"
#include "backend/user_error.hpp"
#include "scenarios/catalog_for_test.hpp"
#include "scenarios/loader.hpp"

namespace verbtwin::scenarios {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kScenario = R"({"cluster": {"nodes": 4}, "protocol": {"name": "drtmh"},
 "workload": {"name": "smallbank"}})";

std::string refusal(const std::string& override, const std::string& text = kScenario) {
  Catalog catalog = test_catalog();
  catalog.workloads.push_back({"tatp", "seven short transactions", nlohmann::json::object()});
  const nlohmann::json number = {{"type", "number"}};
  catalog.workloads.push_back(
      {"ycsb",
       "key-value operations",
       {{"properties",
         {{"records_per_node", number},
          {"theta", number},
          {"mix_percent",
           {{"type", "object"}, {"additionalProperties", false}, {"properties", {{"read", number}}}}}}}}});
  catalog.workloads.push_back({"raw", "raw verbs", {{"properties", {{"target_kib", number}}}}});
  catalog.sockets = {"ethernet-1g"};
  try {
    load_scenario(Document::parse("s.json", text), {override}, catalog);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

std::string edited_name(const std::string& workload) {
  const std::string text = kScenario, smallbank = "smallbank";
  return std::string(text).replace(text.find(smallbank), smallbank.size(), workload);
}

TEST(Hints, ABooleanIsTrueOrFalse) {
  EXPECT_EQ(refusal("protocol.batching.doorbell=yes"),
            "--set protocol.batching.doorbell=yes: /protocol/batching/doorbell: wrong type: string \"yes\"; "
            "allowed: true, false");
}

TEST(Hints, ANameAloneIsShownAsTheObjectItStandsFor) {
  EXPECT_EQ(refusal("workload=tatp"),
            "--set workload=tatp: /workload: wrong type: string \"tatp\"; allowed: object, such as "
            "{\"name\":\"tatp\"}");
  EXPECT_THAT(refusal("protocol=fasst-occ"), EndsWith("; allowed: object, such as {\"name\":\"fasst-occ\"}"));
  EXPECT_THAT(refusal("protocol=drtm-h"), EndsWith("; allowed: object, such as {\"name\":\"drtmh\"}"));
  EXPECT_THAT(refusal("protocol=fasst"), EndsWith("; allowed: object, such as {\"name\":\"fasst-occ\"}"));
  EXPECT_THAT(refusal("protocol=none"), EndsWith("; allowed: object, such as {\"name\":\"drtmh\"}"));
  EXPECT_EQ(refusal("run.seed=1",
                    R"({"cluster": {"nodes": 4}, "protocol": {"name": "drtmh"}, "workload": "smallbank"})"),
            "s.json:1:70: /workload: wrong type: string \"smallbank\"; allowed: object, such as "
            "{\"name\":\"smallbank\"}");
}

TEST(Hints, KeysOfOtherBenchmarksAreToldOurs) {
  const char* ycsb = R"({"cluster": {"nodes": 4}, "protocol": {"name": "drtmh"},
 "workload": {"name": "ycsb", "recordcount": 1000}})";
  EXPECT_EQ(
      refusal("run.seed=1", ycsb),
      "s.json:2:31: /workload/recordcount: unknown key \"recordcount\"; allowed: mix_percent, name, "
      "records_per_node, theta; YCSB's \"recordcount\" is workload.records_per_node here: of each node");
  const std::pair<const char*, const char*> of_ycsb[] = {
      {"workload.readProportion=0.5",
       "YCSB's \"readproportion\" is workload.mix_percent.read here: in percent"},
      {"workload.requestdistribution=zipfian",
       "is workload.theta here: 0.99 is zipfian, 0 is uniform; latest is mix D"},
      {"workload.operationcount=1000", "is run.measure_us here: a run takes so long, and does what it can"},
      {"run.target=1000", "YCSB's \"target\" is run.offered_per_s here: of all nodes together"},
      {"threadcount=8", "is cluster.threads here: of each node, with cluster.coroutines in flight on each"},
      {"workload.weights=50", "BenchBase's \"weights\" is workload.mix_percent here: by transaction"},
      {"cluster.terminals=8",
       "is cluster.threads here: of each node, with cluster.coroutines in flight on each"},
      {"scalefactor=8",
       "BenchBase's \"scalefactor\" is workload.records_per_node here: of each node, and not in thousands"}};
  for (const auto& [override, hint] : of_ycsb)
    EXPECT_THAT(refusal(override, edited_name("ycsb")), EndsWith(hint)) << override;
  EXPECT_THAT(refusal("workload.recordcount=1"), Not(HasSubstr("YCSB"))) << "SmallBank has accounts";
  EXPECT_THAT(refusal("workload.fieldcount=1"), Not(HasSubstr("YCSB")));
  EXPECT_THAT(refusal("workload.target=1", edited_name("raw")), EndsWith("; did you mean \"target_kib\"?"));
  EXPECT_THAT(refusal("cluster.network.rate=1"), Not(HasSubstr("BenchBase")));
}

TEST(Hints, AProfileOfAnotherKindIsToldSo) {
  EXPECT_EQ(refusal("cluster.host=connectx-4"),
            "--set cluster.host=connectx-4: /cluster/host: \"connectx-4\" is a NIC profile, for cluster.nic; "
            "allowed: xeon-e5-2650v4, or a path ending in .json");
  EXPECT_EQ(refusal("cluster.nic=xeon-e5-2650v4"),
            "--set cluster.nic=xeon-e5-2650v4: /cluster/nic: \"xeon-e5-2650v4\" is a host profile, for "
            "cluster.host; allowed: connectx-4, connectx-5, or a path ending in .json");
  EXPECT_THAT(refusal("cluster.nic=ethernet-1g"),
              testing::HasSubstr("is a socket profile, for cluster.sockets"));
}

TEST(Hints, ADirectoryOfProfilesIsNotOneOfThem) {
  const TemporaryDirectory directory;
  const std::string out = directory.path().string();
  EXPECT_THAT(refusal("cluster.nic=" + out), EndsWith("or a path ending in .json")) << "nothing is in it";
  for (const char* file : {"nic.json", "host.json"}) std::ofstream(directory.path() / file) << "{}";
  EXPECT_THAT(refusal("cluster.nic=" + out), EndsWith("; did you mean \"" + out + "/nic.json\"?"));
  EXPECT_THAT(refusal("cluster.host=" + out + "/"), EndsWith("; did you mean \"" + out + "/host.json\"?"));
}

}  // namespace
}  // namespace verbtwin::scenarios
