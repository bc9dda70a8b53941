// verbtwin explain as its users meet it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tools/tests/command_line_for_test.hpp"

namespace verbtwin::tools {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::StartsWith;

using ExplainCommand = CommandLine;

/// Two machines that READ 4 KiB from each other fill slow links, and nothing else.
constexpr const char* kFullLinks = R"({
  "cluster": {"nodes": 2, "threads": 4, "nics_per_node": 1, "network": {"topology": "star", "link_gbps": 10}},
  "workload": {"name": "primitive", "verb": "read", "payload_b": 4096, "outstanding": 16},
  "run": {"warmup_us": 100, "measure_us": 200}
})";

double gain_of(const json& explanation, const std::string& part) {
  for (const json& trial : explanation.at("trials")) {
    if (trial.at("twice_as_good") == part) return trial.at("gain");
  }
  ADD_FAILURE() << part;
  return 0;
}

TEST_F(ExplainCommand, NamesWhatHoldsARunBack) {
  const std::string scenario = write("links.json", kFullLinks);
  const Ended text = verbtwin({"explain", scenario});
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, StartsWith("twice as good "));
  EXPECT_THAT(text.out, ContainsRegex("\nlimit        Held back by links \\(\\+[0-9.]+ %\\)"));
  const Ended ended = verbtwin({"explain", scenario, "--json"});
  const json explanation = json::parse(ended.out);
  EXPECT_EQ(explanation.at("format"), "verbtwin-explanation");
  EXPECT_GT(gain_of(explanation, "links"), 0.8);
  EXPECT_LT(gain_of(explanation, "cores"), 0.03);
  EXPECT_LT(gain_of(explanation, "outstanding requests"), 0.1);
  EXPECT_EQ(explanation.at("trials").back().at("seed"), 3) << "what is chance";
  const json& step = explanation.at("smaller_steps").at(0);
  EXPECT_EQ(step.at("part"), "links");
  EXPECT_NEAR(step.at("gain"), 0.25, 0.1);
  EXPECT_EQ(verbtwin({"explain", scenario, "--jobs", "2"}).out, text.out);
  const Ended quiet = verbtwin({"explain", scenario, "--quiet"});
  EXPECT_EQ(quiet.err, "");
  EXPECT_THAT(quiet.out, StartsWith("limit        Held back by links ")) << "the verdict alone";
  EXPECT_THAT(text.out, testing::EndsWith("\n\n" + quiet.out));
}

TEST_F(ExplainCommand, WhatACallTakesOfItsServerIsItsCores) {
  const Ended ended = verbtwin({"explain", write("calls.json", R"({
    "cluster": {"nodes": 3, "threads": 2, "coroutines": 8, "nics_per_node": 1},
    "workload": {"name": "echo", "pattern": "many_to_one", "payload_b": 32, "process_ns": 2000},
    "run": {"warmup_us": 200, "measure_us": 500}
  })")});
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("\nlimit        Held back by cores "));
}

TEST_F(ExplainCommand, WhatTheWorkloadDoesNotAllowIsNotTried) {
  const Ended ended = verbtwin({"explain", write("links.json", kFullLinks), "--set", "workload.verb=write",
                                "--set", "workload.mode=ping_pong", "--set", "workload.outstanding=1"});
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("not tried             outstanding requests\n")) << "a ping-pong has one";
}

TEST_F(ExplainCommand, FindsWhatMakesTheLatencyOfALoadThatIsDone) {
  const Ended ended = verbtwin({"explain", scenario_, "--set", "run.offered_per_s=200000", "--json"});
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  const json explanation = json::parse(ended.out);
  EXPECT_EQ(explanation.at("gain_in"), "latency");
  EXPECT_GT(gain_of(explanation, "PCIe latency"), 0.05);
  EXPECT_LT(gain_of(explanation, "PCIe rate"), 0.05);
}

TEST_F(ExplainCommand, APlatformFilesLinksAreNotTried) {
  const std::string platform = VERBTWIN_SOURCE_DIR "/scenarios/platforms/sixteen-hosts.xml";
  const Ended ended = verbtwin({"explain", write("links.json", kFullLinks), "--set", "workload.payload_b=8",
                                "--set", R"(cluster.network={"platform":")" + platform + "\"}"});
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out,
              HasSubstr("\nnot tried             links (the platform file's), network latency (the\n"));
}

