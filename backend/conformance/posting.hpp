// Conformance of posting: linked lists, queue depth, unsignalled requests, what is refused at once, full
// queues.
#pragma once

#include "backend/conformance/fixture.hpp"

namespace verbtwin::conformance {

TEST_P(VerbsConformance, AListIsPostedInOrder) {
  const Ends ends = connect();
  std::vector<SendWr> list;
  for (unsigned i = 0; i < 40; ++i) {
    a().set_word(i * 8, i + 1);
    list.push_back(write(i, a().sge(i * 8, 8), b(), i * 8));
  }
  post(ends.near, list);
  EXPECT_EQ(ids_of(sent(a(), 40)), range(0, 40));
  for (unsigned i = 0; i < 40; ++i) EXPECT_EQ(b().word(i * 8), i + 1);
}

TEST_P(VerbsConformance, AnEmptyListIsTaken) {
  const Ends ends = connect();
  post(ends.near, std::vector<SendWr>{});
  expect_silence();
}

TEST_P(VerbsConformance, OnlySignalledRequestsComplete) {
  const Ends ends = connect();
  std::vector<SendWr> list;
  for (unsigned i = 0; i < 20; ++i)
    list.push_back(write(i, a().sge(0, 8), b(), 0, i % 5 == 4 ? kSignaled : 0));
  post(ends.near, list);
  EXPECT_THAT(ids_of(sent(a(), 4)), testing::ElementsAre(4, 9, 14, 19));
  expect_silence();
}

TEST_P(VerbsConformance, ASignalledRequestRetiresTheUnsignalledOnesBeforeIt) {
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    SCOPED_TRACE(to_string(type));
    QpInitAttributes shallow = attributes(type);
    shallow.max_send_wr = 16;
    const Ends ends = connect(shallow);
    for (unsigned round = 0; round < 10; ++round) {
      for (unsigned i = 0; i < 15; ++i) post(ends.near, write(i, a().sge(0, 8), b(), 0, 0));
      post(ends.near, write(15, a().sge(0, 8), b(), 0));
      ASSERT_THAT(ids_of(sent(a(), 1)), testing::ElementsAre(15)) << "round " << round;
    }
  }
}

TEST_P(VerbsConformance, AFullSendQueueTakesWhatFitsAndIsFreeAfterPolling) {
  QpInitAttributes shallow = attributes();
  shallow.max_send_wr = 16;
  const Ends ends = connect(shallow);
  // A device may round the depth up, so the list is long.
  std::vector<SendWr> list;
  for (unsigned i = 0; i < 512; ++i) list.push_back(write(i, a().sge(0, 8), b(), 0));
  const PostResult first = ends.near.post_send(list);
  ASSERT_GE(first.posted, 16U);
  ASSERT_LT(first.posted, list.size());
  EXPECT_EQ(first.error, PostError::kQueueFull);

  const PostResult none = ends.near.post_send(std::span(list).first(1));
  EXPECT_EQ(none.posted, 0U);
  EXPECT_EQ(none.error, PostError::kQueueFull);

  EXPECT_EQ(ids_of(sent(a(), first.posted)), range(0, first.posted)) << "those taken, and no others";
  const PostResult again = ends.near.post_send(std::span(list).subspan(first.posted, 16));
  EXPECT_EQ(again.posted, 16U);
  EXPECT_EQ(again.error, PostError::kNone);
  EXPECT_EQ(ids_of(sent(a(), 16)), range(first.posted, 16));
  expect_silence();
}

TEST_P(VerbsConformance, SlotsComeFreeWhenCompletionsArePolledNotBefore) {
  QpInitAttributes shallow = attributes();
  shallow.max_send_wr = 4;
  const Ends ends = connect(shallow);
  std::vector<SendWr> list;
  for (unsigned i = 0; i < 512; ++i) list.push_back(write(i, a().sge(0, 8), b(), 0));
  const std::size_t depth = ends.near.post_send(list).posted;
  binding->settle();
  EXPECT_EQ(ends.near.post_send(std::span(list).first(1)).error, PostError::kQueueFull);
  expect_success(a(), 1);
  EXPECT_EQ(ends.near.post_send(std::span(list).first(2)).posted, 1U) << "one polled, one free";
  expect_success(a(), depth);
}

TEST_P(VerbsConformance, AFullReceiveQueueTakesWhatFits) {
  QpInitAttributes shallow = attributes();
  shallow.max_recv_wr = 16;
  const Ends ends = connect(shallow);
  std::vector<RecvWr> list;
  for (unsigned i = 0; i < 512; ++i) list.push_back(recv(i, b().sge(0, 64)));
  const PostResult first = ends.far.post_recv(list);
  ASSERT_GE(first.posted, 16U);
  ASSERT_LT(first.posted, list.size());
  EXPECT_EQ(first.error, PostError::kQueueFull);
  post(ends.near, send(1, a().sge(0, 8)));
  EXPECT_EQ(ids_of(received(b(), 1)), range(0, 1));
  EXPECT_EQ(ends.far.post_recv(std::span(list).subspan(first.posted, 2)).posted, 1U);
}

