// What the program refuses of files and flags that are right each but wrong together, and what it leaves
// alone then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "backend/user_error.hpp"
#include "tools/run/simulate.hpp"
#include "tools/tests/command_line_for_test.hpp"

namespace verbtwin::tools {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class Refusals : public CommandLine {
 protected:
  std::string in(const char* name) const { return (directory_ / name).string(); }
};

TEST_F(Refusals, ATraceTakesNobodysPlace) {
  fs::copy_file(fs::path(VERBTWIN_SOURCE_DIR) / "calibration/profiles/connectx-4.json", in("nic.json"));
  const std::string text = edited(kSmall, R"("coroutines": 2)", R"("coroutines": 2, "nic": "nic.json")");
  write("named.json", text);
  fs::create_symlink("named.json", in("link.json"));
  fs::create_directory(in("o"));
  const auto refused = [&](const std::string& trace) {
    const std::string line =
        refusal({"run", in("named.json"), "--out", in("o"), "--trace", trace, "--set", "run.measure_us=10"});
    EXPECT_EQ(read_text(in("named.json")), text);
    EXPECT_TRUE(fs::is_empty(in("o")));
    return line;
  };
  EXPECT_EQ(refused(in("named.json")), "--trace DIR/named.json: is the scenario itself; give another file");
  EXPECT_THAT(refused(in("link.json")), HasSubstr("is the scenario itself"));
  EXPECT_THAT(refused(in("nic.json")), HasSubstr("is a profile of the scenario; give another file"));
  EXPECT_THAT(refused(in("o/../o/result.json")), HasSubstr("is where the result goes; give another file"));
  const std::string platform = VERBTWIN_SOURCE_DIR "/scenarios/platforms/sixteen-hosts.xml";
  EXPECT_THAT(
      refusal({"run", scenario_, "--trace", platform, "--set", "cluster.network.platform=" + platform}),
      HasSubstr("is the scenario's platform; give another file"));
}

TEST_F(Refusals, MeasureKeepsTheFormerMeasurement) {
  const auto refused = [&](std::vector<std::string> flags) {
    write("measurement.json", "former");
    flags.insert(flags.begin(), {"measure", "--primitives", "--out", directory_.string()});
    const std::string line = refusal(std::move(flags));
    EXPECT_EQ(read_text(in("measurement.json")), "former");
    return line;
  };
  EXPECT_EQ(refused({"--hosts", "/no/such"}), "--hosts /no/such: no such file");
  constexpr const char* kSeconds = ": allowed: 0.001 to 1000 seconds (see verbtwin measure --help)";
  for (const std::string seconds : {"nan", "inf", "0", "1001", "x"})
    EXPECT_EQ(refused({"-D", seconds}), "verbtwin measure: --duration " + seconds + kSeconds);
  EXPECT_THAT(
      refused({"--verbs", "read,reed"}),
      testing::AllOf(StartsWith("verbtwin measure: --verbs: unknown value \"reed\"; allowed: read, write, "),
                     HasSubstr("; did you mean \"read\"?")));
  EXPECT_EQ(refused({"-s", "0"}),
            "verbtwin measure: --size 0: allowed: an integer, 1 to 1048576 (see verbtwin measure --help)");
}

TEST_F(Refusals, AFileOfHostsIsOne) {
  const auto refused = [&](const std::string& file) {
    return refusal({"launch", scenario_, "--hosts", file});
  };
  EXPECT_EQ(refused("/dev/zero"), "--hosts /dev/zero: the file is too large; allowed: 1 MiB");
  EXPECT_EQ(refused(directory_.string()), "--hosts DIR: is a directory; a file is expected");
  const std::string none = ": no hosts; allowed: one host a line";
  EXPECT_EQ(refused("/dev/null"), "--hosts /dev/null" + none);
  EXPECT_EQ(refused(write("hosts", "\xEF\xBB\xBF# nobody\r\n\r\n")), "--hosts DIR/hosts" + none);
  EXPECT_EQ(refused(write("hosts", std::string("a\0b\n", 4))).find('\0'), std::string::npos);
  EXPECT_THAT(refused(write("hosts", "one\ntwo three\n")), HasSubstr("hosts:2: \"two three\" is no host"));
  for (const char* host : {"user@", "@host", "n\xF6rd", "\xEF\xBB\xBFtwo"}) {
    EXPECT_THAT(refused(write("hosts", "one\n" + std::string(host) + "\n")), HasSubstr("DIR/hosts:2: \""))
        << host;
  }
  // Read: only their number is wrong.
  EXPECT_THAT(refused(write("hosts", "user@one\nn\xC3\xB6rd\n")), StartsWith("2 ranks, but"));
  EXPECT_THAT(refused(write("hosts", "\xEF\xBB\xBFone\r\ntwo # the second\r\n")), StartsWith("2 ranks, but"));
  EXPECT_THAT(refused(write("hosts", "\xEF\xBB\xBF-one\r\n")), HasSubstr(": \"-one\" is no host"));
}

TEST_F(Refusals, MeasureThatHasNothingToMeasureRunsNothing) {
  const auto refused = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"measure", "--primitives", "--out", in("none")});
    const std::string line = refusal(std::move(flags));
    EXPECT_FALSE(fs::exists(in("none")));
    return line;
  };
  constexpr const char* kAllowed = "; allowed: a -l up to the largest -t, send_ud with a -s up to 4096";
  EXPECT_EQ(
      refused({"-l", "32", "-t", "1,16"}),
      std::string("verbtwin measure: these flags leave nothing to measure: -l 32 does not fit in a window "
                  "of -t 1; -l 32 does not fit in a window of -t 16") +
          kAllowed);
  EXPECT_EQ(
      refused({"--verbs", "send_ud", "-s", "4097"}),
      std::string(
          "verbtwin measure: these flags leave nothing to measure: a datagram holds up to 4096 B, not 4097") +
          kAllowed);
  EXPECT_EQ(refused({"--hosts", write("hosts", "one\ntwo # and\nthree\n")}),
            "--hosts DIR/hosts: 3 hosts; allowed: two, one that posts and one that is posted to");
  EXPECT_EQ(refused({"--hosts", write("hosts", "one\n")}),
            "--hosts DIR/hosts: 1 host; allowed: two, one that posts and one that is posted to");
}

