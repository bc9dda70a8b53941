// Conformance of each kind of message on its own: the bytes arrive, and both ends hear what they should.
#pragma once

#include "backend/conformance/fixture.hpp"

namespace verbtwin::conformance {

TEST_P(VerbsConformance, SendFillsARecv) {
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    SCOPED_TRACE(to_string(type));
    const Ends ends = connect(type);
    const unsigned seed = 1 + static_cast<unsigned>(type);
    a().fill(0, 100, seed);
    post(ends.far, recv(7, b().sge(1000, 256)));
    post(ends.near, send(3, a().sge(0, 100)));

    const auto at_b = received(b(), 1);
    ASSERT_EQ(at_b.size(), 1U);
    EXPECT_EQ(at_b[0].wr_id, 7U);
    EXPECT_EQ(at_b[0].status, WcStatus::kSuccess);
    EXPECT_EQ(at_b[0].opcode, WcOpcode::kRecv);
    EXPECT_EQ(at_b[0].byte_len, 100U);
    EXPECT_EQ(at_b[0].qp_num, ends.far.address().qp_num);
    EXPECT_FALSE(at_b[0].has_imm);
    EXPECT_TRUE(b().holds(1000, 100, seed));
    EXPECT_TRUE(b().zero(1100, 156)) << "bytes behind the message";

    const auto at_a = sent(a(), 1);
    ASSERT_EQ(at_a.size(), 1U);
    EXPECT_EQ(at_a[0].wr_id, 3U);
    EXPECT_EQ(at_a[0].status, WcStatus::kSuccess);
    EXPECT_EQ(at_a[0].opcode, WcOpcode::kSend);
    EXPECT_EQ(at_a[0].qp_num, ends.near.address().qp_num);
    expect_silence();
  }
}

TEST_P(VerbsConformance, RecvsAreTakenInTheOrderPosted) {
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    SCOPED_TRACE(to_string(type));
    const Ends ends = connect(type);
    for (unsigned i = 0; i < 8; ++i) post(ends.far, recv(i, b().sge(i * 64, 64)));
    for (unsigned i = 0; i < 8; ++i) {
      a().fill(i * 64, 64, i);
      post(ends.near, send(i, a().sge(i * 64, 64)));
    }
    EXPECT_EQ(ids_of(received(b(), 8)), range(0, 8));
    for (unsigned i = 0; i < 8; ++i) EXPECT_TRUE(b().holds(i * 64, 64, i)) << i;
    EXPECT_EQ(ids_of(sent(a(), 8)), range(0, 8));
  }
}

TEST_P(VerbsConformance, SendWithImmCarriesItsWord) {
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    const Ends ends = connect(type);
    post(ends.far, recv(1, b().sge(0, 64)));
    SendWr wr = send(2, a().sge(0, 8));
    wr.opcode = Opcode::kSendWithImm;
    wr.imm_data = 0xCAFE0042;
    post(ends.near, wr);
    const auto at_b = received(b(), 1);
    ASSERT_EQ(at_b.size(), 1U);
    EXPECT_EQ(at_b[0].opcode, WcOpcode::kRecv);
    EXPECT_TRUE(at_b[0].has_imm);
    EXPECT_EQ(at_b[0].imm_data, 0xCAFE0042U);
    EXPECT_EQ(at_b[0].byte_len, 8U);
    expect_success(a(), 1);
  }
}

TEST_P(VerbsConformance, WriteLandsAndConsumesNoRecv) {
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    SCOPED_TRACE(to_string(type));
    const Ends ends = connect(type);
    const unsigned seed = 1 + static_cast<unsigned>(type);
    post(ends.far, recv(1, b().sge(8192, 64)));
    a().fill(0, 300, seed);
    post(ends.near, write(2, a().sge(0, 300), b(), 500));
    const auto at_a = sent(a(), 1);
    ASSERT_EQ(at_a.size(), 1U);
    EXPECT_EQ(at_a[0].status, WcStatus::kSuccess);
    EXPECT_EQ(at_a[0].opcode, WcOpcode::kRdmaWrite);
    EXPECT_TRUE(eventually([&] { return b().holds(500, 300, seed); }));
    EXPECT_TRUE(b().zero(0, 500));
    EXPECT_TRUE(b().zero(800, 8192));
    expect_silence();
  }
}

