// One mechanism at a time, with the round numbers of profiles_for_test.hpp: 1 ns a byte on PCIe, 20 B a TLP.
#include "models/nic.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "models/nic_for_test.hpp"

namespace verbtwin::models {
namespace {

// ---- doorbell and WQE fetch

TEST(Nic, BlueFlameIsForOneRequestThatFits) {
  const Nic nic(round_nic());  // 256 B
  EXPECT_TRUE(nic.takes_blueflame(1, 1, true));
  EXPECT_TRUE(nic.takes_blueflame(1, 4, true));
  EXPECT_FALSE(nic.takes_blueflame(1, 5, true));
  EXPECT_FALSE(nic.takes_blueflame(2, 2, true));
  NicProfile without = round_nic();
  without.blueflame_b = 0;
  EXPECT_FALSE(Nic(without).takes_blueflame(1, 1, true));
}

TEST(Nic, BlueFlameMayBeForWhatPointsToNothing) {
  NicProfile mlx4 = round_nic();
  mlx4.blueflame_pointers = 0;
  EXPECT_TRUE(Nic(mlx4).takes_blueflame(1, 1, false));
  EXPECT_FALSE(Nic(mlx4).takes_blueflame(1, 1, true));
}

TEST(Nic, BlueFlameCarriesTheWqeInTheStore) {
  Nic nic(round_nic());
  EXPECT_EQ(ns(nic.fetch_wqes(kStart, 1, 2, false)), 2 * (64 + 20) + 100) << "a TLP for each cache line";
  EXPECT_EQ(nic.pcie().up().busy_ps(), 0) << "nothing was fetched";
}

TEST(Nic, ADoorbellIsFollowedByAFetch) {
  constexpr std::int64_t kRungNs = 8 + 20 + 100;
  EXPECT_EQ(ns(Nic(round_nic()).fetch_wqes(kStart, 2, 2, false)), kRungNs + 20 + (128 + 20) + 500);
  EXPECT_EQ(ns(Nic(round_nic()).fetch_wqes(kStart, 1, 5, false)), kRungNs + 20 + (320 + 3 * 20) + 500)
      << "too long for BlueFlame";
}

TEST(Nic, AListIsFetchedByOneRead) {
  Nic nic(round_nic());
  EXPECT_EQ(ns(nic.fetch_wqes(kStart, 10, 10, false)), 128 + 20 + (640 + 5 * 20) + 500);
  EXPECT_EQ(nic.pcie().up().busy_ps(), 20 * kNs);
}

// ---- send engine

TEST(Nic, AnIdleRequestPassesEngineAndPipeline) {
  EXPECT_EQ(Sender(round_nic()).send_ns(0), 10 + 2 + 150);
  EXPECT_EQ(Sender(round_nic()).send_ns(0, 4), 10 + 4 * 2 + 150) << "each block of the WQE";
}

TEST(Nic, APayloadIsFetched) {
  EXPECT_EQ(Sender(round_nic()).send_ns(0, 1, 100), 10 + 2 + 150 + 20 + 120 + 500);
}

TEST(Nic, TheEngineIsSharedThePipelineIsNot) {
  Sender sender(round_nic());
  EXPECT_EQ(sender.send_ns(0), 12 + 150);
  EXPECT_EQ(sender.send_ns(1), 24 + 150);
  EXPECT_EQ(sender.send_ns(0), 36 + 150);
  EXPECT_EQ(sender.nic.send_engine().busy_ps(), 36 * kNs);
}

TEST(Nic, OneQueuePairSendsOnceAGap) {
  NicProfile profile = round_nic();
  profile.queue_pair_gap_ns = 30;
  Sender sender(profile);
  EXPECT_EQ(sender.send_ns(0), 12 + 150);
  EXPECT_EQ(sender.send_ns(0), 30 + 12 + 150) << "its processing unit is busy";
  EXPECT_EQ(sender.send_ns(1), 36 + 150) << "another queue pair's is not: it meets the engine's work alone";
  EXPECT_EQ(sender.send_ns(0), 60 + 12 + 150);
}

TEST(Nic, ADoorbellTakesTheEnginesTimeWhateverItTellsOf) {
  NicProfile profile = round_nic();
  profile.send_doorbell_ns = 7;
  Nic one(profile), many(profile);
  one.fetch_wqes(kStart, 1, 1, false);
  many.fetch_wqes(kStart, 16, 16, false);
  EXPECT_EQ(one.send_engine().busy_ps(), 7 * kNs);
  EXPECT_EQ(many.send_engine().busy_ps(), 7 * kNs);
}

TEST(Nic, OneQueuePairPassesTheEngineInOrder) {
  Sender sender(round_nic());
  sender.send_ns(1, 4);
  std::int64_t last_ps = 0;
  for (int i = 0; i < 20; ++i) {
    const auto fetch_b = i % 2 == 0 ? 4096U : 0U;
    const Moment out =
        sender.nic.send_request(0, sender.free_ps[0], {i % 3 * kNs, 0}, i % 4 == 0 ? 4 : 1, fetch_b);
    EXPECT_GE(out.first().at(), last_ps) << "its first packet is behind the last of the one before it";
    last_ps = out.at();
  }
}

/// Who waits in front of the engine is not held: behind it, servers would work on without it.
TEST(Nic, RequestsOfOneQueuePairQueueAsThoseOfMany) {
  NicProfile profile = round_nic();
  profile.queue_pair_gap_ns = 0;
  const auto sent = [&](std::uint32_t queue_pairs) {
    Sender sender(profile, queue_pairs);
    std::vector<Moment> all;
    for (std::uint32_t i = 0; i < 16; ++i) {
      const std::uint32_t qp = i % queue_pairs;
      all.push_back(sender.nic.send_request(qp, sender.free_ps[qp], kStart, 1, 0));
    }
    return all;
  };
  const std::vector<Moment> one = sent(1), many = sent(16);
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].queue_ps, many[i].queue_ps) << i;
    EXPECT_EQ(one[i].held_ps, 0) << i;
    if (i > 0) {
      EXPECT_GT(one[i].queue_ps, one[i - 1].queue_ps);
    }
  }
}

