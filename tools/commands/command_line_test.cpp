// What the verbtwin program does with scenarios, as its users meet it: started as a process, judged by what
// it prints and how it exits. Its command line: tools/main_test.cpp.
#include "tools/tests/command_line_for_test.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace verbtwin::tools {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

// --- bad scenarios ---

TEST_F(CommandLine, FilesThatAreNone) {
  EXPECT_EQ(refusal({"run", (directory_ / "absent.json").string()}), "DIR/absent.json: no such file");
  EXPECT_THAT(refusal({"check", directory_.string()}), StartsWith("DIR: is a directory"));
  EXPECT_THAT(refusal_of(""), StartsWith("DIR/bad.json:1:1: the file is empty"));
  EXPECT_THAT(refusal_of("{\n  \"cluster\": {\"nodes\": 3,}\n}"),
              StartsWith("DIR/bad.json:2:26: syntax error"));
  EXPECT_FALSE(fs::exists(directory_ / "bad_out")) << "refused before anything is made";
}

TEST_F(CommandLine, ValuesAreRefusedWithTheirPlaceAndWhatIsAllowed) {
  const auto line = [&](const char* where, const char* what) {
    return refusal_of(edited(kSmall, where, what));
  };

  EXPECT_THAT(
      line("\"threads\"", "\"thraeds\""),
      testing::AllOf(StartsWith("DIR/bad.json:2:27: /cluster/thraeds: unknown key \"thraeds\"; allowed: "),
                     HasSubstr("did you mean \"threads\"?")));
  EXPECT_THAT(line("\"nodes\": 3", "\"nodes\": \"three\""),
              StartsWith("DIR/bad.json:2:24: /cluster/nodes: "));
  EXPECT_EQ(line("\"nodes\": 3", "\"nodes\": 0"),
            "DIR/bad.json:2:24: /cluster/nodes: out of range: 0; allowed: integer, 1 to 4096");
  EXPECT_THAT(line("\"nodes\": 3", "\"nodes\": 2"),
              testing::AllOf(
                  HasSubstr("/cluster/replicas: out of range: 3 (the default); allowed: integer, 1 to 2")));
  EXPECT_THAT(line("\"accounts_per_thread\": 1000", "\"accounts_per_thread\": -5"),
              testing::AllOf(StartsWith("DIR/bad.json:4:"), HasSubstr("/workload/accounts_per_thread: "),
                             HasSubstr("allowed: ")));
  EXPECT_THAT(line("drtmh", "drtm"), testing::AllOf(StartsWith("DIR/bad.json:3:24: /protocol/name: "),
                                                    HasSubstr("did you mean \"drtmh\"?")));
  EXPECT_THAT(line("\"smallbank\"", "\"smalbank\""),
              testing::AllOf(StartsWith("DIR/bad.json:4:24: /workload/name: "),
                             HasSubstr("did you mean \"smallbank\"?")));
  EXPECT_THAT(
      line("\"threads\": 2", "\"nic\": \"conectx-4\""),
      testing::AllOf(StartsWith("DIR/bad.json:2:34: /cluster/nic: unknown profile \"conectx-4\"; allowed: "),
                     HasSubstr("did you mean \"connectx-4\"?")));
}

TEST_F(CommandLine, OverridesAreRefusedWithTheirPlace) {
  const auto line = [&](const std::string& set) { return refusal({"run", scenario_, "--set", set}); };
  EXPECT_THAT(line("cluster.nods=4"),
              testing::AllOf(StartsWith("--set cluster.nods=4: /cluster/nods: unknown key"),
                             HasSubstr("did you mean \"nodes\"?")));
  EXPECT_EQ(line("cluster.nodes=0"),
            "--set cluster.nodes=0: /cluster/nodes: out of range: 0; allowed: integer, 1 to 4096");
  EXPECT_THAT(line("cluster.nodes=many"), StartsWith("--set cluster.nodes=many: /cluster/nodes: "));
  EXPECT_THAT(line("cluster.nodes"), StartsWith("--set cluster.nodes"));
  EXPECT_THAT(line(""), StartsWith("--set"));
  EXPECT_THAT(refusal({"run", scenario_, "--seed", "-1"}), StartsWith("--seed -1: /run/seed: out of range"));
  EXPECT_THAT(refusal({"run", scenario_, "--seed", "one"}), StartsWith("--seed one: /run/seed: "));
  EXPECT_THAT(refusal({"run", scenario_, "--backend", "foo"}),
              StartsWith("--backend foo: /backend: unknown"));
}

