#include "calibration/machine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "backend/temporary_directory.hpp"
#include "backend/user_error.hpp"

namespace verbtwin::calibration {
namespace {

using nlohmann::json;
using testing::HasSubstr;
namespace fs = std::filesystem;

/// A machine that says every parameter of its table.
template <typename Table>
json machine(const std::string& name, const std::string& kind, const Table& table) {
  json parameters;
  for (const auto& p : table) {
    parameters[p.name] = {
        {"value", std::max(p.min, 1.0)}, {"unit", p.unit}, {"source", "a test"}, {"uncertainty", 0}};
  }
  return {{"format", "verbtwin-machine"},
          {"version", 1},
          {"kind", kind},
          {"name", name},
          {"description", "a test"},
          {"parameters", parameters}};
}

class MachinesTest : public testing::Test {
 protected:
  void SetUp() override {
    nic_ = machine("nic", "nic", models::nic_parameters());
    host_ = machine("host", "host", models::host_parameters());
    nic_["parameters"]["mtu_b"]["value"] = 4096;
    nic_["parameters"]["send_wqe_ns"]["value"] = 6;
    nic_["parameters"]["send_wqe_ns"]["fit"] = {2, 20};
    newer_ = {{"format", "verbtwin-machine"},
              {"version", 1},
              {"kind", "host"},
              {"name", "newer"},
              {"description", "a test"},
              {"from", "host"},
              {"parameters",
               {{"clock_ghz", {{"value", 3}, {"unit", "GHz"}, {"source", "a test"}, {"uncertainty", 0}}}}},
              {"factors",
               {{{"name", "core time"},
                 {"parameters", {"ns"}},
                 {"value", 2},
                 {"fit", {1, 4}},
                 {"source", "times 2"}}}}};
    groups_ = {{{"name", "g"}, {"machines", {"nic", "host", "newer"}}, {"rounds", 2}}};
  }

