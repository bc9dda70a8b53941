#include "tools/report/summary.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/report/bottleneck.hpp"

namespace verbtwin::tools {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

/// A result as tools/RESULT.md has it.
json canned_result() {
  return json::parse(R"({
    "format": "verbtwin-result", "version": 1,
    "scenario": {
      "name": "smallbank-16", "backend": "sim",
      "cluster": {"nodes": 16, "threads": 24, "coroutines": 8, "replicas": 3, "nic": "connectx-4", "nics_per_node": 2,
                  "host": "xeon-e5-2650v4", "qps_per_peer": 1, "network": {"topology": "star"}},
      "protocol": {"name": "drtmh"}, "workload": {"name": "smallbank", "accounts_per_thread": 100000},
      "run": {"warmup_us": 200, "measure_us": 1000, "seed": 1, "check": "serializable"}},
    "backend": "sim", "seed": 1, "partial": false, "window_us": 1000.0,
    "committed": 80000, "aborted_attempts": 1470, "abort_ratio": 0.018, "committed_per_s": 80000000.0,
    "aborts": {"validation": 270, "lock_busy": 1200, "never": 0},
    "latency_us": {"mean": 37.9, "p50": 34.1, "p90": 58.2, "p99": 99.96, "p999": 180.4, "max": 1022.7},
    "phases": {"execution": {"count": 80000, "p50_us": 12.1, "mean_us": 14.3},
               "validation": {"count": 80000, "p50_us": 2.93, "mean_us": 3.1},
               "logging": {"count": 68000, "p50_us": 6.5, "mean_us": 7.2}, "commit": {"count": 0}},
    "transactions": {"balance": {"committed": 12000, "latency_us": {"p50": 9.1, "p99": 30.2}},
                     "send_payment": {"committed": 68000, "latency_us": {"p50": 35.2, "p99": 101.3}}},
    "verbs": {"read": {"count": 160000, "bytes": 10240000}, "write": {"count": 100000, "bytes": 9600000},
              "compare_swap": {"count": 40000, "bytes": 320000}, "fetch_add": {"count": 0, "bytes": 0},
              "send": {"count": 20000, "bytes": 1280000}, "recv": {"count": 20000, "bytes": 1280000}},
    "resources": [{"name": "core", "utilization_mean": 0.931, "utilization_max": 0.974},
                  {"name": "nic_send", "utilization_mean": 0.61, "utilization_max": 0.72},
                  {"name": "qp_cache", "utilization_mean": 0.0, "utilization_max": 0.0, "hit_ratio": 0.992,
                   "hit_ratio_min": 0.61}],
    "bottleneck": {"resource": "core", "utilization": 0.931},
    "checks": [{"name": "serializable", "transactions": 80000, "violations": 0},
               {"name": "read-atomic", "transactions": 1, "violations": 0,
                "allowed": {"lost_updates": 1234, "write_skews": 2}},
               {"name": "money", "violations": 2, "examples": ["node 3 lost 12", "node 4 won 7"]}],
    "simulator": {"events": 12345678, "setup_s": 0.31, "wall_s": 1.23, "events_per_s": 10037136,
                  "transactions_per_wall_s": 65040, "peak_rss_mib": 210.4}})");
}