TEST_P(VerbsConformance, WriteWithImmLandsAndConsumesARecv) {
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    SCOPED_TRACE(to_string(type));
    const Ends ends = connect(type);
    const unsigned seed = 1 + static_cast<unsigned>(type);
    post(ends.far, recv(9, b().sge(8192, 64)));
    a().fill(0, 300, seed);
    post(ends.near, write_with_imm(2, a().sge(0, 300), b(), 500, 77));
    const auto at_b = received(b(), 1);
    ASSERT_EQ(at_b.size(), 1U);
    EXPECT_EQ(at_b[0].wr_id, 9U);
    EXPECT_EQ(at_b[0].status, WcStatus::kSuccess);
    EXPECT_EQ(at_b[0].opcode, WcOpcode::kRecvRdmaWithImm);
    EXPECT_TRUE(at_b[0].has_imm);
    EXPECT_EQ(at_b[0].imm_data, 77U);
    EXPECT_EQ(at_b[0].byte_len, 300U);
    EXPECT_TRUE(b().holds(500, 300, seed)) << "the completion comes behind the data";
    EXPECT_TRUE(b().zero(8192, 64)) << "the RECV's own buffer is not used";
    const auto at_a = sent(a(), 1);
    ASSERT_EQ(at_a.size(), 1U);
    EXPECT_EQ(at_a[0].opcode, WcOpcode::kRdmaWrite);
    expect_silence();
  }
}

TEST_P(VerbsConformance, WriteWithImmTakesARecvWithoutABuffer) {
  const Ends ends = connect();
  post(ends.far, recv(9, Sge{}));
  a().set_word(0, 5);
  post(ends.near, write_with_imm(2, a().sge(0, 8), b(), 16, 1));
  EXPECT_EQ(statuses_of(received(b(), 1)), statuses({WcStatus::kSuccess}));
  EXPECT_EQ(b().word(16), 5U);
  expect_success(a(), 1);
}

TEST_P(VerbsConformance, ReadFetches) {
  const Ends ends = connect();
  b().fill(4000, 300, 9);
  post(ends.near, read(5, a().sge(100, 300), b(), 4000));
  const auto at_a = sent(a(), 1);
  ASSERT_EQ(at_a.size(), 1U);
  EXPECT_EQ(at_a[0].wr_id, 5U);
  EXPECT_EQ(at_a[0].status, WcStatus::kSuccess);
  EXPECT_EQ(at_a[0].opcode, WcOpcode::kRdmaRead);
  EXPECT_TRUE(a().holds(100, 300, 9)) << "the completion comes behind the data";
  EXPECT_TRUE(a().zero(0, 100));
  EXPECT_TRUE(a().zero(400, 400));
  expect_silence();
}

TEST_P(VerbsConformance, EmptyMessagesComplete) {
  const Ends ends = connect();
  post(ends.far, recv(1, b().sge(0, 64)));
  post(ends.far, recv(2, Sge{}));
  const SendWr empty_write = write(12, Sge{}, b(), 0);
  const SendWr empty_read = read(13, Sge{}, b(), 0);
  post(ends.near, {send(10, Sge{}), send(11, a().sge(0, 0)), empty_write, empty_read});
  const auto at_a = sent(a(), 4);
  EXPECT_EQ(ids_of(at_a), range(10, 4));
  for (const WorkCompletion& wc : at_a) EXPECT_EQ(to_string(wc.status), "success") << wc.wr_id;
  for (const WorkCompletion& wc : received(b(), 2)) {
    EXPECT_EQ(to_string(wc.status), "success") << wc.wr_id;
    EXPECT_EQ(wc.byte_len, 0U);
  }
  EXPECT_TRUE(b().zero(0, Endpoint::kBytes));
}