TEST_F(Refusals, MeasureSaysItsDefaults) {
  std::string help = verbtwin({"measure", "--help"}).out, words;
  std::istringstream text_of_help(help);
  for (std::string word; text_of_help >> word;) words += word + " ";
  for (const char* text :
       {"Payloads in bytes; absent: 8,64,1024,4096 ", "Threads that post, of one rank; absent: 1 ",
        "Requests in flight, of a thread; absent: 1,16 ", "Queue pairs of a thread; absent: 1 ",
        "Requests a doorbell; absent: 1 ", "time sends inline; absent: 188 ", "half a window; absent: 100 ",
        "Seconds a point; absent: 1 ", "absent: read,write,send,compare_swap,fetch_add,send_ud "}) {
    EXPECT_THAT(words, HasSubstr(text));
  }
}

TEST_F(Refusals, MeasureSaysWhichFlagsArePerftests) {
  const std::string help = verbtwin({"measure", "--help"}).out;
  EXPECT_THAT(help, HasSubstr("the same in perftest: -s, -l, -I, -Q, -D, -d, -i, -x and -S;"));
  EXPECT_THAT(help, HasSubstr("its --port is a TCP port"));
}

class Unreachable : public Refusals {
 protected:
  void SetUp() override {
    Refusals::SetUp();
    fs::create_directory(in("bin"));
    write("bin/ssh", "#!/bin/sh\nprintf 'ssh: no such host\\r\\n' >&2\nexit 255\n");
    fs::permissions(in("bin/ssh"), fs::perms::owner_all);
  }
  /// What a command that goes to hosts with that ssh says; it fails.
  std::string failure(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(),
                     {"/usr/bin/env", "PATH=" + in("bin") + ":/usr/bin:/bin", VERBTWIN_BINARY});
    ChildProcess run(directory_, std::move(arguments));
    EXPECT_EQ(run.wait(), 1);
    return run.err();
  }
};

TEST_F(Unreachable, IsAFailureAndNamed) {
  EXPECT_THAT(failure({"launch", "--hosts", write("hosts", "one\ntwo\nthree\n"), scenario_}),
              testing::MatchesRegex("verbtwin: rank . on [a-z]+: ssh: no such host\n"));
}

