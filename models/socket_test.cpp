#include "models/socket.hpp"

#include <gtest/gtest.h>

#include "models/profiles_for_test.hpp"

namespace verbtwin::models {
namespace {

TEST(SocketCosts, CallsPayForWhatTheyMove) {
  const SocketCosts costs(round_sockets(), 1);
  EXPECT_EQ(costs.send_ps(0), 300'000);
  EXPECT_EQ(costs.send_ps(64), 314'000) << "copy and checksum";
  EXPECT_EQ(costs.send_ps(65), 328'000);
  EXPECT_EQ(costs.receive_ps(128), 270'000) << "a copy; the checksum was the interrupt's";
  EXPECT_EQ(costs.packet_ps(128), 1'208'000);
  EXPECT_EQ(costs.poll_ps(0), 200'000);
  EXPECT_EQ(costs.poll_ps(3), 500'000);
}

TEST(SocketCosts, AFasterHostTakesLessTimeButWakesNoSooner) {
  const SocketCosts costs(round_sockets(), 2);
  EXPECT_EQ(costs.segment_ps(), 750'000);
  EXPECT_EQ(costs.interrupt_ps(), 400'000);
  EXPECT_EQ(costs.ack_ps(), 300'000);
  EXPECT_EQ(costs.context_switch_ps(), 850'000);
  EXPECT_EQ(costs.send_ps(64), 157'000) << "call, copy and checksum";
  EXPECT_EQ(costs.receive_ps(64), 130'000);
  EXPECT_EQ(costs.poll_ps(1), 150'000);
  EXPECT_EQ(costs.packet_ps(64), 602'000);
  EXPECT_EQ(costs.wakeup_ps(), 3'000'000);
}

TEST(Segments, HeadersGoOnEveryPacketAndFrame) {
  SocketProfile p = free_sockets();
  const Segments ethernet(p);
  EXPECT_EQ(ethernet.packet_max_b(), 1450U);
  EXPECT_EQ(ethernet.segment_max_b(), 1450U) << "no offload: a packet at a time";
  EXPECT_EQ(ethernet.wire_b(1450), 1540U);
  EXPECT_EQ(ethernet.wire_b(0), 90U);

  p.offload_b = 65'536;
  EXPECT_EQ(Segments(p).segment_max_b(), 65'536U);

  p.mtu_b = 10'050;  // of five frames and a bit
  p.frame_payload_b = 2000;
  const Segments connected(p);
  EXPECT_EQ(connected.packet_max_b(), 10'000U);
  EXPECT_EQ(connected.wire_b(10'000), 10'050U + 6 * 40U);
}

TEST(InterruptQueue, PacketsThatComeWhileTheCoreIsAtItNeedNoInterrupt) {
  const SocketCosts costs(round_sockets(), 1);
  InterruptQueue queue(costs, 0);
  const auto first = queue.take(1'000'000, 0);
  EXPECT_EQ(first.done_ps, 1'000'000 + 2'000'000);
  EXPECT_EQ(first.cpu_ps, 2'000'000);
  const auto second = queue.take(1'500'000, 0);
  EXPECT_EQ(second.done_ps, first.done_ps + 1'200'000);
  EXPECT_EQ(second.cpu_ps, 1'200'000);
  EXPECT_EQ(queue.interrupts(), 1U);
  EXPECT_EQ(queue.take(second.done_ps, 0).cpu_ps, 2'000'000);
  EXPECT_EQ(queue.interrupts(), 2U);
  EXPECT_EQ(queue.busy_ps(), 5'200'000);
}

TEST(InterruptQueue, ModerationHoldsBackTheNextInterruptAndWhatComesMeanwhile) {
  const SocketCosts costs(round_sockets(), 1);
  InterruptQueue queue(costs, 50'000'000);
  EXPECT_EQ(queue.take(0, 0).done_ps, 2'000'000) << "the first is not held back";
  EXPECT_EQ(queue.take(10'000'000, 0).done_ps, 52'000'000);
  const auto joined = queue.take(30'000'000, 0);
  EXPECT_EQ(joined.done_ps, 53'200'000) << "taken by the same interrupt";
  EXPECT_EQ(joined.cpu_ps, 1'200'000);
  EXPECT_EQ(queue.interrupts(), 2U);
  EXPECT_EQ(queue.take(70'000'000, 0).done_ps, 102'000'000) << "behind the second, not behind its arrival";
  EXPECT_EQ(queue.take(200'000'000, 0).done_ps, 202'000'000);
}

TEST(InterruptQueue, OtherWorkStandsInFrontOfPackets) {
  const SocketCosts costs(round_sockets(), 1);
  InterruptQueue queue(costs, 0);
  queue.owe(0, 5'000'000);
  EXPECT_EQ(queue.take(1'000'000, 0).done_ps, 6'200'000);
  queue.owe(10'000'000, 5'000'000);
  EXPECT_EQ(queue.done_ps(), 15'000'000) << "it begins when it comes";
  EXPECT_EQ(queue.busy_ps(), 11'200'000);
}

TEST(InterruptQueue, WhoTakesTheCoreHoldsBackOnlyWorkThatIsThere) {
  const SocketCosts costs(round_sockets(), 1);
  InterruptQueue queue(costs, 0);
  queue.take(0, 0);
  queue.give_way(1'000'000, 700'000);
  EXPECT_EQ(queue.done_ps(), 2'700'000);
  queue.give_way(9'000'000, 700'000);
  EXPECT_EQ(queue.done_ps(), 2'700'000);
}

}  // namespace
}  // namespace verbtwin::models
