// Sizes of work queue entries and packets, in bytes. Pure functions, any thread.
//
// WQE: segments of 16 B in blocks of 64 B, as the mlx5 driver lays them out (rdma-core,
// providers/mlx5/wqe.h): control 16, remote address 16, data pointer 16 or inline header 4 + payload, atomic
// 16, UD address vector 48. Packets: InfiniBand (IBA 1.3 volume 1, chapter 5): LRH 8 + BTH 12 + ICRC 4 + VCRC
// 2, and what a kind adds: RETH 16, AtomicETH 28, AETH 4, AtomicAckETH 8, DETH 8, ImmDt 4.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace verbtwin::models {

enum class WqeKind : std::uint8_t { kRead, kWrite, kAtomic, kSend, kUdSend };

inline constexpr std::uint32_t kWqeBlockBytes = 64;
inline constexpr std::uint32_t kCqeBytes = 64;
inline constexpr std::uint32_t kRecvWqeBytes = 16;
inline constexpr std::uint32_t kRecvLineBytes = 64;  // of them that one DMA read brings

inline constexpr std::uint32_t blocks_of(std::uint32_t bytes) {
  return (bytes + kWqeBlockBytes - 1) / kWqeBlockBytes;
}

/// Blocks of a send WQE; `inline_b` is the payload carried in it, 0 if it is named by a pointer.
inline constexpr std::uint32_t wqe_blocks(WqeKind kind, bool is_inline, std::uint32_t payload_b) {
  std::uint32_t segments_b = 16;  // control
  if (kind == WqeKind::kRead || kind == WqeKind::kWrite || kind == WqeKind::kAtomic) segments_b += 16;
  if (kind == WqeKind::kAtomic) segments_b += 16;
  if (kind == WqeKind::kUdSend) segments_b += 48;
  segments_b += is_inline ? 4 + payload_b : 16;
  return blocks_of(segments_b);
}

/// A place in a send queue as the mlx4 driver lays it out: the power of two that holds the longest WQE that
/// may be posted there, an atomic's or one with all that may be inline (rdma-core, providers/mlx4/qp.c,
/// mlx4_calc_sq_wqe_size).
inline constexpr std::uint32_t send_queue_slot_bytes(bool is_datagram, std::uint32_t max_inline_b) {
  const std::uint32_t address_b = is_datagram ? 16 + 48 : 16 + 16;  // with the control segment
  const std::uint32_t rest_b = is_datagram ? 16 : 16 + 16;          // a pointer; and an atomic's words
  return std::bit_ceil(address_b + std::max(rest_b, 4 + max_inline_b));
}

inline constexpr std::uint32_t kPacketBytes = 26;  // LRH + BTH + ICRC + VCRC
inline constexpr std::uint32_t kAckBytes = kPacketBytes + 4;

/// What a port can grant its link at most, in blocks of 64 B: half of the counter of 12 bits (InfiniBand
/// Architecture Specification, volume 1, 7.9.4.4).
inline constexpr std::int64_t kCreditBlocks = 2048;
inline constexpr std::uint32_t kCreditBlockBytes = 64;

/// Header bytes of a whole message of `payload_b` in packets of `mtu_b`: `first_b` on its first packet (or on
/// each, where a response repeats it), `extra_b` (RoCEv2) on every one.
inline constexpr std::uint32_t packets_of(std::uint32_t payload_b, std::uint32_t mtu_b) {
  return payload_b <= mtu_b ? 1 : (payload_b + mtu_b - 1) / mtu_b;
}

inline constexpr std::uint32_t message_bytes(std::uint32_t payload_b, std::uint32_t first_b,
                                             std::uint32_t mtu_b, std::uint32_t extra_b) {
  return payload_b + first_b + packets_of(payload_b, mtu_b) * (kPacketBytes + extra_b);
}

inline constexpr std::uint32_t kRethBytes = 16;
inline constexpr std::uint32_t kAtomicEthBytes = 28;
inline constexpr std::uint32_t kAethBytes = 4;
inline constexpr std::uint32_t kAtomicAckBytes = 12;  // AETH + AtomicAckETH
inline constexpr std::uint32_t kDethBytes = 8;
inline constexpr std::uint32_t kImmBytes = 4;

}  // namespace verbtwin::models