TEST_F(Unreachable, WhatIsSkippedIsNamedFirst) {
  ChildProcess run(directory_, {"/usr/bin/env", "PATH=" + in("bin") + ":/usr/bin:/bin", VERBTWIN_BINARY,
                                "measure", "--primitives", "--hosts", write("hosts", "one\ntwo\n"), "--out",
                                in("m"), "--verbs", "read,send_ud", "-s", "8,8192", "-l", "8", "-t", "1,16"});
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(run.out(),
              StartsWith("skipped: -l 8 does not fit in a window of -t 1\n"
                         "send          ud       8192 skipped: a datagram holds up to 4096 B, not 8192\n"));
}

TEST_F(Unreachable, IsToldWhereTheDataIsAndWhatDriversHeed) {
  write("bin/ssh", "#!/bin/sh\nfor last; do :; done\necho \"$last\" >&2\necho \"$last\" >>" + in("asked") +
                       "\nexit 255\n");
  const std::string data = VERBTWIN_SOURCE_DIR "/calibration";
  ChildProcess run(directory_, {"/usr/bin/env", "PATH=" + in("bin") + ":/usr/bin:/bin",
                                "VERBTWIN_DATA_DIR=" + data, "MLX5_SINGLE_THREADED=1", VERBTWIN_BINARY,
                                "launch", "--hosts", write("hosts", "one\ntwo\nthree\n"), scenario_});
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(run.err(), HasSubstr("VERBTWIN_DATA_DIR=" + data));
  EXPECT_THAT(read_text(in("asked")), HasSubstr("MLX5_SINGLE_THREADED=1"));
}

TEST_F(Unreachable, CostsNoFormerMeasurement) {
  const std::string hosts = write("hosts", "one\ntwo\n");
  const std::vector<std::string> measure = {"measure", "--primitives", "--hosts", hosts,
                                            "--out",   in("m"),        "--verbs", "read"};
  const std::string line = failure(measure);
  EXPECT_THAT(line, testing::MatchesRegex("verbtwin: rank . on [a-z]+: ssh: no such host\n"));
  EXPECT_THAT(read_text(in("m/measurement.json")), HasSubstr("ssh: no such host")) << "there was none before";
  write("m/measurement.json", "former");
  failure(measure);
  EXPECT_EQ(read_text(in("m/measurement.json")), "former");
}

TEST(Memory, MoreThanTheMachineHasIsRefused) {
  scenarios::Cluster cluster;
  cluster.nodes = 4096;
  cluster.threads = 256;
  EXPECT_NEAR(least_memory_gib(cluster), 50, 1);
  EXPECT_NO_THROW(check_memory(cluster, 51));
  EXPECT_THAT([&] { check_memory(cluster, 23); },
              testing::ThrowsMessage<UserError>(testing::HasSubstr(
                  "4096 machines of 256 threads take at least 50 GiB of memory to simulate")));
}

TEST_F(Refusals, AnotherWorkloadsNameSaysWhatToGive) {
  EXPECT_THAT(
      refusal({"check", scenario_, "--set", "workload.name=tpcc"}),
      testing::AllOf(StartsWith("DIR/small.json:4:"), HasSubstr("/workload/accounts_per_thread: "),
                     EndsWith("; --set workload.name=tpcc changed the workload: give all of it, --set "
                              "'workload={\"name\":\"tpcc\"}'")));
  // README.md's line.
  EXPECT_EQ(verbtwin({"check", VERBTWIN_SOURCE_DIR "/scenarios/smallbank-16.json", "--set",
                      R"(workload={"name":"tpcc"})", "--set", "protocol.log.ring_kib=64"})
                .exit_code,
            0);
}

