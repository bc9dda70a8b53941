// A star at 100 Gb/s: 80 ps a byte; 25 ns of cable on each link, 130 ns of switch before each down-link.
#include "sim/fabric.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <simgrid/s4u.hpp>
#include <vector>

#include "backend/user_error.hpp"

namespace verbtwin::sim {
namespace {

constexpr std::int64_t kBytePs = 80;
constexpr std::int64_t kCablePs = 25'000;
constexpr std::int64_t kSwitchPs = 130'000;

constexpr std::int64_t kLate_ps = 1'000'000'000;  // all is done by then

struct Star {
  explicit Star(int nodes, int nics_per_node = 1, double link_gbps = 100)
      : platform(Platform::star({.nodes = nodes,
                                 .nics_per_node = nics_per_node,
                                 .link_gbps = link_gbps,
                                 .cable_ps = kCablePs,
                                 .switch_ps = kSwitchPs})),
        fabric(*platform) {}

  /// When the last byte of a message is there.
  std::int64_t send(int from, int to, std::uint32_t bytes, std::int64_t at_ps = 0) {
    return fabric.cross(fabric.path(from, to), bytes, {at_ps, 0, 0}).there.at();
  }

  std::unique_ptr<Platform> platform;
  Fabric fabric;
};

TEST(Fabric, AnIdlePathTakesItsLatenciesAndTheBytesOnce) {
  for (const std::uint32_t bytes : {30U, 64U, 4138U, 100'000U}) {
    Star star(4);
    EXPECT_EQ(star.send(0, 3, bytes, 7000), 7000 + bytes * kBytePs + 2 * kCablePs + kSwitchPs) << bytes;
  }
}

TEST(Fabric, PacketsEnterAndLeaveOneByOne) {
  Star star(2);
  models::Moment ready{100'000, 0, 0};
  ready.spread_ps = 75'000;  // four of 1,000 B, one every 25 ns: faster than the link's 80
  const models::Moment there = star.fabric.cross(star.fabric.path(0, 1), 4000, ready, {4000, 1000}).there;
  EXPECT_EQ(there.first().at(), 25'000 + 1000 * kBytePs + 2 * kCablePs + kSwitchPs);
  EXPECT_EQ(there.at(), 25'000 + 4000 * kBytePs + 2 * kCablePs + kSwitchPs);
  ready.spread_ps = 1'000'000;
  ready.queue_ps = 9'000'000;  // slower than the link, which is idle again
  EXPECT_EQ(star.fabric.cross(star.fabric.path(0, 1), 4000, ready, {4000, 1000}).there.at(),
            9'000'000 + 1000 * kBytePs + 2 * kCablePs + kSwitchPs);
}

TEST(Fabric, BandwidthIsTheLinks) {
  EXPECT_EQ(Star(2, 1, 10).send(0, 1, 1000), 1000 * 800 + 2 * kCablePs + kSwitchPs);
}

TEST(Fabric, AStarIsAnUpLinkAndADownLink) {
  Star star(3, 2);
  const Path path = star.fabric.path(star.platform->endpoint(0, 1), star.platform->endpoint(2, 0));
  EXPECT_EQ(path.count, 2);
  EXPECT_EQ(path.from, star.platform->endpoint(0, 1));
  EXPECT_EQ(path.to, star.platform->endpoint(2, 0));
}

TEST(Fabric, APathIsLookedUpOnce) {
  Star star(3);
  const Path first = star.fabric.path(0, 1);
  star.fabric.path(0, 2);
  star.fabric.path(1, 0);
  const Path again = star.fabric.path(0, 1);
  EXPECT_EQ(first.first, again.first);
  EXPECT_EQ(first.count, again.count);
}

TEST(Fabric, LoopbackCrossesNoLink) {
  Star star(2);
  EXPECT_EQ(star.fabric.path(1, 1).count, 0);
  EXPECT_EQ(star.send(1, 1, 4096, 500), 500);
  for (std::size_t link = 0; link < star.fabric.links(); ++link)
    EXPECT_EQ(star.fabric.link_done_ps(link, kLate_ps), 0);
}

TEST(Fabric, ASenderSerialisesItsMessages) {
  Star star(3);
  const std::int64_t idle_ps = 1000 * kBytePs + 2 * kCablePs + kSwitchPs;
  EXPECT_EQ(star.send(0, 1, 1000), idle_ps);
  EXPECT_EQ(star.send(0, 2, 1000), idle_ps + 1000 * kBytePs) << "one up-link, whoever it is for";
}

TEST(Fabric, IncastQueuesAtTheDownLinkInOrderOfArrival) {
  constexpr int kSenders = 8;
  Star star(kSenders + 1);
  const std::int64_t idle_ps = 1000 * kBytePs + 2 * kCablePs + kSwitchPs;
  for (int i = 0; i < kSenders; ++i) {
    EXPECT_EQ(star.send(1 + i, 0, 1000, i), idle_ps + i * 1000 * kBytePs)
        << "the sender that is " << i << " ps late";
  }
  std::vector<std::int64_t> busy_ps;
  for (std::size_t link = 0; link < star.fabric.links(); ++link) {
    if (const std::int64_t done_ps = star.fabric.link_done_ps(link, kLate_ps); done_ps > 0)
      busy_ps.push_back(done_ps);
  }
  EXPECT_THAT(busy_ps, testing::UnorderedElementsAre(
                           kSenders * 1000 * kBytePs, 1000 * kBytePs, 1000 * kBytePs, 1000 * kBytePs,
                           1000 * kBytePs, 1000 * kBytePs, 1000 * kBytePs, 1000 * kBytePs, 1000 * kBytePs))
      << "one down-link and each sender's up-link";
}

TEST(Fabric, WhatNobodyWaitsForStillTakesTheLink) {
  Star star(3);
  star.fabric.cross_quietly(star.fabric.path(0, 1), 1000);
  EXPECT_EQ(star.send(0, 2, 1000), 2 * 1000 * kBytePs + 2 * kCablePs + kSwitchPs);
}

/// An ACK takes turns with the packets of what is in front of it: it waits for the rest of one.
TEST(Fabric, WhatHasNoPayloadTakesTheLinkAndWaitsForOnePacket) {
  Star star(3);
  const Path path = star.fabric.path(0, 1);
  const std::int64_t idle_ps = 30 * kBytePs + 2 * kCablePs + kSwitchPs;
  EXPECT_EQ(star.send(0, 1, 30), idle_ps);
  star.fabric.cross(path, 100'000, {}, {100'000, 4096});
  const Fabric::Crossing ack = star.fabric.slip_through(path, 30, {});
  constexpr std::int64_t kRestB = (30 + 100'000) % 4096;
  EXPECT_EQ(ack.there.at(), idle_ps + kRestB * kBytePs);
  EXPECT_EQ(ack.left.at(), (kRestB + 30) * kBytePs);
  EXPECT_EQ(ack.links, path.count);
  EXPECT_EQ(star.send(0, 1, 1000), (30 + 100'000 + 30 + 1000) * kBytePs + 2 * kCablePs + kSwitchPs);
}

TEST(Fabric, OtherDownLinksDoNotFeelAnIncast) {
  Star star(6);
  for (int sender = 1; sender < 5; ++sender) star.send(sender, 0, 100'000);
  EXPECT_EQ(star.send(0, 5, 1000), 1000 * kBytePs + 2 * kCablePs + kSwitchPs);
}

TEST(Fabric, WhatLeavesItsPortIsStillOnItsWay) {
  Star star(3);
  for (int message = 1; message <= 3; ++message) {
    const Fabric::Crossing crossing =
        star.fabric.cross(star.fabric.path(0, message % 2 + 1), 1000, {0, 0, 0});
    EXPECT_EQ(crossing.left.at(), message * 1000 * kBytePs) << "one behind the other";
    EXPECT_EQ(crossing.there.at(), crossing.left.at() + 2 * kCablePs + kSwitchPs);
  }
}

TEST(Fabric, AMessageLeavesItsPortWhenThereIsRoomForIt) {
  constexpr std::uint32_t kBytes = 32'768, kRoom = 131'072;
  Star star(4);
  for (int from = 0; from < 3; ++from) {
    for (int i = 0; i < 16; ++i) star.send(from, 3, kBytes);
  }
  const Fabric::Crossing last = star.fabric.cross(star.fabric.path(0, 3), kBytes, {0, 0, 0});
  EXPECT_EQ(last.there.at(), 49 * kBytes * kBytePs + 2 * kCablePs + kSwitchPs);
  EXPECT_EQ(last.left.at(), (49 * kBytes - kRoom) * kBytePs) << "its own port is done with 17 by then";
}

TEST(Fabric, ALinkThatGoesDownIsRefused) {
  Star star(2);
  EXPECT_THROW(simgrid::s4u::Link::by_name("node-0-nic-0_UP")->turn_off(), UserError);
}

TEST(Fabric, DirectionsOfACableAreIndependent) {
  Star star(2);
  const std::int64_t idle_ps = 50'000 * kBytePs + 2 * kCablePs + kSwitchPs;
  EXPECT_EQ(star.send(0, 1, 50'000), idle_ps);
  EXPECT_EQ(star.send(1, 0, 50'000), idle_ps);
}

}  // namespace
}  // namespace verbtwin::sim
