// Conformance of a queue pair's life: reset and connect again, and nothing of the life before shows up.
#pragma once

#include <limits>

#include "backend/conformance/fixture.hpp"
#include "backend/user_error.hpp"

namespace verbtwin::conformance {

TEST_P(VerbsConformance, AFailedQueuePairWorksAgainAfterResetAndConnect) {
  const Ends ends = connect();
  SendWr bad = read(1, a().sge(0, 8), b(), 0);
  bad.rkey += 1000;
  post(ends.near, bad);
  sent(a(), 1);
  ends.near.reset();
  ends.far.reset();
  EXPECT_EQ(ends.near.state(), QpState::kReset);
  expect_refused(ends.near, write(2, a().sge(0, 8), b(), 0), "RESET");
  join(ends);
  EXPECT_EQ(ends.near.state(), QpState::kRts);
  a().fill(0, 64, 4);
  post(ends.far, recv(3, b().sge(0, 64)));
  post(ends.near,
       {send(4, a().sge(0, 64)), write(5, a().sge(0, 64), b(), 512), read(6, a().sge(1024, 64), b(), 512)});
  EXPECT_EQ(statuses_of(received(b(), 1)), statuses({WcStatus::kSuccess}));
  EXPECT_EQ(ids_of(sent(a(), 3)), range(4, 3));
  EXPECT_TRUE(a().holds(1024, 64, 4));
  expect_silence();
}

TEST_P(VerbsConformance, ResetEndsWhatIsUnderWayWithoutACompletion) {
  const Ends ends = connect();
  b().fill(0, 4096, 1);
  post(ends.far, recv(1, b().sge(8192, 64)));
  post(ends.near, recv(2, a().sge(8192, 64)));
  std::vector<SendWr> reads;
  for (unsigned i = 0; i < 40; ++i)
    reads.push_back(read(i, a().sge(0, 4096), b(), 0));  // more than the window
  post(ends.near, reads);
  ends.near.reset();
  ends.far.reset();
  expect_silence();
}

TEST_P(VerbsConformance, AReadThatWasResetAwayBringsNothing) {
  for (const bool destroyed : {false, true}) {
    SCOPED_TRACE(destroyed ? "destroyed" : "reset");
    const Ends ends = connect();
    b().fill(0, 4096, 1);
    post(ends.near, read(1, a().sge(0, 4096), b(), 0));
    if (destroyed) {
      destroy(ends.near);
    } else {
      ends.near.reset();
    }
    a().clear(0, 4096);  // the program's again
    binding->settle();
    EXPECT_TRUE(a().zero(0, 4096));
  }
}

TEST_P(VerbsConformance, AMessageOfTheOldLifeDoesNotReachTheNew) {
  const Ends ends = connect();
  post(ends.near, {send(1, a().sge(0, 8)), send(2, a().sge(0, 8))});  // no RECV: they wait
  ends.near.reset();
  ends.far.reset();
  join(ends);
  post(ends.far, recv(3, b().sge(0, 64)));
  expect_silence();
  post(ends.near, send(4, a().sge(0, 8)));
  EXPECT_EQ(ids_of(received(b(), 1)), range(3, 1));
  EXPECT_EQ(ids_of(sent(a(), 1)), range(4, 1));
  expect_silence();
}

TEST_P(VerbsConformance, ASendThatWaitsForARecvEndsWithItsReset) {
  const Ends ends = connect();
  post(ends.near, send(1, a().sge(0, 8)));
  binding->settle();  // refused for want of a RECV, again and again
  ends.near.reset();
  ends.far.reset();
  join(ends);
  post(ends.far, recv(3, b().sge(0, 64)));
  expect_silence();
}

TEST_P(VerbsConformance, ResetFreesTheWholeSendQueue) {
  QpInitAttributes shallow = attributes();
  shallow.max_send_wr = 8;
  const Ends ends = connect(shallow);
  for (unsigned i = 0; i < 3; ++i) post(ends.near, write(i, a().sge(0, 8), b(), 0));
  binding->settle();  // their completions are there, not polled
  for (unsigned i = 3; i < 6; ++i) post(ends.near, write(i, a().sge(0, 8), b(), 0));
  ends.near.reset();
  ends.far.reset();
  join(ends);
  drain(*a().send_cq);  // a device may leave those of the old life in the queue
  std::vector<SendWr> full;
  for (unsigned i = 0; i < 8; ++i) full.push_back(write(100 + i, a().sge(0, 8), b(), 0));
  post(ends.near, full);
  EXPECT_EQ(ids_of(sent(a(), 8)), range(100, 8));
}

TEST_P(VerbsConformance, ResetFreesTheReadWindow) {
  QpInitAttributes one = attributes();
  one.max_rd_atomic = 1;
  const Ends ends = connect(one);
  for (unsigned round = 0; round < 5; ++round) {
    post(ends.near,
         {read(1, a().sge(0, 8), b(), 0), read(2, a().sge(0, 8), b(), 0), read(3, a().sge(0, 8), b(), 0)});
    ends.near.reset();
    ends.far.reset();
    join(ends);
    post(ends.near, {read(4, a().sge(0, 8), b(), 0), read(5, a().sge(0, 8), b(), 0)});
    ASSERT_EQ(ids_of(sent(a(), 2)), range(4, 2)) << "round " << round;
  }
  expect_silence();
}

TEST_P(VerbsConformance, ADatagramQueuePairWorksAgainAfterReset) {
  QueuePair& from = make_ud(a());
  QueuePair& to = make_ud(b());
  post(to, recv(1, b().sge(0, 512)));
  to.reset();
  const auto handle = a().device.create_ah(to.address());
  SendWr wr = send(2, a().sge(0, 8));
  wr.ah = handle.get();
  wr.remote_qpn = to.address().qp_num;
  wr.remote_qkey = to.address().qkey;
  post(from, wr);
  expect_success(a(), 1);
  expect_silence();
  to.connect({});
  post(to, recv(3, b().sge(0, 512)));
  post(from, wr);
  EXPECT_EQ(ids_of(received(b(), 1)), range(3, 1)) << "the RECV of the old life is gone";
  expect_success(a(), 1);
}

TEST_P(VerbsConformance, ObjectsMayGoWhileTheirRequestsAreUnderWay) {
  const Ends ends = connect();
  b().fill(0, 4096, 1);
  post(ends.far, recv(1, b().sge(8192, 64)));
  post(ends.near,
       {write(1, a().sge(0, 4096), b(), 16384), send(2, a().sge(0, 8)), read(3, a().sge(0, 4096), b(), 0)});
  destroy(ends.near);
  binding->settle();
  destroy(ends.far);
  const Ends others = connect();
  post(others.near, write(9, a().sge(0, 8), b(), 0));
  expect_success(a(), 1);
}

/// Deregistered at any moment of a request's life: the request may succeed or fail, but the memory is the
/// program's again, neither written nor read any more.
TEST_P(VerbsConformance, ARegionMayGoWhileItIsWorkedOn) {
  constexpr std::byte kOurs{0x77};
  const auto memory = std::make_unique<std::array<std::byte, 4096>>();
  for (int looks_before = 0; looks_before < 60; ++looks_before) {
    SCOPED_TRACE(looks_before);
    memory->fill(std::byte{0});
    auto region = b().device.register_memory(*memory, kAccessAll);
    const bool is_write = looks_before % 2 == 0;
    SendWr wr = is_write ? write(1, a().sge(0, 4096), b(), 0) : read(1, a().sge(4096, 4096), b(), 0);
    wr.rkey = region->rkey();
    wr.remote_addr = reinterpret_cast<std::uint64_t>(memory->data());
    const Ends ends = connect();
    post(ends.near, wr);
    eventually([looks = looks_before]() mutable { return looks-- == 0; });
    region.reset();
    memory->fill(kOurs);
    const auto at_a = sent(a(), 1);
    ASSERT_EQ(at_a.size(), 1U);
    const bool expected = at_a[0].status == WcStatus::kSuccess || at_a[0].status == WcStatus::kRemAccessErr;
    EXPECT_TRUE(expected) << to_string(at_a[0].status);
    EXPECT_EQ(std::count(memory->begin(), memory->end(), kOurs), 4096) << "written";
    EXPECT_EQ(std::count(a().at(4096), a().at(8192), kOurs), 0) << "read";
  }
}

TEST_P(VerbsConformance, TheDeviceRefusesWhatItCannotMake) {
  const DeviceAttributes& device = a().device.attributes();
  QpInitAttributes beyond = attributes();
  beyond.send_cq = beyond.recv_cq = a().send_cq.get();
  beyond.max_send_wr = device.max_qp_wr + 1;
  EXPECT_THROW(a().device.create_qp(beyond), UserError);
  beyond.max_send_wr = 16;
  beyond.max_inline_data = device.max_inline_data + 1;
  EXPECT_THROW(a().device.create_qp(beyond), UserError);
  EXPECT_THROW(a().device.create_cq(0), UserError);
}

TEST_P(VerbsConformance, OnlyReliableQueuePairsHaveReadsInFlight) {
  const std::uint8_t most = a().device.attributes().max_qp_rd_atom;
  if (most == std::numeric_limits<std::uint8_t>::max()) return;  // nothing is beyond it
  QpInitAttributes beyond = attributes();
  beyond.send_cq = beyond.recv_cq = a().send_cq.get();
  beyond.max_rd_atomic = static_cast<std::uint8_t>(most + 1);
  EXPECT_THROW(a().device.create_qp(beyond), UserError);
  for (const QpType type : {QpType::kUc, QpType::kUd}) {
    beyond.type = type;
    EXPECT_NO_THROW(a().device.create_qp(beyond)) << to_string(type);
  }
}

}  // namespace verbtwin::conformance