TEST_F(Refusals, WhatNumbersDoNotHoldIsRefused) {
  const auto refused = [&](std::vector<std::string> settings) {
    std::vector<std::string> arguments = {"check", scenario_};
    for (std::string& setting : settings) {
      arguments.emplace_back("--set");
      arguments.push_back(std::move(setting));
    }
    return refusal(std::move(arguments));
  };
  EXPECT_THAT(refused({"cluster.threads=64", "workload.accounts_per_thread=100000000"}),
              HasSubstr("/workload: too large: 6400000000 records of a table on each node; allowed: up to "
                        "4294967295"));
  EXPECT_THAT(refused({"cluster.nodes=3", "cluster.replicas=3", "cluster.threads=40",
                       "workload.accounts_per_thread=100000000"}),
              HasSubstr(" B of records on each node; allowed: up to 549755813888"));
  EXPECT_THAT(
      refused({"run.warmup_us=6e7", "run.measure_us=6e7"}),
      HasSubstr("/run/measure_us: out of range: 6e+07 with 6e+07 of warm-up; allowed in a simulation: "
                "9e+07 in all"));
  EXPECT_THAT(
      refused({R"(cluster.network={"topology":"torus","dimensions":[1024,1024,1024]})"}),
      HasSubstr("/cluster/network/dimensions: out of range: more than 65536 places for NIC ports; allowed: "
                "up to 65536"));
  const std::vector<std::string> ramp = {R"(protocol={"name":"ramp-fast","transport":"ethernet_tcp"})",
                                         R"(workload={"name":"read-write-mix","operations":256})",
                                         "cluster.replicas=1"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), ramp.begin(), ramp.end());
    return more;
  };
  EXPECT_THAT(refused(with({"cluster.coroutines=300"})),
              HasSubstr("/cluster/coroutines: out of range: 300; allowed: integer, 1 to 256 where 256 calls "
                        "of each may be under way"));
  EXPECT_THAT(
      refused(with({"cluster.coroutines=256", "cluster.threads=64", "cluster.nodes=1024"})),
      HasSubstr(" versions of its keys and of transactions under way on each server; allowed: up to "));
}

TEST_F(Refusals, APayloadThatDoesNotFitInlineIsRefusedByCheck) {
  const std::string file = VERBTWIN_SOURCE_DIR "/scenarios/primitives/inbound-write.json";
  EXPECT_THAT(refusal({"check", file, "--set", "workload.payload_b=256"}),
              HasSubstr("/workload/inline: 256 B do not fit in a request: the NIC allows up to "));
  const json inbound = json::parse(read_text(file));
  json swept = inbound;
  swept["sweep"] = json::parse(R"([{"workload.payload_b": [32, 256]}])");
  swept.erase("$schema");
  EXPECT_THAT(refusal({"check", write("swept.json", swept.dump())}),
              EndsWith("; in point 1 (workload.payload_b=256)"));
}

TEST_F(Refusals, WhatIsNoTableOfPointsIsSaid) {
  const auto refused = [this](const std::string& file) { return refusal({"compare-published", file}); };
  constexpr const char* kWanted = "; give a sweep's points.csv, or the directory that holds it";
  fs::create_symlink("loop", in("loop"));
  EXPECT_THAT(refused(in("loop")),
              testing::AllOf(StartsWith("DIR/loop: cannot be read: "), EndsWith(kWanted)));
  EXPECT_EQ(refused(write("one.json", "{}")), std::string("DIR/one.json:1: no rows") + kWanted);
  EXPECT_EQ(refused(write("none.csv", "")), std::string("DIR/none.csv:1: no rows") + kWanted);
  EXPECT_EQ(refused(write("two.json", "a,b\n1\n")),
            std::string("DIR/two.json:2: 1 field; allowed: 2, as many as columns") + kWanted);
}

TEST_F(Refusals, WhatIsNoResultIsComparedWithNothing) {
  const std::string sweep = write("sweep.json", with_sweep(R"([{"run.seed": [1, 2]}])"));
  ASSERT_EQ(verbtwin({"run", sweep, "--quiet", "--out", in("swept")}).exit_code, 0);
  const std::string no_result =
      "DIR/small.json:1:1: no result; allowed: a result.json of `verbtwin run` or `launch`, or a sweep of "
      "these";
  EXPECT_EQ(refusal({"compare", scenario_, in("swept")}), no_result);
  EXPECT_EQ(refusal({"compare", in("swept"), scenario_}), no_result);
  EXPECT_THAT(refusal({"compare", in("swept"), in("swept/points/000")}),
              HasSubstr(": one result, and DIR/swept"));
}

TEST_F(Refusals, WhatIsOnlyNearIsNamed) {
  for (const char* command : {"run", "check", "explain"}) {
    EXPECT_EQ(refusal({command, ""}), "SCENARIO: is empty; give the name of a file");
    EXPECT_THAT(refusal({command, scenario_, "--set", "nodes=4"}),
                EndsWith("; did you mean \"cluster.nodes\"?"));
  }
  EXPECT_THAT(refusal({"check", scenario_, "--set", "seed=4"}), EndsWith("; did you mean \"run.seed\"?"));
}

TEST_F(Refusals, TheDevelopersEntryPointListsAllItsCommands) {
  ChildProcess dev(directory_, {VERBTWIN_SOURCE_DIR "/tools/dev", "prof"});
  EXPECT_EQ(dev.wait(), 2);
  EXPECT_THAT(dev.err(), HasSubstr(" bench profile format "));
}

