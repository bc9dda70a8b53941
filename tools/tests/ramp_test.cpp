// Whole simulated runs of the RAMP family: what rounds and verbs they take, and faults that the check must
// find. Every protocol, access method and transport under contention: ramp_contention_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "backend/user_error.hpp"
#include "tools/tests/ramp_runs_for_test.hpp"

namespace verbtwin::tools {
namespace {

using testing::HasSubstr;

TEST(Ramp, RunsAreRepeatable) {
  const Overrides star = {"protocol.get=get_star", "protocol.put=put_plus"};
  EXPECT_EQ(without_simulator(run(kContended, star)), without_simulator(run(kContended, star)));
  EXPECT_NE(run(kContended, star).at("latency_us"),
            run(kContended, {"protocol.get=get_plus", "protocol.put=put_plus"}).at("latency_us"));
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

TEST(Ramp, RoundsAreThoseOfTheReadsInTheWindow) {
  for (const std::string& protocol : ramp_protocols()) {
    const json result = run(kContended, {"protocol.name=" + protocol, "run.warmup_us=100"});
    EXPECT_EQ(rounds(result, "one") + rounds(result, "two") + rounds(result, "three"),
              result.at("transactions").at("read").at("committed").get<std::uint64_t>())
        << protocol;
  }
  const json star = run(kContended, {"protocol.get=get_star", "workload.read_ratio=1", "run.warmup_us=100"});
  const std::uint64_t keys_read = 4 * star.at("committed").get<std::uint64_t>();
  EXPECT_LE(star.at("in_place_reads").at("count").get<std::uint64_t>(), keys_read);
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
  // The busiest core is the client's; the others look once, when the run begins, and then sleep.
  for (const json& resource : result.at("resources")) {
    if (resource.at("name") != "core") continue;
    EXPECT_NEAR(resource.at("utilization_mean").get<double>() * 3,
                resource.at("utilization_max").get<double>(), 1e-3);
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
  return violations(run(kContended, joined({"run.measure_us=600"}, overrides), control));
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

/// Readers who come by make it good; of many keys nobody comes by all.
TEST(RampFaults, ALostCommitIsCaught) {
  RunControl control;
  control.ramp_sabotage.lose_commit = true;
  for (const char* protocol : {"ramp-fast", "ramp-hybrid", "ramp-small"}) {
    const json result =
        run(kContended, {std::string("protocol.name=") + protocol, "workload.keys=64"}, control);
    std::uint64_t found = 0;
    for (const json& check : result.at("checks")) {
      if (check.at("name") == "final_state") found += check.at("violations").get<std::uint64_t>();
    }
    EXPECT_GT(found, 0U) << protocol;
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

TEST(RampFaults, TcpHidesNone) {
  const std::vector<std::function<void(Sabotage&)>> faults = {
      [](Sabotage& s) { s.skip_second_round = true; }, [](Sabotage& s) { s.commit_before_prepare = true; },
      [](Sabotage& s) { s.drop_siblings = true; }};
  for (const char* transport : {"ipoib_tcp", "ethernet_tcp"}) {
    for (std::size_t i = 0; i < faults.size(); ++i) {
      const Overrides over_tcp = {std::string("protocol.transport=") + transport, "run.measure_us=3000"};
      EXPECT_GT(violations_with(faults[i], over_tcp), 0U) << transport << " " << i;
    }
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
       "3 (servers) and 3 (clients) are not all of the machines; allowed: together 5"},
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
      {{"protocol.versions_mib=1048576", "workload.value_b=8"}, "/protocol/versions_mibroom for"},
      {{"protocol.address_cache=hot"}, "allowed: warm, cold"},
      {{"cluster.nic=connectx-2", "workload.value_b=3000", "workload.keys=100", "workload.operations=64",
        "protocol.name=ramp-hybrid", "protocol.bloom_bits=8192"},
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