  Machines read() {
    std::ofstream(root_ / "nic.json") << nic_.dump(1);
    std::ofstream(root_ / "host.json") << host_.dump(1);
    std::ofstream(root_ / "newer.json") << newer_.dump(1);
    std::ofstream(root_ / "groups.json") << groups_.dump(1);
    return Machines::read(root_);
  }
  std::string refusal() {
    try {
      Machines machines = read();
      for (const char* name : {"nic", "host", "newer"}) {
        machines.build(name);
        machines.variables(name);
      }
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  }

  TemporaryDirectory made_;
  const fs::path root_ = made_.path();
  json nic_, host_, newer_, groups_;
};

TEST_F(MachinesTest, AFittedParameterIsAVariable) {
  Machines machines = read();
  machines.build("nic");
  const auto variables = machines.variables("nic");
  ASSERT_EQ(variables.size(), 1U);
  EXPECT_EQ(variables[0].name, "send_wqe_ns");
  EXPECT_EQ(variables[0].first, 6);
  EXPECT_EQ(variables[0].upper, 20);
  machines.set(variables[0], 7.123456);
  EXPECT_DOUBLE_EQ(machines.profiles().nics.at("nic").send_wqe_ns, 7.123);
  machines.annotate(variables[0], "fitted: a test", 0.0123456);
  const json& item = machines.document("nic").at("parameters").at("send_wqe_ns");
  EXPECT_EQ(item,
            (json{{"value", 7.123}, {"unit", "ns"}, {"source", "fitted: a test"}, {"uncertainty", 0.01235}}));
}

TEST_F(MachinesTest, WhatComesFromAnotherMachineIsScaledByItsFactors) {
  Machines machines = read();
  machines.build("host");
  machines.build("newer");
  const models::HostProfile newer = machines.profiles().hosts.at("newer");
  EXPECT_EQ(newer.post_wr_ns, 2);
  EXPECT_EQ(newer.clock_ghz, 3) << "said by the machine itself";
  EXPECT_EQ(newer.cores_per_socket, 1) << "another unit";
  const auto variables = machines.variables("newer");
  ASSERT_EQ(variables.size(), 1U);
  EXPECT_TRUE(variables[0].factor);
  machines.set(variables[0], 1.5);
  EXPECT_EQ(machines.profiles().hosts.at("newer").post_wr_ns, 3);
  EXPECT_THAT(machines.document("newer").at("parameters").at("post_wr_ns").at("source").get<std::string>(),
              testing::StartsWith("times 2, as host: "));
}

TEST_F(MachinesTest, WhatAFactorMultipliesIsNoSurerThanItWas) {
  host_["parameters"]["post_wr_ns"]["uncertainty"] = 0.4;
  Machines machines = read();
  machines.build("host");
  machines.build("newer");
  machines.annotate(machines.variables("newer").at(0), "fitted as one factor: a test", 0.3);
  const json& item = machines.document("newer").at("parameters").at("post_wr_ns");
  EXPECT_EQ(item.at("uncertainty"), 0.5) << "0.3 and 0.4 of it, by chance";
  EXPECT_THAT(item.at("source").get<std::string>(),
              testing::StartsWith("fitted as one factor: a test; times 2, as host: "));
}

TEST_F(MachinesTest, TheProfileIsOneThatProfileFilesAccept) {
  Machines machines = read();
  machines.build("nic");
  const fs::path file = root_ / "made.json";
  std::ofstream(file) << profile_text(machines.document("nic"));
  EXPECT_EQ(load_nic_profile(file.string()).send_wqe_ns, 6);
}

TEST_F(MachinesTest, MistakesAreToldWithTheirPlace) {
  EXPECT_EQ(refusal(), "accepted");
  nic_["parameters"]["send_wqe_ns"]["fit"] = {7, 20};
  EXPECT_THAT(refusal(), HasSubstr("/parameters/send_wqe_ns/fit: a range above 0 around the value 6"));
  nic_["parameters"]["send_wqe_ns"].erase("fit");
  nic_["parameters"]["send_wqe_ns"]["unit"] = "us";
  EXPECT_THAT(refusal(), HasSubstr("/parameters/send_wqe_ns/unit: unknown value \"us\"; allowed: ns"));
  nic_["parameters"].erase("send_wqe_ns");
  EXPECT_THAT(refusal(), HasSubstr("\"send_wqe_ns\" is missing"));
  nic_["parameters"]["send_wqe_n"] = nic_["parameters"]["mtu_b"];
  EXPECT_THAT(refusal(), HasSubstr("did you mean \"send_wqe_ns\"?"));
  nic_ = machine("nic", "nic", models::nic_parameters());
  const json right = newer_;
  for (const char* none : {"later", "newer"}) {
    newer_["from"] = none;
    EXPECT_THAT(refusal(), HasSubstr(std::string("newer.json:18:10: /from: \"") + none +
                                     "\" is no machine of an earlier group"));
  }
  host_["parameters"]["poll_ns"]["fit"] = {0.1, 20};
  host_["parameters"]["poll_ns"]["value"] = 6;
  EXPECT_THAT(refusal(), HasSubstr("/from: \"newer\" is no machine"));
  newer_["from"] = "host";
  EXPECT_THAT(refusal(),
              HasSubstr("newer.json:18:10: /from: \"host\" is fitted in the same group; allowed: a "
                        "machine of an earlier group"));
  groups_ = {{{"name", "g"}, {"machines", {"nic", "host"}}, {"rounds", 2}},
             {{"name", "later"}, {"machines", {"newer"}}, {"rounds", 2}}};
  EXPECT_EQ(refusal(), "accepted");
  host_ = machine("host", "host", models::host_parameters());
  newer_["from"] = "nic";
  EXPECT_THAT(refusal(), HasSubstr("/from: \"nic\" is a NIC; allowed: a host"));
  newer_ = right;
  newer_["name"] = "host";
  EXPECT_THAT(refusal(), HasSubstr("/name: \"host\" is another file's; allowed: a name of its own"));
  newer_["name"] = "../host";
  EXPECT_THAT(refusal(), HasSubstr("newer.json:"));
  EXPECT_THAT(refusal(), HasSubstr("/name: "));
}

TEST_F(MachinesTest, WhatIsNoMachineIsTold) {
  const json right = nic_;
  const auto refused = [&](const char* key, const json& value) {
    nic_ = right;
    nic_[key] = value;
    return refusal();
  };
  EXPECT_THAT(refused("kind", "hots"),
              HasSubstr("/kind: unknown value \"hots\"; allowed: nic, host; did you mean"));
  EXPECT_THAT(refused("format", "verbtwin-nic-profile"), HasSubstr("; allowed: verbtwin-machine"));
  EXPECT_THAT(refused("version", 2), HasSubstr("/version: unknown value 2; allowed: 1"));
  EXPECT_THAT(refused("fatcors", json::array()),
              HasSubstr("/fatcors: unknown key \"fatcors\"; allowed: description, factors, "));
  EXPECT_THAT(refused("from", 3), HasSubstr("/from: wrong type: integer 3"));
  for (const char* key : {"format", "version", "kind", "name", "description"}) {
    nic_ = right;
    nic_.erase(key);
    EXPECT_THAT(refusal(), HasSubstr("nic.json:1:1: missing key \"" + std::string(key))) << key;
  }
}

TEST_F(MachinesTest, MistakesOfAFactorAreTold) {
  const json right = newer_;
  json& factor = newer_["factors"][0];
  factor["parameters"] = {"post_wr_n"};
  EXPECT_THAT(refusal(), HasSubstr("/factors/0/parameters/0: unknown value \"post_wr_n\"; allowed: "));
  EXPECT_THAT(refusal(), HasSubstr("did you mean \"post_wr_ns\"?"));
  for (const char* key : {"name", "parameters", "value", "source"}) {
    newer_ = right;
    newer_["factors"][0].erase(key);
    EXPECT_THAT(refusal(), HasSubstr("/factors/0: missing key \"" + std::string(key))) << key;
  }
  newer_ = right;
  newer_["factors"][0]["fit"] = {3, 4};
  EXPECT_THAT(refusal(), HasSubstr("/factors/0/fit: a range above 0 around the value 2 is allowed"));
  newer_["factors"][0]["fit"] = {1, 2, 4};
  EXPECT_THAT(refusal(), HasSubstr("/factors/0/fit: too many: 3; allowed: array of 2 items"));
  newer_["factors"][0]["fit"] = {0, 4};
  EXPECT_THAT(refusal(), HasSubstr("/factors/0/fit/0: out of range: 0; allowed: number, more than 0"));
}

TEST_F(MachinesTest, AParameterIsFittedOnce) {
  newer_["factors"].push_back(newer_["factors"][0]);
  newer_["factors"][1]["name"] = "another";
  EXPECT_THAT(refusal(), HasSubstr("/factors: \""));
  EXPECT_THAT(refusal(), HasSubstr("is fitted twice"));
}

TEST_F(MachinesTest, MistakesOfAGroupAreTold) {
  groups_[0].erase("rounds");
  EXPECT_THAT(refusal(), HasSubstr("groups.json:2:2: /0: missing key \"rounds\""));
  groups_[0]["rounds"] = 2;
  groups_[0]["machines"] = {"nic", "hots"};
  EXPECT_THAT(refusal(), HasSubstr("/0/machines/1: no machine \"hots\"; allowed: host, newer, nic"));
  groups_[0]["machines"] = {"nic", "host", "nic"};
  EXPECT_THAT(refusal(), HasSubstr("/0/machines/2: \"nic\" stands twice; allowed: in one group, once"));
  groups_[0]["machines"] = {"nic", "host"};
  EXPECT_THAT(refusal(), HasSubstr("groups.json:1:1: no group has the machine \"newer\""));
}

TEST_F(MachinesTest, AnotherStartIsOfWhatItsGroupFits) {
  json& start = groups_[0]["also_from"][0];
  start = {{"machine", "nic"}, {"parameter", "send_wqe_ns"}, {"value", 15}};
  EXPECT_EQ(refusal(), "accepted");
  const Machines machines = read();
  ASSERT_EQ(machines.groups().at(0).also_from.size(), 1U);
  EXPECT_EQ(machines.groups()[0].also_from[0].value, 15);
  start["value"] = 21;
  EXPECT_THAT(refusal(), HasSubstr("/0/also_from/0/value: 21 is out of range; allowed: 2 to 20"));
  start["parameter"] = "send_wqe_n";
  EXPECT_THAT(refusal(), HasSubstr("/0/also_from/0/parameter: \"send_wqe_n\" is no fitted parameter of that "
                                   "machine; allowed: send_wqe_ns; did you mean \"send_wqe_ns\"?"));
  start["machine"] = "nik";
  EXPECT_THAT(refusal(),
              HasSubstr("/0/also_from/0/machine: \"nik\" is not in this group; allowed: nic, host, "
                        "newer"));
}

TEST(Rounded, FourDigitsOrWhole) {
  EXPECT_EQ(rounded(123.456789, "ns"), 123.5);
  EXPECT_EQ(rounded(0.000123456, "ns"), 0.0001235);
  EXPECT_EQ(rounded(511.6, "count"), 512);
}

}  // namespace
}  // namespace verbtwin::calibration
