// What is taken for the outcome of a scenario, and what no longer is.
#include "tools/run/provenance.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "backend/temporary_directory.hpp"
#include "tools/report/html_report.hpp"
#include "tools/report/percentiles.hpp"
#include "tools/report/summary.hpp"
#include "tools/report/sweep_plot.hpp"
#include "tools/report/sweep_table.hpp"
#include "tools/tests/runs_for_test.hpp"

namespace verbtwin::tools {
namespace {

constexpr const char* kTransactions = R"({
  "cluster": {"nodes": 3, "threads": 2, "coroutines": 1},
  "protocol": {"name": "drtmh"}, "workload": {"name": "smallbank", "accounts_per_thread": 1000},
  "run": {"warmup_us": 20, "measure_us": 50}})";
constexpr const char* kOperations = R"({
  "cluster": {"nodes": 2, "threads": 1, "nics_per_node": 1},
  "workload": {"name": "primitive", "verb": "read", "payload_b": 8, "outstanding": 1},
  "run": {"warmup_us": 5, "measure_us": 20}})";

/// As a file has it.
json outcome_of(const char* text, const Overrides& overrides = {}) {
  return json::parse(run(text, overrides).dump());
}

/// Everything that `run` shows of what it keeps.
void show(const json& result) {
  const std::vector<SweepRow> rows = {{{{"run.seed", 1}}, result, 0}, {{{"run.seed", 2}}, result, 1}};
  static_cast<void>(html_report(result) + percentile_text(result) + render_summary(result, {}));
  static_cast<void>(html_report(rows, 2, "") + sweep_csv(rows) + sweep_table_line(rows[0]));
  static_cast<void>(sweep_panels(rows));
}

TEST(Provenance, WhatARunWritesIsItsOutcome) {
  for (const char* text : {kTransactions, kOperations}) {
    const scenarios::Scenario scenario = load(text, {});
    const json result = outcome_of(text);
    EXPECT_TRUE(is_outcome_of(result, scenario)) << text;
    EXPECT_FALSE(is_outcome_of(result, load(text, {"run.seed=2"})));
  }
  const Overrides offered = {"run.offered_per_s=100000", "run.measure_us=200"};
  json result = outcome_of(kTransactions, offered);
  EXPECT_TRUE(is_outcome_of(result, load(kTransactions, offered)));
  result.erase("offered");
  EXPECT_FALSE(is_outcome_of(result, load(kTransactions, offered)));
}

TEST(Provenance, WhatLacksAnythingIsNone) {
  for (const char* text : {kTransactions, kOperations}) {
    const scenarios::Scenario scenario = load(text, {});
    const json whole = outcome_of(text);
    for (const auto& [key, value] : whole.items()) {
      if (key == "warning" || key == "location_cache") continue;  // of some runs only
      json result = whole;
      result.erase(key);
      EXPECT_FALSE(is_outcome_of(result, scenario)) << key;
    }
    for (const char* place :
         {"/latency_us/p99", "/verbs/read/count", "/resources/0/name", "/simulator/events"}) {
      json result = whole;
      const json::json_pointer at(place);
      result[at.parent_pointer()].erase(at.back());
      EXPECT_FALSE(is_outcome_of(result, scenario)) << place;
    }
    json result = whole;
    result["latency_quantiles_us"]["half"] = 1;
    EXPECT_FALSE(is_outcome_of(result, scenario));
  }
}

TEST(Provenance, WhatIsTakenForOneCanBeShown) {
  for (const char* text : {kTransactions, kOperations}) {
    const scenarios::Scenario scenario = load(text, {});
    const json whole = outcome_of(text);
    EXPECT_NO_THROW(show(whole));
    const json flat = whole.flatten();
    std::set<std::string> places;  // of every value, and of what it is in
    for (const auto& [place, value] : flat.items()) {
      if (place.starts_with("/scenario")) continue;
      for (json::json_pointer at(place); !at.empty(); at.pop_back()) places.insert(at.to_string());
    }
    for (const std::string& place : places) {
      for (const json& other : {json(), json("x"), json(-1)}) {
        json result = whole;
        result[json::json_pointer(place)] = other;
        if (!is_outcome_of(result, scenario)) continue;
        EXPECT_NO_THROW(show(result)) << place << " " << other;
      }
    }
  }
}

TEST(Provenance, AProfileOfThePlatformCounts) {
  const TemporaryDirectory directory;
  const auto with = [&](const char* attribute, const char* profile) {
    directory.write("rate.txt", profile);
    const auto file = directory.write("p.xml", std::string(R"(<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="z" routing="Full">
<host id="a" speed="1Gf"/><host id="b" speed="1Gf"/><link id="wire" bandwidth="10GBps" latency="100ns")") +
                                                   attribute + R"(/>
<route src="a" dst="b"><link_ctn id="wire"/></route></zone></platform>)");
    scenarios::Cluster cluster = load(kOperations, {}).cluster;
    cluster.network.platform = file.string();
    return file_digests(cluster).at("cluster.network.platform");
  };
  const char* profile = " bandwidth_file=\"rate.txt\"";
  EXPECT_EQ(with(profile, "0.1 5e9\n"), with(profile, "0.1 5e9\n"));
  EXPECT_NE(with(profile, "0.1 5e9\n"), with(profile, "0.1 6e9\n"));
  EXPECT_EQ(with("", "0.1 5e9\n"), with("", "0.1 6e9\n"));
}

}  // namespace
}  // namespace verbtwin::tools
