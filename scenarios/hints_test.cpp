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

constexpr const char* kScenario = R"({"cluster": {"nodes": 4}, "protocol": {"name": "drtmh"},
 "workload": {"name": "smallbank"}})";

std::string refusal(const std::string& override, const std::string& text = kScenario) {
  Catalog catalog = test_catalog();
  catalog.workloads.push_back({"tatp", "seven short transactions", nlohmann::json::object()});
  catalog.sockets = {"ethernet-1g"};
  try {
    load_scenario(Document::parse("s.json", text), {override}, catalog);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
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
