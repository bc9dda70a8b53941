// A fabric that loses packets: over RC all is done, once and in order; over UC and UD what is lost is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "sim/actor_for_test.hpp"

namespace verbtwin::sim {
namespace {

constexpr std::int64_t kTimeoutPs = 4'096'000LL << 2;

ClusterParameters lossy_cluster(double ratio, std::uint64_t seed, int ack_timeout = 2) {
  ClusterParameters p = round_cluster(2);
  p.node_memory_b = 8 << 20;
  p.shape.ack_timeout = ack_timeout;
  p.loss_ratio = ratio;
  p.seed = seed;
  return p;
}

/// Kinds by turns, each WRITE, READ and FAA at the same place of the target.
struct Mixture {
  static constexpr int kRequests = 600, kOutstanding = 24;
  static constexpr std::size_t kWord = 65'536, kCounter = kWord + 64, kResults = 4096;

  /// `tear_ps`: the target's CPUs see lines as they come.
  Mixture(double ratio, std::uint64_t seed, std::int64_t tear_ps = 0)
      : cluster([&] {
          ClusterParameters p = lossy_cluster(ratio, seed);
          p.tear = {tear_ps, seed};
          return p;
        }()),
        near(cluster, 0),
        far(cluster, 1) {
    far.begin = [](Actor& a) { a.post_recvs(a.queue_pair(0), 128); };
    far.on_completion = [this](const WorkCompletion&) { far.post_recvs(far.queue_pair(0), 1); };
    near.on_step = [this] {
      while (posted < kRequests && posted < next_done + kOutstanding) post(posted++);
    };
    near.on_completion = [this](const WorkCompletion& wc) {
      EXPECT_EQ(wc.status, WcStatus::kSuccess);
      EXPECT_GE(static_cast<int>(wc.wr_id), next_done) << "not in the order in which they were posted";
      next_done = static_cast<int>(wc.wr_id) + 1;
      near.on_step();
    };
    run_until_us(cluster, 1'000'000);
  }

  void post(int number) {
    const auto value = static_cast<std::uint64_t>(number);
    // Each has a place of its own, which the NIC reads when the request lands.
    std::byte* mine = near.memory().data() + kResults + 8 * number;
    std::memcpy(mine, &value, sizeof value);
    const unsigned flags = number % 5 == 0 && number + 1 < kRequests ? 0U : unsigned{kSignaled};
    const Opcode kinds[] = {Opcode::kRdmaWrite, Opcode::kRdmaRead, Opcode::kAtomicFetchAndAdd, Opcode::kSend};
    SendWr wr = near.request(kinds[number % 4], 8, 1, flags);
    wr.sge.addr = mine;
    wr.remote_addr += number % 4 == 2 ? kCounter : kWord;
    if (number % 4 == 2) {
      wr.compare_add = 1;
    }
    near.post(near.queue_pair(1), wr);
  }
  std::uint64_t result(int number) { return word_at(near, kResults + 8 * static_cast<std::size_t>(number)); }
  static std::uint64_t word_at(Actor& actor, std::size_t offset) {
    std::uint64_t word = 0;
    std::memcpy(&word, actor.memory().data() + offset, sizeof word);
    return word;
  }

