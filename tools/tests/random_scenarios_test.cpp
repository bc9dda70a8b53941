// Scenarios that nobody has thought of, drawn from the schema option by option: each runs to its end, is
// found right, and comes out the same when it is run again.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <pcg_random.hpp>
#include <string>

#include "tools/tests/runs_for_test.hpp"

namespace verbtwin::tools {
namespace {

/// Upper ends for what would make a run long: the schema's are for those who wait.
double most_of(const std::string& key, double schema_max) {
  static const std::map<std::string, double> kMost = {{"nodes", 5},          {"threads", 4},
                                                      {"coroutines", 12},    {"replicas", 3},
                                                      {"qps_per_peer", 4},   {"nics_per_node", 2},
                                                      {"servers", 3},        {"clients", 3},
                                                      {"process_ns", 5e3},   {"warehouses_per_node", 5},
                                                      {"offered_per_s", 1e7}};
  const auto most = kMost.find(key);
  return std::min(schema_max, most != kMost.end() ? most->second : 2000);
}

class Drawing {
 public:
  explicit Drawing(std::uint64_t seed) : random_(seed) {}

  json scenario() {
    json drawn = draw("", schema());
    json& run = drawn["run"];
    run["warmup_us"] = random_(40);
    run["measure_us"] = 20 + random_(60);
    run["seed"] = random_(1000);
    run.erase("check");
    return drawn;
  }

 private:
  static const json& schema() {
    static const json kSchema = scenarios::effective_schema(make_catalog());
    return kSchema;
  }
  bool by_chance(double share) { return random_() < share * 4294967296.0; }
  /// Not drawn: texts and files, what artifacts break, and losses, as nobody sends a datagram again.
  static bool is_left_out(const std::string& key) {
    return key == "$schema" || key == "name" || key == "description" || key == "backend" || key == "sweep" ||
           key == "platform" || key == "loss_ratio" || key == "artifact" || key == "dimensions";
  }
  json draw(const std::string& key, const json& schema) {
    if (schema.contains("enum")) return one_of(schema.at("enum"));
    if (schema.contains("anyOf")) return draw(key, schema.at("anyOf").back());
    const std::string type = schema.value("type", "object");
    if (type == "boolean") return by_chance(0.5);
    if (type == "integer" || type == "number") {
      const double low = schema.value("minimum", 0.0), high = most_of(key, schema.value("maximum", 1e9));
      const double value = std::exp(std::log(low + 1) + (random_() / 4294967296.0) *
                                                            std::log((std::max(low, high) + 1) / (low + 1))) -
                           1;
      return type == "integer" ? json(std::llround(value)) : json(value);
    }
    json object = json::object();
    draw_properties(schema, object);
    if (schema.contains("allOf")) draw_named(schema.at("allOf"), object);
    return object;
  }
  void draw_properties(const json& schema, json& object) {
    const json properties = schema.value("properties", json::object());
    for (const auto& [key, property] : properties.items()) {
      const bool is_part =
          key == "cluster" || key == "workload" || key == "protocol" || key == "nodes" || key == "threads";
      if (!is_left_out(key) && (is_part || by_chance(kShare))) object[key] = draw(key, property);
    }
  }
  /// A protocol or workload, by name.
  void draw_named(const json& cases, json& object) {
    const json& chosen = one_of(cases);
    object["name"] = chosen.at("if").at("properties").at("name").at("const");
    draw_properties(chosen.at("then"), object);
  }
  const json& one_of(const json& list) { return list.at(random_(static_cast<std::uint32_t>(list.size()))); }

  pcg32 random_;
  static constexpr double kShare = 0.2;  // of the keys that a scenario has
};

json run_once(const json& scenario) {
  return run(scenario.dump().c_str());
}

/// Takes out of it what a refusal names. False where that cannot be left out.
bool repair(json& drawn, const UserError& refusal) {
  std::string key = refusal.pointer();
  if (key.empty()) {
    const std::string line = refusal.what();
    const std::size_t begin = line.find(": /") + 2, end = line.find(": ", begin);
    if (begin == 1 || end == std::string::npos) return false;
    key = line.substr(begin, end - begin);
  }
  const json::json_pointer place(key);
  if (place.back() == "name") return false;
  if (place.back() == "replicas" || place.back() == "nics_per_node") {  // their defaults may be what is wrong
    if (drawn.value(place, 0) == 1) return false;
    drawn[place] = 1;
    return true;
  }
  if (!drawn.contains(place)) return false;
  drawn.at(place.parent_pointer()).erase(place.back());
  return true;
}

/// What a scenario comes to without what is refused of it; null where nothing can be done about that.
json run_repaired(json& drawn) {
  for (;;) {
    try {
      return run_once(drawn);
    } catch (const UserError& refusal) {
      if (!repair(drawn, refusal)) return nullptr;
    }
  }
}

void run_drawn(int wanted, std::uint64_t first_seed) {
  int ran = 0, committed = 0;
  for (std::uint64_t seed = first_seed; ran < wanted; ++seed) {
    ASSERT_LT(seed, first_seed + 20 * static_cast<std::uint64_t>(wanted)) << "most are refused";
    json drawn = Drawing(seed).scenario();
    SCOPED_TRACE("seed " + std::to_string(seed));
    try {
      const json result = run_repaired(drawn);
      if (result.is_null()) continue;
      ++ran;
      if (result.contains("checks")) {
        EXPECT_EQ(violations(result), 0U) << findings(result) << drawn;
      }
      committed += result.value("committed", 0) > 0 ? 1 : 0;
      if (seed % 8 == 0) {
        EXPECT_EQ(without_simulator(run_once(drawn)), without_simulator(result)) << drawn;
      }
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what() << drawn;
    }
  }
  EXPECT_GT(committed, wanted / 4);
}

TEST(RandomScenarios, RunToTheirEndsAndAreFoundRight) {
  run_drawn(150, 1);
}

/// ctest -L nightly.
TEST(RandomScenarios, DISABLED_NightlyRunToTheirEndsAndAreFoundRight) {
  run_drawn(3000, 1000);
}

}  // namespace
}  // namespace verbtwin::tools
