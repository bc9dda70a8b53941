// Whole simulated runs of the RAMP family: every protocol with every access method under contention and
// delay, what rounds and verbs they take, and faults that the check must find.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "backend/user_error.hpp"
#include "tools/runs_for_test.hpp"

namespace verbtwin::tools {
namespace {

using testing::HasSubstr;

// Few keys and many writers; NICs that access lines one by one, in any order.
constexpr const char* kContended = R"({
  "cluster": {"nodes": 5, "threads": 2, "coroutines": 4, "nics_per_node": 1, "roles": {"servers": 2, "clients": 3},
              "tear_ns": 300},
  "protocol": {"name": "ramp-fast"},
  "workload": {"name": "read-write-mix", "operations": 4, "read_ratio": 0.5, "keys": 8, "value_b": 160},
  "run": {"warmup_us": 0, "measure_us": 150, "seed": 1}
})";

struct Variant {
  std::string name;
  Overrides overrides;
};

std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (const std::string protocol : {"ramp-fast", "ramp-small", "ramp-hybrid"}) {
    for (const std::string transport : {"send_recv", "rdma_write"}) {
      for (const std::string get : {"rpc", "get_plus", "get_star"}) {
        for (const std::string put : {"rpc", "put_plus"}) {
          if (get == "get_star" && protocol != "ramp-fast") continue;
          all.push_back({protocol + " " + transport + " " + get + " " + put,
                         {"protocol.name=" + protocol, "protocol.transport=" + transport,
                          "protocol.get=" + get, "protocol.put=" + put}});
        }
      }
    }
  }
  for (const std::string transport : {"send_recv", "rdma_write"}) {
    for (const std::string deadlock : {"no_wait", "wait_die"}) {
      all.push_back(
          {"s2pl " + transport + " " + deadlock,
           {"protocol.name=s2pl", "protocol.transport=" + transport, "protocol.deadlock=" + deadlock}});
    }
  }
  return all;
}

void add(Overrides& to, const Overrides& more) {
  to.insert(to.end(), more.begin(), more.end());
}

void expect_read_atomic(const json& result, std::uint64_t committed_min) {
  if (result.is_null()) return;
  EXPECT_EQ(violations(result), 0U) << findings(result);
  ASSERT_FALSE(result.at("checks").empty());
  EXPECT_EQ(result.at("checks")[0].at("name"), "read-atomic");
  EXPECT_GE(result.at("checks")[0].at("transactions").get<std::uint64_t>(), committed_min);
  EXPECT_EQ(result.at("datagrams_dropped"), 0);
  EXPECT_EQ(result.at("aborts").at("verb_failed"), 0);
}

/// Far more transactions want the hot keys than can have them, over a transport whose round trip is long:
/// they get through only if who was refused stays away for as long as others need.
TEST(Ramp, LockingWithoutWaitingGetsThroughOverTcp) {
  const json result = run(R"({
    "cluster": {"nodes": 6, "threads": 7, "coroutines": 8, "nics_per_node": 1,
                "roles": {"servers": 2, "clients": 4}, "nic": "connectx-2", "host": "ramp-qdr-host"},
    "protocol": {"name": "s2pl", "transport": "ipoib_tcp", "deadlock": "no_wait"},
    "workload": {"name": "ycsb-groups", "mix": "A"},
    "run": {"warmup_us": 500, "measure_us": 2000, "check": "read-atomic", "seed": 1}
  })");
  expect_read_atomic(result, 224);
}

/// A worker on every core, one of which serves a server's interrupts.
TEST(Ramp, WorkersOnTheInterruptsCoreAreNotStarved) {
  const json result = run(R"({
    "cluster": {"nodes": 12, "threads": 8, "coroutines": 1, "nics_per_node": 1,
                "roles": {"servers": 4, "clients": 8}, "nic": "connectx-2", "host": "ramp-qdr-host"},
    "protocol": {"name": "s2pl", "transport": "ipoib_tcp", "deadlock": "wait_die"},
    "workload": {"name": "ycsb-groups", "mix": "B"},
    "run": {"warmup_us": 10000, "measure_us": 10000, "check": "read-atomic", "seed": 1}
  })");
  expect_read_atomic(result, 64);
  EXPECT_GT(result.at("committed"), 64) << "each client's, of a transaction in 0.3 ms";
}

