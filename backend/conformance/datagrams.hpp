// Conformance of UD: one queue pair to many peers, 40 B of GRH, silence where nobody listens.
#pragma once

#include "backend/conformance/fixture.hpp"

namespace verbtwin::conformance {

/// A datagram to the peer that `handle` was made for.
inline SendWr datagram(std::uint64_t wr_id, const Sge& sge, const QpAddress& peer, AddressHandle& handle,
                       unsigned flags = kSignaled) {
  SendWr wr = send(wr_id, sge, flags);
  wr.ah = &handle;
  wr.remote_qpn = peer.qp_num;
  wr.remote_qkey = peer.qkey;
  return wr;
}

TEST_P(VerbsConformance, ADatagramArrivesBehindItsHeader) {
  QueuePair& from = make_ud(a());
  QueuePair& to = make_ud(b());
  const auto handle = a().device.create_ah(to.address());
  a().fill(0, 100, 1);
  post(to, recv(7, b().sge(512, kGrhBytes + 128)));
  SendWr wr = datagram(3, a().sge(0, 100), to.address(), *handle);
  wr.opcode = Opcode::kSendWithImm;
  wr.imm_data = 0x1234;
  post(from, wr);

  const auto at_b = received(b(), 1);
  ASSERT_EQ(at_b.size(), 1U);
  EXPECT_EQ(at_b[0].wr_id, 7U);
  EXPECT_EQ(at_b[0].status, WcStatus::kSuccess);
  EXPECT_EQ(at_b[0].opcode, WcOpcode::kRecv);
  EXPECT_EQ(at_b[0].byte_len, kGrhBytes + 100);
  EXPECT_EQ(at_b[0].src_qp, from.address().qp_num);
  EXPECT_EQ(at_b[0].qp_num, to.address().qp_num);
  EXPECT_TRUE(at_b[0].has_imm);
  EXPECT_EQ(at_b[0].imm_data, 0x1234U);
  EXPECT_TRUE(b().holds(512 + kGrhBytes, 100, 1));
  EXPECT_TRUE(b().zero(512 + kGrhBytes + 100, 64));
  const auto at_a = sent(a(), 1);
  ASSERT_EQ(at_a.size(), 1U);
  EXPECT_EQ(at_a[0].wr_id, 3U);
  EXPECT_EQ(at_a[0].opcode, WcOpcode::kSend);
  expect_silence();
}

TEST_P(VerbsConformance, OneDatagramQueuePairReachesManyPeersAndHearsThem) {
  QueuePair& from = make_ud(a());
  std::vector<QueuePair*> peers = {&make_ud(b()), &make_ud(c()), &make_ud(b()), &make_ud(a())};
  std::vector<Endpoint*> homes = {&b(), &c(), &b(), &a()};
  std::vector<std::unique_ptr<AddressHandle>> handles;
  std::vector<SendWr> list;
  for (unsigned i = 0; i < peers.size(); ++i) {
    handles.push_back(a().device.create_ah(peers[i]->address()));
    a().set_word(i * 8, 100 + i);
    post(*peers[i], recv(i, homes[i]->sge(4096 + i * 256, 256)));
    list.push_back(datagram(i, a().sge(i * 8, 8), peers[i]->address(), *handles[i]));
  }
  post(from, list);
  EXPECT_EQ(ids_of(sent(a(), 4)), range(0, 4));
  for (Endpoint* home : {&b(), &b(), &c(), &a()}) received(*home, 1);
  for (unsigned i = 0; i < peers.size(); ++i) {
    EXPECT_EQ(homes[i]->word(4096 + i * 256 + kGrhBytes), 100 + i) << "peer " << i;
  }

  // And back: whose answer it is, src_qp says.
  post(from, recv(50, a().sge(8192, 256)));
  post(from, recv(51, a().sge(8192 + 256, 256)));
  const auto from_b = b().device.create_ah(from.address());
  const auto from_c = c().device.create_ah(from.address());
  post(*peers[0], datagram(60, b().sge(0, 8), from.address(), *from_b));
  post(*peers[1], datagram(61, c().sge(0, 8), from.address(), *from_c));
  std::vector<std::uint32_t> sources;
  for (const WorkCompletion& wc : received(a(), 2)) sources.push_back(wc.src_qp);
  EXPECT_THAT(sources, testing::UnorderedElementsAre(peers[0]->address().qp_num, peers[1]->address().qp_num));
}

TEST_P(VerbsConformance, ADatagramBufferIsFreeOnceTheSendHasCompletedOrIsInline) {
  QueuePair& from = make_ud(a());
  QueuePair& to = make_ud(b());
  const auto handle = a().device.create_ah(to.address());
  for (unsigned i = 0; i < 3; ++i) post(to, recv(i, b().sge(i * 512, 512)));
  a().fill(0, 40, 1);
  post(from, datagram(0, a().sge(0, 40), to.address(), *handle, kInline));
  a().fill(0, 40, 2);
  post(from, datagram(1, a().sge(0, 40), to.address(), *handle));
  expect_success(a(), 1);
  a().fill(0, 40, 3);
  post(from, datagram(2, a().sge(0, 40), to.address(), *handle));
  EXPECT_EQ(ids_of(received(b(), 3)), range(0, 3));
  for (unsigned i = 0; i < 3; ++i) EXPECT_TRUE(b().holds(i * 512 + kGrhBytes, 40, i + 1)) << i;
}

TEST_P(VerbsConformance, ADatagramOfAWholePacketOrOfNothingArrives) {
  QueuePair& from = make_ud(a());
  QueuePair& to = make_ud(b());
  const auto handle = a().device.create_ah(to.address());
  const std::size_t mtu = a().device.attributes().mtu;
  a().fill(0, mtu, 1);
  post(to, recv(1, b().sge(0, kGrhBytes + mtu)));
  post(to, recv(2, b().sge(16384, kGrhBytes)));
  post(from, datagram(1, a().sge(0, mtu), to.address(), *handle));
  std::vector<WorkCompletion> at_b = received(b(), 1);
  ASSERT_EQ(at_b.size(), 1U);
  EXPECT_EQ(at_b[0].byte_len, kGrhBytes + mtu);
  post(from, datagram(2, Sge{}, to.address(), *handle));
  at_b = received(b(), 1);
  ASSERT_EQ(at_b.size(), 1U);
  EXPECT_EQ(at_b[0].byte_len, kGrhBytes);
  EXPECT_TRUE(b().holds(kGrhBytes, mtu, 1));
}

TEST_P(VerbsConformance, ADatagramThatNobodyAwaitsVanishes) {
  QueuePair& from = make_ud(a());
  QueuePair& to = make_ud(b());
  const auto handle = a().device.create_ah(to.address());
  post(from, datagram(1, a().sge(0, 8), to.address(), *handle));  // no RECV
  EXPECT_EQ(statuses_of(sent(a(), 1)), statuses({WcStatus::kSuccess}));
  expect_silence();

  post(to, recv(5, b().sge(0, 512)));
  SendWr wrong_key = datagram(2, a().sge(0, 8), to.address(), *handle);
  wrong_key.remote_qkey += 1;
  SendWr nobody = datagram(3, a().sge(0, 8), to.address(), *handle);
  nobody.remote_qpn += 10'000;
  post(from, {wrong_key, nobody});
  EXPECT_EQ(ids_of(sent(a(), 2)), range(2, 2));
  expect_silence();
  EXPECT_EQ(from.state(), QpState::kRts);
  EXPECT_EQ(to.state(), QpState::kRts);

  post(from, datagram(4, a().sge(0, 8), to.address(), *handle));
  EXPECT_EQ(ids_of(received(b(), 1)), range(5, 1)) << "the RECV was not used up";
  expect_success(a(), 1);
}

TEST_P(VerbsConformance, ADatagramTooLongForItsRecvFailsTheRecv) {
  QueuePair& from = make_ud(a());
  QueuePair& to = make_ud(b());
  const auto handle = a().device.create_ah(to.address());
  a().fill(0, 64, 1);
  post(to, recv(1, b().sge(0, 64)));  // room for 24 B behind the GRH
  post(from, datagram(2, a().sge(0, 64), to.address(), *handle));
  EXPECT_EQ(statuses_of(sent(a(), 1)), statuses({WcStatus::kSuccess})) << "the sender hears nothing of it";
  EXPECT_EQ(statuses_of(received(b(), 1)), statuses({local(WcStatus::kLocLenErr)}));
  EXPECT_TRUE(b().zero(64, 256)) << "bytes behind the buffer";
  EXPECT_EQ(from.state(), QpState::kRts);
}

/// UD promises no order of arrival; RECVs are still taken in theirs.
TEST_P(VerbsConformance, AListOfDatagramsArrivesOnceEach) {
  QueuePair& from = make_ud(a());
  QueuePair& to = make_ud(b());
  const auto handle = a().device.create_ah(to.address());
  std::vector<SendWr> list;
  for (unsigned i = 0; i < 60; ++i) {
    post(to, recv(i, b().sge(i * 1024, 1024)));
    a().set_word(i * 1024, i);
    const unsigned flags = i == 59 ? unsigned{kSignaled} : 0U;
    list.push_back(datagram(i, a().sge(i * 1024, i % 3 == 0 ? 900 : 8), to.address(), *handle, flags));
  }
  post(from, list);
  EXPECT_EQ(ids_of(received(b(), 60)), range(0, 60));
  std::vector<std::uint64_t> came;
  for (unsigned i = 0; i < 60; ++i) came.push_back(b().word(i * 1024 + kGrhBytes));
  std::sort(came.begin(), came.end());
  EXPECT_EQ(came, range(0, 60));
  EXPECT_THAT(ids_of(sent(a(), 1)), testing::ElementsAre(59));
}

}  // namespace verbtwin::conformance