TEST(Summary, RendersEveryPartOfAResult) {
  EXPECT_EQ(render_summary(canned_result(), {}),
            R"(smallbank-16: drtmh running smallbank
16 machines x 24 threads x 8 coroutines, 3 replicas; 2 x connectx-4,
xeon-e5-2650v4; simulated, seed 1

throughput   80.0 M committed/s, 5.00 M/s per machine (80,000 in 1,000 us)
latency      p50 34.1, p90 58.2, p99 100, p999 180, max 1,023, mean 37.9 us
aborts       1.8 % of attempts (1,470): lock_busy 1,200, validation 270

transaction           committed    share    p50 us    p99 us
balance                  12,000   15.0 %      9.10      30.2
send_payment             68,000   85.0 %      35.2       101

phase                     p50 us  mean us   had it
execution                   12.1     14.3  100.0 %
validation                  2.93     3.10  100.0 %
logging                     6.50     7.20   85.0 %

verb                       count    per commit  bytes each
compare_swap              40,000          0.50           8
read                     160,000          2.00          64
recv                      20,000          0.25          64
send                      20,000          0.25          64
write                    100,000          1.25          96

resource     in use                       mean      max
core         ######################--   93.1 %   97.4 %
nic_send     ###############---------   61.0 %   72.0 %
qp_cache     99.2 % of look-ups hit, 61.0 % on one NIC

PASS serializable: 80,000 transactions, 0 violations
PASS read-atomic: 1 transaction, 0 violations; allowed: lost_updates 1,234,
     write_skews 2
FAIL money: 2 violations
     node 3 lost 12
     node 4 won 7

bottleneck   The workers' cores are the limit (93.1 % in use): to go faster, add
             threads where cores are left, batch more requests per doorbell and
             message, or let one-sided verbs take work from the CPU. More
             coroutines may help as well.
simulator    12.3 M events in 1.23 s (10.0 M/s), 65.0 k transactions per wall
             second, set-up 0.31 s, 210 MiB
)");
}

TEST(Summary, LinesKeepTheWidth) {
  for (const std::size_t width : {60U, 80U}) {
    std::istringstream lines(render_summary(canned_result(), {.color = false, .width_columns = width}));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), width) << line;
  }
}

TEST(Summary, ColourOnlyWhereAsked) {
  EXPECT_THAT(render_summary(canned_result(), {}), Not(HasSubstr("\x1b")));
  const std::string painted = render_summary(canned_result(), {.color = true});
  EXPECT_THAT(painted, HasSubstr("\x1b[32mPASS\x1b[0m"));
  EXPECT_THAT(painted, HasSubstr("\x1b[31mFAIL\x1b[0m"));
}

TEST(Summary, ANameIsMadePrintable) {
  json result = canned_result();
  result["scenario"]["name"] = "a\x1b[31m";
  result["scenario"]["cluster"]["nic"] = "\x1b.json";
  EXPECT_THAT(render_summary(result, {}), Not(HasSubstr("\x1b")));
}

TEST(Summary, SaysWhatNetworkAndLoadAreNotTheDefault) {
  json result = canned_result();
  result["scenario"]["cluster"]["network"] = {{"topology", "star"}, {"link_gbps", 12.5}};
  result["scenario"]["run"]["offered_per_s"] = 90e6;
  EXPECT_THAT(
      render_summary(result, {}),
      HasSubstr("\nxeon-e5-2650v4, links of 12.5 Gb/s; 90.0 M transactions/s offered; simulated,\nseed "
                "1\n"));
}

TEST(Summary, SaysThatARunIsPartial) {
  json result = canned_result();
  result["partial"] = true;
  result["window_us"] = 412.0;
  EXPECT_THAT(render_summary(result, {}), HasSubstr("PARTIAL: stopped after 412 us of the window\n"));
}

TEST(Summary, WarnsBelowTheLatencies) {
  json result = canned_result();
  EXPECT_THAT(render_summary(result, {}), Not(HasSubstr("warning")));
  result["warning"] = {"one thing", "another"};
  EXPECT_THAT(render_summary(result, {}), HasSubstr("\nwarning      one thing\nwarning      another\n"));
}

TEST(Summary, ADumbTerminalGetsNoEscapeSequences) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(master, 0);
  ASSERT_EQ(grantpt(master), 0);
  ASSERT_EQ(unlockpt(master), 0);
  const int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  unsetenv("NO_COLOR");
  setenv("TERM", "xterm", 1);
  EXPECT_TRUE(is_terminal(terminal));
  EXPECT_TRUE(style_of_stream(terminal).color);
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(is_terminal(terminal));
  EXPECT_FALSE(style_of_stream(terminal).color);
  unsetenv("TERM");
  close(terminal);
  close(master);
}

