// A run's result: shares of use, hits, warnings, latencies, and how a run ends.
#include "tools/run/result.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <sstream>
#include <string>

#include "tools/console/stop_signals.hpp"
#include "tools/run/limits_for_test.hpp"

namespace verbtwin::tools {
namespace {

TEST(HitRatio, IsNoneWhereNothingWasLookedUp) {
  const auto ratio = [](const char* protocol) {
    return run(kSmallBank, {std::string("protocol.name=") + protocol}).at("location_cache").at("hit_ratio");
  };
  EXPECT_TRUE(ratio("fasst").is_null());
  EXPECT_GT(ratio("drtmh"), 0);
}

/// A cold cache fills: what a window sees is not what the warm-up saw.
TEST(HitRatio, IsOfTheWindow) {
  const auto ratio = [](const char* warmup_us, const char* measure_us) {
    return run(kSmallBank,
               {"protocol.location_cache.start=cold", "workload.accounts_per_thread=1000",
                std::string("run.warmup_us=") + warmup_us, std::string("run.measure_us=") + measure_us})
        .at("location_cache")
        .at("hit_ratio")
        .get<double>();
  };
  EXPECT_GT(ratio("1000", "100"), ratio("0", "1100") + 0.02);
}

/// Nine clients have few queue pairs; their server has more than its NIC holds.
TEST(HitRatio, OfTheNicThatMissesMost) {
  const json result = run(R"({
    "cluster": {"nodes": 10, "threads": 20, "nics_per_node": 1, "nic": "connectx-3"},
    "workload": {"name": "primitive", "verb": "read", "pattern": "many_to_one", "outstanding": 1},
    "run": {"measure_us": 100}
  })",
                          {});
  for (const json& resource : result.at("resources")) {
    if (resource.at("name") != "qp_cache") continue;
    EXPECT_LT(resource.at("hit_ratio_min"), 0.6) << "78 of 180 contexts are held";
    EXPECT_GT(resource.at("hit_ratio"), resource.at("hit_ratio_min").get<double>() + 0.2);
    return;
  }
  FAIL() << "no qp_cache";
}

constexpr const char* kAllOfOneRecord =
    R"(workload={"name":"object_store","reads":64,"updates":64,"objects_per_thread":1})";

/// Attempts that meet each other's locks for as long as they all try at once.
TEST(Drain, BackoffEndsTheHottestRun) {
  const json result = run(kSmallBank, {kAllOfOneRecord, "cluster.threads=24", "protocol.log.ring_kib=64",
                                       "run.warmup_us=10", "run.measure_us=50"});
  EXPECT_EQ(violations(result), 0U) << findings(result);
}

TEST(Drain, TransactionsThatAreTriedAgainForEverEndTheRun) {
  RunControl control;
  control.sabotage.keep_locks = true;
  const json checks =
      run(kSmallBank, {"cluster.host=ideal-host", "cluster.threads=24"}, control).at("checks");
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_EQ(checks[0].at("name"), "finished");
  EXPECT_THAT(checks[0].at("examples").at(0).get<std::string>(),
              testing::ContainsRegex("still being tried again.*; node 0: thread 0 coroutine 0: "));
}

TEST(SetUp, EndsWhereTheRunIsToldToStop) {
  const std::atomic<bool> stop{true};
  RunControl control;
  control.stop = &stop;
  EXPECT_THROW(run(kSmallBank, {}, control), Interrupted);
  EXPECT_NO_THROW(run(kSmallBank)) << "nothing is left behind";
}

/// What is measured stays, unchecked.
TEST(Drain, EndsSoonWhereTheRunIsToldToStop) {
  std::atomic<bool> stop{false};
  RunControl control;
  control.sabotage.keep_locks = true;
  control.stop = &stop;
  control.progress = [&](double, double, std::uint64_t) { stop = true; };
  const json result = run(kSmallBank, {"cluster.host=ideal-host", "cluster.threads=24"}, control);
  EXPECT_EQ(result.at("partial"), true);
  EXPECT_EQ(result.at("checks"), json::array());
  EXPECT_THAT(result.at("warning").dump(), testing::HasSubstr("nothing is checked"));
}

