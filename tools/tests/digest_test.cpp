// Every shipped scenario, shortened, gives the numbers it gave before: a change of simulated numbers must be
// meant.
//
// tools/tests/digests.txt has a line per run: the scenario's file, overrides, the digest of its result
// without "simulator" and "scenario" (a new option with its default changes no number).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "protocols/checks/history.hpp"
#include "protocols/registry.hpp"
#include "scenarios/loader.hpp"
#include "tools/run/catalog.hpp"
#include "tools/run/simulate.hpp"

namespace verbtwin::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNew = "new";
constexpr const char* kHeader =
    "# Digests of simulated results: scenario, overrides, xxh3 of its result's numbers.\n"
    "# Checked by tools/tests/digest_test.cpp, which also rewrites this file: VERBTWIN_UPDATE_GOLDEN=1 "
    "tools_test\n"
    "# --gtest_filter='Digest.*'. To add a run, write its line with \"new\" for the digest. Whoever changes "
    "a digest says so in CHANGES.md, marked **numbers**.\n";

struct Golden {
  std::string scenario;
  std::vector<std::string> overrides;
  std::string digest;
};

fs::path source(const std::string& path) {
  return fs::path(VERBTWIN_SOURCE_DIR) / path;
}

std::vector<Golden> read_goldens() {
  std::vector<Golden> goldens;
  std::ifstream file(source("tools/tests/digests.txt"));
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream words(line);
    Golden golden;
    words >> golden.scenario;
    for (std::string word; words >> word;) golden.overrides.push_back(word);
    const bool has_digest =
        !golden.overrides.empty() &&
        (golden.overrides.back() == kNew ||
         (golden.overrides.back().size() == 16 &&
          golden.overrides.back().find_first_not_of("0123456789abcdef") == std::string::npos));
    if (!has_digest) throw std::runtime_error("tools/tests/digests.txt: no digest ends this line: " + line);
    golden.digest = golden.overrides.back();
    golden.overrides.pop_back();
    goldens.push_back(std::move(golden));
  }
  return goldens;
}

void write_goldens(const std::vector<Golden>& goldens) {
  std::ofstream file(source("tools/tests/digests.txt"));
  file << kHeader;
  for (const Golden& golden : goldens) {
    file << golden.scenario;
    for (const std::string& override : golden.overrides) file << ' ' << override;
    file << ' ' << golden.digest << '\n';
  }
}

std::vector<std::string> shipped_scenarios() {
  std::vector<std::string> names;
  const fs::path folder = source("scenarios");
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() == ".json" && !name.ends_with(".schema.json") &&
        !name.starts_with("test-")) {
      names.push_back(entry.path().lexically_relative(folder).generic_string());
    }
  }
  std::ranges::sort(names);
  return names;
}

std::string digest_of(const Golden& golden) {
  const scenarios::Scenario scenario =
      scenarios::load_scenario(source("scenarios/" + golden.scenario), golden.overrides, make_catalog());
  nlohmann::json result = simulate(scenario, {});
  EXPECT_GT(result.at(result.contains("operations") ? "operations" : "committed"), 0)
      << golden.scenario << " " << fmt::format("{}", fmt::join(golden.overrides, " "))
      << ": too short to mean anything";
  result.erase("simulator");
  result.erase("scenario");
  const std::string text = result.dump();
  return fmt::format("{:016x}", protocols::value_digest(std::as_bytes(std::span(text))));
}

bool updating() {
  const char* wanted = std::getenv("VERBTWIN_UPDATE_GOLDEN");
  return wanted != nullptr && std::string(wanted) == "1";
}

TEST(Digest, EveryShippedScenarioHasOne) {
  std::vector<Golden> goldens = read_goldens();
  bool added = false;
  for (const std::string& name : shipped_scenarios()) {
    const auto known = std::ranges::find(goldens, name, &Golden::scenario);
    if (known != goldens.end()) continue;
    if (updating()) {
      Golden& golden = goldens.emplace_back(Golden{name, {"run.warmup_us=20", "run.measure_us=50"}, kNew});
      golden.digest = digest_of(golden);
      added = true;
    } else {
      ADD_FAILURE()
          << name
          << " is not in tools/tests/digests.txt; to add it run this test with VERBTWIN_UPDATE_GOLDEN=1";
    }
  }
  if (added) write_goldens(goldens);
}

TEST(Digest, EveryProtocolHasOne) {
  std::set<std::string> covered;
  for (const Golden& golden : read_goldens()) {
    const scenarios::Scenario scenario =
        scenarios::load_scenario(source("scenarios/" + golden.scenario), golden.overrides, make_catalog());
    if (!scenario.protocol.is_null()) covered.insert(scenario.protocol.at("name").get<std::string>());
  }
  for (const protocols::RegistryEntry& entry : protocols::protocol_entries()) {
    EXPECT_TRUE(covered.contains(entry.name)) << entry.name << " runs in no line of tools/tests/digests.txt";
  }
}

TEST(Digest, SimulatedNumbersAreWhatTheyWere) {
  std::vector<Golden> goldens = read_goldens();
  ASSERT_FALSE(goldens.empty()) << "tools/tests/digests.txt has no runs";
  for (Golden& golden : goldens) {
    const std::string digest = digest_of(golden);
    if (updating()) {
      golden.digest = digest;
    } else {
      EXPECT_EQ(digest, golden.digest)
          << golden.scenario << ": the simulated numbers have changed. If that is meant, run this test with "
          << "VERBTWIN_UPDATE_GOLDEN=1 (it rewrites tools/tests/digests.txt) and say so in CHANGES.md, "
             "marked "
             "**numbers**.";
    }
  }
  if (updating()) write_goldens(goldens);
}

}  // namespace
}  // namespace verbtwin::tools