TEST_F(Refusals, CheckAndRunRefuseWhatADeviceCannotCarry) {
  const std::string scenarios = VERBTWIN_SOURCE_DIR "/scenarios/";
  const auto refused = [&](const std::string& scenario, const std::vector<std::string>& settings) {
    std::vector<std::string> arguments = {"check", scenario};
    for (const std::string& setting : settings) arguments.insert(arguments.end(), {"--set", setting});
    const std::string line = refusal(arguments);
    arguments.front() = "run";
    EXPECT_EQ(line, refusal(arguments));
    return line;
  };
  const auto says = [](const char* pointer, const char* what) {
    return testing::ContainsRegex(": " + std::string(pointer) + ": .*" + what);
  };
  const std::string smallbank = scenarios + "smallbank-16.json", micro = scenarios + "primitives/";
  const std::string fasst = "protocol.name=fasst", two_k = "cluster.nic=connectx-2",
                    one_k = "cluster.nic=connectx-4-roce";
  const std::string ring = "protocol.log.ring_kib=64", ycsb = R"(workload={"name":"ycsb","value_b":3000})";
  EXPECT_THAT(refused(smallbank, {one_k, fasst, R"(workload={"name":"tpcc"})", ring}),
              says("/protocol/phases/logging/primitive",
                   "takes a datagram of 2000 B, and this device's hold 1024 B: allowed are "));
  EXPECT_THAT(refused(smallbank, {one_k, ycsb, ring}), says("/workload", "hold 1024 B: allowed are "));
  EXPECT_THAT(refused(smallbank, {two_k, fasst, ycsb, ring}),
              says("/protocol/phases/logging/primitive", "hold 2048 B: allowed are "));
  EXPECT_THAT(refused(smallbank,
                      {fasst, "cluster.nodes=64", "cluster.coroutines=1024", "protocol.log.ring_kib=2048"}),
              says("/cluster/coroutines", "has 32768 RECVs: allowed are 1 to [0-9]+ coroutines, or fewer"));
  const std::string ud = R"(workload={"name":"primitive","verb":"send","transport":"ud","payload_b":8000})";
  EXPECT_THAT(refused(micro + "raw-read.json", {ud}), says("/workload/payload_b", "up to 4096 B over UD"));
  const std::string ramp = R"({"cluster": {"nodes": 3, "threads": 1, "replicas": 1, "nics_per_node": 1,
                "nic": "connectx-2"},
    "protocol": {"name": "ramp-fast", "transport": "send_recv"},
    "workload": {"name": "read-write-mix", "value_b": 3000}})";
  EXPECT_THAT(refused(write("ramp.json", ramp), {}),
              says("/workload/value_b", "allowed with \"send_recv\" are up to [0-9]+ B"));
  EXPECT_THAT(refused(micro + "echo-ud.json", {two_k, "workload.payload_b=4000"}),
              says("/workload/payload_b", "hold 2048 B: up to 2040 B are allowed"));
  EXPECT_THAT(refused(micro + "echo-herd.json", {two_k, "workload.payload_b=4000"}),
              says("/workload/payload_b", "hold 2048 B: up to 2048 B are allowed"));
  EXPECT_THAT(refused(micro + "echo-herd.json", {"cluster.coroutines=1024"}),
              says("/cluster/coroutines", "32768 requests: fewer coroutines or nodes are allowed"));
  EXPECT_THAT(refused(micro + "echo-ud.json", {"workload.payload_b=4096"}),
              says("/workload/payload_b", "hold 4096 B: up to 4088 B are allowed"));
  const std::string shared = "cluster.threads_per_queue_pair=2";
  EXPECT_THAT(refused(micro + "echo-rc-send.json", {shared}),
              says("/cluster/threads_per_queue_pair", "receives at its connected queue pairs"));
  EXPECT_THAT(refused(micro + "raw-read.json",
                      {shared, R"(workload={"name":"primitive","verb":"send","transport":"rc"})"}),
              says("/cluster/threads_per_queue_pair", "receives at its connected queue pairs"));
  EXPECT_THAT(refused(micro + "multi-object-rpc-read.json", {two_k, "workload.payload_b=4000"}),
              says("/workload/payload_b", "hold 2048 B: two_sided allows up to 2040 B"));
  EXPECT_THAT(
      refused(micro + "multi-object-rpc-read.json", {"workload.objects=256", "cluster.coroutines=1024"}),
      says("/cluster/coroutines", "16 nodes with 1024 coroutines may send one worker "));
  const std::string text = read_text(VERBTWIN_SOURCE_DIR "/calibration/profiles/connectx-4.json");
  write("short.json", edited(text, R"("max_send_wr": {"value": 32768)", R"("max_send_wr": {"value": 10)"));
  EXPECT_THAT(refused(micro + "raw-read.json", {"cluster.nic=" + (directory_ / "short.json").string()}),
              says("/cluster/nic", "the device allows up to 10 sends or RECVs,"));
}