TEST(ResultPage, HasEveryKey) {
  std::ostringstream page;
  page << std::ifstream(VERBTWIN_SOURCE_DIR "/tools/RESULT.md").rdbuf();
  const json operations = run(R"({"cluster": {"nodes": 2, "threads": 2}, "workload": {"name": "primitive"},
                                  "run": {"warmup_us": 10, "measure_us": 20}})");
  for (const json& result : {run(kSmallBank), operations}) {
    for (const auto& [key, value] : result.items())
      EXPECT_THAT(page.str(), testing::HasSubstr("`" + key + "`"));
  }
}

TEST(Warning, TransactionsLongerThanTheWindowAreMissing) {
  // Where two meet at a hot record, some wait for longer than this window.
  const json skewed = run(kSmallBank, {R"(workload={"name": "ycsb", "mix": "A"})", "cluster.coroutines=4"});
  EXPECT_THAT(skewed.at("warning").get<std::vector<std::string>>(),
              testing::Contains(
                  testing::HasSubstr("longer than the window are missing from the latencies; lengthen")));
}

TEST(Warning, IsNoneWhereLatenciesAddUp) {
  const Overrides calm{"workload.accounts_per_thread=10000", "run.warmup_us=100", "run.measure_us=200"};
  EXPECT_FALSE(run(kSmallBank, calm).contains("warning"));
  // Many user aborts, which end sooner than a commit.
  EXPECT_FALSE(run(kSmallBank, {R"(workload={"name": "tatp", "subscribers_per_node": 10000})",
                                "run.warmup_us=100", "run.measure_us=200"})
                   .contains("warning"));
}

/// What a micro-benchmark's result is made of: nothing was in use, and each of its workers counted the same.
struct Operations {
  explicit Operations(const json& workload, std::size_t workers = 1) : scenario(load(kSmallBank, {})) {
    scenario.workload = workload;
    input.scenario = &scenario;
    input.window_ps = 1;
    input.before = &before;
    input.after = &after;
    input.workers.assign(workers, &worker);
  }
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;

  json warnings() const { return make_result(input).value("warning", json::array()); }

  scenarios::Scenario scenario;
  sim::Usage before, after;
  protocols::OperationStatistics worker;
  OperationsInput input;
};

TEST(Warning, ARateThatFallsWithinTheWindowIsNone) {
  Operations run(json{{"name", "primitive"}});
  run.worker.operations = 1;
  const auto warnings = [&](std::uint64_t early, std::uint64_t late) {
    run.input.finished_early = early;
    run.input.finished_late = late;
    return run.warnings().size();
  };
  EXPECT_EQ(warnings(10'000, 9'600), 0U) << "4 %";
  EXPECT_EQ(warnings(10'000, 9'400), 1U);
  EXPECT_EQ(warnings(9'400, 10'000), 1U);
  EXPECT_EQ(warnings(100, 80), 0U) << "chance";
  EXPECT_EQ(warnings(0, 0), 0U) << "nobody looked";
  run.scenario.run.warmup_us = 0;
  EXPECT_EQ(warnings(10'000, 9'400), 0U) << "the start was asked for";
}

TEST(Warning, ACacheThatStillFillsIsNotWhatItWillBe) {
  Operations run(json{{"name", "primitive"}});
  run.worker.operations = 1;
  sim::Usage middle;
  run.input.middle = &middle;
  const auto warnings = [&](sim::Usage::LookUps early, sim::Usage::LookUps late) {
    run.before.qp_cache = {{500, 500}};
    middle.qp_cache = {{500 + early.hits, 500 + early.misses}};
    run.after.qp_cache = {{500 + early.hits + late.hits, 500 + early.misses + late.misses}};
    return run.warnings().dump();
  };
  EXPECT_EQ(warnings({9'900, 1'000}, {9'800, 1'100}), "[]");
  EXPECT_THAT(
      warnings({9'900, 1'000}, {9'000, 1'900}),
      testing::HasSubstr("91 % of uses find theirs in the first half of the window, 83 % in the second"));
  EXPECT_THAT(warnings({9'000, 1'900}, {9'900, 1'000}), testing::HasSubstr("run.warmup_us"));
  EXPECT_EQ(warnings({99, 10}, {90, 19}), "[]") << "chance";
  run.scenario.run.warmup_us = 0;
  EXPECT_EQ(warnings({9'900, 1'000}, {9'000, 1'900}), "[]") << "the start was asked for";
  run.scenario.run.warmup_us = 1;
  run.input.middle = nullptr;
  EXPECT_EQ(warnings({9'900, 1'000}, {9'000, 1'900}), "[]") << "nobody looked";
}

