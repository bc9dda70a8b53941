// multi-object and echo on a cluster in memory: what they post, wait for and count.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "backend/user_error.hpp"
#include "protocols/fake_backend_for_test.hpp"
#include "protocols/micro/echo.hpp"
#include "protocols/micro/multi_object.hpp"

namespace verbtwin::protocols {
namespace {

using nlohmann::json;

json workload_of(const RegistryEntry& entry, const json& changes) {
  json workload = {{"name", entry.name}};
  for (const auto& [name, property] : entry.schema.at("properties").items()) {
    workload[name] = property.at("default");
  }
  workload.update(changes);
  return workload;
}

class TestRun {
 public:
  TestRun(const RegistryEntry& entry, const json& changes, int coroutines, int qps_per_peer = 1,
          const CpuPrices* prices = nullptr) {
    const ClusterShape shape{3, 1, 1, qps_per_peer};
    benchmark_ = make_benchmark(workload_of(entry, changes), {shape, coroutines, 1});
    cluster_ = std::make_unique<FakeCluster>(shape, benchmark_->node_memory_bytes());
    for (int node = 0; node < shape.nodes; ++node) {
      nodes_.push_back(std::make_unique<BenchmarkNode>(*benchmark_, std::vector{&cluster_->port(node)}));
      if (prices != nullptr) static_cast<FakeCpu&>(cluster_->port(node).cpu()).prices() = *prices;
    }
    for (auto& node : nodes_) node->start(window_, stop_);
    step(500);
    stop_ = true;
    step(2000);
  }

  std::uint64_t operations() const {
    std::uint64_t sum = 0;
    for (const auto& node : nodes_) sum += node->finished_ever();
    return sum;
  }
  std::uint64_t operations_of(std::size_t node) const { return nodes_[node]->finished_ever(); }
  std::size_t unfinished() const {
    std::size_t sum = 0;
    for (const auto& node : nodes_) sum += node->unfinished();
    return sum;
  }
  /// One-sided requests, and those of them that `counts`.
  template <typename Counts>
  std::uint64_t posted(Counts counts) const {
    std::uint64_t sum = 0;
    for (const FakeQueuePair* qp : cluster_->fabric().connected_queue_pairs) {
      sum += static_cast<std::uint64_t>(std::ranges::count_if(qp->posted, counts));
    }
    return sum;
  }
  /// Connected ones that anything was posted to.
  std::size_t queue_pairs_used() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(cluster_->fabric().connected_queue_pairs,
                              [](const FakeQueuePair* qp) { return !qp->posted.empty(); }));
  }
  std::uint64_t posted() const {
    return posted([](const SendWr&) { return true; });
  }
  std::uint64_t doorbells() const {
    std::uint64_t sum = 0;
    for (const FakeQueuePair* qp : cluster_->fabric().connected_queue_pairs) sum += qp->doorbells;
    return sum;
  }
  const FakeFabric& fabric() const { return cluster_->fabric(); }
  /// What a node's core has been charged.
  std::int64_t charged_ps(int node) const { return cluster_->port(node).cpu().now_ps(); }

 private:
  void step(int times) {
    for (int i = 0; i < times; ++i) {
      for (auto& node : nodes_) node->worker(0).step();
    }
  }

  Window window_{0, std::numeric_limits<std::int64_t>::max()};
  std::atomic<bool> stop_{false};
  std::unique_ptr<Benchmark> benchmark_;
  std::unique_ptr<FakeCluster> cluster_;
  std::vector<std::unique_ptr<BenchmarkNode>> nodes_;
};

bool is_signaled(const SendWr& wr) {
  return (wr.flags & kSignaled) != 0;
}

TEST(MultiObject, AGroupIsSoManyAccesses) {
  for (const char* access : {"read", "write"}) {
    const TestRun run(multi_object_entry(), {{"access", access}, {"objects", 7}}, 3);
    EXPECT_GT(run.operations(), 50U);
    EXPECT_EQ(run.posted(), run.operations() * 7) << access;
    EXPECT_EQ(run.posted(is_signaled), run.doorbells()) << "the last of each queue pair is waited for";
    EXPECT_EQ(run.unfinished(), 0U);
  }
}

TEST(MultiObject, OneAtATimeHasADoorbellAndAWaitEach) {
  const TestRun run(multi_object_entry(), {{"outstanding", false}}, 1);
  EXPECT_EQ(run.doorbells(), run.posted());
  EXPECT_GT(run.operations(), 10U);
}

