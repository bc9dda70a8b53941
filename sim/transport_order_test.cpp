// Who goes on when, and who hears of it: requests that wait for others, for the way out of a port or between
// two links.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <utility>

#include "sim/actor_for_test.hpp"

namespace verbtwin::sim {
namespace {

using testing::ElementsAre;

std::vector<std::uint64_t> ids(const Actor& actor) {
  std::vector<std::uint64_t> all;
  for (const WorkCompletion& wc : actor.done) all.push_back(wc.wr_id);
  return all;
}

/// The answer that a fence waits for is known before it is there: who is posted in between is woken by it.
TEST(TransportOrder, AFencedRequestPostedAtAnyTimeBehindAReadIsSent) {
  for (std::uint64_t us = 0; us < 60; us += 2) {
    Cluster cluster(round_cluster(2));
    Actor sender(cluster, 0), target(cluster, 1);
    sender.begin = [us](Actor& a) {
      a.post(Opcode::kRdmaRead, 16384, 1);
      a.charge_us(us);
      a.post(Opcode::kRdmaWrite, 8, 1, 1, kSignaled | kFence);
    };
    run_until_us(cluster, 1000);
    EXPECT_THAT(ids(sender), ElementsAre(0, 1)) << us;
  }
}

/// Its data wait for a port that has much to send; so does the ACK behind them.
TEST(TransportOrder, NoAnswerOvertakesOneThatWaitsForItsPort) {
  Cluster cluster(round_cluster(2));
  Actor sender(cluster, 0), target(cluster, 1);
  target.begin = [](Actor& a) { a.post(Opcode::kRdmaWrite, 65536, 0, 60); };
  sender.begin = [](Actor& a) {
    a.charge_us(20);
    a.post(Opcode::kRdmaRead, 64, 1);
    a.post(Opcode::kRdmaWrite, 8, 1);
  };
  run_until_us(cluster, 5000);
  EXPECT_THAT(ids(sender), ElementsAre(0, 1));
  EXPECT_EQ(sender.done.front().byte_len, 64U);
}

/// As AnAnswerDoesNotWaitForAllThatIsPosted, the other way round.
TEST(TransportOrder, ARequestDoesNotWaitForAllThatIsAnswered) {
  const auto write_us = [](bool with_reads) {
    ClusterParameters p = round_cluster(2);
    p.nic.pcie_gbps = 126;
    Cluster cluster(p);
    Actor reader(cluster, 0), target(cluster, 1);
    if (with_reads) reader.begin = [](Actor& a) { a.post(Opcode::kRdmaRead, 65536, 1, 16); };
    target.begin = [](Actor& a) {
      a.charge_us(100);
      a.post(Opcode::kRdmaWrite, 8, 0, 1, kSignaled | kInline);
    };
    run_until_us(cluster, 3000);
    EXPECT_EQ(reader.done.size(), with_reads ? 16U : 0U);
    return static_cast<double>(target.done_ps.at(0)) / 1e6;
  };
  const double read_us = 65536.0 / 1000;
  EXPECT_LT(write_us(true), write_us(false) + 8 * read_us);
  EXPECT_GT(write_us(true), write_us(false) + read_us / 2) << "some are under way";
}

/// Those wait for the engine that sends, not for the link.
TEST(TransportOrder, AnAnswerDoesNotWaitForRequestsThatTheEngineHolds) {
  const auto read_us = [](int writes, std::uint64_t at_us) {
    ClusterParameters p = round_cluster(2);
    p.nic.send_wqe_ns = 10'000;
    Cluster cluster(p);
    Actor reader(cluster, 0), target(cluster, 1);
    reader.begin = [at_us](Actor& a) {
      a.charge_us(at_us);
      a.post(Opcode::kRdmaRead, 64, 1);
    };
    target.begin = [writes](Actor& a) {
      if (writes > 0) a.post(Opcode::kRdmaWrite, 8, 0, writes, kInline);
    };
    run_until_us(cluster, 1000);
    return static_cast<double>(reader.done_ps.at(0)) / 1e6;
  };
  for (std::uint64_t at_us = 20; at_us < 30; ++at_us) {
    EXPECT_LT(read_us(60, at_us), read_us(0, at_us) + 11) << "its turn is behind one of 60";
    EXPECT_GT(read_us(60, at_us), read_us(0, at_us) + 1);
  }
}

/// Few are on their way at a time; the others wait for the engine.
TEST(TransportOrder, AReadHasItsPlaceAmongTheWqesFromTheEnginesQueueOn) {
  const auto last_us = [](int reads, double places) {
    ClusterParameters p = round_cluster(2);
    p.nic.send_wqe_ns = 1000;
    p.nic.wqe_cache_entries = places;
    p.nic.wqe_miss_response_ns = 50'000;
    Cluster cluster(p);
    Actor reader(cluster, 0), target(cluster, 1);
    reader.begin = [reads](Actor& a) { a.post(Opcode::kRdmaRead, 64, 1, reads); };
    run_until_us(cluster, 5000);
    return static_cast<double>(reader.done_ps.at(static_cast<std::size_t>(reads) - 1)) / 1e6;
  };
  EXPECT_LT(last_us(12, 12), last_us(12, 100) + 1) << "as many as there are places";
  EXPECT_GT(last_us(16, 12), 4 * 50) << "the first four are gone when they are answered";
}

/// Two leaves with one cable between them, at which two senders meet.
TEST(TransportOrder, WhatStopsBetweenTwoLinksGoesOn) {
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    ClusterParameters p = round_cluster(4);
    p.topology = FatTree{.leaf_ports = 2, .spines = 1};
    Cluster cluster(p);
    const QpInitAttributes attributes{.type = type, .max_send_wr = 128, .max_recv_wr = 1};
    Actor first(cluster, 0, attributes), second(cluster, 1, attributes);
    Actor targets[] = {{cluster, 2, attributes}, {cluster, 3, attributes}};
    first.begin = [](Actor& a) { a.post(Opcode::kRdmaWrite, 4096, 2, 100); };
    second.begin = [](Actor& a) { a.post(Opcode::kRdmaWrite, 4096, 3, 100); };
    run_until_us(cluster, 2000);
    EXPECT_EQ(first.done.size(), 100U);
    EXPECT_EQ(second.done.size(), 100U);
    EXPECT_GE(std::max(first.done_ps.back(), second.done_ps.back()), 2 * 100 * 4096 * 1000LL - 131'072'000)
        << "but for what there is room for, all have passed the cable";
  }
}

/// Two leaves with one cable between them, which machines 1 to 3 fill. Posts to 4 begin behind them.
struct CrowdedCable {
  static constexpr std::size_t kWord = 1024, kResult = 64;

