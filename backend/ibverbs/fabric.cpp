#include "backend/ibverbs/fabric.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

namespace verbtwin::ibverbs {

namespace {

constexpr unsigned kFullMember = 0x8000;

const char* name_of(Fabric::Kind kind) {
  return kind == Fabric::Kind::kInfiniBand ? "InfiniBand"
         : kind == Fabric::Kind::kRoceV1   ? "RoCE v1"
                                           : "RoCE v2";
}

}  // namespace

std::size_t first_full_pkey(const PKeyTable& table) {
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i] > kFullMember) return i;
  }
  return 0;
}

std::optional<std::size_t> pkey_of(const PKeyTable& table, std::uint16_t partition) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if ((table[i] & ~kFullMember) != partition) continue;
    if ((table[i] & kFullMember) != 0) return i;
    if (!found) found = i;
  }
  return found;
}

std::uint16_t common_partition(const std::vector<std::vector<PKeyTable>>& by_node) {
  if (by_node.empty() || by_node.front().empty()) return 0;
  std::uint16_t with_a_limited_one = 0;
  for (const std::uint16_t pkey : by_node.front().front()) {
    const auto partition = static_cast<std::uint16_t>(pkey & ~kFullMember);
    const auto is_in = [&](const PKeyTable& table) { return pkey_of(table, partition).has_value(); };
    const auto is_full = [&](const PKeyTable& table) {
      return (table[*pkey_of(table, partition)] & kFullMember) != 0;
    };
    const bool all_in =
        std::ranges::all_of(by_node, [&](const auto& ports) { return std::ranges::all_of(ports, is_in); });
    if (partition == 0 || !all_in) continue;
    const auto limited = std::ranges::count_if(
        by_node, [&](const auto& ports) { return !std::ranges::all_of(ports, is_full); });
    if (limited == 0) return partition;
    if (limited == 1 && with_a_limited_one == 0) with_a_limited_one = partition;
  }
  return with_a_limited_one;
}

Subnet subnet_of(std::uint32_t address, std::uint32_t mask) {
  return Subnet{address & mask} << 8 | static_cast<Subnet>(std::popcount(mask));
}

Subnet common_subnet(const std::vector<std::vector<std::vector<Subnet>>>& by_node) {
  if (by_node.empty() || by_node.front().empty()) return 0;
  for (const Subnet subnet : by_node.front().front()) {
    const auto has_it = [&](const std::vector<Subnet>& port) { return std::ranges::count(port, subnet) > 0; };
    const bool all_have =
        std::ranges::all_of(by_node, [&](const auto& ports) { return std::ranges::all_of(ports, has_it); });
    if (subnet != 0 && all_have) return subnet;
  }
  return 0;
}

std::string why_apart(int a, const Fabric& of_a, int b, const Fabric& of_b) {
  if (of_a.kind != of_b.kind) {
    const bool both_roce = of_a.kind != Fabric::Kind::kInfiniBand && of_b.kind != Fabric::Kind::kInfiniBand;
    return fmt::format(
        "rank {}'s port is {} and rank {}'s {}: choose {}", a, name_of(of_a.kind), b, name_of(of_b.kind),
        both_roce ? "GIDs of one version by --gid-index" : "ports of one kind by --device and --port");
  }
  if (of_a.subnet_prefix != of_b.subnet_prefix) {
    return fmt::format(
        "rank {}'s port is in InfiniBand subnet {:#018x} and rank {}'s in {:#018x}: LIDs lead nowhere "
        "outside "
        "their subnet; choose ports of one, for all NICs of a node, by --device and --port",
        a, of_a.subnet_prefix, b, of_b.subnet_prefix);
  }
  if (((of_a.pkey ^ of_b.pkey) & ~kFullMember) != 0) {
    return fmt::format(
        "rank {}'s port has P_Key {:#06x} and rank {}'s {:#06x}: partitions are apart, and no one holds all "
        "ranks; have the subnet manager put all ports into one",
        a, of_a.pkey, b, of_b.pkey);
  }
  const bool both_limited = ((of_a.pkey | of_b.pkey) & kFullMember) == 0;
  if (both_limited && a == b) {
    return fmt::format(
        "rank {}'s port is a limited member of its partition (P_Key {:#06x}) and does not reach itself, "
        "which a rank with queue pairs has to; have the subnet manager make it a full member",
        a, of_a.pkey);
  }
  if (both_limited) {
    return fmt::format(
        "rank {}'s port and rank {}'s are both limited members of their partition (P_Key {:#06x}), which do "
        "not "
        "reach each other; have the subnet manager make all but one full members",
        a, b, of_a.pkey);
  }
  return "";
}

std::string gid_text(std::span<const std::uint8_t, 16> gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(AF_INET6, gid.data(), text.data(), text.size());
  return text.data();
}

std::uint32_t flow_label(std::uint32_t from_qp_num, std::uint32_t to_qp_num) {
  constexpr unsigned kBits = 20;
  constexpr std::uint64_t kGoldenRatio = 0x9E3779B97F4A7C15;  // of 2^64: the upper bits depend on all
  const std::uint64_t mixed = (std::uint64_t{from_qp_num} << 24 ^ to_qp_num) * kGoldenRatio;
  return std::max(1U, static_cast<std::uint32_t>(mixed >> (64 - kBits)));
}

}  // namespace verbtwin::ibverbs