TEST(MultiObject, OneAtATimeEachIsWaitedFor) {
  const TestRun run(multi_object_entry(), {{"outstanding", false}}, 2);
  EXPECT_EQ(run.posted(is_signaled), run.posted());
}

TEST(MultiObject, TheOwnMachineIsOneOfThemWhereTold) {
  const TestRun run(multi_object_entry(), {{"own_machine", true}}, 2);
  EXPECT_EQ(run.posted(), run.operations() * 10);
  EXPECT_GT(run.doorbells(), 2 * run.operations()) << "a third queue pair";
  EXPECT_EQ(run.unfinished(), 0U);
}

TEST(MultiObject, BatchingSharesDoorbells) {
  const TestRun apart(multi_object_entry(), {{"doorbell_batching", false}}, 2);
  const TestRun together(multi_object_entry(), {{"doorbell_batching", true}}, 2);
  EXPECT_EQ(apart.doorbells(), apart.posted());
  // Ten writes to two machines; one group in 512 draws the same machine ten times.
  EXPECT_LE(together.doorbells(), 2 * together.operations());
  EXPECT_GT(together.doorbells(), 2 * together.operations() - together.operations() / 50);
}

TEST(MultiObject, PassiveWritesWaitForTheLast) {
  const TestRun run(multi_object_entry(), {{"access", "write"}, {"passive_ack", true}}, 2);
  EXPECT_EQ(run.posted(), run.operations() * 10);
  const std::uint64_t signaled = run.posted(is_signaled);
  EXPECT_GE(signaled, run.operations());
  EXPECT_LE(signaled, run.operations() + run.posted() / 32 + 6) << "and one of 32 in a row";
  EXPECT_EQ(run.unfinished(), 0U);
}

TEST(MultiObject, CallsNeedNoConnectionAndPassiveOnesFewerMessages) {
  const json calls = {{"access", "write"}, {"primitive", "two_sided"}};
  json passive = calls;
  passive["passive_ack"] = true;
  const TestRun answered(multi_object_entry(), calls, 2);
  const TestRun unanswered(multi_object_entry(), passive, 2);
  for (const TestRun* run : {&answered, &unanswered}) {
    EXPECT_EQ(run->posted(), 0U);
    EXPECT_EQ(run->fabric().dropped, 0U);
    EXPECT_EQ(run->unfinished(), 0U);
    EXPECT_GT(run->operations(), 20U);
  }
  EXPECT_EQ(answered.fabric().packets, answered.operations() * 20);
  EXPECT_LT(unanswered.fabric().packets, unanswered.operations() * 13);
}

/// Requests of one queue pair complete in order, those of two do not.
TEST(MultiObject, TheLastOfEachQueuePairIsWaitedFor) {
  const TestRun run(multi_object_entry(), {{"doorbell_batching", true}}, 2, /*qps_per_peer=*/4);
  EXPECT_GT(run.doorbells(), 4 * run.operations());
  EXPECT_EQ(run.posted(is_signaled), run.doorbells());
}

/// A peer has room for so many calls that nobody waits for: who has no credit waits for an answer.
TEST(MultiObject, PassiveCallsKeepToTheirCredit) {
  const TestRun run(
      multi_object_entry(),
      {{"access", "write"}, {"primitive", "two_sided"}, {"passive_ack", true}, {"objects", 100}}, 4);
  EXPECT_GT(run.operations(), 10U);
  EXPECT_EQ(run.unfinished(), 0U);
  EXPECT_EQ(run.fabric().dropped, 0U);
  EXPECT_GT(run.fabric().packets, 150 * run.operations()) << "most calls of a group go beyond it";
}

TEST(MultiObject, WhatDoesNotFitTogetherIsRefused) {
  const auto pointer = [](const json& changes) {
    try {
      TestRun(multi_object_entry(), changes, 1);
    } catch (const UserError& error) {
      return error.pointer();
    }
    return std::string("accepted");
  };
  EXPECT_EQ(pointer({{"passive_ack", true}}), "/workload/passive_ack") << "a read";
  EXPECT_EQ(pointer({{"primitive", "two_sided"}, {"payload_b", 4096}}), "/workload/payload_b");
}

/// One from each coroutine of each machine, and a few besides.
TEST(Echo, AsManyDatagramsMayComeAsThereAreCalls) {
  FakeCluster some({2, 1, 1, 1}, 4096);
  DeviceAttributes device = some.port().device().attributes();
  device.max_qp_wr = 3000;
  const auto check = [&device](int nodes, int coroutines) {
    make_benchmark(workload_of(echo_entry(), json::object()), {{nodes, 1, 1, 1}, coroutines, 1})
        ->check_device(device);
  };
  EXPECT_NO_THROW(check(100, 20));
  EXPECT_THROW(check(100, 40), UserError);
}