TEST(Summary, NamesTheMachinesOfARealRun) {
  json result = canned_result();
  result["backend"] = "ibverbs";
  result["measured_on"] = json::parse(R"([{"cpu": "Some CPU", "devices": [
      {"device": "mlx5_0", "link_gbps": 100.0, "mtu": 4096}]}])");
  result["partial"] = true;
  result["failure"] = "rank 1 was lost while measuring";
  const std::string text = render_summary(result, {});
  EXPECT_THAT(text, HasSubstr("; mlx5_0, 100 Gb/s, MTU 4096;\nSome CPU; measured, seed 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("connectx-4")));
  EXPECT_THAT(text, HasSubstr("FAILED: rank 1 was lost while measuring; this is rank 0's part\n"));
  // One machine's part is not a sixteenth of it, and what limits a run that failed is not known.
  EXPECT_THAT(text, HasSubstr("committed/s at rank 0 ("));
  EXPECT_THAT(text, Not(HasSubstr("per machine")));
  EXPECT_THAT(text, Not(HasSubstr("bottleneck")));
}

TEST(Summary, SaysNoSpeedOfALinkOfAnUnknownKind) {
  json result = canned_result();
  result["measured_on"] =
      json::parse(R"([{"cpu": "Some CPU", "devices": [{"device": "mlx5_0", "mtu": 4096}]}])");
  EXPECT_THAT(render_summary(result, {}), HasSubstr("; mlx5_0, MTU 4096; Some CPU;"));
}

TEST(Summary, NamesRanksWhoseMachineOrWarningIsAnother) {
  json result = canned_result();
  result["backend"] = "ibverbs";
  const json machine = json::parse(R"({"cpu": "Some CPU", "devices": [
      {"device": "mlx5_0", "link_gbps": 100.0, "mtu": 4096}]})");
  json slow = machine, warned = machine;
  slow["devices"][0]["link_gbps"] = 25.0;
  warned["warning"] = "no huge pages";
  result["measured_on"] = {machine, machine, slow, warned, slow, warned};
  const std::string text = render_summary(result, {});
  EXPECT_THAT(text, HasSubstr("measured, seed 1\nrank 2: mlx5_0, 25 Gb/s, MTU 4096; Some CPU\n"
                              "warning: rank 3: no huge pages\n\n"));
  result["measured_on"] = {machine, machine};
  EXPECT_THAT(render_summary(result, {}), Not(HasSubstr("rank ")));
}

TEST(Summary, RendersAMicroBenchmark) {
  json result = canned_result();
  for (const char* key : {"committed", "committed_per_s", "aborted_attempts", "transactions", "phases"})
    result.erase(key);
  result["operations"] = 160000;
  result["operations_per_s"] = 1e7;
  result["machines"] = 16;
  const std::string text = render_summary(result, {});
  EXPECT_THAT(text, HasSubstr("throughput   10.0 M operations/s per machine, 160 M/s in all (160,000"));
  EXPECT_THAT(text, HasSubstr("read                     160,000          1.00          64\n"));
  EXPECT_THAT(text, Not(HasSubstr("committed")));
}

TEST(Summary, PingPongIsRatedByThePair) {
  json result = canned_result();
  result["operations"] = 160000;
  result["operations_per_s"] = 1e7;
  result["machines"] = 1;
  EXPECT_THAT(render_summary(result, {}), HasSubstr("10.0 M operations/s at the one machine ("));
  result["scenario"]["workload"]["mode"] = "ping_pong";
  EXPECT_THAT(render_summary(result, {}), HasSubstr("10.0 M operations/s per pair ("));
}

TEST(Summary, RendersARunThatCommittedNothing) {
  json result = canned_result();
  result["committed"] = 0;
  for (auto& [kind, values] : result["transactions"].items())
    values = {{"committed", 0}, {"latency_us", json::object()}};
  EXPECT_THAT(render_summary(result, {}), HasSubstr("balance                       0    0.0 %"));
  EXPECT_THAT(render_summary(result, {}), Not(HasSubstr("\nlatency "))) << "of nothing there is none";
}

