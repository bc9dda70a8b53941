// What a client of the RAMP family reads, asks, remembers and sends, of servers whose versions and locks are
// set. Node 0's clients; key k is at node k % 2.
#include <gtest/gtest.h>

#include <algorithm>

#include "protocols/ramp/clients_for_test.hpp"

namespace verbtwin::protocols {
namespace {

RampOptions with(RampAlgorithm algorithm, RampOptions::Get get = RampOptions::Get::kRpc) {
  RampOptions options;
  options.algorithm = algorithm;
  options.get = get;
  return options;
}
RampOptions in_place() {
  return with(RampAlgorithm::kFast, RampOptions::Get::kStar);
}
KeyGroup reading(std::vector<std::uint64_t> keys) {
  return {0, std::move(keys), {}};
}
KeyGroup writing(std::vector<std::uint64_t> keys) {
  return {0, {}, std::move(keys)};
}

/// As a client makes it that has seen as many.
constexpr std::uint64_t timestamp(std::uint64_t sequence, std::uint64_t client = 777) {
  return sequence << 30 | client;
}

/// Of the versions that name a key the newest counts, in whatever order they were read; what the server said
/// first stays on record.
TEST(RampClient, AsksForTheNewestVersionThatASiblingNames) {
  constexpr std::uint64_t kOlder = timestamp(5), kNewer = timestamp(6);
  for (const std::vector<std::uint64_t>& keys : {std::vector<std::uint64_t>{1, 3, 5}, {5, 3, 1}, {3, 1, 5}}) {
    RampCluster cluster(with(RampAlgorithm::kFast));
    cluster.put(1, timestamp(2));
    cluster.prepare(1, kOlder, {5});
    cluster.prepare(1, kNewer, {3});
    cluster.put(5, kOlder, {1});
    cluster.put(3, kNewer, {1});
    ASSERT_TRUE(cluster.run(0, reading(keys)));
    EXPECT_EQ(cluster.client(0).read_rounds(), 2U);
    const RampRead read = cluster.last(0).reads.front();
    EXPECT_EQ(read.key, 1U);
    EXPECT_EQ(read.timestamp, kNewer);
    EXPECT_EQ(read.last_commit, timestamp(2));
  }
}

/// Else what it writes would not replace what it has read.
TEST(RampClient, WritesAboveAllThatItHasRead) {
  for (const RampOptions& options : {with(RampAlgorithm::kFast), in_place()}) {
    RampCluster cluster(options);
    cluster.put(1, timestamp(50));
    ASSERT_TRUE(cluster.run(0, {0, {1}, {1}}));
    EXPECT_EQ(cluster.last(0).reads.front().timestamp, timestamp(50));
    EXPECT_EQ(cluster.client(0).in_place_accepted(), options.in_place() ? 1U : 0U);
    EXPECT_GE(cluster.last(0).timestamp, timestamp(51, 0));
    EXPECT_EQ(cluster.last_version(1), cluster.last(0).timestamp);
  }
}

/// PREPARE tells how far a key has got: who writes blindly is overtaken once.
TEST(RampClient, WritesAboveWhatAPrepareHasToldIt) {
  RampCluster cluster(with(RampAlgorithm::kFast));
  cluster.put(1, timestamp(50));
  ASSERT_TRUE(cluster.run(0, writing({1})));
  EXPECT_EQ(cluster.last_version(1), timestamp(50));
  ASSERT_TRUE(cluster.run(0, writing({1})));
  EXPECT_EQ(cluster.last_version(1), cluster.last(0).timestamp);
}

TEST(RampClient, TimestampsAreOneClientsOnly) {
  RampCluster cluster(with(RampAlgorithm::kFast));
  std::vector<std::uint64_t> all;
  for (const int node : {0, 1}) {
    for (const int client : {0, 1}) {
      ASSERT_TRUE(cluster.run(node, writing({static_cast<std::uint64_t>(2 * node + client)}), client));
      all.push_back(cluster.last(node, client).timestamp);
    }
  }
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
}

/// The more often READs of a key are in vain the longer it is asked for; each that is not takes one off.
TEST(RampClientInPlace, AsksForAWhileWhereAReadWasInVain) {
  RampCluster cluster(in_place());
  const auto reads = [&] {
    EXPECT_TRUE(cluster.run(0, reading({1})));
    return std::pair(cluster.client(0).in_place(), cluster.client(0).in_place_accepted());
  };
  constexpr auto kAsked = std::pair(std::uint64_t{0}, std::uint64_t{0});
  constexpr auto kInVain = std::pair(std::uint64_t{1}, std::uint64_t{0});
  constexpr auto kWell = std::pair(std::uint64_t{1}, std::uint64_t{1});
  cluster.put(1, timestamp(1));
  EXPECT_EQ(reads(), kWell);
  for (std::uint64_t round = 2; round < 5; ++round) {
    cluster.prepare(1, timestamp(round));
    EXPECT_EQ(reads(), kInVain) << "another is prepared";
    EXPECT_EQ(cluster.client(0).read_rounds(), 2U);
    EXPECT_EQ(reads(), kAsked) << "and it is not there yet";
    cluster.versions(1).commit(1, timestamp(round), 0);
    EXPECT_EQ(reads(), kAsked);
    EXPECT_EQ(reads(), kWell) << "round " << round;
  }
}

TEST(RampClientInPlace, KeysOfTheOwnNodeAreNotRead) {
  RampCluster cluster(in_place());
  cluster.put(0, timestamp(1));
  ASSERT_TRUE(cluster.run(0, reading({0})));
  EXPECT_EQ(cluster.last(0).reads.front().timestamp, timestamp(1));
  EXPECT_EQ(cluster.posted(), 0U);
  EXPECT_EQ(cluster.client(0).in_place(), 0U);
}

/// Its digest is right: that it is another key's is what counts.
TEST(RampClientInPlace, AnotherKeysVersionIsNotTaken) {
  RampCluster cluster(in_place());
  cluster.put(1, timestamp(1));
  cluster.put(3, timestamp(2));
  std::ranges::copy(cluster.place(3), cluster.place(1).begin());
  ASSERT_TRUE(cluster.run(0, reading({1})));
  EXPECT_EQ(cluster.client(0).in_place_accepted(), 0U);
  EXPECT_EQ(cluster.last(0).reads.front().timestamp, timestamp(1));
}

/// Of a message to the own node only what it does is charged: the value is copied, where it is READ in place
/// its digest is taken too, and COMMIT copies the version to its key's place.
TEST(RampServer, CopiesWhatItIsGivenAndOnceMoreToBeRead) {
  const auto blocks = [](const RampOptions& options) {
    RampCluster cluster(options);
    cluster.cpu(0).prices() = {};
    cluster.cpu(0).prices().cost_ps[static_cast<std::size_t>(Cost::kCopyBlock)] = 1;
    const std::int64_t begin_ps = cluster.cpu(0).now_ps();
    EXPECT_TRUE(cluster.run(0, writing({0})));
    return cluster.cpu(0).now_ps() - begin_ps;
  };
  constexpr std::int64_t kValue = RampCluster::kValueB / kCacheLineBytes;
  constexpr std::int64_t kVersion = (sizeof(VersionHead) + RampCluster::kValueB) / kCacheLineBytes;
  EXPECT_EQ(blocks(with(RampAlgorithm::kFast)), kValue);
  EXPECT_EQ(blocks(in_place()), 2 * kValue + kVersion);
}

/// Two keys that one transaction wrote, a third that an older one did: the third is looked for among the
/// siblings, or in the filters, of the two.
TEST(RampClient, GoesThroughWhatVersionsSayOfTheirSiblings) {
  const auto cycles = [](RampOptions options, const KeyGroup& group) {
    RampCluster cluster(options);
    // Who keeps no names of siblings has no room for them in what it asks for.
    const bool names = options.algorithm == RampAlgorithm::kFast;
    for (const std::uint64_t key : {1, 3}) {
      cluster.put(key, timestamp(9),
                  names ? std::vector<SiblingKey>{key == 1 ? 3U : 1U} : std::vector<SiblingKey>{});
    }
    cluster.put(5, timestamp(2));
    cluster.cpu(0).prices() = {};
    cluster.cpu(0).prices().cycle_ps = 1;
    const std::int64_t begin_ps = cluster.cpu(0).now_ps();
    EXPECT_TRUE(cluster.run(0, group));
    return cluster.cpu(0).now_ps() - begin_ps;
  };
  EXPECT_EQ(cycles(with(RampAlgorithm::kFast), reading({1, 3, 5})), 2 * 4 + 2 * 3 * 2);
  EXPECT_EQ(cycles(with(RampAlgorithm::kSmall), reading({1, 3, 5})), 0);
  RampOptions hybrid = with(RampAlgorithm::kHybrid);
  hybrid.bloom_hashes = 3;
  EXPECT_EQ(cycles(hybrid, writing({2, 4})), 8 * 3 * 2);
}

class LockingClient : public testing::Test {
 protected:
  static RampOptions options(RampOptions::Deadlock deadlock) {
    RampOptions o = with(RampAlgorithm::kS2pl);
    o.deadlock = deadlock;
    return o;
  }
  /// What another client has locked for writing.
  static LockClaim other(std::uint64_t key) {
    LockClaim claim;
    claim.key = key;
    claim.client = 99;
    claim.exclusive = true;
    return claim;
  }
  /// The longest datagram that a node has sent.
  static std::uint32_t longest_from(RampCluster& cluster, std::size_t node) {
    std::uint32_t longest = 0;
    for (const SendWr& wr : cluster.fabric().datagram_queue_pairs[node]->posted)
      longest = std::max(longest, wr.sge.length);
    return longest;
  }