TEST_F(CommandLine, RanksOfARealRun) {
  EXPECT_THAT(refusal({"run", scenario_, "--backend", "ibverbs"}),
              StartsWith("--backend ibverbs: which rank is this? give --rank R"));
  EXPECT_THAT(refusal({"run", scenario_, "--rank", "0"}), StartsWith("--rank, --ranks, --rendezvous"));
  EXPECT_EQ(refusal({"launch", scenario_}),
            "verbtwin launch: where? allowed: either --local N or --hosts FILE");
  EXPECT_EQ(refusal({"launch", scenario_, "--local", "7"}),
            "7 ranks, but the scenario has 3 nodes, one rank each; allowed: 3, or --set cluster.nodes=7");
  EXPECT_THAT(refusal({"launch", scenario_, "--hosts", "/no/such/file"}), HasSubstr("no such file"));
}

TEST_F(CommandLine, OutputDirectoriesThatCannotBe) {
  write("file", "");
  EXPECT_EQ(
      refusal({"run", scenario_, "--out", (directory_ / "file").string()}),
      "--out DIR/file: a file of that name is in the way; give a directory that can be created or written");
  EXPECT_THAT(refusal({"run", scenario_, "--out", "/proc/verbtwin"}),
              StartsWith("--out /proc/verbtwin: cannot create"));
  EXPECT_THAT(refusal({"run", scenario_, "--out", ""}), StartsWith("--out : cannot create"));
}

// --- good scenarios ---

TEST_F(CommandLine, CheckDescribesTheRun) {
  const Ended ended = verbtwin({"check", scenario_, "--set", "cluster.nodes=5"});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out, StartsWith("small is valid: drtmh running smallbank on 5 machines x 2 threads"));
  const json resolved = json::parse(verbtwin({"check", scenario_, "--json"}).out);
  EXPECT_EQ(resolved.at("cluster").at("replicas"), 3);
}

TEST_F(CommandLine, CheckSaysWhatMemoryALargeClusterTakes) {
  const auto check = [&](const char* nodes) {
    return verbtwin({"check", scenario_, "--set", nodes, "--set", "cluster.threads=256"}).out;
  };
  EXPECT_THAT(check("cluster.nodes=1000"), HasSubstr("takes about"));
  EXPECT_THAT(check("cluster.nodes=4"), Not(HasSubstr("GiB")));
}

TEST_F(CommandLine, CheckCountsTheTransactionsOfClientsOnly) {
  const Ended ended = verbtwin({"check", VERBTWIN_SOURCE_DIR "/scenarios/ramp-3-rxe.json"});
  EXPECT_THAT(ended.out, HasSubstr("(16 transactions in flight)")) << "2 clients x 2 threads x 4 coroutines";
}

