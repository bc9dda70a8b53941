// verbtwin check as its users meet it: what it warns of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "scenarios/loader.hpp"
#include "tools/run/catalog.hpp"
#include "tools/run/simulate.hpp"
#include "tools/tests/command_line_for_test.hpp"

namespace verbtwin::tools {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class CheckCommand : public CommandLine {
 protected:
  /// In one line: where it is wrapped depends on what it says.
  static std::string unwrapped(std::string text) {
    for (std::size_t at; (at = text.find("\n             ")) != std::string::npos;)
      text.replace(at, 14, 1, ' ');
    return text;
  }
};

TEST_F(CheckCommand, SaysOfMoreThreadsThanCoresWhatARunSays) {
  const std::string sentence =
      "26 threads, where a machine of xeon-e5-2650v4 has 24 cores: simulated with more sockets than it has";
  const Ended checked = verbtwin({"check", scenario_, "--set", "cluster.threads=26"});
  EXPECT_EQ(checked.exit_code, 0) << checked.err;
  EXPECT_THAT(unwrapped(checked.out), HasSubstr("\n* warning    " + sentence + "\n"));
  const json ran = json::parse(verbtwin({"run", scenario_, "--set", "cluster.threads=26", "--json"}).out);
  EXPECT_THAT(ran.at("warning"), testing::Contains(json(sentence)));
  EXPECT_THAT(verbtwin({"check", scenario_, "--set", "cluster.threads=24"}).out, Not(HasSubstr("warning")));
}

TEST_F(CheckCommand, OfASweepItSaysSoOfTheFirstPointThatHasThem) {
  const std::string sweep = write("sweep.json", with_sweep(R"([{"cluster.threads": [2, 26, 48]}])"));
  EXPECT_THAT(
      unwrapped(verbtwin({"check", sweep}).out),
      HasSubstr(
          "* warning    26 threads, where a machine of xeon-e5-2650v4 has 24 cores: simulated with more "
          "sockets than it has; in point 1 (cluster.threads=26)\n"));
  const Ended printed = verbtwin({"check", sweep, "--json"});
  EXPECT_EQ(json::parse(printed.out).at("cluster").at("threads"), 2) << "a program's";
}

TEST_F(CheckCommand, OfARealRunSaysNothingOfSimulatedMachines) {
  std::string text = verbtwin({"check", scenario_, "--set", "backend=ibverbs"}).out;
  std::ranges::replace(text, '\n', ' ');
  EXPECT_THAT(text, HasSubstr("Machines and network are those that it runs on, with 2 NICs of each machine."));
  EXPECT_THAT(text, Not(HasSubstr("star")));
}

/// A slip of unit is seen before the run, and after it.
TEST_F(CheckCommand, SaysOfNetworkAndLoadWhatIsNotTheDefault) {
  std::vector<std::string> arguments = {"check", scenario_};
  for (const char* set : {"cluster.network.loss_ratio=1e-6", "cluster.network.link_gbps=12.5",
                          "cluster.network.background_gbps=2", "run.offered_per_s=200e3"})
    arguments.insert(arguments.end(), {"--set", set});
  const auto in_one_line = [&] {
    std::string text = verbtwin(arguments).out;
    std::ranges::replace(text, '\n', ' ');
    return text;
  };
  const std::string network = "links of 12.5 Gb/s, 2 Gb/s of others on each port, 0.0001 % of packets lost";
  EXPECT_THAT(in_one_line(),
              testing::AllOf(HasSubstr("3 replicas, offered 200 k transactions/s. Each machine"),
                             HasSubstr("joined by a star network (fifo model, " + network + "). ")));
  arguments[0] = "run";
  EXPECT_THAT(in_one_line(),
              HasSubstr("xeon-e5-2650v4, " + network + "; 200 k transactions/s offered; simulated, seed 1 "));
}

/// That of a run, within a factor of 2.
TEST_F(CheckCommand, KnowsAboutHowMuchMemoryARunTakes) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer takes more";
#endif
  const std::string scenario = VERBTWIN_SOURCE_DIR "/scenarios/smallbank-16.json";
  for (const std::vector<std::string>& overrides :
       {std::vector<std::string>{"cluster.nodes=4", "cluster.threads=4", "run.measure_us=200"},
        {"cluster.nodes=16", "cluster.threads=4", "run.measure_us=1000"},
        {"cluster.nodes=64", "cluster.threads=4", "run.measure_us=20"},
        {"cluster.nodes=80", "cluster.threads=16", "run.measure_us=20"},
        // A small cluster in a large network.
        {"cluster.nodes=3", "cluster.threads=2", "run.measure_us=20",
         R"(cluster.network={"topology": "dragonfly", "chassis": 64})"}}) {
    std::vector<std::string> all = overrides, arguments = {"run", scenario, "--json", "--quiet"};
    all.emplace_back("run.warmup_us=0");
    for (const std::string& text : all) arguments.insert(arguments.end(), {"--set", text});
    const Ended ended = verbtwin(arguments);
    ASSERT_EQ(ended.exit_code, 0) << ended.err;
    const double peak_gib = json::parse(ended.out).at("simulator").at("peak_rss_mib").get<double>() / 1024;
    const double about_gib = about_memory_gib(scenarios::load_scenario(scenario, all, make_catalog()));
    EXPECT_LT(peak_gib, 2 * about_gib) << overrides[0];
    EXPECT_GT(peak_gib, about_gib / 2) << overrides[0];
  }
}

}  // namespace
}  // namespace verbtwin::tools