TEST(Ramp, EveryVariantIsReadAtomicUnderContentionAndDelay) {
  for (const Variant& variant : variants()) {
    for (int seed = 1; seed <= 20; ++seed) {
      SCOPED_TRACE(variant.name + " seed " + std::to_string(seed));
      Overrides overrides = variant.overrides;
      overrides.push_back("run.seed=" + std::to_string(seed));
      // Slow links now and then: messages of one transaction are far apart.
      if (seed % 2 == 0) overrides.push_back("cluster.network.switch_ns=3000");
      if (seed % 3 == 0) add(overrides, {"cluster.roles.servers=4", "cluster.roles.clients=1"});
      expect_read_atomic(try_run(kContended, overrides), 5);
    }
  }
}

TEST(Ramp, NodesThatAreBothServeThemselves) {
  constexpr const char* kSymmetric = R"({
    "cluster": {"nodes": 3, "threads": 2, "coroutines": 4, "nics_per_node": 1, "tear_ns": 300},
    "protocol": {"name": "ramp-fast"},
    "workload": {"name": "read-write-mix", "operations": 4, "read_ratio": 0.5, "keys": 12},
    "run": {"warmup_us": 0, "measure_us": 300, "seed": 1}
  })";
  for (const Variant& variant : variants()) {
    SCOPED_TRACE(variant.name);
    expect_read_atomic(try_run(kSymmetric, variant.overrides), 50);
  }
  expect_read_atomic(try_run(kSymmetric, {"cluster.nodes=1"}), 100);
}

TEST(Ramp, VersionsThatGoAtOnceAreReadAgainNeverReturned) {
  for (const Variant& variant : variants()) {
    if (variant.name.starts_with("s2pl")) continue;  // keeps none anyway
    SCOPED_TRACE(variant.name);
    Overrides overrides = variant.overrides;
    overrides.push_back("protocol.collect_after_ms=0");
    const json result = try_run(kContended, overrides);
    expect_read_atomic(result, 100);
    if (variant.name.starts_with("ramp-small")) {
      EXPECT_GT(result.at("aborts").at("version_collected"), 0);
    }
  }
}

TEST(Ramp, RunsAreRepeatable) {
  const Overrides star = {"protocol.get=get_star", "protocol.put=put_plus"};
  EXPECT_EQ(without_simulator(run(kContended, star)), without_simulator(run(kContended, star)));
  EXPECT_NE(run(kContended, star).at("committed"),
            run(kContended, {"protocol.get=get_plus", "protocol.put=put_plus"}).at("committed"));
}

// Rounds ---------------------------------------------------------------------------------------------------

std::uint64_t rounds(const json& result, const char* count) {
  return result.at("read_rounds").at(count);
}
std::uint64_t verbs(const json& result, const char* verb) {
  return result.at("verbs").at(verb).at("count");
}

TEST(Ramp, ReadsTakeOneRoundWithoutARaceAndNeverMoreThanTwo) {
  const Overrides calm = {"workload.read_ratio=1"};
  const json calm_fast = run(kContended, calm);
  EXPECT_GT(rounds(calm_fast, "one"), 100U);
  EXPECT_EQ(rounds(calm_fast, "two"), 0U);
  const json fast = run(kContended);
  EXPECT_GT(rounds(fast, "one"), 0U);
  EXPECT_GT(rounds(fast, "two"), 0U);
  EXPECT_EQ(rounds(fast, "three"), 0U);
  const json small = run(kContended, {"protocol.name=ramp-small", "workload.read_ratio=1"});
  EXPECT_EQ(rounds(small, "one"), 0U);
  EXPECT_GT(rounds(small, "two"), 100U);
  const json calm_hybrid = run(kContended, {"protocol.name=ramp-hybrid", "workload.read_ratio=1"});
  EXPECT_EQ(rounds(calm_hybrid, "two"), 0U);
  const json hybrid = run(kContended, {"protocol.name=ramp-hybrid"});
  EXPECT_GT(rounds(hybrid, "one"), 0U);
  EXPECT_GT(rounds(hybrid, "two"), 0U);
  // A filter that holds everything sends each read of versions of different times round again.
  const json vague =
      run(kContended, {"protocol.name=ramp-hybrid", "protocol.bloom_bits=8", "protocol.bloom_hashes=1"});
  EXPECT_GT(rounds(vague, "two"), rounds(hybrid, "two"));
}