  CrowdedCable() {
    for (const auto& [from, to] : {std::pair(&one, 5), {&two, 6}, {&three, 7}})
      from->begin = [to = to](Actor& a) { a.post(Opcode::kRdmaWrite, 4096, to, 50); };
  }
  /// `place`: in the target's memory.
  static SendWr request(Actor& a, Opcode opcode, int to) {
    SendWr wr = a.request(opcode, 8, to);
    wr.remote_addr += kWord;
    if (opcode != Opcode::kRdmaWrite) wr.sge.addr += kResult;
    wr.compare_add = 1;
    return wr;
  }
  static std::uint64_t word(Actor& a, std::size_t at) {
    std::uint64_t value = 0;
    std::memcpy(&value, a.memory().data() + at, sizeof value);
    return value;
  }

  static ClusterParameters parameters() {
    ClusterParameters p = round_cluster(8);
    p.topology = FatTree{.leaf_ports = 4, .spines = 1};
    return p;
  }
  Cluster cluster{parameters()};
  QpInitAttributes attributes{.type = QpType::kRc, .max_send_wr = 128, .max_recv_wr = 1};
  Actor zero{cluster, 0, attributes}, one{cluster, 1, attributes}, two{cluster, 2, attributes},
      three{cluster, 3, attributes};
  Actor four{cluster, 4, attributes}, five{cluster, 5, attributes}, six{cluster, 6, attributes},
      seven{cluster, 7, attributes};
};

TEST(TransportOrder, NoReadOrAtomicOvertakesAWriteThatStopsBetweenTwoLinks) {
  for (const Opcode opcode : {Opcode::kRdmaRead, Opcode::kAtomicFetchAndAdd}) {
    CrowdedCable c;
    std::memset(c.zero.memory().data(), 7, 8);
    const std::uint64_t written = CrowdedCable::word(c.zero, 0);
    c.zero.begin = [opcode](Actor& a) {
      a.charge_us(60);
      a.post(a.queue_pair(4), CrowdedCable::request(a, Opcode::kRdmaWrite, 4));
      a.post(a.queue_pair(4), CrowdedCable::request(a, opcode, 4));
    };
    run_until_us(c.cluster, 2000);
    EXPECT_THAT(ids(c.zero), ElementsAre(0, 1));
    EXPECT_GT(c.zero.done_ps.front(), 100'000'000) << "the cable is not crowded";
    EXPECT_EQ(CrowdedCable::word(c.zero, CrowdedCable::kResult), written);
    const bool adds = opcode == Opcode::kAtomicFetchAndAdd;
    EXPECT_EQ(CrowdedCable::word(c.four, CrowdedCable::kWord), written + (adds ? 1 : 0));
  }
}

TEST(TransportOrder, NoAnswerOvertakesOneThatStopsBetweenTwoLinks) {
  CrowdedCable c;
  c.four.begin = [](Actor& a) {
    a.charge_us(60);
    a.post(a.queue_pair(0), CrowdedCable::request(a, Opcode::kRdmaRead, 0));
    a.post(a.queue_pair(0), CrowdedCable::request(a, Opcode::kRdmaWrite, 0));
  };
  run_until_us(c.cluster, 2000);
  EXPECT_THAT(ids(c.four), ElementsAre(0, 1));
  EXPECT_GT(c.four.done_ps.front(), 100'000'000) << "the cable is not crowded";
}

/// Both are writes of one NIC's, in whatever order they were asked for.
TEST(TransportOrder, ACompletionComesBehindWhatOthersWroteBeforeIt) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    ClusterParameters p = round_cluster(3);
    p.tear = {20'000'000, seed};
    Cluster cluster(p);
    Actor reader(cluster, 0), writer(cluster, 1), target(cluster, 2);
    writer.memory()[0] = std::byte{1};
    writer.begin = [](Actor& a) { a.post(Opcode::kRdmaWrite, 8, 0); };
    reader.begin = [](Actor& a) {
      a.charge_us(2);
      SendWr read = a.request(Opcode::kRdmaRead, 8, 2);
      read.sge.addr += 64;
      a.post(a.queue_pair(2), read);
    };
    reader.on_completion = [&](const WorkCompletion&) {
      EXPECT_EQ(reader.memory()[0], std::byte{1}) << seed;
    };
    run_until_us(cluster, 100);
    EXPECT_EQ(reader.done.size(), 1U);
  }
}

