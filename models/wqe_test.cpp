// The sizes of work queue entries and packets that drivers and the InfiniBand specification give.
#include "models/wqe.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace verbtwin::models {
namespace {

constexpr std::uint32_t kMtu = 4096;
constexpr std::uint32_t kRoce = 56;  // what RoCEv2 adds to a packet

TEST(Wqe, PointersTakeNoRoomByLength) {
  for (const std::uint32_t payload_b : {0U, 1U, 64U, 4096U, 1U << 20}) {
    EXPECT_EQ(wqe_blocks(WqeKind::kRead, false, payload_b), 1U);
    EXPECT_EQ(wqe_blocks(WqeKind::kWrite, false, payload_b), 1U);
    EXPECT_EQ(wqe_blocks(WqeKind::kSend, false, payload_b), 1U);
    EXPECT_EQ(wqe_blocks(WqeKind::kUdSend, false, payload_b), 2U);
  }
  EXPECT_EQ(wqe_blocks(WqeKind::kAtomic, false, 8), 1U);
}

TEST(Wqe, ASendQueuesPlacesHoldTheLongestRequest) {
  EXPECT_EQ(send_queue_slot_bytes(false, 0), 64U);
  EXPECT_EQ(send_queue_slot_bytes(false, 28), 64U);
  EXPECT_EQ(send_queue_slot_bytes(false, 29), 128U);
  EXPECT_EQ(send_queue_slot_bytes(false, 92), 128U);
  EXPECT_EQ(send_queue_slot_bytes(false, 188), 256U);
  EXPECT_EQ(send_queue_slot_bytes(true, 0), 128U) << "a pointer behind 48 B of address";
  EXPECT_EQ(send_queue_slot_bytes(true, 60), 128U);
  EXPECT_EQ(send_queue_slot_bytes(true, 188), 256U);
}

struct Inline {
  WqeKind kind;
  std::uint32_t payload_max_b;  // that fits `blocks`
  std::uint32_t blocks;
};

TEST(Wqe, InlinePayloadsFillBlocks) {
  for (const auto& [kind, payload_max_b, blocks] : {
           Inline{WqeKind::kWrite, 28, 1},
           {WqeKind::kWrite, 92, 2},
           {WqeKind::kWrite, 156, 3},
           {WqeKind::kWrite, 220, 4},
           {WqeKind::kUdSend, 60, 2},
           {WqeKind::kUdSend, 124, 3},
           {WqeKind::kUdSend, 188, 4},
           {WqeKind::kSend, 44, 1},
           {WqeKind::kSend, 108, 2},
       }) {
    EXPECT_EQ(wqe_blocks(kind, true, payload_max_b), blocks) << payload_max_b;
    EXPECT_EQ(wqe_blocks(kind, true, payload_max_b + 1), blocks + 1) << payload_max_b + 1;
  }
}

TEST(Wqe, CompletionsAreABlock) {
  EXPECT_EQ(kCqeBytes, 64U);
  EXPECT_EQ(kWqeBlockBytes, 64U);
  EXPECT_EQ(blocks_of(0), 0U);
  EXPECT_EQ(blocks_of(64), 1U);
  EXPECT_EQ(blocks_of(65), 2U);
}

struct Packet {
  const char* name;
  std::uint32_t header_b;  // what its kind adds to a packet
  bool payload;
  std::uint32_t infiniband_b, roce_b;  // without payload
};
constexpr Packet kPackets[] = {
    {"RC READ request", kRethBytes, false, 42, 98},
    {"RC READ response", kAethBytes, true, 30, 86},
    {"RC WRITE", kRethBytes, true, 42, 98},
    {"RC WRITE_WITH_IMM", kRethBytes + kImmBytes, true, 46, 102},
    {"CAS request", kAtomicEthBytes, false, 54, 110},
    {"CAS response", kAtomicAckBytes, false, 38, 94},
    {"UD SEND", kDethBytes, true, 34, 90},
};

TEST(Packets, HaveTheirRealHeaders) {
  for (const Packet& packet : kPackets) {
    EXPECT_EQ(message_bytes(0, packet.header_b, kMtu, 0), packet.infiniband_b) << packet.name;
    EXPECT_EQ(message_bytes(0, packet.header_b, kMtu, kRoce), packet.roce_b) << packet.name;
    if (!packet.payload) continue;
    for (const std::uint32_t payload_b : {1U, 64U, kMtu}) {
      EXPECT_EQ(message_bytes(payload_b, packet.header_b, kMtu, 0), packet.infiniband_b + payload_b)
          << packet.name;
      EXPECT_EQ(message_bytes(payload_b, packet.header_b, kMtu, kRoce), packet.roce_b + payload_b)
          << packet.name;
    }
  }
  EXPECT_EQ(kAckBytes, 30U);
  EXPECT_EQ(kAckBytes + kRoce, 86U);
}

TEST(Packets, LongMessagesPayAHeaderEach) {
  EXPECT_EQ(packets_of(0, kMtu), 1U);
  EXPECT_EQ(packets_of(kMtu, kMtu), 1U);
  EXPECT_EQ(packets_of(kMtu + 1, kMtu), 2U);
  EXPECT_EQ(packets_of(10 * kMtu, kMtu), 10U);
  // The first packet of a WRITE has its RETH, the others a bare header.
  EXPECT_EQ(message_bytes(2 * kMtu + 1, kRethBytes, kMtu, 0), 2 * kMtu + 1 + 42 + 26 + 26);
  EXPECT_EQ(message_bytes(2 * kMtu + 1, kRethBytes, kMtu, kRoce), 2 * kMtu + 1 + 98 + 82 + 82);
}

}  // namespace
}  // namespace verbtwin::models
