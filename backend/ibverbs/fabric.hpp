// Fabric: what two ports must have in common to reach each other, as the ranks of a run tell each other
// before they connect a queue pair: a packet that a port does not take is lost without a word.
//
// Values and free functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace verbtwin::ibverbs {

struct Fabric {
  enum class Kind : std::uint8_t { kInfiniBand, kRoceV1, kRoceV2 };
  Kind kind = Kind::kRoceV2;
  std::uint64_t subnet_prefix = 0;  // InfiniBand: the first half of its GIDs
  std::uint16_t pkey = 0xFFFF;      // the partition, and in bit 15 that the port is a full member of it
};

/// Where the first P_Key with full membership is in a port's table; 0: there is none.
std::size_t first_full_pkey(std::span<const std::uint16_t> table);

/// Why a port of node `a` and one of node `b` do not reach each other, and what to do about it, on one line;
/// empty: nothing is known against it.
std::string why_apart(int a, const Fabric& of_a, int b, const Fabric& of_b);

/// As an IPv6 address.
std::string gid_text(std::span<const std::uint8_t, 16> gid);

/// The flow label of what goes from one queue pair to another: 20 bits, not all 0. NICs make RoCE's UDP
/// source port of it, by which switches choose among equal ways: without, all datagrams of two hosts take
/// one.
std::uint32_t flow_label(std::uint32_t from_qp_num, std::uint32_t to_qp_num);

}  // namespace verbtwin::ibverbs