TEST(Warning, AWindowThatIsShortBesideWhatIsUnderWaySaysSo) {
  Operations run(json{{"name", "primitive"}}, 2);
  const auto warning = [&](std::uint64_t begun, std::uint64_t ended) {
    run.worker.begun = begun;
    run.worker.operations = ended;
    return run.warnings().dump();
  };
  EXPECT_THAT(warning(100, 80), testing::HasSubstr("200 operations began in the window and 160 ended"));
  EXPECT_THAT(warning(80, 100), testing::HasSubstr("160 operations began in the window and 200 ended"));
  EXPECT_EQ(warning(100, 91), "[]");
  EXPECT_EQ(warning(0, 100), "[]") << "others began them";
  run.worker.failed = 1;
  EXPECT_EQ(warning(100, 80), "[]");
  run.worker.failed = 0;
  run.input.partial = true;
  EXPECT_EQ(warning(100, 80), "[]");
  run.input.partial = false;
  run.scenario.run.warmup_us = 0;
  EXPECT_EQ(warning(100, 80), "[]") << "the start was asked for";
}

TEST(Warning, LatenciesOfCallsAddUpToTheCoroutinesTime) {
  Operations run(json{{"name", "echo"}, {"issuing_threads", 1}});
  run.scenario.cluster.nodes = 2;
  run.scenario.cluster.coroutines = 100;
  run.worker.latency_ps = {1};
  const auto warning = [&](std::uint64_t ended) {
    run.worker.operations = ended;
    return run.warnings().dump();
  };
  EXPECT_EQ(warning(200), "[]") << "200 calls of 1 ps, and as many coroutines for 1 ps";
  EXPECT_EQ(warning(182), "[]");
  EXPECT_THAT(warning(240), testing::HasSubstr("latencies add up to 120 % of the coroutines' time"));
  EXPECT_THAT(warning(160), testing::HasSubstr("latencies add up to 80 %"));
  run.scenario.run.offered_per_s = 1e12;
  EXPECT_THAT(warning(160), testing::Not(testing::HasSubstr("add up"))) << "coroutines wait for calls";
}

/// Cores that work and wait for a lock for all of their time hold back an engine that is 87 % full.
TEST(Bottleneck, ALockThatCoresWaitForIsTheLimitBesideAnEngineThatIsNotQuiteFull) {
  Operations run(json{{"name", "primitive"}});
  run.scenario.cluster.threads_per_queue_pair = 4;
  run.worker.operations = 1;
  run.input.window_ps = 1000;
  const auto limit_of = [&](std::vector<std::int64_t> cores_ps, std::vector<std::int64_t> engines_ps,
                            std::vector<std::int64_t> waited_ps) {
    const std::vector<std::int64_t> nothing(cores_ps.size());
    run.before.resources = {{"core", nothing}, {"nic_recv", nothing}};
    run.before.lock_wait_ps = nothing;
    run.after.resources = {{"core", cores_ps}, {"nic_recv", engines_ps}};
    run.after.lock_wait_ps = waited_ps;
    return make_result(run.input).at("bottleneck").at("resource").get<std::string>();
  };
  const auto limit = [&](std::int64_t core_ps, std::int64_t engine_ps, std::int64_t waited_ps) {
    return limit_of({core_ps}, {engine_ps}, {waited_ps});
  };
  EXPECT_EQ(limit(580, 870, 410), "queue_pair_lock");
  EXPECT_EQ(limit(580, 870, 200), "nic_recv") << "cores have time left";
  EXPECT_EQ(limit(580, 990, 415), "nic_recv") << "it is full";
  EXPECT_EQ(limit(900, 870, 90), "core") << "they hardly wait";
  EXPECT_EQ(limit_of({700, 10}, {900, 880}, {0, 300}), "nic_recv") << "no core is taken for long";
}

