#include "backend/ibverbs/port.hpp"

#include <gtest/gtest.h>

namespace verbtwin::ibverbs {
namespace {

double gbps(std::uint8_t link_layer, int width, int speed) {
  ibv_port_attr port{};
  port.link_layer = link_layer;
  port.active_width = static_cast<std::uint8_t>(width);
  port.active_speed = static_cast<std::uint8_t>(speed);
  return data_gbps(port);
}

constexpr int k1x = 1, k4x = 2, k12x = 8, k2x = 16;
constexpr int kSdr = 1, kDdr = 2, kQdr = 4, kFdr10 = 8, kFdr = 16, kEdr = 32, kHdr = 64, kNdr = 128;

TEST(Port, InfiniBandIsRatedByItsData) {
  const auto rate = [](int width, int speed) { return gbps(IBV_LINK_LAYER_INFINIBAND, width, speed); };
  EXPECT_EQ(rate(k4x, kSdr), 8);
  EXPECT_EQ(rate(k4x, kDdr), 16);
  EXPECT_EQ(rate(k4x, kQdr), 32);
  EXPECT_EQ(rate(k4x, kFdr10), 40);
  EXPECT_DOUBLE_EQ(rate(k4x, kFdr), 54.56);
  EXPECT_EQ(rate(k12x, kQdr), 96);
  EXPECT_EQ(rate(k4x, kEdr), 100);
  EXPECT_EQ(rate(k2x, kHdr), 100);
  EXPECT_EQ(rate(k4x, kNdr), 400);
}

TEST(Port, EthernetIsRatedByItsName) {
  const auto rate = [](int width, int speed) { return gbps(IBV_LINK_LAYER_ETHERNET, width, speed); };
  EXPECT_EQ(rate(k1x, kQdr), 10);
  EXPECT_EQ(rate(k4x, kFdr10), 40);
  EXPECT_EQ(rate(k4x, kFdr), 56);
  EXPECT_EQ(rate(k1x, kEdr), 25);
  EXPECT_EQ(rate(k4x, kEdr), 100);
}

TEST(Port, FasterLinksThanTheFieldHasAreRatedByTheKernelsWords) {
  ibv_port_attr port{};
  port.active_width = k4x;
  port.active_speed = kNdr;
  EXPECT_EQ(data_gbps(port, "800 Gb/sec (4X XDR)"), 800);
  EXPECT_EQ(data_gbps(port, "400 Gb/sec (4X NDR)"), 400);
  EXPECT_EQ(data_gbps(port, "no number"), 400);
  port.active_speed = kFdr;
  EXPECT_DOUBLE_EQ(data_gbps(port, "56 Gb/sec (4X FDR)"), 54.56) << "that is of the line, not of data";
}

TEST(Port, ASlotIsRatedByItsGenerationAndWidth) {
  EXPECT_EQ(slot_gbps("5.0 GT/s PCIe", "8"), 32);
  EXPECT_EQ(slot_gbps("8.0 GT/s PCIe", "16"), 126);
  EXPECT_EQ(slot_gbps("8 GT/s", "8"), 63) << "older kernels";
  EXPECT_EQ(slot_gbps("16.0 GT/s PCIe", "16"), 252.1);
  EXPECT_EQ(slot_gbps("64.0 GT/s PCIe", "16"), 944);
  EXPECT_EQ(slot_gbps("Unknown", "0"), 0) << "a virtual function";
  EXPECT_EQ(slot_gbps("8.0 GT/s PCIe", "63"), 0);
  EXPECT_EQ(slot_gbps("", ""), 0) << "soft-RoCE";
}

TEST(Port, AnUnknownLinkHasNoRate) {
  EXPECT_EQ(gbps(IBV_LINK_LAYER_INFINIBAND, k4x, 0), 0);
  EXPECT_EQ(gbps(IBV_LINK_LAYER_ETHERNET, 0, kEdr), 0);
}

}  // namespace
}  // namespace verbtwin::ibverbs