// One client with one transaction at a time, so that counts are exact.
constexpr const char* kAlone = R"({
  "cluster": {"nodes": 3, "threads": 1, "coroutines": 1, "nics_per_node": 1, "roles": {"servers": 2, "clients": 1}},
  "protocol": {"name": "ramp-fast", "get": "get_plus", "put": "put_plus"},
  "workload": {"name": "read-write-mix", "operations": 4, "read_ratio": 0, "keys": 4},
  "run": {"warmup_us": 0, "measure_us": 500, "seed": 1}
})";

TEST(Ramp, WritesTakeTwoRounds) {
  const json result = run(kAlone);
  const std::uint64_t committed = result.at("committed");
  ASSERT_GT(committed, 20U);
  // 4 PREPAREs, a COMMIT for each of 2 servers, as many answers; one transaction may be under way.
  EXPECT_NEAR(static_cast<double>(verbs(result, "write")), static_cast<double>(12 * committed), 12);
  const double prepare_us = result.at("phases").at("prepare").at("p50_us");
  const double latency_us = result.at("latency_us").at("p50");
  EXPECT_GT(latency_us, 1.5 * prepare_us);
  EXPECT_LT(latency_us, 2.5 * prepare_us);
}

TEST(Ramp, InPlaceReadsPostOneReadPerKeyAndLeaveTheServersAlone) {
  const json result = run(kAlone, {"protocol.get=get_star", "workload.read_ratio=1"});
  const std::uint64_t committed = result.at("committed");
  ASSERT_GT(committed, 20U);
  EXPECT_NEAR(static_cast<double>(verbs(result, "read")), static_cast<double>(4 * committed), 4);
  for (const char* verb : {"write", "send", "recv", "compare_swap", "fetch_add"})
    EXPECT_EQ(verbs(result, verb), 0U);
  EXPECT_EQ(rounds(result, "two") + rounds(result, "three"), 0U);
  EXPECT_EQ(result.at("in_place_reads").at("accepted"), result.at("in_place_reads").at("count"));
  // The busiest core is the client's; all cores together do not do more than it.
  for (const json& resource : result.at("resources")) {
    if (resource.at("name") != "core") continue;
    EXPECT_NEAR(resource.at("utilization_mean").get<double>() * 3,
                resource.at("utilization_max").get<double>(), 1e-9);
  }
}

TEST(Ramp, AnAddressIsLearntOnce) {
  const json cold =
      run(kAlone, {"protocol.get=get_star", "workload.read_ratio=1", "protocol.address_cache=cold"});
  EXPECT_GT(verbs(cold, "write"), 0U);
  EXPECT_LE(verbs(cold, "write"), 8U);  // 4 keys asked for, 4 answers
  EXPECT_GT(cold.at("in_place_reads").at("count"), 50);
}

// Faults ---------------------------------------------------------------------------------------------------

using Sabotage = protocols::RampOptions::Sabotage;

std::uint64_t violations_with(const std::function<void(Sabotage&)>& sabotage,
                              const Overrides& overrides = {}) {
  RunControl control;
  sabotage(control.ramp_sabotage);
  Overrides all = {"run.measure_us=600"};
  add(all, overrides);
  const json result = run(kContended, all, control);
  return violations(result);
}

TEST(RampFaults, ASecondRoundLeftOutIsCaught) {
  for (const char* protocol : {"ramp-fast", "ramp-hybrid", "ramp-small"}) {
    const auto skip = [](Sabotage& s) { s.skip_second_round = true; };
    EXPECT_GT(violations_with(skip, {std::string("protocol.name=") + protocol}), 0U) << protocol;
  }
}