/// Which of two full parts holds up the other, no share of use tells.
TEST(Bottleneck, WhatIsAboutAsFullIsThereToo) {
  Operations run(json{{"name", "primitive"}});
  run.worker.operations = 1;
  run.input.window_ps = 1000;
  const auto bottleneck = [&](std::int64_t core_ps, std::int64_t send_ps, std::int64_t recv_ps,
                              std::int64_t link_ps) {
    run.before.resources = {{"core", {0}}, {"nic_recv", {0}}, {"nic_send", {0}}, {"link", {0}}};
    run.after.resources = {
        {"core", {core_ps}}, {"nic_recv", {recv_ps}}, {"nic_send", {send_ps}}, {"link", {link_ps}}};
    return make_result(run.input).at("bottleneck");
  };
  const json full = bottleneck(1000, 1000, 991, 995);
  EXPECT_EQ(full.at("resource"), "nic_send");
  EXPECT_EQ(full.at("also"), json::parse(R"([{"resource": "link", "utilization": 0.995},
                                             {"resource": "nic_recv", "utilization": 0.991}])"))
      << "cores look in vain";
  EXPECT_FALSE(bottleneck(400, 1000, 970, 300).contains("also"));
  EXPECT_EQ(bottleneck(900, 890, 300, 300).at("also").at(0).at("resource"), "nic_send");
  EXPECT_FALSE(bottleneck(700, 695, 300, 300).contains("also")) << "nothing is full";
}

/// A part is counted when it is announced, and may have more to come than its engine has done.
TEST(Bottleneck, APartTakesNoMoreThanItsWhole) {
  Operations run(json{{"name", "primitive"}});
  run.worker.operations = 1;
  run.input.window_ps = 1000;
  run.before.resources = {{"nic_recv", {0, 0}}};
  run.before.parts = {{"qp_cache", "nic_recv", {0, 0}}};
  run.after.resources = {{"nic_recv", {500, 300}}};
  run.after.parts = {{"qp_cache", "nic_recv", {900, 100}}};
  const json resources = make_result(run.input).at("resources");
  const auto part = std::ranges::find_if(resources, [](const json& r) { return r.at("name") == "qp_cache"; });
  ASSERT_NE(part, resources.end());
  EXPECT_EQ(part->at("utilization_mean"), 0.4);
  EXPECT_EQ(part->at("utilization_max"), 0.5);
}

TEST(Resources, AreInUseForNoLessThanNothingAndNoMoreThanAll) {
  Operations run(json{{"name", "primitive"}});
  run.worker.operations = 1;
  run.input.window_ps = 1000;
  run.before.resources = {{"nic_recv", {700, 0}}};
  run.after.resources = {{"nic_recv", {600, 1200}}};
  const json resources = make_result(run.input).at("resources");
  const auto engine =
      std::ranges::find_if(resources, [](const json& r) { return r.at("name") == "nic_recv"; });
  ASSERT_NE(engine, resources.end());
  EXPECT_EQ(engine->at("utilization_mean"), 0.5);
  EXPECT_EQ(engine->at("utilization_max"), 1);
}

/// All coroutines post at once, and for 100 ns nothing else.
TEST(Resources, OfAWindowThatBeginsWithTheRunCountFromItsFirstInstant) {
  const json result = run(kSmallBank, {"run.warmup_us=0", "run.measure_us=0.1"});
  const json& verbs = result.at("verbs");
  EXPECT_GT(verbs.at("read").at("count").get<int>() + verbs.at("send").at("count").get<int>(), 0);
}

