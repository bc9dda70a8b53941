// Conformance of CAS and FAA: they return the old value and act only once, alone.
#pragma once

#include "backend/conformance/fixture.hpp"

namespace verbtwin::conformance {

TEST_P(VerbsConformance, CompareSwapThatMatchesSwapsAndReturnsTheOldValue) {
  const Ends ends = connect();
  b().set_word(64, 10);
  post(ends.near, compare_swap(1, a().sge(0, 8), b(), 64, 10, 20));
  const auto at_a = sent(a(), 1);
  ASSERT_EQ(at_a.size(), 1U);
  EXPECT_EQ(at_a[0].status, WcStatus::kSuccess);
  EXPECT_EQ(at_a[0].opcode, WcOpcode::kCompSwap);
  EXPECT_EQ(a().word(0), 10U);
  EXPECT_EQ(b().word(64), 20U);
}

TEST_P(VerbsConformance, CompareSwapThatDoesNotMatchReturnsTheOldValueOnly) {
  const Ends ends = connect();
  b().set_word(64, 11);
  post(ends.near, compare_swap(1, a().sge(0, 8), b(), 64, 10, 20));
  expect_success(a(), 1);
  EXPECT_EQ(a().word(0), 11U);
  EXPECT_EQ(b().word(64), 11U);
}

TEST_P(VerbsConformance, FetchAddAddsAndWraps) {
  const Ends ends = connect();
  b().set_word(64, ~0ULL);
  post(ends.near, {fetch_add(1, a().sge(0, 8), b(), 64, 3), fetch_add(2, a().sge(8, 8), b(), 64, 5)});
  const auto at_a = sent(a(), 2);
  ASSERT_EQ(at_a.size(), 2U);
  EXPECT_EQ(at_a[0].opcode, WcOpcode::kFetchAdd);
  EXPECT_EQ(a().word(0), ~0ULL);
  EXPECT_EQ(a().word(8), 2U);
  EXPECT_EQ(b().word(64), 7U);
}

TEST_P(VerbsConformance, AtomicsOfSeveralQueuePairsDoNotLoseUpdates) {
  const Ends of_a = connect(a(), c(), attributes());
  const Ends of_b = connect(b(), c(), attributes());
  for (unsigned i = 0; i < 50; ++i) {
    post(of_a.near, fetch_add(i, a().sge(i * 8, 8), c(), 0, 1));
    post(of_b.near, fetch_add(i, b().sge(i * 8, 8), c(), 0, 1));
  }
  expect_success(a(), 50);
  expect_success(b(), 50);
  EXPECT_EQ(c().word(0), 100U);
  std::vector<std::uint64_t> tickets;
  for (unsigned i = 0; i < 50; ++i) {
    tickets.push_back(a().word(i * 8));
    tickets.push_back(b().word(i * 8));
  }
  std::sort(tickets.begin(), tickets.end());
  EXPECT_EQ(tickets, range(0, 100)) << "each saw a value of its own";
}

TEST_P(VerbsConformance, OneOfTwoCompareSwapsWins) {
  const Ends of_a = connect(a(), c(), attributes());
  const Ends of_b = connect(b(), c(), attributes());
  for (unsigned round = 0; round < 20; ++round) {
    c().set_word(0, 0);
    post(of_a.near, compare_swap(1, a().sge(0, 8), c(), 0, 0, 100));
    post(of_b.near, compare_swap(1, b().sge(0, 8), c(), 0, 0, 200));
    expect_success(a(), 1);
    expect_success(b(), 1);
    const bool a_won = a().word(0) == 0;
    const bool b_won = b().word(0) == 0;
    EXPECT_NE(a_won, b_won);
    EXPECT_EQ(c().word(0), a_won ? 100U : 200U);
    EXPECT_EQ(a_won ? b().word(0) : a().word(0), c().word(0));
  }
}

}  // namespace verbtwin::conformance
