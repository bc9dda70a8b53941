// Fabric: what two ports must have in common to reach each other, as the ranks of a run tell each other
// before they connect a queue pair: a packet that a port does not take is lost without a word.
//
// Values and free functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace verbtwin::ibverbs {

struct Fabric {
  enum class Kind : std::uint8_t { kInfiniBand, kRoceV1, kRoceV2 };
  Kind kind = Kind::kRoceV2;
  std::uint64_t subnet_prefix = 0;  // InfiniBand: the first half of its GIDs
  std::uint16_t pkey = 0xFFFF;      // the partition, and in bit 15 that the port is a full member of it
};

/// A port's P_Keys, by index.
using PKeyTable = std::vector<std::uint16_t>;

/// Where the first P_Key with full membership is in a port's table; 0: there is none.
std::size_t first_full_pkey(const PKeyTable& table);

/// Where a port's P_Key of a partition (bits 0 to 14) is, one with full membership if there is one; nullopt:
/// it is not in that partition.
std::optional<std::size_t> pkey_of(const PKeyTable& table, std::uint16_t partition);

/// The partition in which all nodes reach each other, each by all of its ports: at most one of them is a
/// limited member. Of several the first of node 0's without any such, else the first; 0: there is none.
std::uint16_t common_partition(const std::vector<std::vector<PKeyTable>>& by_node);

/// An IPv4 network as ranks tell each other of it: its first address and behind it how many bits are fixed;
/// 0: not known.
using Subnet = std::uint64_t;
/// Of an address of the network and its mask, both as numbers.
Subnet subnet_of(std::uint32_t address, std::uint32_t mask);

/// The first network of node 0's ports in which all ports of all nodes have a GID; 0: there is none. By node,
/// port and GID.
Subnet common_subnet(const std::vector<std::vector<std::vector<Subnet>>>& by_node);

/// Why a port of node `a` and one of node `b` do not reach each other, and what to do about it, on one line;
/// empty: nothing is known against it. `a` may be `b`: by a queue pair to itself.
std::string why_apart(int a, const Fabric& of_a, int b, const Fabric& of_b);

/// As an IPv6 address.
std::string gid_text(std::span<const std::uint8_t, 16> gid);

/// The flow label of what goes from one queue pair to another: 20 bits, not all 0. NICs make RoCE's UDP
/// source port of it, by which switches choose among equal ways: without, all datagrams of two hosts take
/// one.
std::uint32_t flow_label(std::uint32_t from_qp_num, std::uint32_t to_qp_num);

}  // namespace verbtwin::ibverbs