TEST(RampFaults, CommitBeforePrepareIsCaught) {
  for (const char* get : {"rpc", "get_plus", "get_star"}) {
    const auto early = [](Sabotage& s) { s.commit_before_prepare = true; };
    EXPECT_GT(violations_with(early, {std::string("protocol.get=") + get}), 0U) << get;
  }
}

TEST(RampFaults, AnInvalidBitIgnoredIsCaught) {
  const auto ignore = [](Sabotage& s) { s.ignore_invalid_bit = true; };
  EXPECT_GT(violations_with(ignore, {"protocol.get=get_star", "protocol.put=put_plus"}), 0U);
}

TEST(RampFaults, ADroppedSiblingListIsCaught) {
  for (const char* protocol : {"ramp-fast", "ramp-hybrid"}) {
    const auto drop = [](Sabotage& s) { s.drop_siblings = true; };
    EXPECT_GT(violations_with(drop, {std::string("protocol.name=") + protocol}), 0U) << protocol;
  }
}

TEST(RampFaults, ATornVersionAcceptedIsCaught) {
  const auto accept = [](Sabotage& s) { s.accept_torn = true; };
  EXPECT_GT(violations_with(accept, {"protocol.get=get_star", "protocol.put=put_plus",
                                     "workload.value_b=1000", "protocol.collect_after_ms=0"}),
            0U);
}

// Bad input ------------------------------------------------------------------------------------------------

std::string refusal(const Overrides& overrides) {
  try {
    run(kContended, overrides);
  } catch (const UserError& error) {
    return error.pointer() + error.what();
  }
  return "nothing was refused";
}

TEST(RampInput, WhatDoesNotFitIsRefusedWithTheReason) {
  const std::vector<std::pair<Overrides, const char*>> cases = {
      {{"workload={\"name\": \"smallbank\"}"},
       "\"smallbank\" does not fit: \"ramp-fast\" reads and writes groups"},
      {{"protocol={\"name\": \"drtmh\"}"}, "allowed with \"read-write-mix\": ramp-fast, ramp-hybrid"},
      {{"protocol={\"name\": \"drtmh\"}", "workload={\"name\": \"smallbank\"}"},
       "allowed here: no \"roles\""},
      {{"cluster.roles.servers=3"},
       "3 servers and 3 clients are not all of the machines; allowed: together 5"},
      {{"cluster.roles.servers=0"}, "out of range: 0; allowed: integer, 1 to 4095"},
      {{"cluster.replicas=3"}, "keep one copy of each key; allowed here: 1"},
      {{"cluster.emulate_nodes=10"}, "are not emulated; allowed here: 0"},
      {{"run.check=serializable"}, "allowed: read-atomic, none"},
      {{"protocol.name=ramp-small", "protocol.get=get_star"}, "only those of \"ramp-fast\""},
      {{"protocol.name=ramp-hybrid", "protocol.get=get_star"}, "allowed here: \"rpc\", \"get_plus\""},
      {{"protocol.get=get_sta"}, "did you mean \"get_star\"?"},
      {{"protocol.put=get_plus"}, "allowed: rpc, put_plus"},
      {{"protocol.transport=tcp"}, "ethernet_tcp"},
      {{"protocol.bloom_bits=128"}, "bloom_bits"},
      {{"protocol.name=ramp-hybrid", "protocol.bloom_bits=4"},
       "out of range: 4; allowed: integer, 8 to 8192"},
      {{"protocol.name=ramp-hybrid", "protocol.bloom_hashes=0"},
       "out of range: 0; allowed: integer, 1 to 16"},
      {{"protocol.deadlock=no_wait"}, "deadlock"},
      {{"protocol.name=s2pl", "protocol.deadlock=wait"}, "allowed: no_wait, wait_die"},
      {{"protocol.collect_after_ms=-1"}, "out of range: -1"},
      {{"protocol.address_cache=hot"}, "allowed: warm, cold"},
      {{"workload.value_b=3000", "workload.keys=100", "workload.operations=64", "protocol.name=ramp-hybrid",
        "protocol.bloom_bits=8192"},
       "do not fit a datagram"},
  };
  for (const auto& [overrides, what] : cases) {
    const std::string text = refusal(overrides);
    EXPECT_THAT(text, HasSubstr(what));
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace verbtwin::tools