/// What a NIC serves and what it issues share its time.
TEST(Nic, ServingTakesTheEngineThatSends) {
  EXPECT_EQ(ns(Nic(round_nic()).serve_read(kStart, 0)), 6);
  EXPECT_EQ(ns(Nic(round_nic()).serve_request(kStart, 0)), 3);
  EXPECT_EQ(ns(Nic(round_nic()).send_answer(kStart)), 150);
  NicProfile profile = round_nic();
  profile.send_response_block_ns = 4;
  Sender sender(profile);
  sender.send_ns(0);
  EXPECT_EQ(ns(sender.nic.serve_request(kStart, 64)), 3 + 12) << "in turn with the request";
  EXPECT_EQ(ns(sender.nic.serve_read(kStart, 64)), 12 + 3 + 6 + 4);
  EXPECT_EQ(sender.send_ns(0), 12 + 12 + (6 + 4) + 150) << "in turn with the READ";
  EXPECT_EQ(sender.nic.send_engine().busy_ps(), (12 + 3 + 6 + 4 + 12) * kNs);
}

TEST(Nic, PayloadOccupiesTheEngineThatHandlesIt) {
  NicProfile profile = round_nic();
  profile.send_fetch_ns = 8;
  profile.send_fetch_block_ns = 5;
  profile.send_response_block_ns = 4;
  Sender sender(profile);
  sender.send_ns(0, 1, 160);
  EXPECT_EQ(sender.nic.send_engine().busy_ps(), (12 + 8) * kNs + 5 * kNs * 160 / 64) << "a gather";
  sender.send_ns(1);
  EXPECT_EQ(sender.nic.send_engine().busy_ps(), (24 + 8) * kNs + 5 * kNs * 160 / 64) << "nothing to fetch";
  Sender answering(profile);
  answering.nic.serve_read(kStart, 256);
  EXPECT_EQ(answering.nic.send_engine().busy_ps(), (6 + 4 * 4) * kNs);
  profile.send_response_tlp_ns = 30;
  Sender stepped(profile);
  stepped.nic.serve_read(kStart, 256);
  EXPECT_EQ(stepped.nic.send_engine().busy_ps(), (6 + 4 * 4) * kNs);
  stepped.nic.serve_read(kStart, 320);
  EXPECT_EQ(stepped.nic.send_engine().busy_ps(), (2 * 6 + 4 * 4 + 4 * 5 + 30) * kNs) << "a second read";
}

