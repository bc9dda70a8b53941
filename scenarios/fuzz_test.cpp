// Whatever the file and the overrides hold, loading gives a Scenario or a UserError of one printable line.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <string>

#include "scenarios/catalog_for_test.hpp"
#include "scenarios/loader.hpp"

namespace verbtwin::scenarios {
namespace {

constexpr const char* kScenario = R"({"$schema": "x", "name": "t", "description": "d\n", "backend": "sim",
  "cluster": {"nodes": 16, "threads": 24, "replicas": 3, "nic": "connectx-4", "network": {"topology": "star"}},
  "protocol": {"name": "drtmh", "lock": "cas", "odd": 2, "batching": {"doorbell": true, "requests": 1e1}},
  "workload": {"name": "smallbank", "hot_ratio": 0.25, "weights": [1, 2.5, 3]},
  "run": {"warmup_us": 200, "seed": 1, "check": "none"}})";

bool is_one_line(const std::string& text) {
  return !text.empty() && text.size() < 4000 && std::none_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
}

/// True if the scenario was accepted.
bool load_or_refuse(const std::string& text, const std::vector<std::string>& overrides) {
  static const Catalog catalog = test_catalog();
  try {
    const Scenario s = load_scenario(Document::parse("s.json", text), overrides, catalog);
    RC_ASSERT(s.cluster.replicas <= s.cluster.nodes);
    RC_ASSERT(s.run.measure_us > 0);
    // A value that is no UTF-8 or no number would throw here.
    RC_ASSERT(load_scenario(Document::parse("r.json", s.resolved.dump()), {}, catalog).resolved ==
              s.resolved);
    return true;
  } catch (const UserError& e) {
    RC_ASSERT(is_one_line(e.what()));
    RC_ASSERT(e.pointer().empty());
    return false;
  }
}

std::string random_bytes() {
  const auto bytes = *rc::gen::container<std::vector<unsigned char>>(rc::gen::arbitrary<unsigned char>());
  return {bytes.begin(), bytes.end()};
}

/// JSON's own words and the catalog's, so that mutants get past the parser.
std::string random_piece() {
  return *rc::gen::element<std::string>(
      "{", "}", "[", "]", ",", ":", "\"", "\\", "null", "true", "-1", "0", "1e400", "1e6", "1.5",
      "99999999999999999999", "{}", "[]", "\"x\"", "\"\\u0000\"", "\"\\ud800\"", "\xff", std::string(1, '\0'),
      "\n", "\"nodes\": 2,", "\"name\": \"fasst-occ\",", "[[[[[[[[", "\"platform\": \"/\",");
}

std::string mutated(std::string text) {
  const int mutations = *rc::gen::inRange(0, 4);
  for (int i = 0; i < mutations && !text.empty(); ++i) {
    const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
    const auto length = *rc::gen::inRange<std::size_t>(0, 8);
    text.replace(at, std::min(length, text.size() - at), random_piece());
  }
  return text;
}

TEST(Fuzz, RandomBytes) {
  EXPECT_TRUE(rc::check("random bytes are refused in one line", [] { load_or_refuse(random_bytes(), {}); }));
}

TEST(Fuzz, MutatedScenarios) {
  EXPECT_TRUE(load_or_refuse(kScenario, {})) << "else the mutants never get far";
  EXPECT_TRUE(rc::check("a mutated scenario is accepted or refused in one line",
                        [] { RC_CLASSIFY(load_or_refuse(mutated(kScenario), {}), "accepted"); }));
}

TEST(Fuzz, RandomOverrides) {
  EXPECT_TRUE(rc::check("any override is accepted or refused in one line", [] {
    const auto path = *rc::gen::element<std::string>(
        "cluster.nodes", "name", "protocol", "protocol.name", "cluster", "protocol.batching",
        "workload.weights", "run.seed", "", "a.b", "cluster.network.platform", "$schema", "cluster.nic");
    const bool bytes = *rc::gen::arbitrary<bool>();
    const std::string value = bytes ? random_bytes() : mutated(random_piece());
    RC_CLASSIFY(load_or_refuse(kScenario, {path + "=" + value}), "accepted");
  }));
}

}  // namespace
}  // namespace verbtwin::scenarios