TEST_F(CommandLine, RunWritesTheContractsKeys) {
  const fs::path out = directory_ / "made" / "here";
  const Ended ended = verbtwin({"run", scenario_, "--out", out.string(), "--seed", "7"});
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(ended.err, "") << "no progress where nobody watches";
  EXPECT_THAT(ended.out, StartsWith("small: drtmh running smallbank\n"));
  EXPECT_THAT(ended.out, HasSubstr("\nbottleneck "));
  EXPECT_THAT(ended.out, Not(HasSubstr("\x1b")));
  const json result = json::parse(read_text(out / "result.json"));
  for (const char* key :
       {"format", "version", "scenario", "backend", "seed", "partial", "window_us", "committed",
        "aborted_attempts", "abort_ratio", "committed_per_s", "latency_us", "phases", "transactions", "verbs",
        "resources", "bottleneck", "checks", "simulator"}) {
    EXPECT_TRUE(result.contains(key)) << key;
  }
  EXPECT_EQ(result.at("seed"), 7);
  EXPECT_EQ(result.at("partial"), false);
  EXPECT_GT(result.at("committed"), 0);
  EXPECT_EQ(std::distance(fs::directory_iterator(out), fs::directory_iterator()), 3);
  EXPECT_TRUE(fs::exists(out / "report.html"));
  EXPECT_TRUE(fs::exists(out / "latency.hgrm"));
}

TEST_F(CommandLine, JsonPrintsTheResultAndNothingElse) {
  const fs::path out = directory_ / "out_json";
  const Ended ended = verbtwin({"run", scenario_, "--json", "--out", out.string()});
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(ended.out, read_text(out / "result.json"));
  EXPECT_EQ(json::parse(ended.out).at("format"), "verbtwin-result");
}

TEST_F(CommandLine, QuietPrintsNothing) {
  const Ended ended = verbtwin({"run", scenario_, "--quiet"});
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_THAT(ended.out, IsEmpty());
  EXPECT_THAT(ended.err, IsEmpty());
}

TEST_F(CommandLine, OneSeedOneResult) {
  const auto result = [&](const char* seed) {
    json whole = json::parse(verbtwin({"run", scenario_, "--json", "--seed", seed}).out);
    for (const char* key : {"simulator", "seed", "scenario"}) whole.erase(key);
    return whole;
  };
  const json one = result("1");
  EXPECT_EQ(one, result("1"));
  EXPECT_NE(one, result("2"));
}

TEST_F(CommandLine, ATraceHasALineForEveryRequestOfASimulatedRun) {
  const fs::path file = directory_ / "trace.csv";
  const std::vector<std::string> few = {"--set", "run.warmup_us=0", "--set", "run.measure_us=50"};
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), few.begin(), few.end());
    json result = json::parse(verbtwin(std::move(arguments)).out);
    result.erase("simulator");
    return result;
  };
  const json result = run({"run", scenario_, "--json", "--trace", file});
  EXPECT_EQ(result, run({"run", scenario_, "--json"})) << "looking on changes nothing";
  const std::string text = read_text(file);
  run({"run", scenario_, "--json", "--trace", file});
  EXPECT_EQ(text, read_text(file)) << "one seed, one trace";
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "time_ns,node,thread,peer,queue_pair,verb,bytes,to,signalled,list");
  std::uint64_t reads = 0, commas = 0, all = 0;
  for (; std::getline(lines, line); ++all) {
    commas += static_cast<std::uint64_t>(std::count(line.begin(), line.end(), ','));
    if (line.find(",read,") != std::string::npos) ++reads;
  }
  EXPECT_EQ(commas, 9 * all);
  EXPECT_GE(reads, result.at("verbs").at("read").at("count").get<std::uint64_t>());
  EXPECT_GT(reads, 100U);

  EXPECT_THAT(refusal({"run", scenario_, "--trace", (directory_ / "no" / "trace").string()}),
              StartsWith("--trace DIR/no/trace: cannot be written: "));
  EXPECT_THAT(refusal({"run", scenario_, "--trace", file.string(), "--backend", "ibverbs", "--rank", "0"}),
              StartsWith("--trace is of simulated runs"));
  EXPECT_THAT(refusal({"run", write("sweep.json", with_sweep(R"([{"run.seed": [1, 2]}])")), "--trace", file}),
              StartsWith("--trace is of one run"));
}

TEST_F(CommandLine, ATraceThatCannotBeWrittenLosesNoResult) {
  const fs::path out = directory_ / "traced";
  const Ended ended = verbtwin({"run", scenario_, "--quiet", "--out", out.string(), "--trace", "/dev/full"});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_EQ(ended.err, "verbtwin: cannot write /dev/full: No space left on device\n");
  EXPECT_TRUE(fs::exists(out / "result.json"));
}

