// With 8 Gb/s a byte takes a nanosecond, and every TLP has 20 B of header.
#include "models/pcie.hpp"

#include <gtest/gtest.h>

#include "models/profiles_for_test.hpp"

namespace verbtwin::models {
namespace {

constexpr std::int64_t kNs = 1000;

TEST(Pcie, AStoreIsOneTlpAndItsLatency) {
  Pcie pcie(round_nic());
  EXPECT_EQ(pcie.store({5 * kNs, 0}, 8).at(), (5 + 28 + 100) * kNs);
  EXPECT_EQ(pcie.down().busy_ps(), 28 * kNs);
  EXPECT_EQ(pcie.up().busy_ps(), 0) << "a posted write has no answer";
}

TEST(Pcie, AReadIsARequestAndItsDataBehindTheLatency) {
  Pcie pcie(round_nic());
  const Pcie::Read read = pcie.dma_read({0, 0}, 64);
  EXPECT_EQ(read.done.at(), (20 + 84 + 500) * kNs);
  EXPECT_GT(read.touch.at(), 20 * kNs);
  EXPECT_LT(read.touch.at(), read.done.at());
  EXPECT_EQ(pcie.up().busy_ps(), 20 * kNs);
  EXPECT_EQ(pcie.down().busy_ps(), 84 * kNs);
}

TEST(Pcie, WhatIsReadComesUnderHeadersOfItsOwn) {
  NicProfile nic = round_nic();
  nic.pcie_completion_header_b = 12;
  Pcie pcie(nic);
  EXPECT_EQ(pcie.dma_read({0, 0}, 64).done.at(), (20 + 76 + 500) * kNs);
  EXPECT_EQ(pcie.dma_write({1000 * kNs, 0}, 64).at(), (1000 + 84 + 200) * kNs);
}

/// Ordering rests on this instant: what lands before it is in what the read brings.
TEST(Pcie, AReadTouchesMemoryHalfwayThroughItsLatency) {
  EXPECT_EQ(Pcie(round_nic()).dma_read({0, 0}, 64).touch.at(), (20 + 84 + 500 - 250) * kNs);
}

/// Batching of doorbells pays because of these bytes.
TEST(Pcie, ADoorbellTakesItsBytesFromStoresAndFromDataAlike) {
  Pcie pcie(round_nic());
  pcie.doorbell_and_read({0, 0}, 64);
  EXPECT_EQ(pcie.down().busy_ps(), (28 + 84) * kNs) << "the doorbell, and what the read brings";
  EXPECT_EQ(pcie.stores_ps(), 28 * kNs);
  EXPECT_EQ(pcie.up().busy_ps(), 20 * kNs);
}

TEST(Pcie, APrefetchSharesItsRequestAndItsDataAmongItsUses) {
  Pcie pcie(round_nic());
  pcie.prefetch({}, 64, 4);
  EXPECT_EQ(pcie.up().busy_ps(), 20 * kNs / 4);
  EXPECT_EQ(pcie.down().busy_ps(), 84 * kNs / 4);
}

TEST(Pcie, AWriteNobodyLooksForTakesTheSameDirection) {
  Pcie pcie(round_nic());
  pcie.dma_write_quietly(64);
  EXPECT_EQ(pcie.up().busy_ps(), 84 * kNs);
  EXPECT_EQ(pcie.down().busy_ps(), 0);
}

TEST(Pcie, AWriteBehindAnotherWaitsForNoSecondLatency) {
  Pcie pcie(round_nic());
  const Moment before = pcie.dma_write({0, 0}, 256);
  EXPECT_EQ(before.at(), (276 + 200) * kNs);
  EXPECT_EQ(pcie.dma_write_behind(before, 64).at(), (276 + 84 + 200) * kNs);
}

TEST(Pcie, APayloadAndItsCompletionAreTlpsOfTheirOwn) {
  EXPECT_EQ(Pcie(round_nic()).dma_write_both({0, 0}, 64, {}, 64).at(), (2 * 84 + 200) * kNs);
  EXPECT_EQ(Pcie(round_nic()).dma_write_both({0, 0}, 0, {}, 64).at(), (84 + 200) * kNs)
      << "no payload, no TLP";
}

TEST(Pcie, AWriteIsVisibleAfterItsLatency) {
  Pcie pcie(round_nic());
  EXPECT_EQ(pcie.dma_write({0, 0}, 64).at(), (84 + 200) * kNs);
  EXPECT_EQ(pcie.up().busy_ps(), 84 * kNs);
  EXPECT_EQ(pcie.down().busy_ps(), 0);
}

TEST(Pcie, EveryTlpPaysItsHeader) {
  const auto written_ns = [](std::uint32_t bytes) {
    return Pcie(round_nic()).dma_write({0, 0}, bytes).at() / kNs - 200;
  };
  EXPECT_EQ(written_ns(0), 20);
  EXPECT_EQ(written_ns(256), 276);
  EXPECT_EQ(written_ns(257), 297);
  EXPECT_EQ(written_ns(1024), 1104);
  const auto read_ns = [](std::uint32_t bytes) {
    return Pcie(round_nic()).dma_read({0, 0}, bytes).done.at() / kNs - 500 - 20;
  };
  EXPECT_EQ(read_ns(128), 148) << "completions carry 128 B";
  EXPECT_EQ(read_ns(129), 169);
  EXPECT_EQ(read_ns(1024), 1184);
}

TEST(Pcie, WritesQueueForBandwidthNotForLatency) {
  Pcie pcie(round_nic());
  std::int64_t last_ps = 0;
  for (int i = 1; i <= 100; ++i) {
    last_ps = pcie.dma_write({0, 0}, 256).at();
    EXPECT_EQ(last_ps, (i * 276 + 200) * kNs);
  }
  EXPECT_EQ(pcie.up().busy_ps(), 100 * 276 * kNs);
}

TEST(Pcie, DirectionsAreIndependent) {
  Pcie pcie(round_nic());
  for (int i = 0; i < 100; ++i) pcie.dma_write({0, 0}, 256);
  EXPECT_EQ(pcie.store({0, 0}, 8).at(), 128 * kNs);
}

TEST(Pcie, AReadWaitsForTheWritesInFrontOfItAndTakesATagAtItsTurn) {
  Pcie pcie(round_nic()), idle(round_nic());
  pcie.dma_write({0, 0}, 1000);
  const std::int64_t writes_ps = pcie.up().busy_ps();
  EXPECT_GT(writes_ps, 1000 * kNs);
  EXPECT_EQ(pcie.dma_read({0, 0}, 64).done.at(), idle.dma_read({0, 0}, 64).done.at() + writes_ps);
  EXPECT_EQ(pcie.tags().busy_ps(), idle.tags().busy_ps());
}

TEST(Pcie, AnOwnCompletionTakesTurnsWithWhatOthersWrite) {
  const auto visible_ps = [](int writes, bool own) {
    Pcie pcie(round_nic());
    for (int i = 0; i < writes; ++i) pcie.dma_write({0, 0}, 256);
    return (own ? pcie.dma_write_in_turn({0, 0}, 64) : pcie.dma_write({0, 0}, 64)).at();
  };
  EXPECT_EQ(visible_ps(0, true), visible_ps(0, false));
  EXPECT_EQ(visible_ps(100, false), visible_ps(0, false) + 100 * 276 * kNs);
  EXPECT_EQ(visible_ps(100, true), visible_ps(0, true) + 276 * kNs) << "one TLP of theirs passes first";

  Pcie pcie(round_nic());
  std::int64_t last_ps = 0;
  for (int i = 0; i < 1000; ++i) {
    pcie.dma_write_in_turn({0, 0}, 64);
    last_ps = pcie.dma_write({0, 0}, 256).at();
  }
  EXPECT_EQ(last_ps, (1000 * (84 + 276) + 200) * kNs) << "together no more than the way takes";
}

/// Who rings for each read moves a store and a read's data for it.
TEST(Pcie, DoorbellsTakeTheirTimeOfTheWayThatTheirReadsFill) {
  Pcie pcie(round_nic());
  constexpr int kDoorbells = 1000;
  const std::int64_t alone_ps = Pcie(round_nic()).doorbell_and_read({0, 0}, 64).at();
  std::int64_t last_ps = 0;
  for (int i = 0; i < kDoorbells; ++i) last_ps = pcie.doorbell_and_read({0, 0}, 64).at();
  EXPECT_GE(last_ps, alone_ps + (kDoorbells - 1) * (28 + 84) * kNs);
  EXPECT_EQ(pcie.down().busy_ps(), kDoorbells * (28 + 84) * kNs);
}

TEST(Pcie, ReadsInFlightAreBounded) {
  constexpr std::int64_t kReadNs = 20 + 84 + 500;
  const auto rounds = [](double outstanding, int reads) {
    NicProfile nic = round_nic();
    nic.dma_reads_outstanding = outstanding;
    Pcie pcie(nic);
    std::int64_t last_ps = 0;
    for (int i = 0; i < reads; ++i) last_ps = pcie.dma_read({0, 0}, 64).done.at();
    return last_ps;
  };
  EXPECT_EQ(rounds(1, 1), kReadNs * kNs);
  EXPECT_EQ(rounds(1, 5), 5 * kReadNs * kNs) << "one at a time: each waits for the one before";
  EXPECT_EQ(rounds(2, 2), (kReadNs + 84) * kNs) << "the second's data follows the first's";
  EXPECT_GE(rounds(2, 4), 2 * kReadNs * kNs);
  EXPECT_LT(rounds(2, 4), 3 * kReadNs * kNs);
  EXPECT_EQ(rounds(64, 64), (20 + 64 * 84 + 500) * kNs) << "enough of them: bandwidth alone";
}

TEST(Pcie, ReadsThatBeginLaterHoldNoTagsUntilThen) {
  NicProfile nic = round_nic();
  nic.dma_reads_outstanding = 4;
  Pcie pcie(nic);
  for (int i = 0; i < 3; ++i) pcie.dma_read({0, 10'000 * kNs}, 64);
  EXPECT_EQ(pcie.dma_read({0, 0}, 64).done.at(), (20 + 4 * 84 + 500) * kNs) << "behind data, not behind tags";
}

TEST(Pcie, TagsInUseAreTheirBusyTime) {
  NicProfile nic = round_nic();
  nic.dma_reads_outstanding = 4;
  Pcie pcie(nic);
  for (int i = 0; i < 8; ++i) pcie.dma_read({i * 604 * kNs, 0}, 64);
  EXPECT_EQ(pcie.tags().busy_ps(), 8 * 604 * kNs / 4) << "one of four at a time";
}

TEST(Pcie, AStoreWaitsForNoMoreThanOneTlpOfPayloads) {
  Pcie pcie(round_nic());
  pcie.dma_read({0, 0}, 16'384);
  EXPECT_EQ(pcie.store({0, 0}, 64).at(), (84 + 128 + 20 + 100) * kNs);
}

/// Not half of it to stores, whatever else comes that way.
TEST(Pcie, StoresGetWhatIsLeftOfTheWayToTheDevice) {
  NicProfile nic = round_nic();
  nic.dma_reads_outstanding = 1000;
  Pcie reads(nic), receives(nic);
  std::int64_t beside_reads_ps = 0, beside_receives_ps = 0;
  for (int i = 0; i < 100; ++i) {
    reads.dma_read({0, 0}, 64);
    beside_reads_ps = reads.store({0, 0}, 64).at();
    receives.prefetch({0, 0}, 64, 4);
    beside_receives_ps = receives.store({0, 0}, 64).at();
  }
  EXPECT_EQ(beside_reads_ps, (100 * (84 + 84) + 100) * kNs);
  EXPECT_EQ(beside_receives_ps, (100 * (84 + 84 / 4) + 100) * kNs) << "a line for four RECVs";
}

TEST(Pcie, RoundsNanosecondsToPicoseconds) {
  EXPECT_EQ(to_ps(41.7), 41'700);
  EXPECT_EQ(to_ps(0.0004), 0);
  EXPECT_EQ(to_ps(0.0006), 1);
}

}  // namespace
}  // namespace verbtwin::models