TEST(Echo, DatagramsAreARequestAndAReplyEach) {
  const TestRun run(echo_entry(), json::object(), 4);
  EXPECT_GT(run.operations(), 100U);
  EXPECT_EQ(run.fabric().packets, 2 * run.operations());
  EXPECT_EQ(run.unfinished(), 0U);
}

TEST(Echo, PolledRingsAreTwoWritesEach) {
  for (const bool batching : {true, false}) {
    const TestRun run(echo_entry(), {{"transport", "rc_write_poll"}, {"doorbell_batching", batching}}, 4);
    EXPECT_GT(run.operations(), 100U);
    EXPECT_EQ(run.posted(), 2 * run.operations());
    EXPECT_EQ(run.unfinished(), 0U);
  }
}

/// Replies of HERD are datagrams.
TEST(Echo, BatchingSharesTheDoorbellsOfReplies) {
  for (const bool batching : {true, false}) {
    const TestRun run(echo_entry(),
                      {{"transport", "herd"}, {"pattern", "many_to_one"}, {"doorbell_batching", batching}},
                      16);
    EXPECT_GT(run.operations(), 100U);
    EXPECT_EQ(run.unfinished(), 0U);
    EXPECT_EQ(run.fabric().packets, run.operations());
    const std::uint64_t doorbells = run.fabric().datagram_queue_pairs.front()->doorbells;
    if (batching) {
      EXPECT_LT(doorbells, run.operations());
    } else {
      EXPECT_EQ(doorbells, run.operations());
    }
  }
}

/// Whoever writes a message copies it, and whoever takes it.
TEST(Echo, RequestsAndRepliesAreCopiedByWhoWritesAndWhoTakesThem) {
  CpuPrices copies;
  copies.cost_ps[static_cast<std::size_t>(Cost::kCopyBlock)] = 1;
  constexpr std::int64_t kRequest = 10, kReply = 3;  // lines
  const json lengths = {{"pattern", "many_to_one"},
                        {"payload_b", kRequest * 64},
                        {"reply_b", kReply * 64},
                        {"fetch_tries", 1000}};
  for (const char* transport : {"rc_write_poll", "rf_rpc"}) {
    SCOPED_TRACE(transport);
    json workload = lengths;
    workload["transport"] = transport;
    const TestRun run(echo_entry(), workload, 3, 1, &copies);
    ASSERT_GT(run.operations(), 100U);
    for (const int node : {0, 1, 2}) {
      const auto calls = static_cast<std::int64_t>(
          node == 0 ? run.operations() : run.operations_of(static_cast<std::size_t>(node)));
      EXPECT_EQ(run.charged_ps(node), calls * (kRequest + kReply)) << "node " << node;
    }
  }
}

bool is_read(const SendWr& wr) {
  return wr.opcode == Opcode::kRdmaRead;
}

TEST(Echo, FetchedResultsAreAWriteAndReads) {
  const TestRun one(echo_entry(), {{"transport", "rf_rpc"}, {"fetch_tries", 1000}}, 4);
  EXPECT_GT(one.operations(), 100U);
  EXPECT_EQ(one.posted() - one.posted(is_read), one.operations());
  EXPECT_GE(one.posted(is_read), one.operations());
  EXPECT_EQ(one.unfinished(), 0U);
  const TestRun two(echo_entry(), {{"transport", "rf_rpc"}, {"fetch_tries", 1000}, {"reply_b", 300}}, 4);
  EXPECT_GE(two.posted(is_read), 2 * two.operations()) << "longer than the first READ";
  EXPECT_EQ(two.unfinished(), 0U);
}

TEST(Echo, BypassingTheServerIsReads) {
  const TestRun run(
      echo_entry(),
      {{"transport", "server_bypass"}, {"reads_per_call", 2.5}, {"reply_b", 700}, {"probe_b", 24}}, 2);
  EXPECT_GT(run.operations(), 100U);
  EXPECT_EQ(run.posted(), run.posted(is_read));
  // What is left of each worker's sum is less than a READ.
  EXPECT_NEAR(static_cast<double>(run.posted()), 2.5 * static_cast<double>(run.operations()), 3);
  EXPECT_EQ(run.posted([](const SendWr& wr) { return wr.sge.length == 700; }), run.operations());
  EXPECT_EQ(run.posted([](const SendWr& wr) { return wr.sge.length == 24; }),
            run.posted() - run.operations());
}

