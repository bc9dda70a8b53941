#include "protocols/micro/primitive.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "backend/user_error.hpp"
#include "protocols/fake_backend_for_test.hpp"
#include "protocols/micro/primitive_thread.hpp"
#include "protocols/store/record.hpp"

namespace verbtwin::protocols {
namespace {

using nlohmann::json;
using testing::HasSubstr;

/// The entry's defaults with `changes` on top, as a loader would resolve them.
json workload(const json& changes) {
  json all = {{"name", "primitive"}};
  const RegistryEntry entry = primitive_entry();
  for (const auto& [name, property] : entry.schema.at("properties").items())
    all[name] = property.at("default");
  all.update(changes);
  return all;
}

/// Every thread of a small cluster, stepped in turn.
class TestRun {
 public:
  TestRun(const json& changes, const ClusterShape& shape, std::int64_t begin_ps = 0)
      : options_(PrimitiveOptions::from_json(workload(changes), shape)),
        layout_(options_, shape),
        window_{begin_ps, std::numeric_limits<std::int64_t>::max()},
        cluster_(shape, layout_.total_b()) {
    options_.check_device(cluster_.port().device().attributes());
    for (int node = 0; node < shape.nodes; ++node) {
      for (int thread = 0; thread < shape.threads; ++thread) {
        threads_.push_back(
            std::make_unique<PrimitiveThread>(options_, layout_, 1, cluster_.port(node, thread)));
      }
    }
    for (auto& thread : threads_) thread->start(window_, stop_);
  }

  TestRun& step(int times) {
    for (int i = 0; i < times; ++i) {
      for (auto& thread : threads_) thread->steppable().step();
    }
    return *this;
  }

  /// No new requests; takes the completions that are left.
  TestRun& finish() {
    stop_ = true;
    return step(2000);
  }

  std::uint64_t posted() const {
    std::uint64_t sum = 0;
    for (const FakeQueuePair* qp : queue_pairs()) sum += qp->posted.size();
    return sum;
  }
  std::uint64_t operations() const {
    std::uint64_t sum = 0;
    for (const auto& thread : threads_) sum += thread->statistics().operations_ever;
    return sum;
  }
  /// Of all words of all targets.
  std::uint64_t words() {
    std::uint64_t sum = 0;
    for (int node = 0; node < cluster_.port().shape().nodes; ++node) {
      const std::span<std::byte> all = cluster_.memory(node).local();
      for (std::size_t at = layout_.target_offset; at < layout_.total_b(); at += 8)
        sum += load_word(&all[at]);
    }
    return sum;
  }
  std::vector<FakeQueuePair*> queue_pairs() const {
    const FakeFabric& fabric = const_cast<FakeCluster&>(cluster_).fabric();
    return fabric.datagram_queue_pairs.empty() ? fabric.connected_queue_pairs : fabric.datagram_queue_pairs;
  }
  /// Over RC: of the first thread, whose queue pairs, one for each other machine, were made first.
  std::uint32_t in_flight_of_first() {
    std::uint32_t sum = 0;
    const auto others = static_cast<std::size_t>(cluster_.port().shape().nodes - 1);
    const std::vector<FakeQueuePair*> all = queue_pairs();
    for (const FakeQueuePair* qp : std::span(all).first(others)) sum += qp->in_queue();
    return sum;
  }
  FakeCluster& cluster() { return cluster_; }
  PrimitiveThread& thread(std::size_t index) { return *threads_[index]; }

