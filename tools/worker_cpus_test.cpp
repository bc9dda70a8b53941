#include "tools/worker_cpus.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace verbtwin::tools {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::vector<int> kFour = {0, 1, 2, 3};

std::vector<int> cpus(const std::vector<RankPlace>& ranks, std::size_t rank,
                      const std::vector<std::vector<int>>& near = {}) {
  return cpus_of_workers(ranks, rank, near);
}

TEST(WorkerCpus, RanksOfOneMachineShareItsCpusOut) {
  const std::vector<RankPlace> ranks = {{"a", kFour, 1}, {"b", kFour, 3}, {"a", kFour, 2}};
  EXPECT_THAT(cpus(ranks, 0), ElementsAre(3));
  EXPECT_THAT(cpus(ranks, 1), ElementsAre(3, 2, 1));
  EXPECT_THAT(cpus(ranks, 2), ElementsAre(2, 1));
}

TEST(WorkerCpus, NobodyIsPinnedWhereThereAreMoreWorkersThanCpus) {
  const std::vector<RankPlace> ranks = {{"a", kFour, 2}, {"a", kFour, 2}, {"a", kFour, 2}};
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) EXPECT_THAT(cpus(ranks, rank), IsEmpty());
}

TEST(WorkerCpus, RanksThatWereGivenTheirOwnKeepToThem) {
  const std::vector<RankPlace> ranks = {{"a", {0, 1}, 2}, {"a", {2, 3}, 1}};
  EXPECT_THAT(cpus(ranks, 0), ElementsAre(1, 0));
  EXPECT_THAT(cpus(ranks, 1), ElementsAre(3));
}

TEST(WorkerCpus, NobodyIsPinnedWhereSetsOverlap) {
  const std::vector<RankPlace> ranks = {{"a", {0, 1, 2}, 1}, {"a", {2, 3}, 1}};
  EXPECT_THAT(cpus(ranks, 0), IsEmpty());
  EXPECT_THAT(cpus(ranks, 1), IsEmpty());
}

TEST(WorkerCpus, AWorkerIsBesideItsNicWhileThereIsRoom) {
  const std::vector<RankPlace> ranks = {{"a", kFour, 4}};
  EXPECT_THAT(cpus(ranks, 0, {{0, 1}, {0, 1}, {0, 1}, {2, 3}}), ElementsAre(1, 0, 3, 2));
}

TEST(WorkerCpus, UnknownCpusPinNobody) {
  EXPECT_THAT(cpus({{"a", {}, 1}}, 0), IsEmpty());
}

TEST(WorkerCpus, APlaceTravels) {
  const RankPlace back = RankPlace::unpack(RankPlace{"boot", kFour, 7}.pack());
  EXPECT_EQ(back.machine, "boot");
  EXPECT_EQ(back.cpus, kFour);
  EXPECT_EQ(back.workers, 7);
  EXPECT_THROW(RankPlace::unpack("short"), std::runtime_error);
}

TEST(WorkerCpus, ListsAsTheKernelWritesThem) {
  EXPECT_THAT(parse_cpu_list("0-2,5,8-9\n"), ElementsAre(0, 1, 2, 5, 8, 9));
  EXPECT_THAT(parse_cpu_list(""), IsEmpty());
  EXPECT_THAT(parse_cpu_list("3-"), IsEmpty());
  EXPECT_THAT(parse_cpu_list("1,x"), ElementsAre(1));
}

TEST(WorkerCpus, APinnedThreadRunsThere) {
  const RankPlace here = place_here(1);
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
