// Transactions whose records are all on their own machine wait for nobody, and still take time: threads of
// one machine that want the same records at the same time meet.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "tools/tests/runs_for_test.hpp"

namespace verbtwin::tools {
namespace {

constexpr const char* kOneMachine = R"({
  "cluster": {"nodes": 1, "threads": 4, "coroutines": 1, "replicas": 1, "nics_per_node": 1},
  "protocol": {"name": "fasst-occ"},
  "workload": {"name": "object_store", "reads": 4, "updates": 2, "objects_per_thread": 1},
  "run": {"warmup_us": 50, "measure_us": 500}
})";

class LocalContention : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Of, LocalContention,
                         testing::Values("farm", "drtmr", "fasst", "fasst-hybrid", "fasst-occ", "drtmh"));

/// Any two transactions want the same four objects: one commits at a time.
TEST_P(LocalContention, WhatConflictsIsDoneOneByOne) {
  const std::string protocol = fmt::format("protocol.name={}", GetParam());
  const json one = run(kOneMachine, {protocol, "cluster.threads=1", "workload.objects_per_thread=4"});
  const json four = run(kOneMachine, {protocol});
  EXPECT_EQ(one.at("abort_ratio"), 0);
  EXPECT_GT(four.at("abort_ratio"), 0.01);
  const json& aborts = four.at("aborts");
  EXPECT_GT(aborts.at("record_locked").get<int>() + aborts.at("lock_failed").get<int>(), 0)
      << "its locks are held for a while";
  EXPECT_LT(four.at("committed_per_s").get<double>(), 1.5 * one.at("committed_per_s").get<double>());
}

/// Others commit while a transaction executes: Validation has something to find.
TEST_P(LocalContention, ValidationFindsWhatHasChanged) {
  const json result = run(kOneMachine, {fmt::format("protocol.name={}", GetParam()),
                                        "workload.objects_per_thread=20", "run.measure_us=2000"});
  const json& aborts = result.at("aborts");
  EXPECT_GT(aborts.at("read_set_changed").get<int>() + aborts.at("write_set_changed").get<int>(), 0);
}

}  // namespace
}  // namespace verbtwin::tools
