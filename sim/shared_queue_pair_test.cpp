#include "sim/shared_queue_pair.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "backend/user_error.hpp"
#include "models/profiles_for_test.hpp"
#include "sim/cluster.hpp"

namespace verbtwin::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::int64_t kMicrosecondPs = 1'000'000;

/// A thread of node 0 that does something to its queue pair towards node 1 once, and notes what completes.
class Poster final : public Steppable {
 public:
  Poster(WorkerPort& port, std::uint32_t depth) : port_(port), cq_(port.device().create_cq(128)) {
    QpInitAttributes attributes;
    attributes.send_cq = attributes.recv_cq = cq_.get();
    attributes.max_send_wr = depth;
    attributes.max_recv_wr = 1;
    port.use_queue_pairs(attributes);
  }
  bool step() override {
    if (begin) std::exchange(begin, {})(*this);
    WorkCompletion wc;
    while (cq_->poll({&wc, 1}) == 1) {
      ids.push_back(wc.wr_id);
      last_ps = port_.cpu().now_ps();
    }
    return false;
  }
  /// Requests number `first`, `first` + 1, ...; how many were taken.
  std::size_t post(Opcode opcode, std::uint64_t first, int times, std::uint8_t flags = kSignaled) {
    const RemoteMemory remote = port_.memory().remote(1, 0);
    SendWr wr;
    wr.opcode = opcode;
    wr.flags = flags;
    wr.sge = {port_.memory().local().data(), 8, port_.memory().lkey()};
    wr.remote_addr = remote.addr;
    wr.rkey = remote.rkey;
    std::vector<SendWr> list(static_cast<std::size_t>(times), wr);
    for (SendWr& each : list) each.wr_id = first++;
    const PostResult result = queue_pair().post_send(list);
    posted_ps = port_.cpu().now_ps();
    return result.posted;
  }
  QueuePair& queue_pair() { return port_.connected_queue_pair(1, 0, 0); }

  std::function<void(Poster&)> begin;
  std::vector<std::uint64_t> ids;
  std::int64_t posted_ps = 0, last_ps = 0;

 private:
  WorkerPort& port_;
  std::unique_ptr<CompletionQueue> cq_;
};

ClusterParameters two_threads(int threads_per_queue_pair) {
  ClusterParameters p;
  p.shape.nodes = 2;
  p.shape.threads = 2;
  p.nic = models::round_nic();
  p.host = models::free_host();
  p.threads_per_queue_pair = threads_per_queue_pair;
  return p;
}

struct Posters {
  explicit Posters(const ClusterParameters& parameters = two_threads(2), std::uint32_t depth = 128)
      : cluster(parameters), first(cluster.port(0, 0), depth), second(cluster.port(0, 1), depth) {
    for (int thread = 0; thread < 2; ++thread) {
      targets.push_back(std::make_unique<Poster>(cluster.port(1, thread), depth));
    }
  }
  void run() {
    cluster.drive(0, 0, first);
    cluster.drive(0, 1, second);
    until_ps += 1000 * kMicrosecondPs;
    cluster.clock().run_until(until_ps, [] { return true; });
    EXPECT_FALSE(first.begin || second.begin);
  }
  Cluster cluster;
  Poster first, second;
  std::vector<std::unique_ptr<Poster>> targets;
  std::int64_t until_ps = 0;
};

TEST(SharedQueuePair, EachThreadHearsOfItsOwnRequests) {
  Posters posters;
  posters.first.begin = [](Poster& p) { EXPECT_EQ(p.post(Opcode::kRdmaWrite, 1, 3), 3U); };
  posters.second.begin = [](Poster& p) { EXPECT_EQ(p.post(Opcode::kRdmaRead, 11, 2), 2U); };
  posters.run();
  EXPECT_THAT(posters.first.ids, ElementsAre(1, 2, 3));
  EXPECT_THAT(posters.second.ids, ElementsAre(11, 12));
  EXPECT_EQ(posters.first.queue_pair().address().qp_num, posters.second.queue_pair().address().qp_num);
}

