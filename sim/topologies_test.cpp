// The routes of a fat tree, a torus and a dragonfly.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/platform.hpp"

namespace verbtwin::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

std::vector<std::string> link_names(const Platform& platform, int from, int to) {
  const std::vector<std::uint32_t> route = platform.route(from, to);
  std::vector<std::string> names;
  for (const std::uint32_t link : route) names.push_back(platform.link(link).name);
  return names;
}

StarParameters six_nodes() {
  return {.nodes = 6, .nics_per_node = 2, .link_gbps = 100, .cable_ps = 25'000, .switch_ps = 130'000};
}

/// Of the links from one endpoint to another, all of 100 Gb/s.
std::vector<std::int64_t> latencies_ps(Platform& platform, int from, int to) {
  const std::vector<std::uint32_t> route = platform.route(from, to);
  std::vector<std::int64_t> all;
  for (const std::uint32_t link : route) {
    EXPECT_DOUBLE_EQ(platform.link(link).bandwidth_bytes_per_s, 12.5e9);
    all.push_back(platform.link(link).latency_ps);
  }
  return all;
}

TEST(FatTree, LeavesAreTwoLinksApartAndSpinesFour) {
  const auto platform = Platform::fat_tree(six_nodes(), {.leaf_ports = 4, .spines = 2});
  ASSERT_EQ(platform->endpoints(), 12);
  EXPECT_EQ(platform->endpoint(5, 1), 11);
  EXPECT_THAT(latencies_ps(*platform, 0, 3), ElementsAre(25'000, 155'000)) << "one leaf";
  EXPECT_THAT(latencies_ps(*platform, 0, 4), ElementsAre(25'000, 155'000, 155'000, 155'000));
  EXPECT_THAT(latencies_ps(*platform, 11, 0), ElementsAre(25'000, 155'000, 155'000, 155'000));
  EXPECT_THAT(link_names(*platform, 7, 7), IsEmpty());

  // Nobody shares a port's own links; between leaves the target decides which of the spines.
  EXPECT_NE(link_names(*platform, 0, 4)[0], link_names(*platform, 1, 4)[0]);
  EXPECT_NE(link_names(*platform, 0, 4)[1], link_names(*platform, 0, 5)[1]);
  EXPECT_EQ(link_names(*platform, 0, 4)[1], link_names(*platform, 1, 4)[1]) << "a cable to a spine is shared";
  EXPECT_NE(link_names(*platform, 0, 4)[1], link_names(*platform, 4, 0)[2]) << "each direction is its own";
}

/// Links are added up in their order, which the platforms before must not decide; nor may they the spine.
TEST(FatTree, IsTheSameWhateverTheProcessHadBefore) {
  std::vector<std::vector<std::uint32_t>> first;
  for (int again = 0; again < 12; ++again) {
    const auto platform = Platform::fat_tree({5, 1, 100, 0, 0}, {.leaf_ports = 1, .spines = 16});
    std::vector<std::vector<std::uint32_t>> routes;
    for (int from = 0; from < 5; ++from)
      for (int to = 0; to < 5; ++to) routes.push_back(platform->route(from, to));
    if (first.empty()) first = routes;
    ASSERT_EQ(routes, first) << again;
  }
}