TEST_F(ExplainCommand, WhatWasTriedCanBeRunAgain) {
  const std::string out = (directory_ / "why").string();
  const Ended ended = verbtwin({"explain", scenario_, "--out", out});
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("wrote " + out + "/explanation.json\n"));
  const json explanation = json::parse(read_text(fs::path(out) / "explanation.json"));
  json base = json::parse(verbtwin({"run", scenario_, "--json"}).out);
  EXPECT_EQ(explanation.at("base").at("committed"), base.at("committed"));
  const std::string nic = out + "/profiles/nic-receive-engines.json";
  const json again = json::parse(verbtwin({"run", scenario_, "--json", "--set", "cluster.nic=" + nic}).out);
  EXPECT_DOUBLE_EQ(gain_of(explanation, "receive engines"),
                   again.at("committed_per_s").get<double>() / base.at("committed_per_s").get<double>() - 1);
}

TEST_F(ExplainCommand, NothingIsLeftWhereNothingWasMeasured) {
  const fs::path out = directory_ / "why";
  const std::vector<std::string> empty = {"explain", scenario_,         "--set", "run.measure_us=0.001",
                                          "--set",   "run.warmup_us=0", "--out", out.string()};
  EXPECT_THAT(refusal(empty), HasSubstr("nothing came to its end in the window"));
  EXPECT_FALSE(fs::exists(out));
  ChildProcess child = start({"explain", scenario_, "--set", "run.measure_us=1e6", "--out", out.string()});
  for (int i = 0; i < 2000 && !fs::exists(out / "profiles/host-cores.json"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  child.signal(SIGINT);
  EXPECT_EQ(child.wait(), 130);
  EXPECT_THAT(child.err(), HasSubstr("PARTIAL: ended before the scenario itself was measured\n"));
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(ExplainCommand, WhatWasThereBeforeStays) {
  const fs::path out = directory_ / "why", profile = out / "profiles/host-cores.json";
  fs::create_directories(profile.parent_path());
  std::ofstream(profile) << "{}";
  EXPECT_THAT(refusal({"explain", scenario_, "--set", "run.measure_us=0.001", "--set", "run.warmup_us=0",
                       "--out", out.string()}),
              HasSubstr("nothing came to its end in the window"));
  EXPECT_EQ(std::distance(fs::directory_iterator(profile.parent_path()), fs::directory_iterator()), 1);
}

/// The limit of a file's size stands for a full disk: a profile has room, the explanation with its results
/// has not.
TEST_F(ExplainCommand, NothingIsLeftWhereTheDiskIsFull) {
  const fs::path out = directory_ / "why";
  ChildProcess child(directory_, {"/bin/sh", "-c", "trap '' XFSZ; ulimit -f 64; exec \"$@\"", "sh",
                                  VERBTWIN_BINARY, "explain", scenario_, "--out", out.string()});
  EXPECT_EQ(child.wait(), 1);
  EXPECT_THAT(child.err(), HasSubstr("explanation.json"));
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(ExplainCommand, BadInputIsOneLine) {
  const std::string sweep = write("sweep.json", with_sweep(R"([{"cluster.coroutines": [1, 2]}])"));
  EXPECT_EQ(refusal({"explain", sweep}),
            "DIR/sweep.json sweeps 2 points: explain is for one; allowed: a scenario without a sweep, or one "
            "of its "
            "points, by --set of cluster.coroutines");
  EXPECT_EQ(refusal({"explain", scenario_, "--sweep", "cluster.coroutines=1,2"}),
            "--sweep cluster.coroutines=1,2: explain is for one run; allowed: --set PATH=VALUE, and explain "
            "again for the next value");
  EXPECT_THAT(refusal({"explain", scenario_, "--swep"}), testing::Not(HasSubstr("--sweep")));
  EXPECT_EQ(verbtwin({"explain", sweep, "--set", "cluster.coroutines=2", "--quiet"}).exit_code, 0);
  const Ended largest = verbtwin({"explain", scenario_, "--set", "run.seed=9223372036854775807", "--quiet"});
  EXPECT_EQ(largest.exit_code, 0) << largest.err;
  EXPECT_THAT(refusal({"explain", scenario_, "--set", "backend=ibverbs"}),
              HasSubstr("explain changes what is simulated"));
  EXPECT_THAT(refusal({"explain", scenario_, "--set", "run.measure_us=0.001", "--set", "run.warmup_us=0"}),
              HasSubstr("nothing came to its end in the window"));
  EXPECT_THAT(refusal({"explain"}), HasSubstr("SCENARIO"));
}

}  // namespace
}  // namespace verbtwin::tools