  RampCluster cluster{options(RampOptions::Deadlock::kNoWait), 3};
};

TEST_F(LockingClient, IsGivenTheValueOfWhatItReadsOnly) {
  ASSERT_TRUE(cluster.run(0, writing({1})));
  EXPECT_EQ(cluster.client(0).read_rounds(), 0U) << "nothing was read";
  EXPECT_LT(longest_from(cluster, 1), RampCluster::kValueB);
  ASSERT_TRUE(cluster.run(0, {0, {1}, {1}}));
  EXPECT_EQ(cluster.client(0).read_rounds(), 1U);
  EXPECT_GT(longest_from(cluster, 1), RampCluster::kValueB);
}

TEST_F(LockingClient, ReleasesEachLockOnce) {
  cluster.cpu(1).prices() = {};
  cluster.cpu(1).prices().cost_ps[static_cast<std::size_t>(Cost::kLocalAtomic)] = 1;
  const std::int64_t begin_ps = cluster.cpu(1).now_ps();
  ASSERT_TRUE(cluster.run(0, {0, {1, 4}, {4, 7}}));
  EXPECT_EQ(cluster.cpu(1).now_ps() - begin_ps, 2 * 3);
  EXPECT_TRUE(cluster.locks(1).claimed_keys().empty());
}

/// The rest is not this client's to release: its server is not asked.
TEST_F(LockingClient, WhoIsRefusedReleasesWhatItWasGranted) {
  ASSERT_EQ(cluster.locks(1).lock(other(1)), LockTable::Verdict::kGranted);
  const std::uint64_t packets = cluster.fabric().packets;
  EXPECT_FALSE(cluster.run(0, reading({1, 2})));
  EXPECT_EQ(cluster.client(0).abort_reason(), RampAbort::kLockRefused);
  EXPECT_EQ(cluster.fabric().packets - packets, 2U * (1 + 2))
      << "a lock of node 1; lock and release of node 2";
  EXPECT_TRUE(cluster.locks(2).claimed_keys().empty());
  EXPECT_EQ(cluster.locks(1).claimed_keys(), std::vector<std::uint64_t>{1});
}

/// It came through another worker of the server, which alone can answer, and may sleep.
TEST_F(LockingClient, AGrantWakesTheWorkerThatTheRequestCameThrough) {
  RampCluster waiting(options(RampOptions::Deadlock::kWaitDie));
  LockClaim younger = other(1), older = other(1);
  younger.since_ps = 10;
  older.client = 98;
  older.thread = 1;
  ASSERT_EQ(waiting.locks(1).lock(younger), LockTable::Verdict::kGranted);
  ASSERT_EQ(waiting.locks(1).lock(older), LockTable::Verdict::kWaits);
  waiting.release(1, younger.client);
  EXPECT_EQ(waiting.fabric().wakes, 1U);
  waiting.release(1, older.client);
  EXPECT_EQ(waiting.fabric().wakes, 1U) << "nobody waits for it";
  EXPECT_TRUE(waiting.locks(1).claimed_keys().empty());
}

}  // namespace
}  // namespace verbtwin::protocols
