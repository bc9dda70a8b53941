#include "tools/ranks/worker_cpus.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <numeric>
#include <set>
#include <thread>

namespace verbtwin::tools {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::StartsWith;

const std::vector<int> kFour = {0, 1, 2, 3};

std::vector<std::vector<int>> workers(std::size_t count) {
  return std::vector<std::vector<int>>(count);
}

TEST(WorkerCpus, RanksOfOneMachineShareItsCpusOut) {
  const std::vector<RankPlace> ranks = {
      {"a", kFour, workers(1)}, {"b", kFour, workers(3)}, {"a", kFour, workers(2)}};
  EXPECT_THAT(cpus_of_workers(ranks, 0), ElementsAre(3));
  EXPECT_THAT(cpus_of_workers(ranks, 1), ElementsAre(3, 2, 1));
  EXPECT_THAT(cpus_of_workers(ranks, 2), ElementsAre(2, 1));
}

TEST(WorkerCpus, NobodyIsPinnedWhereThereAreMoreWorkersThanCpus) {
  const std::vector<RankPlace> ranks(3, {"a", kFour, workers(2)});
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    EXPECT_THAT(cpus_of_workers(ranks, rank), IsEmpty());
  }
}

TEST(WorkerCpus, RanksThatWereGivenTheirOwnKeepToThem) {
  const std::vector<RankPlace> ranks = {{"a", {0, 1}, workers(2)}, {"a", {2, 3}, workers(1)}};
  EXPECT_THAT(cpus_of_workers(ranks, 0), ElementsAre(1, 0));
  EXPECT_THAT(cpus_of_workers(ranks, 1), ElementsAre(3));
}

TEST(WorkerCpus, NobodyIsPinnedWhereSetsOverlap) {
  const std::vector<RankPlace> ranks = {{"a", {0, 1, 2}, workers(1)}, {"a", {2, 3}, workers(1)}};
  EXPECT_THAT(cpus_of_workers(ranks, 0), IsEmpty());
  EXPECT_THAT(cpus_of_workers(ranks, 1), IsEmpty());
}

TEST(WorkerCpus, TwoWorkersShareACoreOnlyWhereAllAreTaken) {
  const auto neighbours = [](int cpu) { return std::to_string(cpu / 2); };  // 0 and 1 are one core
  EXPECT_THAT(place_of(kFour, neighbours).cpus, ElementsAre(0, 2, 1, 3));
  const auto halves = [](int cpu) { return std::to_string(cpu % 2); };
  EXPECT_THAT(place_of(kFour, halves).cpus, ElementsAre(0, 1, 2, 3));
  const auto unknown = [](int) { return std::string(); };
  EXPECT_THAT(place_of(kFour, unknown).cpus, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(place_of(kFour, unknown).siblings, 0U);
  RankPlace place = place_of(kFour, neighbours);
  place.near = workers(3);
  EXPECT_THAT(cpus_of_workers(std::vector{place}, 0), ElementsAre(3, 1, 2));
}

/// Two sockets of 12 cores with two threads each, as Linux numbers them, and a NIC beside the first.
TEST(WorkerCpus, NoTwoShareACoreWhileTheOtherSocketHasIdleOnes) {
  std::vector<int> all(48);
  std::iota(all.begin(), all.end(), 0);
  const auto core_of = [](int cpu) { return cpu % 24; };
  RankPlace place = place_of(all, [&](int cpu) { return std::to_string(core_of(cpu)); });
  EXPECT_EQ(place.siblings, 24U);
  std::vector<int> beside_nic;
  for (const int cpu : all) {
    if (core_of(cpu) < 12) beside_nic.push_back(cpu);
  }
  place.near.assign(48, beside_nic);
  const std::vector<int> cpus = cpus_of_workers(std::vector{place}, 0);
  ASSERT_EQ(cpus.size(), 48U);
  std::set<int> cores;
  for (int worker = 0; worker < 48; ++worker) {
    const int core = core_of(cpus[static_cast<std::size_t>(worker)]);
    EXPECT_EQ(cores.insert(core).second, worker < 24) << "worker " << worker;
    EXPECT_EQ(core < 12, worker % 24 < 12) << "worker " << worker;
  }
}

TEST(WorkerCpus, WorkersThatShareCpusAreSpokenOf) {
  const std::vector<RankPlace> ranks = {
      {"a", kFour, workers(3)}, {"b", kFour, workers(3)}, {"a", kFour, workers(2)}, {"c", {1}, workers(1)}};
  EXPECT_THAT(lack_of_cpus(ranks, 0), StartsWith("5 workers share 4 CPUs"));
  EXPECT_EQ(lack_of_cpus(ranks, 1), "");
  EXPECT_EQ(lack_of_cpus(ranks, 3), "");
  const std::vector<RankPlace> one = {{"a", {0}, workers(2)}};
  EXPECT_THAT(lack_of_cpus(one, 0), StartsWith("2 workers share 1 CPU,"));
}

TEST(WorkerCpus, AWorkerIsBesideItsNicWhileThereIsRoom) {
  const std::vector<RankPlace> ranks = {{"a", kFour, {{0, 1}}}, {"a", kFour, {{0, 1}, {0, 1}, {2, 3}}}};
  EXPECT_THAT(cpus_of_workers(ranks, 0), ElementsAre(1));
  EXPECT_THAT(cpus_of_workers(ranks, 1), ElementsAre(0, 3, 2));
}

TEST(WorkerCpus, UnknownCpusPinNobody) {
  const std::vector<RankPlace> ranks = {{"a", {}, workers(1)}};
  EXPECT_THAT(cpus_of_workers(ranks, 0), IsEmpty());
}

TEST(WorkerCpus, APlaceTravels) {
  const RankPlace back = RankPlace::unpack(RankPlace{"boot", kFour, {{1}, {}}, 2}.pack());
  EXPECT_EQ(back.machine, "boot");
  EXPECT_EQ(back.cpus, kFour);
  EXPECT_THAT(back.near, ElementsAre(ElementsAre(1), IsEmpty()));
  EXPECT_EQ(back.siblings, 2U);
  EXPECT_THROW(RankPlace::unpack("short"), std::runtime_error);
}

TEST(WorkerCpus, ListsAsTheKernelWritesThem) {
  EXPECT_THAT(parse_cpu_list("0-2,5,8-9\n"), ElementsAre(0, 1, 2, 5, 8, 9));
  EXPECT_THAT(parse_cpu_list(""), IsEmpty());
  EXPECT_THAT(parse_cpu_list("3-"), IsEmpty());
  EXPECT_THAT(parse_cpu_list("1,x"), ElementsAre(1));
}

TEST(WorkerCpus, WhatIsMadeBesideADeviceIsMadeOnItsCpus) {
  const std::vector<int> all = place_here({}).cpus;
  ASSERT_FALSE(all.empty());
  {
    const Beside one({all.back(), CPU_SETSIZE - 1});
    EXPECT_THAT(place_here({}).cpus, ElementsAre(all.back()));
    const Beside none({});
    EXPECT_THAT(place_here({}).cpus, ElementsAre(all.back()));
  }
  EXPECT_EQ(place_here({}).cpus, all);
}

TEST(WorkerCpus, APinnedThreadRunsThere) {
  const RankPlace here = place_here({});
  ASSERT_FALSE(here.cpus.empty());
  EXPECT_FALSE(here.machine.empty());
  int ran_on = -1;
  std::thread([&] {
    pin_this_thread(here.cpus.back());
    ran_on = sched_getcpu();
  }).join();
  EXPECT_EQ(ran_on, here.cpus.back());
}

}  // namespace
}  // namespace verbtwin::tools