/// Many queue pairs, most of which have their first atomic within the window.
TEST(Resources, QueuePairsThatBeginWithinTheWindowTakeNothingFromIt) {
  constexpr const char* kAtomics = R"({
    "cluster": {"nodes": 4, "threads": 2, "nic": "connectx-4", "host": "xeon-e5-2650v4",
                "qps_per_peer": 32},
    "workload": {"name": "primitive", "verb": "fetch_add", "outstanding": 8},
    "run": {"warmup_us": 20, "measure_us": 20}})";
  const auto qp_atomics = [](const json& result) -> double {
    const json& all = result.at("resources");
    const auto own = std::ranges::find_if(all, [](const json& r) { return r.at("name") == "qp_atomics"; });
    return own == all.end() ? 0 : own->at("utilization_mean").get<double>();
  };
  const double all_had_one = qp_atomics(run(kAtomics, {"run.warmup_us=200"}));
  EXPECT_GT(qp_atomics(run(kAtomics)), 0.95 * all_had_one);
}

TEST(Warning, AWindowInWhichNothingEndsSaysSo) {
  Operations run(json{{"name", "primitive"}});
  EXPECT_THAT(run.warnings().dump(), testing::HasSubstr("nothing came to its end"));
  run.input.partial = true;
  EXPECT_EQ(run.warnings().dump(), "[]") << "it says partial";
}

/// 20,000 waits of 500 s: as a run under too high a load of a thousand seconds has.
TEST(Latency, HasAMeanHoweverMuchAllOfThemAre) {
  Operations run(json{{"name", "primitive"}});
  run.worker.operations = 20'000;
  run.worker.latency_ps.assign(run.worker.operations, 500'000'000'000'000);
  EXPECT_EQ(make_result(run.input).at("latency_us").at("mean"), 500e6);
}

TEST(Warning, UserAbortsTakeUpToACommitOfTheirType) {
  constexpr std::int64_t kUs = 1'000'000;  // ps
  scenarios::Scenario scenario = load(kSmallBank, {});
  scenario.cluster.nodes = scenario.cluster.threads = scenario.cluster.coroutines = 1;
  protocols::WorkerStatistics worker;
  for (int i = 0; i < 20; ++i) worker.committed.push_back({.type = 0, .latency_ps = 2 * kUs});
  for (int i = 0; i < 10; ++i) worker.committed.push_back({.type = 1, .latency_ps = 10 * kUs});
  worker.user_aborts = {0, 8};
  const std::vector<std::string_view> names = {"short", "long"};
  const sim::Usage nothing;
  TransactionsInput input;
  input.scenario = &scenario;
  input.window_ps = 240 * kUs;
  input.before = input.after = &nothing;
  input.transaction_names = names;
  input.workers = {&worker};
  EXPECT_FALSE(make_result(input).contains("warning")) << "140 us of commits, 80 us of user aborts";
  worker.user_aborts = {8, 0};
  EXPECT_TRUE(make_result(input).contains("warning")) << "16 us of user aborts";
}

TEST(Warning, AWarmUpShorterThanALatencyIsTheStart) {
  // Seven machines ask one NIC, whose queue takes long to fill.
  const auto with_warmup = [&](const char* warmup) {
    return run(R"({
      "cluster": {"nodes": 8, "threads": 4, "nics_per_node": 1},
      "workload": {"name": "primitive", "verb": "read", "pattern": "many_to_one", "outstanding": 64},
      "run": {"measure_us": 100}
    })",
               {warmup});
  };
  const json early = with_warmup("run.warmup_us=5");
  ASSERT_GT(early.at("latency_us").at("mean"), 5) << "of no use as a test";
  ASSERT_EQ(early.at("warning").size(), 1U);
  EXPECT_THAT(
      early.at("warning")[0].get<std::string>(),
      testing::HasSubstr("is longer than the warm-up of 5 us: what is measured is the start; lengthen "
                         "run.warmup_us"));
  EXPECT_FALSE(with_warmup("run.warmup_us=200").contains("warning"));
  EXPECT_FALSE(with_warmup("run.warmup_us=0").contains("warning")) << "the start is what was asked for";
}

}  // namespace
}  // namespace verbtwin::tools