  Cluster cluster;
  Actor near, far;
  int posted = 0, next_done = 0;
};

TEST(Loss, OverRcAllIsDoneOnceAndInOrder) {
  for (const double ratio : {0.002, 0.03, 0.1}) {
    std::uint64_t packets_lost = 0;
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
      SCOPED_TRACE(testing::Message() << ratio << ", seed " << seed);
      Mixture run(ratio, seed, seed % 2 == 0 ? 300'000 : 0);
      EXPECT_EQ(run.next_done, Mixture::kRequests) << "some never ended";
      EXPECT_EQ(Mixture::word_at(run.far, Mixture::kCounter), Mixture::kRequests / 4);
      EXPECT_EQ(run.far.done.size(), Mixture::kRequests / 4U);
      EXPECT_EQ(Mixture::word_at(run.far, Mixture::kWord), Mixture::kRequests - 4U);
      for (int number = 0; number < Mixture::kRequests; ++number) {
        // A READ that is asked for again may see what was written behind it.
        if (number % 4 == 1) {
          EXPECT_GE(run.result(number), static_cast<std::uint64_t>(number - 1));
        }
        if (number % 4 == 2) {
          EXPECT_EQ(run.result(number), static_cast<std::uint64_t>(number / 4));
        }
      }
      packets_lost += run.cluster.transport().counts().packets_lost;
      EXPECT_EQ(run.cluster.transport().in_flight(), 0U);
    }
    EXPECT_GT(static_cast<double>(packets_lost), 30 * Mixture::kRequests * ratio);
  }
}

struct Requests {
  std::vector<std::int64_t> done_ps;  // of each
  VerbCounts counts;
};
/// WRITEs of 8 B, or READs and WRITEs by turns, so many at a time.
Requests requests(const ClusterParameters& p, std::size_t count, int outstanding, bool reads = false) {
  Cluster cluster(p);
  Actor near(cluster, 0), far(cluster, 1);
  near.begin = [&](Actor& a) { a.post(Opcode::kRdmaWrite, 8, 1, outstanding); };
  near.on_completion = [&](const WorkCompletion& wc) {
    near.post(reads && wc.wr_id % 2 == 0 ? Opcode::kRdmaRead : Opcode::kRdmaWrite, 8, 1);
  };
  for (int ms = 1; near.done.size() < count && ms < 1000; ++ms) run_until_us(cluster, 1000 * ms);
  near.done_ps.resize(count);
  return {near.done_ps, cluster.transport().counts()};
}

TEST(Loss, WhatComesBehindShowsThatOneIsMissing) {
  const Requests lossless = requests(lossy_cluster(0, 3, 14), 5000, 32);  // 67 ms
  const Requests lossy = requests(lossy_cluster(0.01, 3, 14), 5000, 32);
  EXPECT_GT(lossy.counts.packets_lost, 50U);
  const double slower =
      static_cast<double>(lossy.done_ps.back()) / static_cast<double>(lossless.done_ps.back());
  EXPECT_GT(slower, 1.02) << "a round trip each";
  // The NAK of one in a hundred is lost as well.
  EXPECT_LE(lossy.counts.ack_timeouts, 3U);
}

/// Neither what is sent again nor an ACK that stands for a lost one before it.
TEST(Loss, NothingCompletesEarlierThanWithoutIt) {
  for (const bool reads : {false, true}) {
    const Requests lossless = requests(lossy_cluster(0, 3, 14), 2000, 32, reads);
    const Requests lossy = requests(lossy_cluster(0.01, 3, 14), 2000, 32, reads);
    EXPECT_GT(lossy.counts.packets_lost, 20U);
    for (std::size_t i = 0; i < lossless.done_ps.size(); ++i) {
      ASSERT_GE(lossy.done_ps[i], lossless.done_ps[i]) << i << (reads ? ", with READs" : "");
    }
  }
}

/// The NAK and what is sent again pass both NICs' pipelines.
TEST(Loss, WhatIsLostComesARoundTripLater) {
  int compared = 0;
  std::int64_t short_ps = 0, long_ps = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::uint64_t timeouts = 0;
    const auto slower_ps = [&](double pipeline_ns) {
      const auto last_ps = [&](double ratio) {
        ClusterParameters p = lossy_cluster(ratio, seed, 14);
        p.nic.send_pipeline_ns = pipeline_ns;
        const Requests all = requests(p, 500, 32);
        timeouts += all.counts.ack_timeouts;
        return all.done_ps.back();
      };
      return last_ps(0.01) - last_ps(0);
    };
    const std::int64_t one_ps = slower_ps(150), other_ps = slower_ps(2150);
    if (timeouts > 0) continue;  // a lost NAK: 67 ms
    ++compared;
    short_ps += one_ps;
    long_ps += other_ps;
  }
  EXPECT_GT(compared, 5);
  EXPECT_GT(long_ps, short_ps + compared * 2 * models::to_ps(2 * 2000));
}

TEST(Loss, ATimeoutIsForTheGapThatItWasSetFor) {
  for (const bool reads : {false, true}) {
    const Requests lossy = requests(lossy_cluster(0.05, 3), 5000, 32, reads);
    EXPECT_GT(lossy.counts.packets_lost, 500U);
    // One NAK in twenty is lost.
    EXPECT_GT(lossy.counts.ack_timeouts, 3U);
    EXPECT_LT(lossy.counts.ack_timeouts, 60U);
  }
}

TEST(Loss, ALoneRequestIsMissedAfterTheTimeout) {
  const Requests lossy = requests(lossy_cluster(0.05, 3), 1000, 1);
  std::int64_t before_ps = 0;
  const auto waited = std::ranges::count_if(lossy.done_ps, [&](std::int64_t at_ps) {
    return at_ps - std::exchange(before_ps, at_ps) > kTimeoutPs;
  });
  EXPECT_NEAR(static_cast<double>(waited), 1000 * (1 - 0.95 * 0.95), 35) << "the request or its ACK";
  EXPECT_GE(lossy.counts.ack_timeouts, static_cast<std::uint64_t>(waited));
}

TEST(Loss, LongMessagesGoOnFromWhatIsMissing) {
  constexpr std::uint32_t kBytes = 2 << 20;  // 512 packets, of which none in 100 gets through whole
  for (const Opcode op : {Opcode::kRdmaWrite, Opcode::kRdmaRead}) {
    ClusterParameters p = lossy_cluster(0.01, 5);
    p.tear.within_ps = 300'000;
    Cluster cluster(p);
    Actor near(cluster, 0), far(cluster, 1);
    std::ranges::fill((op == Opcode::kRdmaWrite ? near : far).memory().first(kBytes), std::byte{7});
    near.begin = [&](Actor& a) { a.post(op, kBytes, 1, 3); };
    run_until_us(cluster, 100'000);
    EXPECT_EQ(near.done.size(), 3U);
    const Actor& to = op == Opcode::kRdmaWrite ? far : near;
    EXPECT_EQ(std::ranges::count(const_cast<Actor&>(to).memory().first(kBytes), std::byte{7}), kBytes);
    EXPECT_NEAR(static_cast<double>(cluster.transport().counts().packets_lost), 15, 15);
    EXPECT_GE(cluster.transport().counts().packets_lost, 4U);
    EXPECT_LE(cluster.transport().counts().ack_timeouts, 1U) << "packets behind the lost one show that it is";
  }
}

/// READs of several packets come back in the midst of others' ACKs.
TEST(Loss, LongAnswersAndShortOnesCompleteInOrder) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Cluster cluster(lossy_cluster(0.05, seed));
    Actor near(cluster, 0), far(cluster, 1);
    near.begin = [](Actor& a) {
      for (int i = 0; i < 20; ++i) {
        a.post(Opcode::kRdmaRead, 8192, 1);
        a.post(Opcode::kRdmaWrite, 64, 1);
        a.charge_us(4);
      }
    };
    run_until_us(cluster, 100'000);
    ASSERT_EQ(near.done.size(), 40U) << seed;
    for (std::size_t i = 0; i < near.done.size(); ++i) ASSERT_EQ(near.done[i].wr_id, i) << seed;
  }
}

/// A lost packet costs a round trip of them and itself, not its message: on links and slots, in time too.
TEST(Loss, OfALongMessageLittleIsSentTwice) {
  for (const Opcode op : {Opcode::kRdmaWrite, Opcode::kRdmaRead}) {
    const auto run = [op](double ratio) {
      Cluster cluster(lossy_cluster(ratio, 11));
      Actor near(cluster, 0), far(cluster, 1);
      near.begin = [op](Actor& a) { a.post(op, 1 << 20, 1, 8); };
      run_until_us(cluster, 100'000);
      EXPECT_EQ(near.done.size(), 8U);
      std::int64_t links_ps = 0;
      for (const Usage::Resource& resource : cluster.usage().resources) {
        if (resource.name != "link") continue;
        for (const std::int64_t busy_ps : resource.busy_ps) links_ps += busy_ps;
      }
      EXPECT_EQ(cluster.transport().counts().packets_lost > 10, ratio > 0);
      return std::pair(static_cast<double>(links_ps), static_cast<double>(near.done_ps.back()));
    };
    const auto [links, time] = run(0.02);
    const auto [links_intact, time_intact] = run(0);
    EXPECT_GT(links / links_intact, 1.001);
    EXPECT_LT(links / links_intact, 1.2);
    EXPECT_GT(time / time_intact, 1.0005);
    EXPECT_LT(time / time_intact, 1.3);
  }
}

/// Messages of 8 B that nobody answers: how many arrive, and packets that were lost.
std::pair<std::size_t, std::uint64_t> unreliable(QpType type) {
  Cluster cluster(lossy_cluster(0.05, 9));
  Actor near(cluster, 0), far(cluster, 1);
  QpInitAttributes attributes;
  attributes.type = type;
  attributes.max_recv_wr = 4000;
  attributes.send_cq = attributes.recv_cq = near.cq.get();
  const auto from = near.port.device().create_qp(attributes);
  attributes.send_cq = attributes.recv_cq = far.cq.get();
  const auto to = far.port.device().create_qp(attributes);
  const bool connected = type == QpType::kUc;
  from->connect(connected ? to->address() : QpAddress{});
  to->connect(connected ? from->address() : QpAddress{});
  const auto address = near.port.device().create_ah(to->address());
  far.begin = [&](Actor& a) { a.post_recvs(*to, 4000); };
  const auto send = [&](Actor& a) {
    SendWr wr = a.request(Opcode::kSend, 8, 1);
    if (!connected) {
      wr.ah = address.get();
      wr.remote_qpn = to->address().qp_num;
      wr.remote_qkey = to->address().qkey;
    }
    a.post(*from, wr);
  };
  near.begin = send;
  near.on_completion = [&](const WorkCompletion&) {
    if (near.done.size() < 4000) send(near);
  };
  run_until_us(cluster, 100'000);
  EXPECT_EQ(near.done.size(), 4000U);
  return {far.done.size(), cluster.transport().counts().packets_lost};
}

/// What the sender's engine takes for so many SENDs, the RECVs for which are posted at once or after some
/// tries.
std::int64_t sends_ps(int sends, bool recvs_are_late) {
  Cluster cluster(lossy_cluster(0, 1));
  Actor near(cluster, 0), far(cluster, 1);
  near.begin = [&](Actor& a) { a.post(Opcode::kSend, 8, 1, sends); };
  far.begin = [&](Actor& a) {
    if (!recvs_are_late) a.post_recvs(a.queue_pair(0), sends);
  };
  run_until_us(cluster, 5);
  if (recvs_are_late) far.post_recvs(far.queue_pair(0), sends);
  run_until_us(cluster, 100);
  EXPECT_EQ(near.done.size(), static_cast<std::size_t>(sends));
  for (const Usage::Resource& resource : cluster.usage().resources)
    if (resource.name == "nic_send") return resource.busy_ps.front();
  return 0;
}

TEST(Loss, AllBehindASendThatFoundNoRecvIsSentAgain) {
  const std::int64_t one_ps = sends_ps(1, true) - sends_ps(1, false);
  EXPECT_GT(one_ps, 0);
  EXPECT_EQ(sends_ps(4, true) - sends_ps(4, false), 4 * one_ps);
}

TEST(Loss, WhatNobodyAnswersIsGone) {
  for (const QpType type : {QpType::kUc, QpType::kUd}) {
    const auto [arrived, lost] = unreliable(type);
    EXPECT_EQ(arrived + lost, 4000U);
    EXPECT_NEAR(static_cast<double>(lost), 200, 50);
  }
}

TEST(Loss, NothingIsLostWithinANic) {
  Cluster cluster(lossy_cluster(0.1, 1));
  Actor near(cluster, 0);
  near.begin = [](Actor& a) { a.post(Opcode::kRdmaRead, 8, 0, 100); };
  run_until_us(cluster, 1000);
  EXPECT_EQ(near.done.size(), 100U);
  EXPECT_EQ(cluster.transport().counts().packets_lost, 0U);
}

/// Both ends begin anew while some are missing: those are gone without a word, the next ones complete.
TEST(Loss, AResetForgetsWhatIsMissing) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Cluster cluster(lossy_cluster(0.1, seed));
    Actor near(cluster, 0), far(cluster, 1);
    near.begin = [](Actor& a) {
      a.post(Opcode::kRdmaRead, 8, 1, 20);
      a.post(Opcode::kRdmaWrite, 8, 1, 20);
    };
    bool is_anew = false;
    near.on_completion = [&](const WorkCompletion& wc) {
      if (wc.wr_id < 8 || std::exchange(is_anew, true)) return;
      QueuePair &mine = near.queue_pair(1), &theirs = far.queue_pair(0);
      mine.reset();
      theirs.reset();
      mine.connect(theirs.address());
      theirs.connect(mine.address());
      near.post(Opcode::kRdmaWrite, 8, 1, 10);
    };
    run_until_us(cluster, 100'000);
    const auto later = [](const WorkCompletion& wc) { return wc.wr_id >= 40; };
    EXPECT_EQ(std::ranges::count_if(near.done, later), 10) << "seed " << seed;
    EXPECT_EQ(cluster.transport().in_flight(), 0U) << "seed " << seed;
  }
}

}  // namespace
}  // namespace verbtwin::sim