TEST(Echo, RepliesAreOfAnyLength) {
  for (const char* transport : {"ud_send", "rc_write_poll", "rf_rpc"}) {
    for (const int reply_b : {1, 777}) {
      const TestRun run(echo_entry(), {{"transport", transport}, {"payload_b", 100}, {"reply_b", reply_b}},
                        3);
      EXPECT_GT(run.operations(), 100U) << transport << reply_b;
      EXPECT_EQ(run.unfinished(), 0U) << transport << reply_b;
    }
  }
}

TEST(Echo, TheOneServerCallsNobody) {
  for (const char* transport : {"ud_send", "rc_write_poll", "rf_rpc", "server_bypass"}) {
    const TestRun run(echo_entry(), {{"transport", transport}, {"pattern", "many_to_one"}}, 3);
    EXPECT_GT(run.operations(), 100U) << transport;
    EXPECT_EQ(run.operations_of(0), 0U) << transport;
    EXPECT_GT(run.operations_of(1), 0U) << transport;
    EXPECT_GT(run.operations_of(2), 0U) << transport;
    EXPECT_EQ(run.unfinished(), 0U) << transport;
  }
}

TEST(Echo, SeveralServersShareTheCalls) {
  const TestRun run(echo_entry(),
                    {{"transport", "rc_write_poll"}, {"pattern", "many_to_one"}, {"servers", 2}}, 3);
  EXPECT_EQ(run.operations_of(0), 0U);
  EXPECT_EQ(run.operations_of(1), 0U);
  EXPECT_GT(run.operations_of(2), 100U);
  EXPECT_EQ(run.unfinished(), 0U);
  EXPECT_EQ(run.queue_pairs_used(), 4U) << "the caller's to each server, and one of each server's";
}

TEST(Echo, CallsOfAMessageShareItsWrite) {
  for (const char* transport : {"ud_send", "rc_write_poll", "rf_rpc"}) {
    const json workload = {{"transport", transport}, {"payload_b", 10}, {"calls_per_message", 8}};
    const TestRun run(echo_entry(), workload, 3);
    EXPECT_GT(run.operations(), 100U) << transport;
    EXPECT_EQ(run.operations() % 8, 0U) << transport;
    EXPECT_EQ(run.unfinished(), 0U) << transport;
    if (std::string(transport) != "rc_write_poll") continue;
    EXPECT_EQ(run.posted(), run.operations() / 8 * 2) << "a request and a reply";
    EXPECT_EQ(run.posted(), run.posted([](const SendWr& wr) { return wr.sge.length == 8 * 10 + 8; }));
  }
}

TEST(Echo, CallersAreSpreadOverTheServersThreads) {
  EchoOptions options;
  options.pattern = EchoOptions::Pattern::kManyToOne;
  options.issuing_threads = 5;
  const ClusterShape shape{8, 16, 1, 1};
  for (int thread = 0; thread < shape.threads; ++thread) {
    int callers = 0;
    for (int node = 0; node < shape.nodes; ++node) callers += options.calls(node, 0, thread, shape) ? 1 : 0;
    EXPECT_GE(callers, 2) << thread;
    EXPECT_LE(callers, 3) << thread;
    EXPECT_FALSE(options.calls(1, 2, thread, shape));
  }
}

TEST(Echo, WhatDoesNotFitTogetherIsRefused) {
  EXPECT_THROW(TestRun(echo_entry(), {{"issuing_threads", 2}}, 1), UserError) << "a machine has one thread";
  EXPECT_THROW(TestRun(echo_entry(), {{"transport", "server_bypass"}, {"process_ns", 1}}, 1), UserError);
  EXPECT_THROW(TestRun(echo_entry(), {{"transport", "rc_send"}, {"coalescing", true}}, 1), UserError);
  EXPECT_THROW(TestRun(echo_entry(), {{"servers", 2}}, 1), UserError) << "all of symmetric ones serve";
  EXPECT_THROW(TestRun(echo_entry(), {{"pattern", "many_to_one"}, {"servers", 3}}, 1), UserError)
      << "who calls?";
  EXPECT_THROW(TestRun(echo_entry(), {{"transport", "server_bypass"}, {"calls_per_message", 2}}, 1),
               UserError);
  EXPECT_THROW(TestRun(echo_entry(), {{"payload_b", 65536}, {"calls_per_message", 2}}, 1), UserError);
}

}  // namespace
}  // namespace verbtwin::protocols