TEST_F(CommandLine, PointsSideBySideAreThoseOneByOne) {
  const std::string sweep =
      write("sweep.json", with_sweep(R"([{"protocol.name": ["drtmh", "farm"]}, {"run.seed": [1, 2]}])"));
  const auto points = [&](const char* jobs) {
    const fs::path out = directory_ / (std::string("jobs") + jobs);
    const Ended ended = verbtwin({"run", sweep, "--json", "--jobs", jobs, "--out", out.string()});
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    json all = json::parse(ended.out).at("points");
    EXPECT_EQ(all.size(), 4U);
    EXPECT_EQ(all.at(3), json::parse(read_text(out / "points" / "003" / "result.json")));
    EXPECT_TRUE(fs::exists(out / "points.csv"));
    EXPECT_TRUE(fs::exists(out / "points.svg"));
    for (json& point : all) point.erase("simulator");
    return all;
  };
  EXPECT_EQ(points("1"), points("3"));
}

TEST_F(CommandLine, ASmallerSweepLeavesNoPointsOfAnEarlierOne) {
  const fs::path out = directory_ / "out_twice", points = out / "points";
  const auto run = [&](const char* seeds) {
    return verbtwin({"run", write("sweep.json", with_sweep(std::string("[{\"run.seed\": ") + seeds + "}]")),
                     "--out", out.string()});
  };
  EXPECT_THAT(run("[1, 2, 3, 4]").out, Not(HasSubstr("removed")));
  ASSERT_TRUE(fs::exists(points / "003" / "result.json"));
  // What verbtwin has not written stays, also beside what it has.
  for (const char* file : {"003/notes.txt", "result.json"}) std::ofstream(points / file) << "mine";
  for (const char* directory : {"007", "old", "0002"}) {
    fs::create_directory(points / directory);
    std::ofstream(points / directory / "result.json") << R"({"format": "mine"})";
  }
  fs::create_directory_symlink(points / "002", points / "009");
  const Ended ended = run("[7]");
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("removed 3 points of an earlier sweep from " + points.string() + "\n"));
  EXPECT_EQ(json::parse(read_text(points / "000" / "result.json")).at("seed"), 7);
  EXPECT_FALSE(fs::exists(points / "001"));
  EXPECT_FALSE(fs::exists(points / "002"));
  EXPECT_FALSE(fs::exists(points / "003" / "result.json"));
  EXPECT_FALSE(fs::exists(out / "points.svg")) << "of four points";
  for (const char* file :
       {"003/notes.txt", "result.json", "007/result.json", "old/result.json", "0002/result.json"}) {
    EXPECT_TRUE(fs::exists(points / file)) << file;
  }
  EXPECT_TRUE(fs::is_symlink(points / "009"));
}

TEST_F(CommandLine, ASweepDoesWithoutGnuplotAndSaysSo) {
  const std::string text = with_sweep(R"([{"run.seed": [1, 2]}])");
  const fs::path out = directory_ / "out_no_gnuplot";
  const std::string sweep = write("sweep.json", text), path = std::getenv("PATH");
  setenv("PATH", directory_.c_str(), 1);
  const Ended ended = verbtwin({"run", sweep, "--out", out.string()});
  setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_THAT(ended.err, HasSubstr("no points.svg: gnuplot is not installed (Debian: gnuplot-nox)\n"));
  EXPECT_TRUE(fs::exists(out / "points.csv"));
}

