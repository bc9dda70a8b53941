// Measurements as `verbtwin measure` writes them, made by simulating a cluster, and `calibrate --measured` of
// them in a directory of the test's own.
//
// One thread.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "backend/temporary_directory.hpp"
#include "calibration/measurement.hpp"
#include "tools/tests/child_process_for_test.hpp"

namespace verbtwin::tools {

inline const std::filesystem::path kProfiles =
    std::filesystem::path(VERBTWIN_SOURCE_DIR) / "calibration/profiles";

inline void write(const std::filesystem::path& file, const nlohmann::json& document) {
  std::ofstream(file) << document.dump(1);
}

inline nlohmann::json end_of(const std::string& host) {
  return {{"host", host},
          {"cpu", "a simulated core"},
          {"devices",
           nlohmann::json::array(
               {{{"device", "mlx5_0"}, {"link_layer", "InfiniBand"}, {"link_gbps", 100.0}, {"mtu", 4096}}})}};
}

inline nlohmann::json measurement_of(nlohmann::json points) {
  return {{"format", "verbtwin-measurement"},
          {"version", 1},
          {"partial", false},
          {"measured_on", nlohmann::json::array({end_of("one"), end_of("other")})},
          {"points", std::move(points)}};
}

inline nlohmann::json measured(const calibration::PrimitivePoint& point, double operations_per_s,
                               double p50_us) {
  nlohmann::json all = calibration::to_json(point);
  all["operations_per_s"] = operations_per_s;
  all["latency_us"] = {{"p50", p50_us}};
  return all;
}

class CalibrateMeasured : public testing::Test {
 protected:
  ChildProcess start(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), VERBTWIN_BINARY);
    return {directory_.path(), std::move(arguments)};
  }
  ChildProcess calibrate(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"calibrate",      "--measured", in("measurement.json"),
                                          "--nic",          "connectx-4", "--host",
                                          "xeon-e5-2650v4", "--out",      in("fitted")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return start(std::move(arguments));
  }
  std::string in(const std::string& name) const { return (directory_.path() / name).string(); }

  /// What the machines of nic.json and host.json in the directory do at this point.
  nlohmann::json simulated(const calibration::PrimitivePoint& point, double measure_us = 500) const {
    nlohmann::json scenario = calibration::scenario_of(point, 100, measure_us);
    scenario["cluster"]["nic"] = in("nic.json");
    scenario["cluster"]["host"] = in("host.json");
    write(in("scenario.json"), scenario);
    ChildProcess run = start({"run", in("scenario.json"), "--json", "--quiet"});
    EXPECT_EQ(run.wait(), 0) << run.err();
    const nlohmann::json result = nlohmann::json::parse(run.out());
    return measured(point, result.at("operations_per_s"), result.at("latency_us").at("p50"));
  }

  TemporaryDirectory directory_;
};

/// A profile whose parameters of `factors` cost so many times as much.
inline nlohmann::json changed(const std::string& profile, const std::map<std::string, double>& factors) {
  nlohmann::json document = nlohmann::json::parse(read_text(kProfiles / (profile + ".json")));
  for (const auto& [name, factor] : factors) {
    nlohmann::json& item = document.at("parameters").at(name);
    item["value"] = item.at("value").get<double>() * factor;
  }
  return document;
}

}  // namespace verbtwin::tools