TEST(Nic, RecvsOfManyQueuesAreFetchedAgain) {
  NicProfile profile = round_nic();
  profile.recv_queue_cache_entries = 2;
  profile.recv_queue_miss_ns = 9;
  profile.recv_imm_ns = 5;
  Sender receiver(profile, 3);  // the first two made are held
  const auto send_ns = [&receiver](std::uint32_t queue_pair) {
    const std::int64_t before_ps = receiver.nic.recv_engine().busy_ps();
    receiver.nic.receive_send(queue_pair, kStart, 0);
    return (receiver.nic.recv_engine().busy_ps() - before_ps) / kNs;
  };
  EXPECT_EQ(send_ns(0), 7 + 2);
  EXPECT_EQ(send_ns(1), 7 + 2);
  EXPECT_EQ(send_ns(2), 7 + 2 + 9);
  EXPECT_EQ(send_ns(0), 7 + 2 + 9);
  const std::int64_t before_ps = receiver.nic.recv_engine().busy_ps();
  receiver.nic.receive_imm(2, kStart);
  EXPECT_EQ((receiver.nic.recv_engine().busy_ps() - before_ps) / kNs, 5);
}

TEST(Nic, AContextMissAddsLatencyAndOccupancy) {
  NicProfile profile = round_nic();
  profile.qp_cache_entries = 1;
  Sender sender(profile);                  // holds context 0, the first one made
  EXPECT_EQ(sender.send_ns(0), 12 + 150);  // hit
  // Miss: 300 ns, of which 11 are the fetches' and pass while the engine has the one before.
  EXPECT_EQ(sender.send_ns(1), 12 + 12 + 150 + 300 - 11);
  EXPECT_EQ(sender.send_ns(1), 12 + 12 + 150 + 300 - 11) << "a hit leaves behind that one";
  EXPECT_EQ(sender.nic.context_fetches().busy_ps(), 11 * kNs) << "the engine works on meanwhile";
  EXPECT_EQ(sender.nic.send_engine().busy_ps(), 3 * 12 * kNs);
  EXPECT_EQ(sender.nic.contexts().hits(), 2U);
  EXPECT_EQ(sender.nic.contexts().misses(), 1U);
}

TEST(Nic, ReceivingUsesContextsToo) {
  NicProfile profile = round_nic();
  profile.qp_cache_entries = 1;
  Sender sender(profile);
  EXPECT_EQ(ns(sender.nic.receive(0, kStart, 0)), 7 + 160);
  EXPECT_EQ(ns(sender.nic.receive_ack(1, kStart)), 7 + 4 + 160 + 300);
  EXPECT_EQ(ns(sender.nic.receive(1, kStart, 0)), 7 + (4 + 11) + 7 + 160) << "behind the ACK";
}

TEST(Nic, EnoughEntriesNeverMiss) {
  Sender sender(round_nic(), 100);
  for (std::uint32_t i = 0; i < 100; ++i) sender.send_ns(i);
  EXPECT_EQ(sender.nic.contexts().misses(), 0U);
}