TEST_F(CommandLine, CheckAndRunRefuseTheSamePoints) {
  write("one.xml", R"(<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="z" routing="Full"><host id="a" speed="1Gf"/></zone></platform>)");
  const auto refused = [&](const std::string& sweep) {
    const std::string file = write("sweep.json", with_sweep(sweep));
    const std::string line = refusal({"check", file});
    EXPECT_EQ(line, refusal({"run", file, "--out", (directory_ / "none").string()}));
    EXPECT_FALSE(fs::exists(directory_ / "none"));
    return line;
  };
  EXPECT_THAT(refused(R"([{"backend": ["ibverbs", "sim"]}])"),
              HasSubstr("/backend: the first point's is ibverbs; allowed: one for all points"));
  EXPECT_THAT(
      refused(R"([{"backend": ["ibverbs"]}, {"cluster.nodes": [3, 5]}])"),
      AllOf(HasSubstr("/cluster/nodes: 5, where the first point has 3: "), HasSubstr("; in point 1 (")));
  EXPECT_THAT(refused(R"([{"protocol.log.ring_kib": [64, 70000]}])"), HasSubstr("/protocol/log/ring_kib: "));
  EXPECT_THAT(refused(R"([{"run.seed": [1, 2], "cluster.network": [null, {"platform": "one.xml"}]}])"),
              HasSubstr("it has 1 of the 3 hosts that the cluster needs"));
  write("one.xml", "no platform");
  EXPECT_THAT(refused(R"([{"cluster.network": [{"platform": "one.xml"}]}])"),
              HasSubstr("one.xml:1: Invalid XML"));
  EXPECT_THAT(
      refused(R"([{"workload": [{"name": "ycsb"}]},
                          {"cluster.nic": ["connectx-4", "connectx-4-roce", "connectx-5"]},
                          {"workload.value_b": [100, 1000]}])"),
      AllOf(HasSubstr("/workload: a record sent by RPC takes a datagram of "), HasSubstr("; in point 3 (")));
}

TEST_F(CommandLine, APlatformWithProfilesIsSwept) {
  write("rate.txt", "0.00001 5e9\n");
  write("rates.xml", R"(<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="z" routing="Full">
<host id="a" speed="1Gf"/><host id="b" speed="1Gf"/><host id="c" speed="1Gf"/>
<link id="wire" bandwidth="10GBps" latency="100ns" bandwidth_file="rate.txt"/>
<route src="a" dst="b"><link_ctn id="wire"/></route><route src="a" dst="c"><link_ctn id="wire"/></route>
<route src="b" dst="c"><link_ctn id="wire"/></route></zone></platform>)");
  const std::string sweep = write(
      "sweep.json", with_sweep(R"([{"cluster.network.platform": ["rates.xml"]}, {"run.seed": [1, 2]}])"));
  const Ended ended = verbtwin({"run", sweep, "--jobs", "1"});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("rates.xml"));
}

TEST_F(CommandLine, ProfilesOfASlowNetworkHoldUpNoSignalAndTheEnd) {
  // Messages take seconds, in each of which a link changes ten million times.
  write("rate.txt", "PERIODICITY 2e-7\n0 1000\n1e-7 2000\n");
  const std::string platform = write("slow.xml", R"(<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="z" routing="Full">
<host id="a" speed="1Gf"/><host id="b" speed="1Gf"/><host id="c" speed="1Gf"/>
<link id="wire" bandwidth="1kBps" latency="100ns" bandwidth_file="rate.txt"/>
<route src="a" dst="b"><link_ctn id="wire"/></route><route src="a" dst="c"><link_ctn id="wire"/></route>
<route src="b" dst="c"><link_ctn id="wire"/></route></zone></platform>)");
  const auto exit_code = [&](const char* interrupt_after_s, const char* measure_us) {
    return ChildProcess(directory_, {"/usr/bin/timeout", "--signal=INT", "--kill-after=90", interrupt_after_s,
                                     VERBTWIN_BINARY, "run", scenario_, "--quiet", "--set",
                                     "cluster.network.platform=" + platform, "--set",
                                     std::string("run.measure_us=") + measure_us})
        .wait();
  };
  EXPECT_EQ(exit_code("60", "100"), 3) << "ends, with transactions that do not";
  EXPECT_EQ(exit_code("1", "5e7"), 124) << "interrupted, not killed";
}

