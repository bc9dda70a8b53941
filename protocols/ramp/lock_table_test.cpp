#include "protocols/ramp/lock_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbtwin::protocols {
namespace {

using Deadlock = RampOptions::Deadlock;
using Verdict = LockTable::Verdict;

LockClaim claim(std::uint64_t key, std::uint64_t client, std::uint64_t since_ps, bool exclusive) {
  LockClaim c;
  c.key = key;
  c.client = client;
  c.since_ps = since_ps;
  c.exclusive = exclusive;
  return c;
}
std::vector<std::uint64_t> released(LockTable& table, std::uint64_t client, std::uint64_t key = 0) {
  std::vector<LockClaim> granted;
  table.release(key, client, granted);
  std::vector<std::uint64_t> clients;
  for (const LockClaim& one : granted) clients.push_back(one.client);
  return clients;
}

TEST(LockTable, SharedLocksGoTogetherAndNoWaitRefusesTheRest) {
  LockTable table(Deadlock::kNoWait);
  EXPECT_EQ(table.lock(claim(0, 1, 10, false)), Verdict::kGranted);
  EXPECT_EQ(table.lock(claim(0, 2, 20, false)), Verdict::kGranted);
  EXPECT_EQ(table.lock(claim(0, 3, 1, true)), Verdict::kRefused);
  EXPECT_THAT(released(table, 1), testing::IsEmpty());
  EXPECT_EQ(table.lock(claim(0, 3, 1, true)), Verdict::kRefused);
  EXPECT_THAT(released(table, 2), testing::IsEmpty());
  EXPECT_EQ(table.lock(claim(0, 3, 1, true)), Verdict::kGranted);
  EXPECT_EQ(table.lock(claim(0, 1, 30, false)), Verdict::kRefused);
}

TEST(LockTable, TheOlderWaitsTheYoungerDies) {
  LockTable table(Deadlock::kWaitDie);
  EXPECT_EQ(table.lock(claim(0, 1, 10, false)), Verdict::kGranted);
  EXPECT_EQ(table.lock(claim(0, 2, 20, true)), Verdict::kRefused);
  EXPECT_EQ(table.lock(claim(0, 3, 5, true)), Verdict::kWaits);
  // Behind a writer that waits, and younger: no overtaking, and no waiting for an older one.
  EXPECT_EQ(table.lock(claim(0, 4, 7, false)), Verdict::kRefused);
  EXPECT_EQ(table.lock(claim(0, 5, 3, false)), Verdict::kWaits);
  EXPECT_EQ(table.lock(claim(0, 6, 2, false)), Verdict::kWaits);
  EXPECT_THAT(released(table, 1), testing::ElementsAre(3));
  EXPECT_THAT(released(table, 3), testing::ElementsAre(5, 6));
}

// Transaction 1 has lock 0 and wants lock 1, transaction 2, which is younger, has lock 1 and wants lock 0.

TEST(LockTable, OfTwoInOppositeOrdersTheYoungerDiesAndTheOlderGetsItsLock) {
  LockTable table(Deadlock::kWaitDie);
  EXPECT_EQ(table.lock(claim(0, 1, 10, true)), Verdict::kGranted);
  EXPECT_EQ(table.lock(claim(1, 2, 20, true)), Verdict::kGranted);
  EXPECT_EQ(table.lock(claim(1, 1, 10, true)), Verdict::kWaits);
  EXPECT_EQ(table.lock(claim(0, 2, 20, true)), Verdict::kRefused);
  EXPECT_THAT(released(table, 2, 1), testing::ElementsAre(1));
  // Run again, the younger one keeps its age, and later ones do not get past it.
  EXPECT_EQ(table.lock(claim(1, 2, 20, true)), Verdict::kRefused);
  EXPECT_THAT(released(table, 1, 1), testing::IsEmpty());
  EXPECT_EQ(table.lock(claim(1, 1, 30, true)), Verdict::kGranted);
  EXPECT_EQ(table.lock(claim(1, 2, 20, true)), Verdict::kWaits);
}

TEST(LockTable, OfTwoInOppositeOrdersBothAreRefusedWhereNobodyWaits) {
  LockTable table(Deadlock::kNoWait);
  EXPECT_EQ(table.lock(claim(0, 1, 10, true)), Verdict::kGranted);
  EXPECT_EQ(table.lock(claim(1, 2, 20, true)), Verdict::kGranted);
  EXPECT_EQ(table.lock(claim(1, 1, 10, true)), Verdict::kRefused);
  EXPECT_EQ(table.lock(claim(0, 2, 20, true)), Verdict::kRefused);
  EXPECT_THAT(released(table, 2, 1), testing::IsEmpty());
  EXPECT_EQ(table.lock(claim(1, 1, 10, true)), Verdict::kGranted);
}

TEST(LockTable, TellsWhatIsHeldOrWaitedFor) {
  LockTable table(Deadlock::kWaitDie);
  EXPECT_THAT(table.claimed_keys(), testing::IsEmpty());
  table.lock(claim(77, 1, 20, true));
  table.lock(claim(0, 2, 20, true));
  table.lock(claim(0, 3, 10, true));
  EXPECT_THAT(table.claimed_keys(), testing::ElementsAre(0, 77));
  released(table, 2);
  EXPECT_THAT(table.claimed_keys(), testing::ElementsAre(0, 77)) << "the one that waited has it";
  released(table, 3);
  released(table, 1, 77);
  EXPECT_THAT(table.claimed_keys(), testing::IsEmpty());
}

}  // namespace
}  // namespace verbtwin::protocols
