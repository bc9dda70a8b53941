// What the engine that receives does, with the round numbers of profiles_for_test.hpp.
#include <gtest/gtest.h>

#include "models/nic_for_test.hpp"

namespace verbtwin::models {
namespace {

TEST(Nic, EveryPacketOccupiesTheReceiveEngine) {
  constexpr std::uint32_t kThreePackets = 3 * 4096;
  EXPECT_EQ(ns(Sender(round_nic()).nic.receive(0, kStart, kThreePackets)), 3 * 7 + 160);
  EXPECT_EQ(ns(Sender(round_nic()).nic.receive_ack(0, kStart)), 4 + 160);
  Sender receiver(round_nic());
  receiver.nic.receive(0, kStart, kThreePackets);
  EXPECT_EQ(ns(receiver.nic.receive(1, kStart, 0)), 4 * 7 + 160);
  EXPECT_EQ(receiver.nic.recv_engine().busy_ps(), 28 * kNs);
  EXPECT_EQ(receiver.nic.send_engine().busy_ps(), 0)
      << "serving costs the send engine nothing but the answer";
}

TEST(Nic, ARecvCostsEngineTimeAndPcieBandwidth) {
  Sender receiver(round_nic());
  EXPECT_EQ(ns(receiver.nic.receive_send(0, kStart, 0)), 7 + 2 + 160);
  EXPECT_EQ(receiver.nic.pcie().down().busy_ps(), (64 + 20) / 4 * kNs) << "a line holds four";
}

TEST(Nic, ACompletionIsACqeWrittenToTheHost) {
  Nic nic(round_nic());
  EXPECT_EQ(ns(nic.write_completion(kStart)), 64 + 20 + 200);
}

TEST(Nic, EachFurtherTlpOfAPayloadCostsReceiveEngineTime) {
  NicProfile profile = round_nic();
  profile.recv_tlp_ns = 40;
  const auto busy_ns = [&profile](std::uint32_t bytes) {
    Sender receiver(profile);
    receiver.nic.receive(0, kStart, bytes);
    return receiver.nic.recv_engine().busy_ps() / kNs;
  };
  EXPECT_EQ(busy_ns(8), 7);
  EXPECT_EQ(busy_ns(256), 7);
  EXPECT_EQ(busy_ns(264), 7 + 40) << "the step behind the largest payload of one TLP";
  EXPECT_EQ(busy_ns(512), 7 + 40);
  EXPECT_EQ(busy_ns(513), 7 + 80);
}

TEST(Nic, PayloadsThatArriveCostReceiveEngineTimeByTheByte) {
  NicProfile profile = round_nic();
  profile.recv_block_ns = 4;
  const auto busy_ns = [](Sender receiver) { return receiver.nic.recv_engine().busy_ps() / kNs; };
  Sender asked(profile), answered(profile);
  asked.nic.receive(0, kStart, 96);
  EXPECT_EQ(busy_ns(asked), 7 + 6);
  answered.nic.receive_response(0, kStart, 3 * 4096, 0);
  EXPECT_EQ(busy_ns(answered), 3 * (7 + 64 * 4));
}

TEST(Nic, PayloadsThatARecvScattersCostReceiveEngineTimeByTheByte) {
  NicProfile profile = round_nic();
  const auto busy_ns = [&profile](std::uint32_t bytes, bool takes_recv) {
    Sender receiver(profile);
    if (takes_recv) {
      receiver.nic.receive_send(0, kStart, bytes);
    } else {
      receiver.nic.receive(0, kStart, bytes);
    }
    return receiver.nic.recv_engine().busy_ps() / kNs;
  };
  const std::int64_t send_ns = busy_ns(192, true), write_ns = busy_ns(192, false);
  profile.recv_scatter_block_ns = 10;
  EXPECT_EQ(busy_ns(192, true), send_ns + 30);
  EXPECT_EQ(busy_ns(96, true), send_ns + 15);
  profile.recv_block_ns = 1;
  EXPECT_EQ(busy_ns(192, true), send_ns + 30 + 3) << "beside what takes any payload";
  profile.recv_block_ns = 0;
  EXPECT_EQ(busy_ns(192, false), write_ns) << "a WRITE says itself where its payload goes";
}

TEST(Nic, ContextMissesGrowDearerWithContexts) {
  NicProfile profile = round_nic();
  profile.qp_cache_entries = 1;
  profile.qp_miss_growth_ns = 2;
  const auto receive = [&](std::uint32_t contexts, std::int64_t engine_ns) {
    Sender nic(profile, contexts);
    EXPECT_EQ(ns(nic.nic.receive(1, kStart, 0)), 7 + 160 + 300) << "the fetch takes as long";
    EXPECT_EQ(nic.nic.recv_engine().busy_ps() / kNs, 7 + engine_ns);
  };
  receive(2, 11 + 2 * 2);
  receive(10, 11 + 2 * 10);
  receive(400, 300);  // no longer than the fetch
  profile.qp_cache_entries = 10;
  Sender all_in(profile, 10);
  EXPECT_EQ(ns(all_in.nic.receive(0, kStart, 0)), 7 + 160) << "no miss, no growth";
}

TEST(Nic, AnAnswerToARequestThatLeftTheCacheCostsAFetch) {
  NicProfile profile = round_nic();
  profile.wqe_cache_entries = 16;
  profile.wqe_miss_response_ns = 130;
  Sender sender(profile);
  for (std::uint32_t i = 1; i <= 17; ++i) EXPECT_EQ(sender.nic.number_wqe(), i);
  const auto response_ns = [&sender](std::uint32_t wqe) {
    const std::int64_t before_ps = sender.nic.recv_engine().busy_ps();
    sender.nic.receive_response(0, kStart, 0, wqe);
    return (sender.nic.recv_engine().busy_ps() - before_ps) / kNs;
  };
  EXPECT_EQ(response_ns(17), 7);
  EXPECT_EQ(response_ns(2), 7) << "the sixteenth from the end";
  EXPECT_EQ(response_ns(1), 7 + 130);
}

TEST(Nic, ATranslationMissDelaysItsRequestAndOccupiesTheEngine) {
  NicProfile profile = round_nic();
  profile.translation_page_b = 4096;
  profile.translation_cache_entries = 2;
  profile.translation_miss_ns = 400;
  profile.translation_miss_occupancy_ns = 9;
  Nic nic(profile);
  EXPECT_EQ(ns(nic.translate(kStart, 0)), 400);
  EXPECT_EQ(ns(nic.translate(kStart, 100)), 0);
  EXPECT_EQ(nic.recv_engine().busy_ps(), 9 * kNs);
}

TEST(Nic, AnAckPassesALongQueueOfWhatOthersSend) {
  Sender machine(round_nic()), alone(round_nic());
  for (int i = 0; i < 1000; ++i) {
    machine.nic.receive_send(0, kStart, 0);
    alone.nic.receive_ack(0, kStart);
  }
  EXPECT_EQ(ns(machine.nic.receive_ack(1, kStart)), 4 + (7 + 2) + 160) << "in turn with a SEND";
  EXPECT_EQ(ns(alone.nic.receive_ack(1, kStart)), 1001 * 4 + 160);
  EXPECT_EQ(ns(alone.nic.receive(1, kStart, 0)), 7 + 4 + 160) << "what others ask passes ACKs as well";
  EXPECT_EQ(ns(machine.nic.receive_response(1, kStart, 0, 0)), 1000 * (7 + 2) + 4 + 7 + 160)
      << "an answer with data stands in line";
}

/// 128 KiB of a port, in blocks of 64 B.
TEST(Nic, WhatAFullPortHasNoRoomForIsHeldOut) {
  Sender receiver(round_nic());
  EXPECT_EQ(receiver.nic.held_out_ps(kStart, 100), 0);
  for (int i = 0; i < 2000; ++i) receiver.nic.receive(0, kStart, 0);
  EXPECT_EQ(receiver.nic.held_out_ps(kStart, 64), 0) << "2,048 of one block, 7 ns each";
  EXPECT_EQ(receiver.nic.held_out_ps(kStart, 65), (2000 - 1024) * 7 * kNs) << "of two blocks";
  NicProfile profile = round_nic();
  profile.recv_block_ns = 4;
  Sender streaming(profile);
  for (int i = 0; i < 100; ++i) streaming.nic.receive(0, kStart, 4096);
  EXPECT_EQ(streaming.nic.held_out_ps(kStart, 4096), (100 - 32) * (7 + 64 * 4) * kNs) << "of 64 blocks";
  EXPECT_EQ(streaming.nic.held_out_ps(kStart, 4126), (100 - 31) * (7 + 64 * 4) * kNs) << "and a header's";
  EXPECT_EQ(streaming.nic.held_out_ps(kStart, 16 * 4126), (100 - 31) * (7 + 64 * 4) * kNs) << "a packet's";
  Nic behind(round_nic());
  behind.pcie().dma_write_quietly(100'000);
  EXPECT_EQ(behind.held_out_ps(kStart, 64), 0);
  const std::int64_t before_ps = behind.pcie().up().busy_ps();
  behind.pcie().dma_write_quietly(100'000);
  EXPECT_EQ(behind.held_out_ps(kStart, 64), 2 * before_ps - 131'072 * kNs) << "the way to memory is full";
}

}  // namespace
}  // namespace verbtwin::models