TEST_F(CommandLine, TcpOverAnotherLinkThanItsProfilesIsRefusedByCheck) {
  const std::string file = write("tcp.json", R"({
  "cluster": {"nodes": 3, "roles": {"servers": 1, "clients": 2}, "threads": 1, "coroutines": 1, "replicas": 1,
              "nics_per_node": 1, "sockets": "ethernet-1g"},
  "protocol": {"name": "ramp-fast", "transport": "ipoib_tcp", "get": "rpc", "put": "rpc"},
  "workload": {"name": "read-write-mix"}
})");
  EXPECT_THAT(refusal({"check", file}),
              HasSubstr("/cluster/sockets: has a link of its own, and ipoib_tcp uses the RDMA NIC's"));
}

TEST_F(CommandLine, ASweepWhoseReaderIsGoneKeepsWhatItHas) {
  const std::string sweep = write("sweep.json", with_sweep(R"([{"run.seed": [1, 2]}])"));
  const fs::path out = directory_ / "out_left";
  const std::string command = std::string(VERBTWIN_BINARY) + " run " + sweep +
                              " --set run.measure_us=3000 --out " + out.string() + " 2>/dev/null | head -1";
  EXPECT_EQ(ChildProcess(directory_, {"/bin/sh", "-c", command}).wait(), 0);
  const std::string csv = read_text(out / "points.csv");
  EXPECT_GE(std::count(csv.begin(), csv.end(), '\n'), 2) << csv;
}

TEST_F(CommandLine, AnInterruptedSweepSaysWhatItIsMissing) {
  const fs::path out = directory_ / "out_stopped_sweep";
  ChildProcess child =
      start({"run", write("long.json", with_sweep(R"([{"run.measure_us": [50, 1e6, 2e6]}])")), "--out", out});
  for (int i = 0; i < 2000 && !fs::exists(out / "points" / "000" / "result.json"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  child.signal(SIGINT);
  EXPECT_EQ(child.wait(), 130) << child.err();
  EXPECT_THAT(child.out(), HasSubstr("\nPARTIAL: 1 of 3 points, and 1 cut short\n"));
  const std::string csv = read_text(out / "points.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 3) << csv;
}

TEST_F(CommandLine, AnInterruptKeepsWhatThereIsOfPointsSideBySide) {
  const std::string text = with_sweep(R"([{"run.seed": [1, 2, 3, 4, 5]}])");
  const fs::path out = directory_ / "out_stopped_jobs";
  ChildProcess child = start(
      {"run", write("long.json", text), "--jobs", "2", "--set", "run.measure_us=1e6", "--out", out.string()});
  for (int i = 0; i < 2000 && !fs::exists(out); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  child.signal(SIGINT);
  EXPECT_EQ(child.wait(), 130) << child.err();
  EXPECT_TRUE(fs::exists(out / "points.csv"));
  EXPECT_EQ(json::parse(read_text(out / "points" / "001" / "result.json")).at("partial"), true);
  EXPECT_FALSE(fs::exists(out / "points" / "002")) << "nothing new began";
  EXPECT_THAT(child.out(), HasSubstr("PARTIAL: 0 of 5 points, and 2 cut short\n"));
}

TEST_F(CommandLine, AnInterruptKeepsWhatThereIs) {
  const fs::path out = directory_ / "out_stopped";
  ChildProcess child = start({"run", scenario_, "--set", "run.measure_us=1e6", "--out", out.string()});
  // The directory is made when the program already listens to signals.
  for (int i = 0; i < 2000 && !fs::exists(out); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  child.signal(SIGINT);
  EXPECT_EQ(child.wait(), 130) << child.err();
  EXPECT_EQ(json::parse(read_text(out / "result.json")).at("partial"), true);
  EXPECT_THAT(child.out(), HasSubstr("PARTIAL: stopped after "));
}

}  // namespace
}  // namespace verbtwin::tools
