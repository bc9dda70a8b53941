#include "backend/ibverbs/fabric.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>
#include <vector>

namespace verbtwin::ibverbs {
namespace {

using testing::HasSubstr;

TEST(Fabric, ThePKeyIsTheFirstWithFullMembership) {
  const auto chosen = [](const PKeyTable& table) { return first_full_pkey(table); };
  EXPECT_EQ(chosen({0xFFFF, 0x8001}), 0U);
  EXPECT_EQ(chosen({0x7FFF, 0, 0x8001, 0xFFFF}), 2U);
  EXPECT_EQ(chosen({0x7FFF, 0x8000}), 0U) << "partition 0 is none";
  EXPECT_EQ(chosen({}), 0U);
}

TEST(Fabric, PartitionsAreApart) {
  EXPECT_EQ(why_apart(0, {.pkey = 0xFFFF}, 1, {.pkey = 0x7FFF}), "") << "a full member and a limited one";
  EXPECT_THAT(why_apart(0, {.pkey = 0x8001}, 2, {.pkey = 0xFFFF}),
              HasSubstr("rank 0's port has P_Key 0x8001 and rank 2's 0xffff"));
}

TEST(Fabric, LimitedMembersReachFullOnesOnly) {
  EXPECT_EQ(
      why_apart(0, {.pkey = 0x7FFF}, 1, {.pkey = 0x7FFF}),
      "rank 0's port and rank 1's are both limited members of their partition (P_Key 0x7fff), which do not "
      "reach each other; have the subnet manager make all but one full members");
  EXPECT_THAT(
      why_apart(1, {.pkey = 0x7FFF}, 1, {.pkey = 0x7FFF}),
      HasSubstr("rank 1's port is a limited member of its partition (P_Key 0x7fff) and does not reach"));
  EXPECT_EQ(why_apart(1, {.pkey = 0xFFFF}, 1, {.pkey = 0xFFFF}), "");
}

TEST(Fabric, APartitionOfAllRanksIsChosen) {
  const auto chosen = [](const std::vector<PKeyTable>& tables) {
    std::vector<std::vector<PKeyTable>> by_node;
    for (const PKeyTable& table : tables) by_node.push_back({table, table});
    return common_partition(by_node);
  };
  EXPECT_EQ(chosen({{0xFFFF}, {0xFFFF}, {0xFFFF}}), 0x7FFF);
  EXPECT_EQ(chosen({{0x7FFF}, {0x7FFF}}), 0) << "limited members";
  EXPECT_EQ(chosen({{0x7FFF, 0x8001, 0x8002}, {0x7FFF, 0x8002, 0x8001}}), 1);
  EXPECT_EQ(chosen({{0x8001, 0xFFFF}, {0xFFFF}}), 0x7FFF);
  EXPECT_EQ(chosen({{0x7FFF, 0x0001}, {0x7FFF, 0x8001}}), 1);
  EXPECT_EQ(chosen({{0xFFFF, 0x8001}, {0x7FFF, 0x8001}}), 1) << "rather one of full members only";
  EXPECT_EQ(chosen({{0xFFFF}, {0xFFFF}, {0x7FFF}}), 0x7FFF) << "one is limited";
  EXPECT_EQ(chosen({{0xFFFF}, {0x7FFF}, {0x7FFF}}), 0) << "two are";
  EXPECT_EQ(chosen({{0, 0x8000}, {0, 0x8000}}), 0) << "no partition";
  EXPECT_EQ(chosen({{0x8001}, {0x8002}}), 0);
  EXPECT_EQ(chosen({{}, {}}), 0);
  EXPECT_EQ(common_partition({{{0x8001, 0x8002}, {0x8002}}, {{0x8001, 0x8002}}}), 2) << "all ports of a node";
  EXPECT_EQ(pkey_of({0x7FFF, 0x8001, 0xFFFF}, 0x7FFF), 2U);
  EXPECT_EQ(pkey_of({0x8001, 0x7FFF}, 0x7FFF), 1U);
  EXPECT_EQ(pkey_of({0x8001}, 0x7FFF), std::nullopt);
}

TEST(Fabric, ANetworkOfAllRanksIsChosen) {
  const Subnet one = subnet_of(0x0A010001, 0xFFFF0000), other = subnet_of(0x0A020001, 0xFFFF0000);
  EXPECT_EQ(one, subnet_of(0x0A01FF02, 0xFFFF0000));
  EXPECT_NE(one, subnet_of(0x0A010001, 0xFFFFFF00)) << "a part of it";
  EXPECT_NE(one, other);
  const auto chosen = [](const std::vector<std::vector<Subnet>>& nodes) {
    std::vector<std::vector<std::vector<Subnet>>> by_node;
    for (const std::vector<Subnet>& node : nodes) by_node.push_back({node, node});
    return common_subnet(by_node);
  };
  EXPECT_EQ(chosen({{one, other}, {other, one}}), one) << "whatever the order of the second";
  EXPECT_EQ(chosen({{one, other}, {other}}), other);
  EXPECT_EQ(chosen({{one}, {other}}), 0U);
  EXPECT_EQ(chosen({{0, one}, {0}}), 0U) << "not known";
  EXPECT_EQ(chosen({{one}, {}}), 0U) << "asked for by the user, or not over IPv4";
  EXPECT_EQ(common_subnet({{{one, other}, {other}}, {{one, other}}}), other) << "all ports of a node";
}

TEST(Fabric, PortsOfOneKindAndSubnetReachEachOther) {
  using Kind = Fabric::Kind;
  constexpr std::uint64_t kDefault = 0xFE80'0000'0000'0000;
  const Fabric infiniband{Kind::kInfiniBand, kDefault}, v1{Kind::kRoceV1}, v2{Kind::kRoceV2};
  for (const Fabric& one : {infiniband, v1, v2}) EXPECT_EQ(why_apart(0, one, 1, one), "");
  EXPECT_EQ(
      why_apart(0, infiniband, 3, v2),
      "rank 0's port is InfiniBand and rank 3's RoCE v2: choose ports of one kind by --device and --port");
  EXPECT_EQ(why_apart(2, v1, 1, v2),
            "rank 2's port is RoCE v1 and rank 1's RoCE v2: choose GIDs of one version by --gid-index");
  EXPECT_THAT(why_apart(0, infiniband, 1, {Kind::kInfiniBand, kDefault + 1}),
              HasSubstr("rank 0's port is in InfiniBand subnet 0xfe80000000000000 and rank 1's in "
                        "0xfe80000000000001: "));
}

TEST(Fabric, GidsAreWrittenAsAddresses) {
  std::array<std::uint8_t, 16> gid{0xFE, 0x80};
  gid[15] = 1;
  EXPECT_EQ(gid_text(gid), "fe80::1");
}

TEST(Fabric, FlowsOfTwoHostsAreToldApart) {
  std::set<std::uint32_t> labels, ports;
  for (std::uint32_t mine = 0x100; mine < 0x120; ++mine) {
    for (std::uint32_t theirs = 0x100; theirs < 0x120; ++theirs) {
      const std::uint32_t label = flow_label(mine, theirs);
      EXPECT_GT(label, 0U);
      EXPECT_LT(label, 1U << 20);
      labels.insert(label);
      ports.insert((label ^ label >> 14) & 0x3FFF);  // as Linux makes a UDP source port of it
    }
  }
  EXPECT_GT(labels.size(), 1000U) << "of 1,024";
  EXPECT_GT(ports.size(), 900U);
}

}  // namespace
}  // namespace verbtwin::ibverbs
