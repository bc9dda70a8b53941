// Conformance of a responder without a RECV (receiver not ready), or with one that is too small.
#pragma once

#include "backend/conformance/fixture.hpp"

namespace verbtwin::conformance {

TEST_P(VerbsConformance, ASendWaitsForARecv) {
  const Ends ends = connect();  // rnr_retry 7: for ever
  a().fill(0, 64, 1);
  post(ends.near, send(1, a().sge(0, 64)));
  expect_silence();
  post(ends.far, recv(2, b().sge(0, 64)));
  EXPECT_EQ(statuses_of(received(b(), 1)), statuses({WcStatus::kSuccess}));
  EXPECT_TRUE(b().holds(0, 64, 1));
  expect_success(a(), 1);
  expect_silence();
}

TEST_P(VerbsConformance, AWriteWithImmWaitsForARecv) {
  const Ends ends = connect();
  a().fill(0, 64, 1);
  post(ends.near, write_with_imm(1, a().sge(0, 64), b(), 128, 5));
  binding->settle();
  EXPECT_TRUE(drain(*a().send_cq).empty());
  post(ends.far, recv(2, Sge{}));
  EXPECT_EQ(statuses_of(received(b(), 1)), statuses({WcStatus::kSuccess}));
  EXPECT_TRUE(b().holds(128, 64, 1));
  expect_success(a(), 1);
}

TEST_P(VerbsConformance, RequestsBehindASendThatWaitsKeepTheirPlace) {
  const Ends ends = connect();
  a().set_word(0, 5);
  post(ends.near,
       {send(1, a().sge(0, 8)), write(2, a().sge(0, 8), b(), 4096), read(3, a().sge(64, 8), b(), 4096)});
  binding->settle();
  EXPECT_EQ(b().word(4096), 0U) << "the WRITE overtook the SEND";
  EXPECT_TRUE(drain(*a().send_cq).empty());
  post(ends.far, recv(9, b().sge(0, 64)));
  EXPECT_EQ(ids_of(sent(a(), 3)), range(1, 3));
  EXPECT_EQ(b().word(4096), 5U);
  EXPECT_EQ(a().word(64), 5U);
}

TEST_P(VerbsConformance, SendsThatWaitArriveInOrder) {
  const Ends ends = connect();
  constexpr unsigned kSends = 20;
  for (unsigned i = 0; i < kSends; ++i) {
    a().set_word(i * 8, i);
    post(ends.near, send(i, a().sge(i * 8, 8)));
  }
  unsigned posted = 0;
  std::vector<std::uint64_t> came;
  const auto post_one_by_one = [&] {
    if (posted < kSends && posted == came.size()) {
      post(ends.far, recv(posted, b().sge(posted * 8, 8)));
      ++posted;
    }
    for (const WorkCompletion& wc : drain(*b().recv_cq)) came.push_back(b().word(wc.wr_id * 8));
    return came.size() == kSends;
  };
  EXPECT_TRUE(eventually(post_one_by_one));
  EXPECT_EQ(came, range(0, kSends));
  EXPECT_EQ(ids_of(sent(a(), kSends)), range(0, kSends));
}

TEST_P(VerbsConformance, WithoutRetriesASendThatFindsNoRecvFails) {
  for (const std::uint8_t retries : std::array<std::uint8_t, 2>{0, 1}) {
    SCOPED_TRACE(static_cast<int>(retries));
    QpInitAttributes impatient = attributes();
    impatient.rnr_retry = retries;
    const Ends ends = connect(impatient);
    post(ends.near, {send(1, a().sge(0, 8), 0), write(2, a().sge(0, 8), b(), 0)});
    const auto at_a = sent(a(), 2);
    EXPECT_EQ(ids_of(at_a), range(1, 2));
    EXPECT_EQ(statuses_of(at_a), statuses({WcStatus::kRnrRetryExcErr, WcStatus::kWrFlushErr}));
    EXPECT_EQ(ends.near.state(), QpState::kError);
    EXPECT_EQ(ends.far.state(), QpState::kRts) << "who had no RECV goes on";
    post(ends.far, recv(7, b().sge(0, 8)));
    EXPECT_EQ(b().word(0), 0U);
    expect_silence();
  }
}

TEST_P(VerbsConformance, TwoSendsThatFindNoRecvFailOnce) {
  QpInitAttributes impatient = attributes();
  impatient.rnr_retry = 0;
  const Ends ends = connect(impatient);
  post(ends.near, {send(1, a().sge(0, 8)), send(2, a().sge(0, 8))});
  EXPECT_EQ(statuses_of(sent(a(), 2)), statuses({WcStatus::kRnrRetryExcErr, WcStatus::kWrFlushErr}));
}

TEST_P(VerbsConformance, ARecvTooSmallFailsBothEnds) {
  const Ends ends = connect();
  a().fill(0, 64, 1);
  post(ends.far, recv(1, b().sge(0, 32)));
  post(ends.near, send(2, a().sge(0, 64)));
  EXPECT_EQ(statuses_of(received(b(), 1)), statuses({local(WcStatus::kLocLenErr)}));
  EXPECT_EQ(statuses_of(sent(a(), 1)), statuses({at_peer(WcStatus::kRemInvReqErr)}));
  EXPECT_EQ(ends.near.state(), QpState::kError);
  EXPECT_EQ(ends.far.state(), QpState::kError);
  EXPECT_TRUE(b().zero(32, 64)) << "bytes behind the buffer";
}

TEST_P(VerbsConformance, ARecvIntoMemoryThatIsNotOursFailsBothEnds) {
  const Ends ends = connect();
  RecvWr wr = recv(1, b().sge(0, 64));
  wr.sge.lkey += 1000;
  post(ends.far, wr);
  post(ends.near, send(2, a().sge(0, 64)));
  EXPECT_EQ(statuses_of(received(b(), 1)), statuses({local(WcStatus::kLocProtErr)}));
  EXPECT_EQ(statuses_of(sent(a(), 1)), statuses({WcStatus::kRemOpErr}));
}

}  // namespace verbtwin::conformance
