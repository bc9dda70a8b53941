#include "backend/ibverbs/fabric.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace verbtwin::ibverbs {

namespace {

constexpr unsigned kFullMember = 0x8000;

}  // namespace

std::size_t first_full_pkey(std::span<const std::uint16_t> table) {
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i] > kFullMember) return i;
  }
  return 0;
}

std::string why_apart(int a, const Fabric& of_a, int b, const Fabric& of_b) {
  if (((of_a.pkey ^ of_b.pkey) & ~kFullMember) != 0) {
    return fmt::format(
        "rank {}'s port has P_Key {:#06x} and rank {}'s {:#06x}, the first with full membership in their "
        "tables: partitions are apart; have the subnet manager put both ports into one",
        a, of_a.pkey, b, of_b.pkey);
  }
  return "";
}

std::uint32_t flow_label(std::uint32_t from_qp_num, std::uint32_t to_qp_num) {
  constexpr unsigned kBits = 20;
  constexpr std::uint64_t kGoldenRatio = 0x9E3779B97F4A7C15;  // of 2^64: the upper bits depend on all
  const std::uint64_t mixed = (std::uint64_t{from_qp_num} << 24 ^ to_qp_num) * kGoldenRatio;
  return std::max(1U, static_cast<std::uint32_t>(mixed >> (64 - kBits)));
}

}  // namespace verbtwin::ibverbs
