// Queue pairs that fail, and what becomes of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "sim/actor_for_test.hpp"

namespace verbtwin::sim {
namespace {

using testing::ElementsAre;

std::vector<WcStatus> statuses(const Actor& actor) {
  std::vector<WcStatus> all;
  for (const WorkCompletion& wc : actor.done) all.push_back(wc.status);
  return all;
}

std::unique_ptr<QueuePair> make_queue_pair(Actor& of, QpInitAttributes attributes = {}) {
  attributes.send_cq = attributes.recv_cq = of.cq.get();
  return of.port.device().create_qp(attributes);
}

/// Both ends fail, and what the other one had asked for is no success any more: its data are on their way.
TEST(Failures, ARefusalFlushesWhatTheTargetHasAskedFor) {
  ClusterParameters p = round_cluster(2);
  p.nic.mtu_b = 256;
  Cluster cluster(p);
  Actor near(cluster, 0), far(cluster, 1);
  near.begin = [](Actor& a) {
    SendWr wrong = a.request(Opcode::kRdmaWrite, 8, 1);
    ++wrong.rkey;
    a.post(a.queue_pair(1), wrong);
  };
  far.begin = [](Actor& a) { a.post(Opcode::kRdmaRead, 16384, 0); };
  run_until_us(cluster, 1000);
  EXPECT_THAT(statuses(near), ElementsAre(WcStatus::kRemAccessErr));
  EXPECT_THAT(statuses(far), ElementsAre(WcStatus::kWrFlushErr));
}

/// 4.096 us * 2^timeout for the first and for each of retry_cnt others.
TEST(Failures, NobodyAnswersForAsLongAsTheAttributesSay) {
  const auto given_up_us = [](std::uint8_t timeout, std::uint8_t retry_cnt) {
    Cluster cluster(round_cluster(2));
    Actor near(cluster, 0), far(cluster, 1);
    const auto queue_pair = make_queue_pair(near, {.timeout = timeout, .retry_cnt = retry_cnt});
    QpAddress nobody = queue_pair->address();
    nobody.lid = 2;
    nobody.qp_num = 1000;
    queue_pair->connect(nobody);
    near.begin = [&](Actor& a) { a.post(*queue_pair, a.request(Opcode::kRdmaWrite, 8, 1)); };
    run_until_us(cluster, 2000);
    EXPECT_THAT(statuses(near), ElementsAre(WcStatus::kRetryExcErr));
    return static_cast<double>(near.done_ps.at(0)) / 1e6;
  };
  constexpr double kOnItsWayUs = 5;
  EXPECT_NEAR(given_up_us(3, 0), 32.8 + kOnItsWayUs, 1);
  EXPECT_NEAR(given_up_us(3, 1), 2 * 32.8 + kOnItsWayUs, 1);
  EXPECT_NEAR(given_up_us(5, 6), 7 * 131.1 + kOnItsWayUs, 1);
}

TEST(Failures, AQueuePairTakesNothingFromWhoIsNotItsPeer) {
  Cluster cluster(round_cluster(3));
  Actor stranger(cluster, 0), owner(cluster, 1), peer(cluster, 2);
  const auto from = make_queue_pair(stranger, {.timeout = 1}), at = make_queue_pair(owner),
             other = make_queue_pair(peer);
  from->connect(at->address());
  at->connect(other->address());
  other->connect(at->address());
  stranger.memory()[0] = std::byte{1};
  stranger.begin = [&](Actor& a) { a.post(*from, a.request(Opcode::kRdmaWrite, 8, 1)); };
  run_until_us(cluster, 1000);
  EXPECT_THAT(statuses(stranger), ElementsAre(WcStatus::kRetryExcErr));
  EXPECT_EQ(owner.memory()[0], std::byte{0});
}

TEST(Failures, AnAtomicIsOfAWholeWord) {
  Cluster cluster(round_cluster(2));
  Actor near(cluster, 0), far(cluster, 1);
  near.begin = [](Actor& a) {
    SendWr half = a.request(Opcode::kAtomicFetchAndAdd, 4, 1);
    half.compare_add = 1;
    a.post(a.queue_pair(1), half);
  };
  run_until_us(cluster, 1000);
  EXPECT_THAT(statuses(near), ElementsAre(WcStatus::kRemInvReqErr));
  EXPECT_EQ(far.memory()[0], std::byte{0});
}

/// One that failed at home held back those behind it.
TEST(Failures, AQueuePairThatFailedAtHomeWorksAgainAfterReset) {
  Cluster cluster(round_cluster(2));
  Actor near(cluster, 0), far(cluster, 1);
  near.begin = [](Actor& a) {
    SendWr wrong = a.request(Opcode::kRdmaWrite, 8, 1);
    ++wrong.sge.lkey;
    a.post(a.queue_pair(1), wrong);
  };
  near.on_completion = [&](const WorkCompletion& wc) {
    if (wc.status == WcStatus::kSuccess) return;
    QueuePair &mine = near.queue_pair(1), &theirs = far.queue_pair(0);
    mine.reset();
    theirs.reset();
    mine.connect(theirs.address());
    theirs.connect(mine.address());
    near.post(Opcode::kRdmaWrite, 8, 1, 2);
  };
  run_until_us(cluster, 1000);
  EXPECT_THAT(statuses(near), ElementsAre(WcStatus::kLocProtErr, WcStatus::kSuccess, WcStatus::kSuccess));
}

TEST(Failures, AFailedQueuePairsSendQueueFillsUpToo) {
  Cluster cluster(round_cluster(2));
  Actor near(cluster, 0, {.max_send_wr = 4}), far(cluster, 1);
  PostResult result;
  near.begin = [](Actor& a) {
    SendWr wrong = a.request(Opcode::kRdmaWrite, 8, 1);
    ++wrong.rkey;
    a.post(a.queue_pair(1), wrong);
  };
  near.on_completion = [&](const WorkCompletion& wc) {
    if (wc.status != WcStatus::kRemAccessErr) return;
    result = near.queue_pair(1).post_send(std::vector<SendWr>(6, near.request(Opcode::kRdmaWrite, 8, 1)));
  };
  run_until_us(cluster, 1000);
  EXPECT_EQ(result.posted, 4U);
  EXPECT_EQ(result.error, PostError::kQueueFull);
  EXPECT_EQ(near.done.size(), 5U);
}

}  // namespace
}  // namespace verbtwin::sim