TEST_P(VerbsConformance, MessagesLongerThanAPacketArriveWhole) {
  const Ends ends = connect();
  const std::size_t length = 3 * a().device.attributes().mtu + 123;
  ASSERT_LE(2 * length, Endpoint::kBytes);
  const std::size_t second = Endpoint::kBytes - length;

  a().fill(0, length, 1);
  post(ends.far, recv(1, b().sge(second, length)));
  post(ends.near, {write(10, a().sge(0, length), b(), 0), send(11, a().sge(0, length))});
  const auto at_b = received(b(), 1);
  ASSERT_EQ(at_b.size(), 1U);
  EXPECT_EQ(at_b[0].byte_len, length);
  EXPECT_TRUE(b().holds(0, length, 1)) << "the WRITE";
  EXPECT_TRUE(b().holds(second, length, 1)) << "the SEND";
  expect_success(a(), 2);

  post(ends.near, read(12, a().sge(second, length), b(), 0));
  expect_success(a(), 1);
  EXPECT_TRUE(a().holds(second, length, 1)) << "the READ";
}

TEST_P(VerbsConformance, InlinePayloadIsTakenWhenPosted) {
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    const Ends ends = connect(type);
    const std::size_t length = attributes().max_inline_data;
    post(ends.far, recv(1, b().sge(4096, 128)));
    // An inline buffer need not be registered either.
    std::vector<std::byte> buffer(length, std::byte{0x5A});
    const Sge unregistered{buffer.data(), static_cast<std::uint32_t>(length), 0};
    SendWr inline_write = write(2, unregistered, b(), 0, kInline | kSignaled);
    post(ends.near, {inline_write, send(3, unregistered, kInline | kSignaled)});
    std::fill(buffer.begin(), buffer.end(), std::byte{0x11});
    ASSERT_EQ(received(b(), 1).size(), 1U);
    const std::vector<std::byte> expected(length, std::byte{0x5A});
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), b().at(0)));
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), b().at(4096)));
    expect_success(a(), 2);
  }
}

TEST_P(VerbsConformance, DatagramsOfUcToNowhereVanish) {
  const Ends ends = connect(QpType::kUc);
  post(ends.near, send(1, a().sge(0, 8)));  // no RECV
  SendWr no_key = write(2, a().sge(0, 8), b(), 0);
  no_key.rkey = b().region->rkey() + 1000;
  a().set_word(0, 99);
  post(ends.near, no_key);
  EXPECT_EQ(statuses_of(sent(a(), 2)), statuses({WcStatus::kSuccess, WcStatus::kSuccess}));
  expect_silence();
  EXPECT_EQ(b().word(0), 0U);
}

TEST_P(VerbsConformance, AQueuePairMayBeConnectedToItsOwnDevice) {
  const Ends ends = connect(a(), a(), attributes());
  a().fill(0, 64, 3);
  post(ends.far, recv(1, a().sge(1000, 64)));
  post(ends.near, {write(2, a().sge(0, 64), a(), 512), send(3, a().sge(0, 64))});
  EXPECT_EQ(statuses_of(received(a(), 1)), statuses({WcStatus::kSuccess}));
  EXPECT_TRUE(a().holds(512, 64, 3));
  EXPECT_TRUE(a().holds(1000, 64, 3));
  expect_success(a(), 2);
}

TEST_P(VerbsConformance, AQueuePairMayBeConnectedToItself) {
  QueuePair& self = make(a(), attributes());
  self.connect(self.address());
  a().set_word(0, 40);
  post(self, fetch_add(1, a().sge(8, 8), a(), 0, 2));
  expect_success(a(), 1);
  EXPECT_EQ(a().word(0), 42U);
  EXPECT_EQ(a().word(8), 40U);
}

}  // namespace verbtwin::conformance