TEST(Torus, AHopIsALinkAndGoesTheShorterWayRound) {
  const auto platform = Platform::torus(six_nodes(), {{4, 3}});
  ASSERT_EQ(platform->endpoints(), 12);
  const auto hops = [](int number) { return SizeIs(2 + number); };  // and the port's link at either end
  EXPECT_THAT(latencies_ps(*platform, 0, 1), ElementsAre(0, 155'000, 0));
  EXPECT_THAT(latencies_ps(*platform, 0, 3), ElementsAre(0, 155'000, 0)) << "round the edge";
  EXPECT_THAT(latencies_ps(*platform, 0, 2), hops(2));
  EXPECT_THAT(latencies_ps(*platform, 0, 8), hops(1)) << "round the second dimension";
  EXPECT_THAT(latencies_ps(*platform, 0, 6), hops(3));
  EXPECT_THAT(link_names(*platform, 5, 5), IsEmpty());
  EXPECT_EQ(link_names(*platform, 0, 2)[2], link_names(*platform, 1, 2)[1]) << "what passes by shares links";
  EXPECT_NE(link_names(*platform, 0, 1)[1], link_names(*platform, 1, 0)[1]) << "each direction is its own";
  EXPECT_EQ(link_names(*platform, 0, 1)[0], link_names(*platform, 0, 3)[0]) << "whatever the way, one port";
  EXPECT_EQ(link_names(*platform, 0, 1)[2], link_names(*platform, 2, 1)[2]);
}

TEST(Torus, MayHaveMorePlacesThanPorts) {
  const auto platform = Platform::torus(six_nodes(), {{2, 2, 2, 2}});
  EXPECT_EQ(platform->endpoints(), 12);
  EXPECT_THAT(latencies_ps(*platform, 0, 11), SizeIs(2 + 3)) << "11 is 1011";
}

TEST(Torus, ADimensionOfOneJoinsNothing) {
  EXPECT_THAT(latencies_ps(*Platform::torus(six_nodes(), {{1, 12, 1, 1}}), 0, 6), SizeIs(2 + 6));
  const StarParameters one{.nodes = 1, .nics_per_node = 1, .link_gbps = 100, .cable_ps = 0, .switch_ps = 0};
  EXPECT_EQ(Platform::torus(one, {{1, 1}})->endpoints(), 1);
}

TEST(Dragonfly, RoutersChassisAndGroupsAreEachALinkFurther) {
  const Dragonfly shape{.groups = 2, .chassis = 2, .routers = 2, .router_ports = 2, .group_cables = 1};
  const auto platform = Platform::dragonfly(six_nodes(), shape);
  ASSERT_EQ(platform->endpoints(), 12);
  EXPECT_THAT(latencies_ps(*platform, 0, 1), ElementsAre(25'000, 155'000)) << "one router";
  EXPECT_THAT(latencies_ps(*platform, 0, 2), ElementsAre(25'000, 155'000, 155'000)) << "one chassis";
  EXPECT_THAT(latencies_ps(*platform, 0, 4), ElementsAre(25'000, 155'000, 155'000))
      << "its place in the next";
  EXPECT_THAT(latencies_ps(*platform, 0, 6), ElementsAre(25'000, 155'000, 155'000, 155'000)) << "one group";
  // Group 0 holds its cable to group 1 at router 1, group 1 its to group 0 at router 0.
  EXPECT_THAT(latencies_ps(*platform, 2, 8), ElementsAre(25'000, 155'000, 155'000));
  EXPECT_THAT(latencies_ps(*platform, 0, 8), ElementsAre(25'000, 155'000, 155'000, 155'000));
  EXPECT_THAT(link_names(*platform, 7, 7), IsEmpty());
  EXPECT_EQ(link_names(*platform, 2, 8)[1], link_names(*platform, 3, 9)[1])
      << "a cable between groups is shared";
}

/// Routers that a message meets before its last, counted by hand: as far as the gates, and behind them.
int minimal_hops(const Dragonfly& d, int from, int to) {
  struct At {
    int group, chassis, blade;
  };
  const auto place = [&](int port) {
    const int router = port / d.router_ports;
    return At{router / (d.routers * d.chassis), router / d.routers % d.chassis, router % d.routers};
  };
  const auto within = [](const At& a, const At& b) {
    return (a.blade != b.blade) + (a.chassis != b.chassis);
  };
  const At a = place(from), b = place(to);
  if (a.group == b.group) return within(a, b);
  return within(a, {a.group, b.group / d.routers, b.group % d.routers}) + 1 +
         within({b.group, a.group / d.routers, a.group % d.routers}, b);
}

TEST(Dragonfly, EveryPairTakesAsFewHopsAsThereAre) {
  for (const Dragonfly& d : {Dragonfly{1, 2, 2, 1, 1}, Dragonfly{1, 3, 3, 1, 1}, Dragonfly{1, 2, 4, 4, 1},
                             Dragonfly{2, 2, 2, 1, 1}, Dragonfly{2, 2, 1, 1, 1}, Dragonfly{6, 3, 2, 2, 4},
                             Dragonfly{4, 2, 4, 2, 4}, Dragonfly{3, 1, 4, 1, 2}}) {
    const int places = d.groups * d.chassis * d.routers * d.router_ports;
    const auto platform = Platform::dragonfly({places, 1, 100, 25'000, 130'000}, d);
    for (int from = 0; from < places; ++from) {
      for (int to = 0; to < places; ++to) {
        if (from == to) continue;
        const std::vector<std::string> names = link_names(*platform, from, to);
        const std::size_t hops = static_cast<std::size_t>(minimal_hops(d, from, to));
        ASSERT_THAT(names, SizeIs(2 + hops))
            << d.groups << ' ' << d.chassis << ' ' << d.routers << ": " << from << " to " << to;
        EXPECT_EQ(names.front(), "port-" + std::to_string(from) + "-up");
        EXPECT_EQ(names.back(), "port-" + std::to_string(to) + "-down");
        // A cable begins where the one before has ended.
        std::string at = std::to_string(from / d.router_ports);
        for (std::size_t hop = 1; hop <= hops; ++hop) {
          const std::string begins = "switch-" + at + "-to-";
          ASSERT_THAT(names[hop], StartsWith(begins));
          at = names[hop].substr(begins.size());
        }
        EXPECT_EQ(at, std::to_string(to / d.router_ports));
      }
    }
  }
}

TEST(Dragonfly, AMessageStaysInItsChassis) {
  const auto platform = Platform::dragonfly({4, 1, 100, 0, 0}, {1, 2, 2, 1, 1});
  EXPECT_THAT(link_names(*platform, 2, 3), ElementsAre("port-2-up", "switch-2-to-3", "port-3-down"));
  EXPECT_THAT(link_names(*platform, 2, 1),
              ElementsAre("port-2-up", "switch-2-to-3", "switch-3-to-1", "port-1-down"));
}

TEST(Dragonfly, CablesBetweenGroupsAddUp) {
  const auto platform = Platform::dragonfly(
      six_nodes(), {.groups = 2, .chassis = 1, .routers = 2, .router_ports = 3, .group_cables = 3});
  const std::vector<std::uint32_t> route = platform->route(3, 6);
  ASSERT_THAT(route, SizeIs(3));
  EXPECT_DOUBLE_EQ(platform->link(route[1]).bandwidth_bytes_per_s, 3 * 12.5e9);
}

}  // namespace
}  // namespace verbtwin::sim
