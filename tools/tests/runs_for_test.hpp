// Simulated runs of scenarios given as text, for the tests of tools/.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "scenarios/loader.hpp"
#include "tools/run/catalog.hpp"
#include "tools/run/simulate.hpp"

namespace verbtwin::tools {

using nlohmann::json;
using Overrides = std::vector<std::string>;

inline scenarios::Scenario load(const char* text, const Overrides& overrides) {
  static const scenarios::Catalog catalog = make_catalog();
  return scenarios::load_scenario(scenarios::Document::parse("test.json", text), overrides, catalog);
}

inline json run(const char* text, const Overrides& overrides = {}, const RunControl& control = {}) {
  return simulate(load(text, overrides), control);
}

/// The same where one of many runs may fail: the others still run.
inline json try_run(const scenarios::Scenario& scenario, const RunControl& control = {}) {
  try {
    return simulate(scenario, control);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
    return nullptr;
  }
}

inline json try_run(const char* text, const Overrides& overrides, const RunControl& control = {}) {
  return try_run(load(text, overrides), control);
}

/// What two equal runs agree on.
inline json without_simulator(json result) {
  result.erase("simulator");
  return result;
}

inline std::uint64_t violations(const json& result) {
  std::uint64_t sum = 0;
  for (const json& check : result.at("checks")) sum += check.at("violations").get<std::uint64_t>();
  return sum;
}

inline std::string findings(const json& result) {
  std::string lines;
  for (const json& check : result.at("checks")) {
    for (const json& example : check.at("examples"))
      lines += check.at("name").get<std::string>() + ": " + example.get<std::string>() + "\n";
  }
  return lines;
}

/// Right, and busy enough to mean something. Who only reads is in nobody's way.
inline void expect_sound(const json& result, bool only_reads = false) {
  if (result.is_null()) return;
  EXPECT_EQ(violations(result), 0U) << findings(result);
  ASSERT_EQ(result.at("checks").size(), 5U);
  for (const json& check : result.at("checks")) EXPECT_GT(check.at("transactions"), 0) << check;
  EXPECT_GT(result.at("committed"), 40);  // of 25,200 contended runs the one with the fewest had 48
  EXPECT_EQ(result.at("aborted_attempts") == 0, only_reads) << result.at("aborts");
  EXPECT_EQ(result.at("datagrams_dropped"), 0);
  EXPECT_EQ(result.at("aborts").at("verb_failed"), 0);
}

}  // namespace verbtwin::tools