/// Of 2 KiB, 32 WQEs of one block, of each of two send queues, the NIC keeps 50 WQEs.
TEST(Nic, ARequestThatWaitsForItsTurnLosesWhatWasPrefetched) {
  NicProfile profile = round_nic();
  profile.wqe_prefetch_b = 2048;
  profile.wqe_cache_entries = 50;
  profile.wqe_miss_send_ns = 30;
  Sender sender(profile, 2), prefetches_less(profile, 1), has_wide_places(profile, 2, 128);
  profile.wqe_prefetch_b = 0;
  Sender prefetches_nothing(profile, 2);
  const auto cost_ns = [](Sender& of, std::uint32_t wqe, std::uint32_t blocks) {
    const std::int64_t before_ps = of.nic.send_engine().busy_ps();
    of.nic.fetch_again_if_gone(wqe, blocks, kStart);
    return (of.nic.send_engine().busy_ps() - before_ps) / kNs;
  };
  for (std::uint32_t i = 1; i <= 51; ++i) EXPECT_EQ(sender.nic.number_wqe(), i);
  EXPECT_EQ(cost_ns(sender, 51, 1), 0);
  EXPECT_EQ(cost_ns(sender, 2, 1), 0) << "the fiftieth from the end";
  EXPECT_EQ(sender.nic.pcie().down().busy_ps(), 0);
  EXPECT_EQ(cost_ns(sender, 1, 1), 30);
  EXPECT_EQ(sender.nic.pcie().down().busy_ps(), (64 + 20) * kNs);
  EXPECT_EQ(cost_ns(sender, 1, 2), 30) << "however long it is itself";
  EXPECT_EQ(sender.nic.pcie().down().busy_ps(), (64 + 20 + 128 + 20) * kNs);
  for (Sender* other : {&prefetches_less, &prefetches_nothing, &has_wide_places}) {
    for (int i = 0; i < 51; ++i) other->nic.number_wqe();
    EXPECT_EQ(cost_ns(*other, 1, 1), 0);
  }
}

// ---- what nobody waits for

TEST(Nic, AQuietAckTakesWhatOneThatIsWaitedForTakes) {
  NicProfile profile = round_nic();
  profile.qp_cache_entries = 1;
  Sender loud(profile), quiet(profile);  // hold context 0, the first one made
  loud.nic.receive_ack(1, kStart);
  quiet.nic.receive_ack_quietly(1);
  EXPECT_EQ(quiet.nic.recv_engine().busy_ps(), (4 + 11) * kNs) << "its context is gone";
  EXPECT_EQ(quiet.nic.recv_engine().busy_ps(), loud.nic.recv_engine().busy_ps());
  EXPECT_EQ(quiet.nic.contexts().misses(), 1U);
}

TEST(Nic, OneOfSoManyUnsignalledRequestsAsksForAnAck) {
  NicProfile profile = round_nic();
  EXPECT_TRUE(Nic(profile).asks_for_ack(0));
  profile.ack_request_interval = 4;
  const Nic nic(profile);
  std::vector<std::uint32_t> asking;
  for (std::uint32_t position = 0; position < 12; ++position) {
    if (nic.asks_for_ack(position)) asking.push_back(position);
  }
  EXPECT_THAT(asking, testing::ElementsAre(3, 7, 11));
}

TEST(Nic, AWriteWithImmediateFetchesARecvLikeASend) {
  Sender send(round_nic()), write(round_nic());
  send.nic.receive_send(0, kStart, 0);
  write.nic.receive_imm(0, kStart);
  EXPECT_EQ(write.nic.pcie().down().busy_ps(), (64 + 20) / 4 * kNs);
  EXPECT_EQ(write.nic.pcie().down().busy_ps(), send.nic.pcie().down().busy_ps());
  EXPECT_EQ(write.nic.pcie().up().busy_ps(), 20 / 4 * kNs);
}