TEST_P(VerbsConformance, WhatATypeCannotDoIsRefused) {
  const Ends uc = connect(QpType::kUc);
  expect_refused(uc.near, read(1, a().sge(0, 8), b(), 0), "READ on UC");
  expect_refused(uc.near, compare_swap(1, a().sge(0, 8), b(), 0, 0, 1), "CAS on UC");
  expect_refused(uc.near, fetch_add(1, a().sge(0, 8), b(), 0, 1), "FAA on UC");

  QueuePair& ud = make_ud(a());
  const QpAddress peer = make_ud(b()).address();
  const auto handle = a().device.create_ah(peer);
  const auto addressed = [&](SendWr wr) {
    wr.ah = handle.get();
    wr.remote_qpn = peer.qp_num;
    wr.remote_qkey = peer.qkey;
    return wr;
  };
  expect_refused(ud, addressed(write(1, a().sge(0, 8), b(), 0)), "WRITE on UD");
  expect_refused(ud, addressed(write_with_imm(1, a().sge(0, 8), b(), 0, 1)), "WRITE_IMM on UD");
  expect_refused(ud, addressed(read(1, a().sge(0, 8), b(), 0)), "READ on UD");
  expect_refused(ud, addressed(compare_swap(1, a().sge(0, 8), b(), 0, 0, 1)), "CAS on UD");
  expect_refused(ud, addressed(fetch_add(1, a().sge(0, 8), b(), 0, 1)), "FAA on UD");
  expect_refused(ud, send(1, a().sge(0, 8)), "UD without an address handle");
  expect_refused(ud, addressed(send(1, a().sge(0, a().device.attributes().mtu + 1))), "UD beyond the MTU");
  expect_silence();
  EXPECT_EQ(b().word(0), 0U);
}

TEST_P(VerbsConformance, InlineBeyondTheLimitOrInwardsIsRefused) {
  const std::size_t limit = a().device.attributes().max_inline_data;
  const Ends ends = connect();
  expect_refused(ends.near, write(1, a().sge(0, limit + 1), b(), 0, kInline),
                 "inline beyond the device's limit");
  expect_refused(ends.near, read(1, a().sge(0, 8), b(), 0, kInline), "inline READ");
  SendWr atomic = fetch_add(1, a().sge(0, 8), b(), 0, 1);
  atomic.flags = kInline;
  expect_refused(ends.near, atomic, "inline ATOMIC");
  expect_silence();
  EXPECT_EQ(b().word(0), 0U);
}

TEST_P(VerbsConformance, ARefusedRequestStopsItsListThere) {
  const Ends ends = connect(QpType::kUc);
  const std::vector<SendWr> list = {write(0, a().sge(0, 8), b(), 0), write(1, a().sge(0, 8), b(), 0),
                                    read(2, a().sge(0, 8), b(), 0), write(3, a().sge(0, 8), b(), 0)};
  const PostResult result = ends.near.post_send(list);
  EXPECT_EQ(result.posted, 2U);
  EXPECT_EQ(result.error, PostError::kInvalid);
  EXPECT_EQ(ids_of(sent(a(), 2)), range(0, 2));
  expect_silence();
}

TEST_P(VerbsConformance, AQueuePairInResetSendsNothing) {
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kUd}) {
    SCOPED_TRACE(to_string(type));
    QueuePair& qp = make(a(), attributes(type));
    EXPECT_EQ(qp.type(), type);
    EXPECT_EQ(qp.state(), QpState::kReset);
    expect_refused(qp, send(1, a().sge(0, 8)), "RESET");
  }
  expect_silence();
}

TEST_P(VerbsConformance, ACompletionQueueNeverOverflowsSilently) {
  const auto small_cq = a().device.create_cq(4);
  QpInitAttributes lossy = attributes();
  lossy.send_cq = lossy.recv_cq = small_cq.get();
  const auto near = a().device.create_qp(lossy);
  QueuePair& far = make(b(), attributes());
  join({*near, far});
  constexpr unsigned kMany = 100;  // more than a device rounds 4 up to
  for (unsigned i = 0; i < kMany; ++i) post(*near, write(i, a().sge(0, 8), b(), 0));
  binding->settle();
  const std::size_t came = drain(*small_cq).size();
  EXPECT_GE(came, 4U);
  EXPECT_TRUE(came == kMany || near->state() == QpState::kError)
      << kMany - came << " completions were lost and the queue pair does not say so";
}

}  // namespace verbtwin::conformance