TEST(Summary, ShowsWhatGoesBeyondTheContract) {
  json result = canned_result();
  result["user_aborts"] = 1234;
  result["datagrams_dropped"] = 5;
  result["location_cache"] = {{"hit_ratio", 0.75}};
  const std::string text = render_summary(result, {});
  EXPECT_THAT(text, HasSubstr("validation 270; 1,234\n             ended by the application's own rules\n"));
  EXPECT_THAT(text, HasSubstr("\n5 datagrams dropped: no RECV was posted in time\n"));
  EXPECT_THAT(text, HasSubstr("\nlocations    75.0 % of look-ups hit\n"));
}

TEST(Bottleneck, NamesEveryResourceOfTheContract) {
  for (const char* resource : {"core", "nic_send", "nic_recv", "pcie_up", "pcie_down", "dma_reads",
                               "atomic_unit", "qp_atomics", "link", "qp_cache"}) {
    const std::string sentence = describe_bottleneck({{"resource", resource}, {"utilization", 0.91}});
    EXPECT_THAT(sentence, HasSubstr("limit (91.0 % in use): to go faster, ")) << resource;
  }
}

TEST(Bottleneck, RoundTripsMeanThatNothingIsSaturated) {
  const nlohmann::json waiting = {{"resource", "round_trips"}, {"utilization", 0.41}};
  EXPECT_EQ(describe_bottleneck(waiting),
            "Nothing is saturated (the busiest resource is 41.0 % in use): coroutines wait for round trips; "
            "more of "
            "them may help, or, where each has requests outstanding, more queue pairs; `verbtwin explain` "
            "tries what "
            "would.");
  EXPECT_THAT(describe_bottleneck(waiting, "primitive"), HasSubstr("more requests outstanding may help"))
      << "it has no coroutines";
}

TEST(Bottleneck, ConflictsAndNothingHaveSentencesOfTheirOwn) {
  EXPECT_THAT(
      describe_bottleneck(
          {{"resource", "locks"}, {"retry_share", 0.61}, {"utilization", 0.97}, {"busiest", "core"}}),
      HasSubstr(
          "Conflicts are the limit: 61.0 % of the coroutines' time goes into attempts that fail and waits "
          "before the next (the busiest resource, core, is 97.0 % in use). To go faster, spread"));
  EXPECT_THAT(describe_bottleneck({{"resource", "none"}}), HasSubstr("Nothing was measured"));
}

TEST(Bottleneck, WhatIsAboutAsFullIsNotLeftOut) {
  const std::string engines =
      describe_bottleneck({{"resource", "nic_send"},
                           {"busiest", "nic_send"},
                           {"utilization", 1.0},
                           {"also", {{{"resource", "nic_recv"}, {"utilization", 0.995}}}}});
  EXPECT_THAT(engines,
              HasSubstr("are the limit (100.0 % in use), or nic_recv (99.5 % in use), about as full: one "
                        "relieved alone may bring nothing. To go faster, send fewer requests"));
  EXPECT_THAT(engines, HasSubstr("; and send fewer packets to each machine"));
  const json cores = {{{"resource", "core"}, {"utilization", 0.97}}};
  const std::string conflicts =
      describe_bottleneck({{"resource", "locks"}, {"retry_share", 0.57}, {"also", cores}});
  EXPECT_THAT(conflicts, HasSubstr("Conflicts are the limit, and so is core (97.0 % in use): 57.0 % of the"));
  EXPECT_THAT(conflicts, HasSubstr("or hold locks for less time, or add threads where cores are left"));
}

TEST(Bottleneck, WhatIsNotFullAllTheTimeLeavesTimeToWait) {
  json stores = {{"resource", "mmio"}, {"busiest", "pcie_down"}, {"utilization", 0.928}};
  EXPECT_THAT(describe_bottleneck(stores),
              HasSubstr("short. More coroutines or faster cores may help as well."));
  stores["utilization"] = 0.96;
  EXPECT_THAT(describe_bottleneck(stores), Not(HasSubstr("may help as well")));
  const json cores = {{"resource", "core"}, {"utilization", 0.94}};
  EXPECT_THAT(describe_bottleneck(cores), HasSubstr("CPU. More coroutines may help as well."));
  EXPECT_THAT(describe_bottleneck(cores, "primitive"),
              HasSubstr("More requests outstanding may help as well."));
}

