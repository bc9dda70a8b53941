// Measurements that no device can have made, and files that are none, refused in a line with their place.
#include "calibration/measurement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "backend/temporary_directory.hpp"
#include "backend/user_error.hpp"
#include "scenarios/document.hpp"

namespace verbtwin::calibration {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::EndsWith;
using testing::HasSubstr;

json end_of(const char* host) {
  return {{"host", host},
          {"devices",
           json::array(
               {{{"device", "mlx5_0"}, {"link_layer", "InfiniBand"}, {"link_gbps", 100.0}, {"mtu", 4096}}})}};
}

/// A window of READs of 4 KiB that fill a link of 100 Gb/s.
json full_link() {
  json point = to_json({"read", "rc", 4096, 16});
  point["operations_per_s"] = 3.02e6;
  return {{"format", "verbtwin-measurement"},
          {"version", 1},
          {"partial", false},
          {"measured_on", json::array({end_of("one"), end_of("other")})},
          {"points", json::array({std::move(point)})}};
}

class MeasurementFile : public testing::Test {
 protected:
  std::string refusal(const std::string& text) const {
    try {
      read_measurement(made_.write("measurement.json", text));
    } catch (const UserError& error) {
      const std::string line = error.what();
      EXPECT_EQ(line.find('\n'), std::string::npos) << line;
      return line.substr((made_.path() / "measurement.json:").string().size());
    }
    return "nothing";
  }
  std::string refusal(const json& measurement) const { return refusal(measurement.dump(1)); }

  TemporaryDirectory made_;
};

TEST_F(MeasurementFile, MoreThanTheSlotCarriesIsOfAnotherSlot) {
  json measurement = full_link();
  json& slot = measurement["measured_on"][1]["devices"][0]["pcie_gbps"];
  slot = 15.75;
  EXPECT_THAT(refusal(measurement),
              testing::MatchesRegex("[0-9]+:[0-9]+: /measured_on/1/devices/0/pcie_gbps: 15.75, where point 1 "
                                    "has 99 Gb/s of payload; allowed: at least that, or no pcie_gbps; is it "
                                    "in GB/s\\? Those are 126 Gb/s"));
  slot = 12;
  EXPECT_THAT(refusal(measurement), EndsWith("no pcie_gbps")) << "96 Gb/s are not enough either";
  slot = 98;
  EXPECT_EQ(refusal(measurement), "nothing") << "rounded, and by headers that may be small";
}

TEST_F(MeasurementFile, SoonerThanTheLinkCarriesItIsOfAnotherLink) {
  json measurement = full_link();
  json point = to_json({"read", "rc", 4096, 1});
  point["latency_us"]["p50"] = 2.48;
  measurement["points"] = json::array({point});
  EXPECT_EQ(refusal(measurement), "nothing");
  for (json& end : measurement["measured_on"]) end["devices"][0]["link_gbps"] = 12.5;
  EXPECT_THAT(
      refusal(measurement),
      EndsWith(": /points/0/latency_us/p50: 2.48 us of 4096 B; allowed: at least the 2.62 us that these "
               "take over the 12.5 Gb/s of link_gbps; is it in GB/s? Those are 100 Gb/s"));
  measurement["measured_on"][1]["host"] = "one";
  EXPECT_EQ(refusal(measurement), "nothing") << "on one machine nothing has to pass the link";
}

TEST_F(MeasurementFile, UnknownKeysAreRefusedByName) {
  const auto with = [&](const char* pointer) {
    json measurement = full_link();
    measurement[json::json_pointer(pointer)] = 126;
    return refusal(measurement);
  };
  EXPECT_THAT(with("/measured_on/0/devices/0/pcie_gbp"),
              testing::MatchesRegex("[0-9]+:[0-9]+: /measured_on/0/devices/0/pcie_gbp: unknown key "
                                    "\"pcie_gbp\"; allowed: .*; did you mean \"pcie_gbps\"\\?"));
  EXPECT_THAT(with("/measured_on/0/host_name"), HasSubstr("unknown key \"host_name\""));
  EXPECT_THAT(with("/points/0/operation_per_s"), HasSubstr("did you mean \"operations_per_s\"?"));
  EXPECT_THAT(with("/notes"), HasSubstr("unknown key \"notes\""));
}

/// All that `measure` and real runs write (tools/RESULT.md, measured_on).
TEST_F(MeasurementFile, WhatMeasureWritesIsAllowed) {
  json measurement = full_link();
  measurement.update({{"time", "2024-01-01T00:00:00Z"}, {"failure", "rank 1 was lost"}, {"partial", true}});
  for (json& end : measurement["measured_on"]) {
    end.update({{"kernel", "6.1.0"},
                {"cpu", "a core"},
                {"worker_cpus", {0, 1}},
                {"tcp_address", "10.0.0.1"},
                {"environment", {{"MLX5_SINGLE_THREADED", "1"}}},
                {"warning", "a sentence"}});
    end["devices"][0].update({{"port", 1},
                              {"firmware", "12.28.2006"},
                              {"inline_b", 188},
                              {"atomics", true},
                              {"gid_index", 3},
                              {"gid", "fe80::1"},
                              {"sl", 0},
                              {"traffic_class", 0},
                              {"pkey", "0xffff"},
                              {"pcie_gbps", 126.0}});
  }
  measurement["points"][0].update(
      {{"seconds", 1.0},
       {"source", "read_bw.txt:12"},
       {"latency_us",
        {{"mean", 5.4}, {"p50", 5.3}, {"p90", 6.1}, {"p99", 7.2}, {"p999", 9.1}, {"max", 30.0}}}});
  EXPECT_EQ(refusal(measurement), "nothing");
}

TEST_F(MeasurementFile, OfAnOutputOfPerftestItIsSaidWhatMakesOneOfIt) {
  constexpr const char* kSaid =
      "1:1: an output of perftest; allowed: a measurement, which `verbtwin measure --perftest FILE "
      "--link-gbps GBPS --out DIR` makes of it";
  int files = 0;
  for (const auto& entry :
       fs::directory_iterator(fs::path(VERBTWIN_SOURCE_DIR) / "calibration/testdata/perftest")) {
    EXPECT_EQ(refusal(scenarios::read_text(entry.path())), kSaid) << entry.path();
    ++files;
  }
  EXPECT_GT(files, 10);
  EXPECT_EQ(refusal(std::string(R"({"test_info": {"test": "RDMA_Read_BW_Test"}, "results": {}})")), kSaid);
  json measurement = full_link();
  measurement["measured_on"][0]["warning"] = "#bytes\n Test\n test_info";
  EXPECT_EQ(refusal(measurement), "nothing");
  EXPECT_THAT(refusal(std::string("{")), HasSubstr("syntax error"));
}

}  // namespace
}  // namespace verbtwin::calibration