TEST_F(Refusals, WhatNoPointOfAMeasurementCanBe) {
  const std::pair<const char*, const char*> most[] = {
      {"-t", "4096"}, {"-q", "256"}, {"-l", "512"}, {"-Q", "4096"}, {"-s", "1048576"}, {"--threads", "256"}};
  for (const auto& [flag, value] : most) {
    EXPECT_THAT(refusal({"measure", "--primitives", "--out", in("m"), flag, "1048577"}),
                HasSubstr(std::string(" 1048577: allowed: an integer, 1 to ") + value));
  }
}

TEST_F(Refusals, RealRunsSideBySide) {
  EXPECT_EQ(refusal({"run", scenario_, "--backend", "ibverbs", "--jobs", "2"}),
            "--jobs 2: real runs share their machines, one runs at a time; allowed: 1");
}

TEST_F(Refusals, WhatLaunchWouldNotHeed) {
  const auto refused = [this](const std::string& flag, const std::string& value) {
    return refusal({"launch", "--local", "3", scenario_, flag, value});
  };
  EXPECT_THAT(
      refused("--set", "backend=sim"),
      HasSubstr("--set backend=sim: launch is for real verbs; allowed: ibverbs; `verbtwin run` simulates"));
  EXPECT_THAT(refused("--seed", "one"), HasSubstr("--seed one: ")) << "before any rank is started";
  for (const char* number : {"-5", "256"}) {
    EXPECT_THAT(refused("--gid-index", number),
                HasSubstr(std::string("--gid-index ") + number + ": allowed: an integer, 0 to 255"));
    EXPECT_THAT(refused("--port", number),
                HasSubstr(std::string("--port ") + number + ": allowed: an integer, 1"));
  }
  EXPECT_THAT(refused("--sl", "16"), HasSubstr("--sl 16: allowed: an integer, 0 to 15"));
  EXPECT_THAT(refused("--traffic-class", "256"),
              HasSubstr("--traffic-class 256: allowed: an integer, 0 to 255"));
  for (const char* names :
       {"", ",", "mlx5_0,", ",mlx5_0", "mlx5_0:", ":1", "mlx5_0:0", "mlx5_0:-1", "mlx5_0:1:2"}) {
    EXPECT_THAT(refused("--device", names), HasSubstr("--device \"" + std::string(names) + "\": allowed: "));
  }
}

TEST_F(Refusals, WhatADeviceJustCarriesRuns) {
  const std::string micro = VERBTWIN_SOURCE_DIR "/scenarios/primitives/";
  const auto runs = [&](const std::string& scenario, const std::vector<std::string>& settings) {
    std::vector<std::string> arguments = {"run",   micro + scenario,    "--set", "cluster.nodes=3",
                                          "--set", "cluster.threads=2", "--set", "run.measure_us=20"};
    for (const std::string& setting : settings) arguments.insert(arguments.end(), {"--set", setting});
    const Ended ended = verbtwin(arguments);
    EXPECT_EQ(ended.exit_code, 0) << scenario << ": " << ended.err;
  };
  const std::string two_k = "cluster.nic=connectx-2", longest = "workload.payload_b=2040";
  runs("echo-ud.json", {two_k, longest});
  runs("echo-ud.json", {two_k, "workload.payload_b=2000", "workload.coalescing=true"});
  runs("echo-herd.json", {two_k, "workload.payload_b=2048"});
  runs("echo-herd.json", {two_k, "workload.payload_b=8000", "workload.reply_b=64"});  // a WRITE
  runs("multi-object-rpc-read.json", {two_k, longest});
  runs("multi-object-rpc-write.json", {two_k, "workload.payload_b=2032"});
  // One-sided: no datagram is ever sent.
  runs("multi-object-read.json", {"cluster.coroutines=300", "workload.payload_b=8000"});
}

}  // namespace
}  // namespace verbtwin::tools