TEST(Bottleneck, OfWhatConflictsTakeBesideALimitItSaysHowMuch) {
  EXPECT_THAT(
      describe_bottleneck({{"resource", "core"}, {"utilization", 0.99}, {"retry_share", 0.31}}),
      HasSubstr(
          "CPU. 31.0 % of the coroutines' time goes into attempts that fail and waits before the next."));
}

TEST(Bottleneck, SaysWhoseTheUseIs) {
  const json hot = {
      {"resource", "nic_recv"}, {"busiest", "nic_recv"}, {"utilization", 0.99}, {"fullest", true}};
  EXPECT_THAT(describe_bottleneck(hot), HasSubstr("limit (99.0 % in use on the fullest machine): to go"));
  json server = hot;
  server["role"] = "servers";
  EXPECT_THAT(describe_bottleneck(server), HasSubstr("(99.0 % in use on the fullest of the servers)"));
  json cable = hot;
  cable["resource"] = cable["busiest"] = "link";
  EXPECT_THAT(describe_bottleneck(cable),
              HasSubstr("The fullest network link is the limit (99.0 % in use):"));
}

TEST(Bottleneck, APartsUseIsThatOfItsResource) {
  EXPECT_THAT(
      describe_bottleneck({{"resource", "qp_cache"}, {"busiest", "nic_recv"}, {"utilization", 0.998}}),
      HasSubstr("queue pair caches are the limit (a good part of nic_recv, which is 99.8 % in use): to go"));
  json doorbell = {
      {"resource", "doorbell"}, {"busiest", "core"}, {"utilization", 0.6}, {"waiting_share", 0.365}};
  EXPECT_THAT(describe_bottleneck(doorbell),
              HasSubstr("doorbell registers are the limit (cores wait for them 36.5 % of the time): to go"));
  doorbell["busiest"] = "doorbell";
  EXPECT_THAT(describe_bottleneck(doorbell),
              HasSubstr("(60.0 % in use, and cores wait for them 36.5 % of the time)"));
}

TEST(Bottleneck, NamesAResourceItDoesNotKnow) {
  EXPECT_EQ(describe_bottleneck({{"resource", "switch_fabric"}, {"utilization", 1.0}}),
            "switch_fabric is the limit (100.0 % in use).");
}

TEST(Summary, LeavesOutWhatNothingLookedUp) {
  json result = canned_result();
  result["location_cache"] = {{"hit_ratio", nullptr}};
  result["resources"][2]["hit_ratio"] = nullptr;
  EXPECT_THAT(render_summary(result, {}), Not(HasSubstr("look-ups")));
}

TEST(Summary, OneIsNoPlural) {
  json result = canned_result();
  for (const char* key : {"threads", "coroutines", "replicas"}) result["scenario"]["cluster"][key] = 1;
  EXPECT_THAT(render_summary(result, {}), HasSubstr("16 machines x 1 thread x 1 coroutine, 1 replica; 2 x"));
}

TEST(Summary, TellsServersFromClients) {
  nlohmann::json result = canned_result();
  result["resources"][0]["utilization_servers"] = 0.99;
  result["resources"][0]["utilization_clients"] = 0.25;
  result["bottleneck"]["role"] = "servers";
  const std::string text = render_summary(result, {});
  EXPECT_NE(text.find("mean      max  servers  clients"), std::string::npos) << text;
  EXPECT_NE(text.find("93.1 %   97.4 %   99.0 %   25.0 %"), std::string::npos) << text;
  EXPECT_NE(text.find("(93.1 % in use on the servers)"), std::string::npos) << text;
}

}  // namespace
}  // namespace verbtwin::tools