TEST(TransportOrder, WhoWatchesMemoryIsWokenByAWrite) {
  for (const std::int64_t tear_ps : {0, 5'000'000}) {
    ClusterParameters p = round_cluster(2);
    p.tear = {tear_ps, 1};
    Cluster cluster(p);
    Actor sender(cluster, 0), target(cluster, 1);
    sender.memory()[0] = std::byte{1};
    bool seen = false;
    target.begin = [](Actor& a) { a.port.watch(a.memory().first(64)); };
    target.on_step = [&] {
      std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(target.memory().data()));
      seen = seen || word.load(std::memory_order_acquire) != 0;
    };
    sender.begin = [](Actor& a) {
      a.charge_us(10);
      a.post(Opcode::kRdmaWrite, 8, 1);
    };
    run_until_us(cluster, 100);
    EXPECT_TRUE(seen) << tear_ps;
  }
}

/// A send queue's requests leave in order.
TEST(TransportOrder, NoRequestOvertakesOneWhosePayloadIsFetched) {
  const auto read_ps = [](unsigned flags) {
    Cluster cluster(round_cluster(2));
    Actor sender(cluster, 0), target(cluster, 1);
    sender.begin = [flags](Actor& a) {
      a.post(Opcode::kRdmaWrite, 8, 1, 1, kSignaled | flags);
      a.post(Opcode::kRdmaRead, 8, 1);
    };
    run_until_us(cluster, 100);
    EXPECT_THAT(ids(sender), ElementsAre(0, 1));
    return sender.done_ps.back();
  };
  const std::int64_t fetch_ps = models::to_ps(models::round_nic().dma_read_ns);
  EXPECT_GE(read_ps(0), read_ps(kInline) + fetch_ps - 100'000) << "but for stores that are a line shorter";
}

TEST(TransportOrder, AMessageDoesNotWaitForTheDataOfAReadBeforeIt) {
  Cluster cluster(round_cluster(2));
  Actor sender(cluster, 0), target(cluster, 1, {.max_recv_wr = 4});
  target.begin = [](Actor& a) { a.post_recvs(a.queue_pair(0), 1); };
  sender.begin = [](Actor& a) {
    a.charge_us(5);
    a.post(Opcode::kRdmaRead, 1 << 16, 1);
    a.post(Opcode::kSend, 8, 1);
  };
  run_until_us(cluster, 1000);
  EXPECT_THAT(ids(sender), ElementsAre(0, 1));
  ASSERT_EQ(target.done.size(), 1U);
  EXPECT_LT(target.done_ps.front(), 15'000'000) << "behind its first packet";
  EXPECT_GT(sender.done_ps.back(), 65'000'000) << "it completes behind the READ";
}

/// mlx4's atomics are not copied to the device, its READs are.
TEST(TransportOrder, AnAtomicsWqeIsFetchedWherePointersAre) {
  const auto done_ps = [](Opcode opcode, double pointers) {
    ClusterParameters p = round_cluster(2);
    p.nic.blueflame_pointers = pointers;
    Cluster cluster(p);
    Actor sender(cluster, 0), target(cluster, 1);
    sender.begin = [opcode](Actor& a) { a.post(opcode, 8, 1); };
    run_until_us(cluster, 100);
    return sender.done_ps.at(0);
  };
  const std::int64_t fetch_ps = models::to_ps(models::round_nic().dma_read_ns);
  EXPECT_GE(done_ps(Opcode::kAtomicCmpAndSwp, 0), done_ps(Opcode::kAtomicCmpAndSwp, 1) + fetch_ps - 100'000);
  EXPECT_EQ(done_ps(Opcode::kRdmaRead, 0), done_ps(Opcode::kRdmaRead, 1));
}

}  // namespace
}  // namespace verbtwin::sim
