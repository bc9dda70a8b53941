// Whole runs on real verbs: every protocol between local ranks, and what happens when a rank, a link or a
// wish fails. Runs where there is a device: in tools/rxe-vm, by the tests labelled rxe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "calibration/measurement.hpp"
#include "protocols/occ/options.hpp"
#include "tools/tests/child_process_for_test.hpp"
#include "tools/tests/on_device_for_test.hpp"

namespace verbtwin::tools {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using nlohmann::json;
using testing::ContainsRegex;
using testing::HasSubstr;

const std::vector<std::string> kLong = {"--set", "run.measure_us=60000000"};

/// How many there are is a matter of speed, which under sanitizers in an emulated machine is little.
constexpr int kSome = 10;

class EveryProtocol : public OnDevice, public testing::WithParamInterface<std::string> {};

TEST_P(EveryProtocol, CommitsSerializably) {
  const auto run = launch({"--set", "protocol.name=" + GetParam()});
  EXPECT_EQ(run->wait(), 0) << err();
  const json r = result();
  EXPECT_EQ(r.at("backend"), "ibverbs");
  EXPECT_EQ(r.at("partial"), false);
  EXPECT_GT(r.at("committed"), kSome);
  EXPECT_EQ(r.at("measured_on").size(), 3U);
  EXPECT_FALSE(r.at("measured_on")[0].at("devices")[0].at("device").get<std::string>().empty());
  EXPECT_EQ(r.at("checks").size(), 5U);
  for (const json& check : r.at("checks")) {
    EXPECT_EQ(check.at("violations"), 0) << check.dump(2);
    EXPECT_GT(check.at("transactions"), kSome);
  }
  RecordProperty("committed_per_s", static_cast<int>(r.at("committed_per_s").get<double>()));
}

std::vector<std::string> protocol_names() {
  std::vector<std::string> names;
  for (const auto& entry : protocols::occ_entries()) names.push_back(entry.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(OnDevice, EveryProtocol, testing::ValuesIn(protocol_names()),
                         [](const auto& protocol) {
                           std::string name = protocol.param;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

TEST_F(OnDevice, AllQueuePairsOfAThreadCompleteAtOneQueue) {
  EXPECT_EQ(launch({"--set", "cluster.completion_queues=worker"})->wait(), 0) << err();
  const json r = result();
  EXPECT_EQ(r.at("partial"), false);
  EXPECT_GT(r.at("committed"), 100);
  for (const json& check : r.at("checks")) EXPECT_EQ(check.at("violations"), 0) << check.dump(2);
}

TEST_F(OnDevice, TheRampFamilyIsReadAtomic) {
  const std::vector<std::vector<std::string>> variants = {
      {},
      {"--set", "protocol.get=get_plus"},
      {"--set", "protocol={\"name\": \"ramp-fast\"}"},
      {"--set", "protocol={\"name\": \"ramp-small\"}"},
      {"--set", "protocol={\"name\": \"ramp-hybrid\"}", "--set", "protocol.put=put_plus"},
      {"--set", "protocol={\"name\": \"ramp-fast\", \"transport\": \"ethernet_tcp\"}"},
      {"--set", "protocol={\"name\": \"s2pl\", \"deadlock\": \"wait_die\"}"}};
  for (std::vector<std::string> flags : variants) {
    SCOPED_TRACE(flags.empty() ? "get_star, put_plus" : flags[1]);
    const bool in_place = flags.empty();
    flags.insert(flags.end(), {"--set", "run.measure_us=5000000"});
    EXPECT_EQ(launch(flags, {}, "ramp-3-rxe.json")->wait(), 0) << err();
    const json r = result();
    EXPECT_EQ(r.at("partial"), false);
    EXPECT_GT(r.at("committed"), 100);
    ASSERT_FALSE(r.at("checks").empty());
    for (const json& check : r.at("checks")) {
      EXPECT_EQ(check.at("violations"), 0) << check.dump(2);
      EXPECT_GT(check.at("transactions"), 100);
    }
    if (in_place) {
      EXPECT_GT(r.at("in_place_reads").at("accepted"), 100);
    }
  }
}

TEST_F(OnDevice, AnOfferedLoadComesWhenItComes) {
  EXPECT_EQ(launch({"--set", "run.offered_per_s=150", "--set", "run.measure_us=3000000"})->wait(), 0)
      << err();
  const json r = result();
  EXPECT_NEAR(r.at("committed_per_s").get<double>(), 150, 60)
      << "450 expected, as Poisson's, and some to come";
  for (const json& check : r.at("checks")) EXPECT_EQ(check.at("violations"), 0) << check.dump(2);
}

TEST_F(OnDevice, WhoHasNobodyToPingPongWithIsNotWaitedFor) {
  const fs::path scenario = directory_ / "odd.json";
  std::ofstream(scenario) << R"({"name": "odd", "cluster": {"nodes": 3, "threads": 1, "nics_per_node": 1},
    "workload": {"name": "primitive", "verb": "write", "mode": "ping_pong", "outstanding": 1, "payload_b": 8},
    "run": {"warmup_us": 1000, "measure_us": 300000}})";
  ChildProcess run(directory_, {VERBTWIN_BINARY, "launch", "--local", "3", scenario.string(), "--json"});
  EXPECT_EQ(run.wait(), 0) << err();
}

TEST_F(OnDevice, PrimitivesAreMeasured) {
  ChildProcess run(directory_, {VERBTWIN_BINARY, "measure", "--primitives", "--out",
                                (directory_ / "m").string(), "-s", "8", "--threads", "1,2", "-t", "1,4", "-D",
                                "0.2", "-d", "rxe0", "--verbs", "read,write,compare_swap,send_ud"});
  EXPECT_EQ(run.wait(), 0) << err();
  const json m = json::parse(read_text(directory_ / "m" / "measurement.json"));
  EXPECT_EQ(m.at("points").size(), 16U);
  for (const json& point : m.at("points")) {
    EXPECT_GT(point.at("operations_per_s"), 10) << point.dump();
    EXPECT_GT(point.at("latency_us").at("p50"), 0) << point.dump();
    // A lone WRITE is timed as ib_write_lat does.
    EXPECT_EQ(point.at("mode") == "ping_pong",
              point.at("verb") == "write" && point.at("outstanding") == 1 && point.at("threads") == 1);
  }
  EXPECT_EQ(m.at("measured_on")[0].at("devices")[0].at("device"), "rxe0");
  EXPECT_EQ(calibration::read_measurement(directory_ / "m" / "measurement.json").points.size(), 16U)
      << "all that it wrote is known";
}

TEST_F(OnDevice, HostsShareNothingButTheProgramAndTheOutput) {
  // An ssh to machines with temporary directories of their own.
  const fs::path bin = directory_ / "bin", temporary = directory_ / "tmp";
  fs::create_directories(bin);
  fs::create_directories(temporary);
  std::ofstream(bin / "ssh")
      << "#!/bin/sh\nfor last; do :; done\nexec unshare -m sh -c \"mount -t tmpfs none " << temporary.string()
      << " && $last\"\n";
  fs::permissions(bin / "ssh", fs::perms::owner_all);
  std::ofstream(directory_ / "hosts") << "somebody@127.0.0.1\n127.0.0.1\n";
  ChildProcess run(directory_,
                   {"/usr/bin/env", "PATH=" + bin.string() + ":/usr/bin:/bin:/usr/sbin:/sbin",
                    "TMPDIR=" + temporary.string(), VERBTWIN_BINARY, "measure", "--primitives", "--hosts",
                    (directory_ / "hosts").string(), "--out", (directory_ / "m").string(), "-s", "8", "-t",
                    "1", "-D", "0.2", "--verbs", "read"});
  EXPECT_EQ(run.wait(), 0) << err();
  const json m = json::parse(read_text(directory_ / "m" / "measurement.json"));
  EXPECT_EQ(m.at("points").size(), 1U);
  EXPECT_EQ(m.at("partial"), false);
}

TEST_F(OnDevice, DatagramsLargerThanAPacketAreSkippedByName) {
  ChildProcess run(directory_, {VERBTWIN_BINARY, "measure", "--primitives", "--out", directory_.string(),
                                "-s", "8192", "-t", "1,4", "-D", "0.2", "--verbs", "send_ud,read"});
  EXPECT_EQ(run.wait(), 0) << err();
  const json m = json::parse(read_text(directory_ / "measurement.json"));
  EXPECT_EQ(m.at("points").size(), 2U);
  EXPECT_EQ(m.at("partial"), false);
  EXPECT_THAT(read_text(directory_ / "out"),
              ContainsRegex("send +ud +8192 skipped: a datagram holds up to "));
}

TEST_F(OnDevice, CtrlCKeepsThePointsThatWereFinished) {
  ChildProcess run(directory_, {VERBTWIN_BINARY, "measure", "--primitives", "--out", directory_.string(),
                                "-s", "8,16", "-t", "1", "-D", "3", "--verbs", "read"});
  const Clock::time_point limit = Clock::now() + 60s;
  while (!fs::exists(directory_ / "measurement.json") && Clock::now() < limit) {
    std::this_thread::sleep_for(50ms);
  }
  wait_for_measuring(2, 1);
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 128 + SIGINT) << err();
  const json m = json::parse(read_text(directory_ / "measurement.json"));
  EXPECT_EQ(m.at("points").size(), 1U);
  EXPECT_EQ(m.at("partial"), true);
}

/// How often a process was woken, in all of its threads.
std::uint64_t wake_ups(pid_t pid) {
  std::uint64_t sum = 0;
  for (const auto& thread : fs::directory_iterator(fs::path("/proc") / std::to_string(pid) / "task")) {
    std::ifstream status(thread.path() / "status");
    for (std::string word; status >> word;) {
      std::uint64_t count = 0;
      if (word == "voluntary_ctxt_switches:" && status >> count) sum += count;
    }
  }
  return sum;
}

TEST_F(OnDevice, TheTargetOfReadsSleeps) {
  std::ofstream(directory_ / "reads.json")
      << json{{"name", "reads"},
              {"cluster", {{"nodes", 2}, {"threads", 1}, {"nics_per_node", 1}}},
              {"workload", {{"name", "primitive"}, {"verb", "read"}, {"pattern", "one_to_many"}}},
              {"run", {{"warmup_us", 1000}, {"measure_us", 60'000'000}}}};
  ChildProcess run(
      directory_, {VERBTWIN_BINARY, "launch", "--local", "2", (directory_ / "reads.json").string(), "--quiet",
                   "--out", directory_.string()});
  wait_for_measuring(2, 1);
  const pid_t target = find_rank(1);
  ASSERT_GT(target, 0);
  const std::uint64_t before = wake_ups(target);
  std::this_thread::sleep_for(1s);
  EXPECT_LT(wake_ups(target) - before, 50U) << "its core is the others'";
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 128 + SIGINT) << err();
  EXPECT_GT(result_at(directory_).at("operations"), 100);
}

TEST_F(OnDevice, AMeasurementThatFailsSaysWhyOnce) {
  const std::vector<std::string> measure = {VERBTWIN_BINARY,
                                            "measure",
                                            "--primitives",
                                            "--verbs",
                                            "read",
                                            "-s",
                                            "8",
                                            "-t",
                                            "1",
                                            "-D",
                                            "60",
                                            "--out",
                                            directory_.string()};
  ChildProcess run(directory_, measure);
  wait_for_measuring(2, 1);
  kill(find_rank(1), SIGKILL);
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(err(),
              ContainsRegex("^verbtwin: (rank 1 was lost|rank 0: [^\n]* towards rank 1) while measuring\n$"));
  EXPECT_TRUE(ranks_running().empty());
  const json m = json::parse(read_text(directory_ / "measurement.json"));
  EXPECT_EQ(m.at("partial"), true);
  EXPECT_THAT(err(), HasSubstr(m.at("failure").get<std::string>()));
}

TEST_F(OnDevice, AKilledRankEndsTheRunAtOnce) {
  const auto run = launch(kLong);
  wait_for_measuring();
  const pid_t victim = find_rank(1);
  ASSERT_GT(victim, 0);
  kill(victim, SIGKILL);
  const Clock::time_point killed = Clock::now();
  EXPECT_EQ(run->wait(), 1);
  EXPECT_LT(Clock::now() - killed, 10s);
  EXPECT_THAT(err(),
              ContainsRegex("^verbtwin: (rank 1 was lost|rank 0: [^\n]* towards rank 1) while measuring\n$"));
  EXPECT_TRUE(ranks_running().empty());
  EXPECT_EQ(result().at("partial"), true);
  EXPECT_THAT(result().at("failure").get<std::string>(), HasSubstr("rank 1"));
}

TEST_F(OnDevice, AKilledRankZeroLeavesNobodyBehind) {
  const auto run = launch(kLong);
  wait_for_measuring();
  kill(find_rank(0), SIGKILL);
  const Clock::time_point killed = Clock::now();
  EXPECT_EQ(run->wait(), 1);
  EXPECT_LT(Clock::now() - killed, 10s);
  EXPECT_EQ(err(), "verbtwin: rank 0 was killed by signal 9\n");
  EXPECT_TRUE(ranks_running().empty());
}

TEST_F(OnDevice, AKilledLauncherLeavesNobodyBehind) {
  const auto run = launch(kLong);
  wait_for_measuring();
  EXPECT_EQ(ranks_running().size(), 3U);
  run->signal(SIGKILL);
  run->wait();
  const Clock::time_point limit = Clock::now() + 5s;
  while (!ranks_running().empty() && Clock::now() < limit) std::this_thread::sleep_for(20ms);
  EXPECT_TRUE(ranks_running().empty());
}

TEST_F(OnDevice, CtrlCDoesNotWaitForWhatNeverEnds) {
  const auto run = launch({"--set", "run.measure_us=600000000"});
  wait_for_measuring();
  kill(find_rank(1), SIGSTOP);  // what is asked of it is not answered
  std::this_thread::sleep_for(2s);
  const Clock::time_point stopped = Clock::now();
  run->signal(SIGINT);
  EXPECT_EQ(run->wait(), 1);
  EXPECT_LT(Clock::now() - stopped, 60s);
  EXPECT_THAT(result().at("failure").get<std::string>(),
              ContainsRegex("never ended.*: thread [01] coroutine .* by node 1"));
  EXPECT_LT(result().at("window_us").get<double>(), 60e6);
  EXPECT_FALSE(result().contains("warning"));
}

TEST_F(OnDevice, CtrlCKeepsWhatThereIs) {
  const auto run = launch(kLong);
  wait_for_measuring();
  run->signal(SIGINT);
  EXPECT_EQ(run->wait(), 128 + SIGINT) << err();
  EXPECT_EQ(result().at("partial"), true);
  EXPECT_FALSE(result().contains("failure"));
  EXPECT_GT(result().at("committed"), 0);
  for (const json& check : result().at("checks")) EXPECT_EQ(check.at("violations"), 0) << check.dump(2);
}

/// The server's time is long here, and the first READ does not hold the result.
TEST_F(OnDevice, ResultsAreFetched) {
  std::ofstream(directory_ / "echo.json")
      << json{{"name", "fetched"},
              {"cluster", {{"nodes", 3}, {"threads", 1}, {"coroutines", 2}, {"nics_per_node", 1}}},
              {"workload",
               {{"name", "echo"},
                {"transport", "rf_rpc"},
                {"pattern", "many_to_one"},
                {"reply_b", 300},
                {"process_ns", 1000},
                {"fetch_tries", 1000}}},
              {"run", {{"warmup_us", 100'000}, {"measure_us", 1'000'000}}}};
  ChildProcess run(directory_,
                   {VERBTWIN_BINARY, "launch", "--local", "3", (directory_ / "echo.json").string(), "--quiet",
                    "--out", (directory_ / "result").string()});
  EXPECT_EQ(run.wait(), 0) << err();
  const json r = result();
  const double operations = r.at("operations");
  EXPECT_GT(operations, 100);
  EXPECT_EQ(r.at("operations_failed"), 0);
  EXPECT_GE(r.at("verbs").at("read").at("count").get<double>(), 1.9 * operations);
  EXPECT_NEAR(r.at("verbs").at("write").at("count").get<double>(), operations, 0.1 * operations + 8);
}

TEST_F(OnDevice, WhatNeverEndsIsCountedAndNamed) {
  std::ofstream(directory_ / "echo.json")
      << json{{"name", "echo"},
              {"cluster", {{"nodes", 2}, {"threads", 1}, {"coroutines", 2}, {"nics_per_node", 1}}},
              {"workload", {{"name", "echo"}, {"transport", "ud_send"}}},
              {"run", {{"warmup_us", 1000}, {"measure_us", 5'000'000}}}};
  ChildProcess run(directory_, {VERBTWIN_BINARY, "launch", "--local", "2",
                                (directory_ / "echo.json").string(), "--quiet"});
  wait_for_measuring(2, 1);
  const pid_t silent = find_rank(1);
  ASSERT_GT(silent, 0);
  kill(silent, SIGSTOP);  // its connections stand, and nobody is answered
  const Clock::time_point limit = Clock::now() + 60s;
  while (err().empty() && Clock::now() < limit) std::this_thread::sleep_for(50ms);
  kill(silent, SIGCONT);
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(err(), ContainsRegex("^verbtwin: rank 0: measuring took longer than it may: [1-9][0-9]* "
                                   "operations never ended"));
}

TEST_F(OnDevice, ALinkThatGoesDownIsNamedWithItsStatus) {
  const auto run = launch(kLong);
  wait_for_measuring();
  ASSERT_EQ(std::system("ip link set rdma0eth down"), 0);
  const Clock::time_point down = Clock::now();
  const int code = run->wait();
  EXPECT_EQ(std::system("ip link set rdma0eth up"), 0);
  EXPECT_EQ(code, 1);
  EXPECT_LT(Clock::now() - down, 20s);
  EXPECT_THAT(
      err(),
      ContainsRegex(
          "rank [0-2]: [a-zA-Z ]+ (error|exceeded)( .vendor error 0x[0-9a-f]+.)? (towards rank [0-2]|on a "
          "datagram queue pair) while measuring\n$"));
  EXPECT_THAT(err(), testing::Not(HasSubstr("killed")));
  EXPECT_TRUE(ranks_running().empty());
}

TEST_F(OnDevice, WhatCannotBeIsOneLine) {
  struct Case {
    std::vector<std::string> flags;
    int code;
    std::string line;
  };
  const std::vector<Case> cases = {
      {{"--device", "mlx5_0"}, 2, "--device: no RDMA device \"mlx5_0\"; there are: rxe0\n"},
      {{"--gid-index", "77"}, 2, "--gid-index: rxe0 port 1 has no GID 77; allowed: "},
      {{"--port", "2"}, 2, "--port: rxe0 has no port 2; allowed: 1 to 1\n"},
      {{"--device", "rxe0,rxe0"}, 2, "--device: 2 devices for 1 NICs per node"},
      {{"--set", "cluster.qps_per_peer=64", "--set", "cluster.nics_per_node=2", "--set",
        "cluster.completion_queues=worker"},
       2,
       "more queue pairs than a completion queue of this device holds"},
      {{"--set", "cluster.qps_per_peer=256", "--set", "cluster.threads=256", "--set",
        "cluster.nics_per_node=8"},
       2,
       "queue pairs are needed on rxe0, which has "},
  };
  for (const auto& [flags, code, line] : cases) {
    SCOPED_TRACE(line);
    const auto run = launch(flags);
    EXPECT_EQ(run->wait(), code);
    EXPECT_THAT(err(), HasSubstr(line));
    const std::string text = err();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
    EXPECT_FALSE(fs::exists(directory_ / "result" / "result.json"));
    EXPECT_TRUE(ranks_running().empty());
  }
}

TEST_F(OnDevice, TooLittleLockedMemoryIsOneLineWithTheRemedy) {
  // Root may lock all it likes: as somebody who may not.
  const auto run = launch({}, {"/usr/bin/prlimit", "--memlock=65536", "/usr/bin/setpriv", "--bounding-set",
                               "-ipc_lock", "--inh-caps", "-ipc_lock"});
  EXPECT_EQ(run->wait(), 2);
  EXPECT_THAT(err(), ContainsRegex("^(rank [0-2]: )?cannot [^\n]*this user may lock 64 KiB of memory: "
                                   "raise `ulimit -l`, under Slurm [^\n]*\n$"));
  EXPECT_TRUE(ranks_running().empty());
}

TEST_F(OnDevice, OneDeviceForTwoNicsIsSaid) {
  const std::vector<std::string> two_nics = {"--set", "cluster.nics_per_node=2", "--set",
                                             "run.measure_us=100000"};
  EXPECT_EQ(launch(two_nics)->wait(), 0) << err();
  EXPECT_THAT(result().at("measured_on")[2].value("warning", ""),
              HasSubstr("rxe0 is all 2 NICs of this machine: --device a,b names one for each"));
}

TEST_F(OnDevice, HowTheDeviceWasUsedIsSaid) {
  const auto run = launch({"--sl", "3", "--traffic-class", "104", "--set", "run.measure_us=100000"},
                          {"/usr/bin/env", "RDMAV_HUGEPAGES_SAFE=it's \xff"});
  EXPECT_EQ(run->wait(), 0) << err();
  for (const json& machine : result().at("measured_on")) {
    const json& device = machine.at("devices")[0];
    EXPECT_EQ(device.at("sl"), 3);
    EXPECT_EQ(device.at("traffic_class"), 104);
    EXPECT_EQ(device.at("pkey"), "0xffff");
    EXPECT_EQ(machine.at("environment"), json({{"RDMAV_HUGEPAGES_SAFE", "it's \\xff"}}));
  }
}

TEST_F(OnDevice, MoreWorkersThanCpusAreSaid) {
  const std::vector<std::string> many = {"--set", "cluster.threads=4", "--set", "run.measure_us=100000"};
  EXPECT_EQ(launch(many)->wait(), 0) << err();
  EXPECT_THAT(result().at("measured_on")[1].value("warning", ""), HasSubstr("12 workers share 4 CPUs"));
}

TEST_F(OnDevice, MissingHugePagesAreSaidAndDoNotEndTheRun) {
  const auto set_pages = [](int pages) { std::ofstream("/proc/sys/vm/nr_hugepages") << pages; };
  const std::vector<std::string> brief = {"--set", "run.warmup_us=1000", "--set", "run.measure_us=100000"};
  set_pages(0);
  EXPECT_EQ(launch(brief)->wait(), 0) << err();
  const json small = result().at("measured_on")[0];
  EXPECT_THAT(small.value("warning", ""),
              ContainsRegex("no huge pages are reserved .*sysctl vm.nr_hugepages=[1-9]"));
  set_pages(128);
  EXPECT_EQ(launch(brief)->wait(), 0) << err();
  set_pages(0);
  EXPECT_THAT(result().at("measured_on")[0].value("warning", ""), Not(HasSubstr("huge pages")));
}

}  // namespace
}  // namespace verbtwin::tools