TEST(SharedQueuePair, AThreadFillsItsOwnShareOfTheSendQueue) {
  Posters posters(two_threads(2), 4);
  posters.first.begin = [](Poster& p) {
    EXPECT_EQ(p.post(Opcode::kRdmaWrite, 1, 3, 0), 3U);
    EXPECT_EQ(p.post(Opcode::kRdmaWrite, 4, 2), 1U) << "4 are its share";
  };
  posters.second.begin = [](Poster& p) { EXPECT_EQ(p.post(Opcode::kRdmaWrite, 11, 5), 4U); };
  posters.run();
  EXPECT_THAT(posters.first.ids, ElementsAre(4));
  EXPECT_THAT(posters.second.ids, ElementsAre(11, 12, 13, 14));
  posters.first.begin = [](Poster& p) { EXPECT_EQ(p.post(Opcode::kRdmaWrite, 5, 5), 4U) << "all retired"; };
  posters.run();
}

TEST(SharedQueuePair, ThreadsShareOneWindowOfReads) {
  const auto last_read_ps = [](int threads_per_queue_pair) {
    ClusterParameters parameters = two_threads(threads_per_queue_pair);
    parameters.cable_ps = 10 * kMicrosecondPs;
    Posters posters(parameters);
    for (Poster* poster : {&posters.first, &posters.second}) {
      poster->begin = [](Poster& p) { p.post(Opcode::kRdmaRead, 0, 16); };
    }
    posters.run();
    return std::max(posters.first.last_ps, posters.second.last_ps);
  };
  EXPECT_GT(static_cast<double>(last_read_ps(2)), 1.8 * static_cast<double>(last_read_ps(1)));
}

TEST(SharedQueuePair, PostingTakesItsLock) {
  ClusterParameters parameters = two_threads(2);
  parameters.host.doorbell_ns = 1000;
  parameters.host.lock_handover_ns = 50;
  Posters posters(parameters);
  for (Poster* poster : {&posters.first, &posters.second}) {
    poster->begin = [](Poster& p) { p.post(Opcode::kRdmaWrite, 0, 1); };
  }
  posters.run();
  EXPECT_EQ(posters.first.posted_ps, kMicrosecondPs);
  EXPECT_EQ(posters.second.posted_ps, 2 * kMicrosecondPs + 50'000);
  EXPECT_EQ(posters.cluster.usage().lock_wait_ps.at(1), kMicrosecondPs);
}

TEST(SharedQueuePair, WhatAResetForgetsTellsNobodyAndFreesEachShare) {
  Posters posters(two_threads(2), 4);
  posters.first.begin = [](Poster& p) { p.post(Opcode::kRdmaWrite, 1, 4); };
  posters.second.begin = [](Poster& p) {
    p.post(Opcode::kRdmaWrite, 11, 4);
    const QpAddress address = p.queue_pair().address();
    p.queue_pair().reset();
    EXPECT_EQ(p.post(Opcode::kRdmaWrite, 21, 1), 0U) << "not connected";
    EXPECT_EQ(address.qp_num, p.queue_pair().address().qp_num);
  };
  posters.run();
  EXPECT_THAT(posters.first.ids, IsEmpty());
  EXPECT_THAT(posters.second.ids, IsEmpty());
  posters.first.begin = [&](Poster& p) {
    p.queue_pair().connect(posters.targets[0]->queue_pair().address());
    EXPECT_EQ(p.post(Opcode::kRdmaWrite, 5, 4), 4U);
  };
  posters.run();
}

TEST(SharedQueuePair, ThreadsDoNotShareReceives) {
  Cluster cluster(two_threads(2));
  WorkerPort& port = cluster.port(0, 0);
  const auto cq = port.device().create_cq(16);
  EXPECT_THROW(port.use_queue_pairs({.send_cq = cq.get(), .recv_cq = cq.get(), .max_recv_wr = 2}), UserError);
  port.use_queue_pairs({.send_cq = cq.get(), .recv_cq = cq.get(), .max_recv_wr = 1});
}

}  // namespace
}  // namespace verbtwin::sim
