// What others send: as much as is said, over every resource on its way, and in front of whoever comes later.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "backend/user_error.hpp"
#include "sim/actor_for_test.hpp"

namespace verbtwin::sim {
namespace {

constexpr std::int64_t kMillisecondPs = 1'000'000'000;

/// 8 Gb/s carry 1 B/ns.
ClusterParameters busy_cluster(int nodes, double background_gbps, int nics_per_node = 1) {
  ClusterParameters p = round_cluster(nodes, nics_per_node);
  p.shape.nics_per_node = nics_per_node;
  p.background_gbps = background_gbps;
  p.seed = 7;
  return p;
}

void advance(Cluster& cluster, std::int64_t to_ps) {
  cluster.clock().run_until(to_ps, [] { return true; });
}

/// Of all instances of a resource, for all of the time so far.
std::vector<double> shares(Cluster& cluster, const std::string& name) {
  std::vector<double> result;
  for (const Usage::Resource& resource : cluster.usage().resources) {
    if (resource.name != name) continue;
    for (const std::int64_t busy_ps : resource.busy_ps)
      result.push_back(static_cast<double>(busy_ps) / static_cast<double>(cluster.calendar().now_ps()));
  }
  return result;
}

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

TEST(Background, TakesItsShareOfEveryLinkAndSlot) {
  Cluster cluster(busy_cluster(2, 4));  // each has one other to send to
  advance(cluster, 10 * kMillisecondPs);
  using testing::DoubleNear;
  using testing::Each;
  EXPECT_THAT(shares(cluster, "link"), testing::AllOf(testing::SizeIs(4), Each(DoubleNear(0.5, 0.01))));
  // TLPs carry fewer headers than packets of 4 KiB have, or more.
  EXPECT_THAT(shares(cluster, "pcie_up"), testing::AllOf(testing::SizeIs(2), Each(DoubleNear(0.55, 0.05))));
  EXPECT_THAT(shares(cluster, "pcie_down"), testing::AllOf(testing::SizeIs(2), Each(DoubleNear(0.55, 0.05))));
  EXPECT_EQ(sum(shares(cluster, "nic_send")) + sum(shares(cluster, "nic_recv")), 0);
}

TEST(Background, PortsSendToOtherMachinesAtRandom) {
  Cluster cluster(busy_cluster(5, 4, 2));
  advance(cluster, 10 * kMillisecondPs);
  const std::vector<double> links = shares(cluster, "link");
  EXPECT_EQ(links.size(), 20U);
  EXPECT_THAT(links, testing::Each(testing::DoubleNear(0.5, 0.04)));
}

TEST(Background, WithoutItNothingIsSent) {
  Cluster cluster(busy_cluster(2, 0));
  EXPECT_TRUE(cluster.calendar().empty());
}

TEST(Background, EndsWhenItIsToldTo) {
  Cluster cluster(busy_cluster(3, 4));
  advance(cluster, kMillisecondPs);
  EXPECT_FALSE(cluster.calendar().empty());
  cluster.stop_background();
  advance(cluster, 2 * kMillisecondPs);
  EXPECT_TRUE(cluster.calendar().empty());
}

/// A lone READ, 200 of them one after the other: how long they take.
double read_us(double background_gbps) {
  constexpr int kReads = 200;
  Cluster cluster(busy_cluster(2, background_gbps));
  Actor reader(cluster, 0), target(cluster, 1);
  reader.begin = [](Actor& me) { me.post(Opcode::kRdmaRead, 8, 1); };
  reader.on_completion = [&](const WorkCompletion&) {
    if (reader.done.size() < kReads) reader.post(Opcode::kRdmaRead, 8, 1);
  };
  while (reader.done.size() < kReads) advance(cluster, cluster.calendar().now_ps() + kMillisecondPs);
  return static_cast<double>(reader.done_ps.back()) / kReads / 1e6;
}

TEST(Background, WhoComesLaterWaitsForItsPackets) {
  const double alone_us = read_us(0), beside_us = read_us(5.6);
  // The answer's data waits for a packet of 4 us where one stands in front of it: on the responder's link and
  // in its PCIe slot, in all for a few microseconds.
  EXPECT_GT(beside_us, alone_us + 2);
  EXPECT_LT(beside_us, alone_us + 60);
}

/// What READs ask of a node is fetched when they arrive, far ahead of the link. A packet of the others' that
/// the slot brings behind that is on the link when it is there, not before.
TEST(Background, SharesALinkThatWorkersFill) {
  constexpr std::uint32_t kBytes = 4096;
  constexpr int kThreads = 8, kWindowUs = 400;
  constexpr double kBackgroundGbps = 2;  // of 8
  ClusterParameters p = busy_cluster(2, kBackgroundGbps);
  p.shape.threads = kThreads;
  p.nic.pcie_gbps = 11;  // hardly more than the link takes of it
  Cluster cluster(p);
  QpInitAttributes attributes;
  attributes.max_rd_atomic = 16;
  std::vector<std::unique_ptr<Actor>> readers, targets;
  std::size_t done = 0;
  for (int thread = 0; thread < kThreads; ++thread) {
    Actor& reader = *readers.emplace_back(std::make_unique<Actor>(cluster, 0, attributes, thread));
    targets.push_back(std::make_unique<Actor>(cluster, 1, attributes, thread));
    reader.begin = [](Actor& me) { me.post(Opcode::kRdmaRead, kBytes, 1, 16); };
    reader.on_completion = [&](const WorkCompletion&) {
      ++done;
      reader.post(Opcode::kRdmaRead, kBytes, 1);
    };
  }
  run_until_us(cluster, kWindowUs);
  for (int window = 2; window <= 10; ++window) {
    const std::size_t before = done;
    run_until_us(cluster, window * kWindowUs);
    const double gbps = static_cast<double>(done - before) * kBytes * 8 / (kWindowUs * 1000.0);
    EXPECT_NEAR(gbps, 8 - kBackgroundGbps, 1) << "until " << window * kWindowUs << " us";
  }
}

/// Where uplinks are few, packets queue in front of them for longer than is told ahead, and stop there.
TEST(Background, WhatStopsInFrontOfALinkGoesOn) {
  ClusterParameters p = busy_cluster(8, 5);
  p.topology = FatTree{4, 2};  // an uplink for two ports, half of whose packets stay in their leaf
  Cluster cluster(p);
  advance(cluster, 10 * kMillisecondPs);
  cluster.stop_background();
  advance(cluster, 20 * kMillisecondPs);
  EXPECT_TRUE(cluster.calendar().empty());
  const double up = sum(shares(cluster, "pcie_up")), down = sum(shares(cluster, "pcie_down"));
  EXPECT_GT(up, 1);
  EXPECT_NEAR(up / down, 1, 0.1) << "all that was read somewhere was written elsewhere";
}

TEST(Background, ASeedGivesTheSameTraffic) {
  const auto links = [](std::uint64_t seed) {
    ClusterParameters p = busy_cluster(4, 3);
    p.seed = seed;
    Cluster cluster(p);
    advance(cluster, kMillisecondPs);
    return shares(cluster, "link");
  };
  EXPECT_EQ(links(1), links(1));
  EXPECT_NE(links(1), links(2));
}

/// What is allowed of a cluster's background; empty: what it asks for.
std::string refused(const ClusterParameters& p) {
  try {
    const Cluster cluster(p);
    return "";
  } catch (const UserError& error) {
    EXPECT_EQ(error.pointer(), "/cluster/network/background_gbps");
    return error.what();
  }
}

TEST(Background, MoreThanALinkOrASlotCarriesIsRefused) {
  ClusterParameters p = busy_cluster(2, 8);
  p.nic.pcie_gbps = 100;
  EXPECT_EQ(refused(p),
            "out of range: 8; allowed: less than 8, which is what PCIe and every link carry of all ports");
  p.background_gbps = 7.9;
  EXPECT_EQ(refused(p), "");
  p.nic.pcie_gbps = 8;  // whose TLPs have more headers than packets have
  EXPECT_THAT(refused(p), testing::StartsWith("out of range: 7.9; allowed: less than 6.99,"));
}

/// Four ports of a leaf send four sevenths of their packets up its one cable.
TEST(Background, APortsShareOfACableCounts) {
  ClusterParameters p = busy_cluster(8, 3.6);
  p.topology = FatTree{.leaf_ports = 4, .spines = 1};
  EXPECT_THAT(refused(p), testing::StartsWith("out of range: 3.6; allowed: less than 3.5,"));
  p.background_gbps = 3.4;
  EXPECT_EQ(refused(p), "");
}

}  // namespace
}  // namespace verbtwin::sim