TEST(Nic, ALineOfRecvsThatIsNotHeldIsFetchedForOne) {
  NicProfile profile = round_nic();
  profile.recv_queue_cache_entries = 1;
  Sender receiver(profile);  // holds the RECVs of 0, the first one made
  receiver.nic.receive_send(1, kStart, 0);
  EXPECT_EQ(receiver.nic.pcie().down().busy_ps(), (64 + 20) * kNs);
  receiver.nic.receive_send(1, kStart, 0);
  EXPECT_EQ(receiver.nic.pcie().down().busy_ps(), ((64 + 20) + (64 + 20) / 4) * kNs);
}

// ---- what it tells of itself

/// `explain` names the cause of a bottleneck by these.
TEST(Nic, MissTimeIsAccountedToItsEngineAndItsCache) {
  NicProfile profile = round_nic();
  profile.qp_cache_entries = 1;
  profile.wqe_cache_entries = 1;
  profile.wqe_miss_response_ns = 130;
  profile.wqe_prefetch_b = 2048;
  profile.wqe_miss_send_ns = 30;
  profile.translation_miss_occupancy_ns = 9;
  Sender sender(profile);
  sender.send_ns(1);
  EXPECT_EQ(sender.nic.send_misses().contexts_ps, 11 * kNs);
  EXPECT_EQ(sender.nic.recv_misses().contexts_ps, 0);
  sender.nic.receive(0, kStart, 0);
  EXPECT_EQ(sender.nic.recv_misses().contexts_ps, 11 * kNs);
  EXPECT_EQ(sender.nic.send_misses().contexts_ps, 11 * kNs);
  sender.nic.number_wqe();
  sender.nic.number_wqe();
  sender.nic.receive_response(1, kStart, 0, 1);
  EXPECT_EQ(sender.nic.recv_misses().wqes_ps, 130 * kNs);
  EXPECT_EQ(sender.nic.send_misses().wqes_ps, 0);
  const std::uint32_t wqe = sender.nic.number_wqe();
  sender.nic.number_wqe();
  sender.nic.fetch_again_if_gone(wqe, 1, kStart);
  EXPECT_EQ(sender.nic.send_misses().wqes_ps, 30 * kNs);
  EXPECT_EQ(sender.nic.wqes_fetched_again_ps(), (64 + 20) * kNs) << "of PCIe's way down";
  sender.nic.translate(kStart, 0);
  EXPECT_EQ(sender.nic.recv_misses().translations_ps, 9 * kNs);
  sender.nic.translate(kStart, 0);
  EXPECT_EQ(sender.nic.recv_misses().translations_ps, 9 * kNs) << "a hit";
}

// ---- what must emerge

/// Requests a second that one NIC can issue (WQE, doorbell, ACK, completion) and serve (none of these).
TEST(Nic, ServingIsCheaperThanIssuing) {
  NicProfile profile = round_nic();
  profile.pcie_gbps = 126;
  constexpr int kRequests = 1000;
  Sender issuer(profile), server(profile);
  std::int64_t issued_ps = 0, served_ps = 0;
  for (int i = 0; i < kRequests; ++i) {
    const Moment fetched = issuer.nic.fetch_wqes(kStart, 1, 1, false);
    issuer.nic.send_request(0, issuer.free_ps[0], fetched, 1, 0);
    issued_ps = issuer.nic.write_completion(issuer.nic.receive(0, kStart, 0)).queue_ps;
    served_ps = server.nic.pcie()
                    .dma_read(server.nic.serve_read(server.nic.receive(0, kStart, 0), 32), 32)
                    .done.queue_ps;
  }
  issued_ps = std::max(issued_ps, issuer.nic.send_engine().busy_ps());
  EXPECT_GT(static_cast<double>(issued_ps), 1.2 * static_cast<double>(served_ps));
}

}  // namespace
}  // namespace verbtwin::models