 private:
  PrimitiveOptions options_;
  PrimitiveLayout layout_;
  Window window_;
  std::atomic<bool> stop_{false};
  FakeCluster cluster_;
  std::vector<std::unique_ptr<PrimitiveThread>> threads_;
};

constexpr ClusterShape kPair = {2, 1, 1, 1};
constexpr ClusterShape kFour = {4, 2, 1, 1};

TEST(Primitive, TheWindowIsFilledAndNeverExceeded) {
  for (const std::uint32_t outstanding : {1U, 16U, 50U}) {
    for (const std::uint32_t batch : {1U, 4U, 16U}) {
      if (batch > outstanding) continue;
      for (const std::uint32_t interval : {1U, 8U, 1000U}) {
        TestRun run({{"outstanding", outstanding}, {"doorbell_batch", batch}, {"signal_interval", interval}},
                    kFour);
        std::uint32_t most = 0;
        for (int i = 0; i < 500; ++i) most = std::max(most, run.step(1).in_flight_of_first());
        EXPECT_EQ(most, outstanding / batch * batch);
        EXPECT_GT(run.operations(), 500U) << "outstanding " << outstanding << ", batch " << batch
                                          << ", interval " << interval << ": it is stuck";
      }
    }
  }
}

/// However batches and intervals fall together, what nothing will retire leaves room for a batch.
TEST(Primitive, NoWindowIsStuckWithUnsignalledRequests) {
  constexpr std::uint32_t kOutstanding = 16;
  for (std::uint32_t batch = 1; batch <= kOutstanding; ++batch) {
    for (std::uint32_t interval = 1; interval <= kOutstanding + 2; ++interval) {
      TestRun run({{"outstanding", kOutstanding}, {"doorbell_batch", batch}, {"signal_interval", interval}},
                  kPair);
      run.step(200);
      EXPECT_GT(run.operations(), 4 * kOutstanding) << "batch " << batch << ", interval " << interval;
    }
  }
}

TEST(Primitive, EveryOperationIsDoneAndCountedOnce) {
  for (const char* words : {"distinct", "one", "random"}) {
    TestRun run({{"verb", "fetch_add"}, {"words", words}, {"target_kib", 1}}, kFour);
    run.step(300).finish();
    EXPECT_GT(run.operations(), 300U);
    EXPECT_EQ(run.words(), run.operations()) << words;
    EXPECT_EQ(run.thread(0).unfinished(), 0U);
  }
}

/// No two threads, wherever they are, ask for the same word of a machine.
TEST(Primitive, DistinctWordsAreEachThreadsOwn) {
  TestRun run({{"verb", "fetch_add"}, {"words", "distinct"}}, kFour);
  run.step(100);
  const std::vector<FakeQueuePair*> all = run.queue_pairs();
  constexpr std::size_t kThreads = 8, kPeers = 3;  // a thread's queue pairs were made together
  ASSERT_EQ(all.size(), kThreads * kPeers);
  std::set<std::uint64_t> words;
  std::size_t of_threads = 0;
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    std::set<std::uint64_t> own;
    for (std::size_t peer = 0; peer < kPeers; ++peer) {
      for (const SendWr& wr : all[thread * kPeers + peer]->posted) own.insert(wr.remote_addr);
    }
    of_threads += own.size();
    words.merge(own);
  }
  EXPECT_GT(words.size(), 2 * kThreads);
  EXPECT_EQ(words.size(), of_threads);
}

/// Who sends datagrams to one machine knows nothing of the others: it has a RECV for each of their requests.
TEST(Primitive, RecvsAreThereForTheWindowsOfAllSenders) {
  constexpr std::uint32_t kOutstanding = 400;
  TestRun run({{"verb", "send"}, {"transport", "ud"}, {"outstanding", kOutstanding}}, kFour);
  for (const FakeQueuePair* qp : run.queue_pairs()) EXPECT_GE(qp->recvs(), 3 * kOutstanding);
}

TEST(Primitive, OnlyWhatIsPostedInTheWindowCountsAsBegun) {
  const auto begun = [](std::int64_t begin_ps) {
    TestRun run({{"verb", "write"}}, kPair, begin_ps);
    run.step(200);
    EXPECT_GT(run.thread(0).statistics().operations_ever, 100U);
    return run.thread(0).statistics().begun;
  };
  EXPECT_GT(begun(0), 100U);
  EXPECT_EQ(begun(1'000'000'000), 0U);
}

TEST(Primitive, UnsignalledRequestsAreCountedWhenALaterOneCompletes) {
  TestRun run({{"verb", "fetch_add"}, {"signal_interval", 8}, {"outstanding", 64}}, kFour);
  run.step(1000).finish();
  EXPECT_LE(run.operations(), run.words());
  EXPECT_GE(run.operations() + 8 * 32, run.words()) << "8 threads, half a window each at most";
}

TEST(Primitive, OneInAnIntervalIsSignalled) {
  TestRun run({{"verb", "write"}, {"signal_interval", 8}, {"outstanding", 64}}, kPair);
  run.step(500);
  for (const FakeQueuePair* qp : run.queue_pairs()) {
    EXPECT_GE(qp->posted.size(), 64U);
    for (std::size_t i = 0; i < qp->posted.size(); ++i) {
      EXPECT_EQ((qp->posted[i].flags & kSignaled) != 0, i % 8 == 7) << i;
    }
  }
}

TEST(Primitive, ABatchHasOneDoorbell) {
  TestRun run({{"doorbell_batch", 4}}, kFour);
  run.step(300);
  ASSERT_FALSE(run.queue_pairs().empty());
  for (const FakeQueuePair* qp : run.queue_pairs()) {
    EXPECT_GE(qp->doorbells, 1U);
    EXPECT_EQ(qp->posted.size(), qp->doorbells * 4);
  }
}

TEST(Primitive, SynchronousWaitsForAllOfTheWindow) {
  const json window = {{"outstanding", 32}};
  json synchronous = window;
  synchronous["mode"] = "synchronous";
  // The 33rd step finds the window full and polls: 16 of 32 completions.
  EXPECT_EQ(TestRun(window, kPair).step(33).posted(), 2 * 33U);
  EXPECT_EQ(TestRun(synchronous, kPair).step(33).posted(), 2 * 32U);
  EXPECT_EQ(TestRun(synchronous, kPair).step(34).posted(), 2 * 33U);
}

TEST(Primitive, ThePatternSaysWhoPosts) {
  const auto posts = [](const json& changes) {
    TestRun run(changes, kFour);
    run.step(50);
    std::set<std::size_t> threads;
    for (std::size_t thread = 0; thread < 8; ++thread) {
      if (run.thread(thread).statistics().operations_ever > 0) threads.insert(thread);
    }
    return threads;
  };
  EXPECT_THAT(posts({{"pattern", "symmetric"}}), testing::SizeIs(8));
  EXPECT_THAT(posts({{"pattern", "one_to_many"}}), testing::ElementsAre(0, 1));
  EXPECT_THAT(posts({{"pattern", "many_to_one"}}), testing::ElementsAre(2, 3, 4, 5, 6, 7));
  EXPECT_THAT(posts({{"pattern", "many_to_one"}, {"issuing_threads", 1}}), testing::ElementsAre(2, 4, 6));
}

TEST(Primitive, QueuePairsOfAPeerAreAllUsed) {
  TestRun run(json::object(), ClusterShape{3, 1, 1, 5});
  run.step(200);
  EXPECT_EQ(run.queue_pairs().size(), 3U * 2 * 5);
}

TEST(Primitive, DatagramBatchesGoToSeveralMachinesAndFindRecvs) {
  TestRun run({{"verb", "send"}, {"transport", "ud"}, {"doorbell_batch", 8}}, kFour);
  run.step(400);
  EXPECT_GT(run.operations(), 1000U);
  EXPECT_EQ(run.cluster().fabric().dropped, 0U);
  std::set<std::uint32_t> targets;
  const std::vector<SendWr>& posted = run.queue_pairs().front()->posted;
  for (std::size_t i = 0; i < 8; ++i) targets.insert(posted[i].remote_qpn);
  EXPECT_GT(targets.size(), 1U);
}

/// As a device that is gone, which the binding reports; whatever else is refused says so itself.
TEST(Primitive, APostThatIsRefusedIsTold) {
  for (const char* verb : {"read", "send"}) {
    for (const PostError error : {PostError::kQueueFull, PostError::kInvalid, PostError::kFailed}) {
      TestRun run({{"verb", verb}}, kPair);
      run.cluster().fabric().refuses = error;
      if (error == PostError::kFailed) {
        EXPECT_NO_THROW(run.step(1));
      } else {
        EXPECT_THROW(run.step(1), std::logic_error);
      }
    }
  }
}

TEST(Primitive, AFailedRequestEndsItsThread) {
  TestRun run(json::object(), kPair);
  run.cluster().fabric().next_status = WcStatus::kRemAccessErr;
  run.step(100);
  EXPECT_EQ(run.thread(0).statistics().failed + run.thread(1).statistics().failed, 1U);
  EXPECT_EQ(run.thread(0).statistics().operations_ever, 15U) << "the others of its window";
}

TEST(Primitive, AnUnsignalledRequestThatFailsEndsItsThreadToo) {
  TestRun run({{"signal_interval", 8}, {"outstanding", 64}}, kPair);
  run.step(20).cluster().fabric().next_status = WcStatus::kRemAccessErr;
  run.step(100).finish();
  EXPECT_EQ(run.thread(0).statistics().failed + run.thread(1).statistics().failed, 1U);
  for (const std::size_t thread : {0, 1}) EXPECT_EQ(run.thread(thread).unfinished(), 0U);
}

TEST(Primitive, WhatDoesNotFitTogetherIsRefusedWithItsPlace) {
  struct Case {
    json changes;
    const char* pointer;
    const char* says;
  };
  const Case cases[] = {
      {{{"verb", "read"}, {"transport", "uc"}}, "/workload/transport", "UC carries no read"},
      {{{"verb", "fetch_add"}, {"transport", "uc"}}, "/workload/transport", "write and send only"},
      {{{"verb", "write"}, {"transport", "ud"}}, "/workload/transport", "send only"},
      {{{"verb", "read"}, {"inline", true}}, "/workload/inline", "no payload to send"},
      {{{"verb", "compare_swap"}, {"payload_b", 16}}, "/workload/payload_b", "8 is allowed"},
      {{{"verb", "write"}, {"words", "one"}}, "/workload/words", "distinct"},
      {{{"verb", "read"}, {"words", "random"}}, "/workload/words", "distinct"},
      {{{"outstanding", 4}, {"doorbell_batch", 8}}, "/workload/doorbell_batch", "1 to 4"},
      {{{"issuing_threads", 3}}, "/workload/issuing_threads", "0 to 2"},
      {{{"verb", "write"}, {"inline", true}, {"payload_b", 61}}, "/workload/inline", "up to 60 B"},
      {{{"verb", "send"}, {"transport", "ud"}, {"payload_b", 4097}}, "/workload/payload_b", "up to 4096 B"},
  };
  for (const Case& c : cases) {
    try {
      TestRun run(c.changes, kFour);
      ADD_FAILURE() << c.changes << " was accepted";
    } catch (const UserError& error) {
      EXPECT_EQ(error.pointer(), c.pointer) << c.changes;
      EXPECT_THAT(error.what(), HasSubstr(c.says));
    }
  }
}

}  // namespace
}  // namespace verbtwin::protocols
