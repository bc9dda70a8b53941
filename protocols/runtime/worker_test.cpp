#include "protocols/runtime/worker.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "protocols/fake_backend_for_test.hpp"

namespace verbtwin::protocols {
namespace {

using testing::Each;
using testing::ElementsAre;

/// Steps until the worker has nothing left to do; returns how many steps it took.
int run(Worker& worker, int steps_max = 100'000) {
  int steps = 0;
  auto& cq = static_cast<FakeCompletionQueue&>(worker.cq());
  while (steps < steps_max && (worker.step() || cq.size() > 0)) ++steps;
  return steps;
}

SendWr read_of(std::byte* to, std::uint64_t offset) {
  SendWr wr;
  wr.opcode = Opcode::kRdmaRead;
  wr.sge = {to, 8, 1};
  wr.remote_addr = offset;
  wr.rkey = 1;
  return wr;
}

SendWr write_of(std::byte* from, std::uint64_t offset) {
  SendWr wr = read_of(from, offset);
  wr.opcode = Opcode::kRdmaWrite;
  wr.flags = kInline;
  return wr;
}

class WorkerTest : public testing::Test {
 protected:
  Channel& channel() { return worker.channel(1, 0); }
  FakeQueuePair& queue_pair() { return static_cast<FakeQueuePair&>(*channel().queue_pair); }
  std::span<std::byte> remote() { return cluster.memory(1).local(); }

  FakeCluster cluster{ClusterShape{.nodes = 2}, 4096};
  Worker worker{cluster.port(0), 1024};
  alignas(8) std::byte word[8] = {};
};

Task<void> note(std::vector<int>& out, int value) {
  out.push_back(value);
  co_return;
}

Task<void> note_and_yield(Worker& worker, std::vector<int>& out, int value, int times) {
  for (int i = 0; i < times; ++i) {
    out.push_back(value);
    auto yield = worker.yield();
    co_await yield;
  }
}

TEST_F(WorkerTest, SpawnedCoroutinesRunInOrderFromTheNextStepOn) {
  std::vector<int> out;
  worker.spawn(note(out, 1));
  worker.spawn(note(out, 2));
  EXPECT_THAT(out, ElementsAre());
  EXPECT_EQ(worker.unfinished(), 2U);
  run(worker);
  EXPECT_THAT(out, ElementsAre(1, 2));
  EXPECT_EQ(worker.unfinished(), 0U);
}

TEST_F(WorkerTest, LooksForArrivalsWhenARoundBegins) {
  std::vector<int> out;
  EXPECT_TRUE(worker.looks_next());
  worker.spawn(note(out, 1));
  worker.spawn(note(out, 2));
  EXPECT_TRUE(worker.looks_next());
  EXPECT_TRUE(worker.step());
  EXPECT_FALSE(worker.looks_next()) << "the second of the round is to come";
  EXPECT_FALSE(worker.step());
  EXPECT_TRUE(worker.looks_next());
}

TEST_F(WorkerTest, YieldLetsTheOthersGoFirst) {
  std::vector<int> out;
  worker.spawn(note_and_yield(worker, out, 1, 3));
  worker.spawn(note_and_yield(worker, out, 2, 3));
  run(worker);
  EXPECT_THAT(out, ElementsAre(1, 2, 1, 2, 1, 2));
}

Task<void> note_and_wait_for_nothing(Worker& worker, std::vector<int>& out, int value) {
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t resumed = worker.resumed();
    WaitGroup nothing(worker);
    co_await nothing;
    out.push_back(value);
    auto turn = worker.yield_unless_waited(resumed);
    co_await turn;
  }
}

TEST_F(WorkerTest, WhoWaitsForNothingTakesTurns) {
  std::vector<int> out;
  worker.spawn(note_and_wait_for_nothing(worker, out, 1));
  worker.spawn(note_and_wait_for_nothing(worker, out, 2));
  run(worker);
  EXPECT_THAT(out, ElementsAre(1, 2, 1, 2, 1, 2));
}

Task<void> wait_and_take_turns(Worker& worker, Channel& channel, std::byte* to, int& steps) {
  const std::uint64_t resumed = worker.resumed();
  WaitGroup group(worker);
  worker.stage(channel, read_of(to, 0), &group);
  worker.ring(true);
  co_await group;
  steps = 1;
  auto turn = worker.yield_unless_waited(resumed);
  co_await turn;
  steps = 2;
}

TEST_F(WorkerTest, WhoHasWaitedGoesOn) {
  int steps = 0;
  worker.spawn(wait_and_take_turns(worker, channel(), word, steps));
  worker.step();
  EXPECT_EQ(steps, 0);
  worker.step();
  EXPECT_EQ(steps, 2);
}

Task<void> catch_up_and_note(Worker& worker, std::vector<int>& out, int value) {
  const std::uint64_t resumed = worker.resumed();
  out.push_back(value);
  worker.cpu().charge_ps(1000);
  auto caught_up = worker.catch_up(resumed);
  co_await caught_up;
  out.push_back(-value);
}

TEST_F(WorkerTest, WhoCatchesUpTakesAStepOfItsOwnAndTheNextOne) {
  std::vector<int> out;
  worker.spawn(catch_up_and_note(worker, out, 1));
  worker.spawn(catch_up_and_note(worker, out, 2));
  EXPECT_TRUE(worker.step());
  EXPECT_THAT(out, ElementsAre(1));
  EXPECT_FALSE(worker.looks_next());
  run(worker);
  EXPECT_THAT(out, ElementsAre(1, -1, 2, -2));
}

Task<void> catch_up_at_once(Worker& worker, int& steps) {
  worker.cpu().now_ps();  // nothing is charged any more, as on a real machine
  auto caught_up = worker.catch_up(worker.resumed());
  co_await caught_up;
  ++steps;
}

TEST_F(WorkerTest, WhoIsNotAheadHasNothingToCatchUp) {
  int steps = 0;
  worker.spawn(catch_up_at_once(worker, steps));
  worker.step();
  EXPECT_EQ(steps, 1);
}

Task<void> sleep_and_note(Worker& worker, std::vector<int>& out, std::int64_t at_ps, int number) {
  auto sleep = worker.sleep_until(at_ps);
  co_await sleep;
  out.push_back(number);
}

TEST_F(WorkerTest, WhoSleepsGoesOnInTimeAndTakesNoStepBefore) {
  std::vector<int> out;
  const std::int64_t now_ps = worker.cpu().now_ps();
  worker.spawn(sleep_and_note(worker, out, now_ps + 100, 2));
  worker.spawn(sleep_and_note(worker, out, now_ps + 50, 1));
  worker.spawn(sleep_and_note(worker, out, now_ps + 100, 3));
  EXPECT_EQ(worker.wakes_at_ps(), Steppable::kNever);
  run(worker);
  EXPECT_EQ(worker.wakes_at_ps(), now_ps + 50);
  EXPECT_THAT(out, ElementsAre());
  EXPECT_FALSE(worker.step());
  worker.cpu().charge(Cost::kCoroutineSwitch, 60);
  run(worker);
  EXPECT_THAT(out, ElementsAre(1));
  worker.cpu().charge(Cost::kCoroutineSwitch, 60);
  run(worker);
  EXPECT_THAT(out, ElementsAre(1, 2, 3)) << "those of one time in order";
  EXPECT_EQ(worker.wakes_at_ps(), Steppable::kNever);
}

Task<void> read_word(Worker& worker, Channel& channel, std::byte* to, WcStatus& status) {
  WaitGroup group(worker);
  worker.stage(channel, read_of(to, 16), &group);
  worker.ring(true);
  co_await group;
  status = group.status();
}

TEST_F(WorkerTest, AReadResumesItsWaiter) {
  remote()[16] = std::byte{42};
  WcStatus status = WcStatus::kRemOpErr;
  worker.spawn(read_word(worker, channel(), word, status));
  run(worker);
  EXPECT_EQ(worker.unfinished(), 0U);
  EXPECT_EQ(status, WcStatus::kSuccess);
  EXPECT_EQ(word[0], std::byte{42});
}

TEST_F(WorkerTest, AFailureIsTheWaitersToSee) {
  cluster.fabric().next_status = WcStatus::kRemAccessErr;
  WcStatus status = WcStatus::kSuccess;
  worker.spawn(read_word(worker, channel(), word, status));
  run(worker);
  EXPECT_EQ(status, WcStatus::kRemAccessErr);
}

TEST_F(WorkerTest, AFailureThatNobodyWaitedForStopsNobody) {
  cluster.fabric().next_status = WcStatus::kRetryExcErr;
  worker.stage(channel(), write_of(word, 0), nullptr);
  worker.ring(true);
  run(worker);
  WcStatus status = WcStatus::kRemOpErr;
  worker.spawn(read_word(worker, channel(), word, status));
  run(worker);
  EXPECT_EQ(status, WcStatus::kSuccess);
}

Task<void> wait_for(WaitGroup& group, int& wakes) {
  co_await group;
  ++wakes;
}

TEST_F(WorkerTest, AWaitGroupWakesOnceWhenAllAreDone) {
  WaitGroup group(worker);
  int wakes = 0;
  group.add();
  group.add();
  worker.spawn(wait_for(group, wakes));
  run(worker);
  group.complete(WcStatus::kRnrRetryExcErr);
  EXPECT_EQ(wakes, 0);
  EXPECT_FALSE(group.idle());
  group.complete(WcStatus::kRemOpErr);
  EXPECT_EQ(wakes, 1);
  EXPECT_TRUE(group.idle());
  EXPECT_EQ(group.status(), WcStatus::kRnrRetryExcErr) << "the first failure counts";
}

TEST_F(WorkerTest, AWaitGroupWithNothingOutstandingDoesNotWait) {
  WaitGroup group(worker);
  int wakes = 0;
  group.add();
  group.complete(WcStatus::kSuccess);
  worker.spawn(wait_for(group, wakes));
  run(worker);
  EXPECT_EQ(wakes, 1);
  EXPECT_EQ(group.status(), WcStatus::kSuccess);
}

Task<void> wait_in(WaitList& list, std::vector<int>& out, int value) {
  auto wait = list.wait();
  co_await wait;
  out.push_back(value);
}

TEST_F(WorkerTest, AWaitListWakesThoseWhoWaitInOrder) {
  WaitList list;
  std::vector<int> out;
  worker.spawn(wait_in(list, out, 1));
  worker.spawn(wait_in(list, out, 2));
  run(worker);
  EXPECT_THAT(out, ElementsAre());
  list.wake_all(worker);
  EXPECT_THAT(out, ElementsAre()) << "they run in the worker's turn, not in the waker's";
  run(worker);
  EXPECT_THAT(out, ElementsAre(1, 2));
  list.wake_all(worker);
  EXPECT_EQ(run(worker), 0) << "nobody is woken twice";
}

/// `turns` counts; a coroutine that does nothing but yield crashes clang 14.
Task<void> yield_until(Worker& worker, const bool& stop, int& turns) {
  while (!stop) {
    ++turns;
    auto yield = worker.yield();
    co_await yield;
  }
}

class CountingMessages final : public MessageLayer {
 public:
  void on_recv(const WorkCompletion&) override { ++received; }
  void on_sent(const WorkCompletion&) override { ++sent; }
  bool flush() override {
    ++flushes;
    return false;
  }
  int received = 0, sent = 0, flushes = 0;
};

TEST_F(WorkerTest, ACoroutineThatYieldsForEverHoldsUpNobody) {
  CountingMessages messages;
  worker.set_messages(messages);
  bool stop = false;
  int turns = 0;
  worker.spawn(yield_until(worker, stop, turns));
  for (int i = 0; i < 10; ++i) worker.step();
  EXPECT_GE(messages.flushes, 4);

  WcStatus status = WcStatus::kRemOpErr;
  worker.spawn(read_word(worker, channel(), word, status));
  WorkCompletion datagram;
  datagram.wr_id = static_cast<std::uint64_t>(Worker::WrKind::kRecv);
  static_cast<FakeCompletionQueue&>(worker.cq()).push(datagram, {});
  for (int i = 0; i < 12; ++i) worker.step();
  EXPECT_EQ(status, WcStatus::kSuccess);
  EXPECT_EQ(messages.received, 1);
  stop = true;
  run(worker);
  EXPECT_EQ(worker.unfinished(), 0U);
  EXPECT_GT(turns, 10);
}

TEST_F(WorkerTest, AStepSaysWhetherThereIsMoreToDo) {
  EXPECT_FALSE(worker.step());
  std::vector<int> out;
  worker.spawn(note_and_yield(worker, out, 1, 1));
  EXPECT_TRUE(worker.step()) << "it yielded, and is ready again";
  EXPECT_FALSE(worker.step());
}

TEST_F(WorkerTest, DatagramsGoToTheMessageLayer) {
  CountingMessages messages;
  worker.set_messages(messages);
  WorkCompletion wc;
  wc.wr_id = static_cast<std::uint64_t>(Worker::WrKind::kDatagram);
  static_cast<FakeCompletionQueue&>(worker.cq()).push(wc, {});
  run(worker);
  EXPECT_EQ(messages.sent, 1);
  EXPECT_EQ(messages.received, 0);
}

/// After a datagram queue pair has failed, each of its RECVs and sends completes with an error.
TEST_F(WorkerTest, DatagramsThatFailedDoNotReachTheMessageLayer) {
  CountingMessages messages;
  worker.set_messages(messages);
  for (const auto kind : {Worker::WrKind::kDatagram, Worker::WrKind::kRecv}) {
    WorkCompletion wc;
    wc.wr_id = static_cast<std::uint64_t>(kind);
    wc.status = WcStatus::kWrFlushErr;
    static_cast<FakeCompletionQueue&>(worker.cq()).push(wc, {});
  }
  run(worker);
  EXPECT_EQ(messages.sent + messages.received, 0);
  EXPECT_EQ(static_cast<FakeCompletionQueue&>(worker.cq()).size(), 0U);
}

TEST_F(WorkerTest, NothingIsPostedBeforeTheDoorbellRings) {
  for (int i = 0; i < 3; ++i) worker.stage(channel(), write_of(word, 0), nullptr);
  EXPECT_EQ(queue_pair().posted.size(), 0U);
  worker.ring(true);
  EXPECT_EQ(queue_pair().posted.size(), 3U);
  EXPECT_EQ(queue_pair().doorbells, 1U);
  for (int i = 0; i < 3; ++i) worker.stage(channel(), write_of(word, 0), nullptr);
  worker.ring(false);
  EXPECT_EQ(queue_pair().posted.size(), 6U);
  EXPECT_EQ(queue_pair().doorbells, 4U);
}

TEST_F(WorkerTest, RequestsExecuteInTheOrderStaged) {
  std::vector<std::uint64_t> values(40);
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    values[i] = i + 1;
    worker.stage(channel(), write_of(reinterpret_cast<std::byte*>(&values[i]), 8), nullptr);
  }
  worker.ring(true);
  std::uint64_t last = 0;
  std::memcpy(&last, remote().data() + 8, sizeof last);
  EXPECT_EQ(last, 40U);
}

TEST_F(WorkerTest, UnsignalledRequestsAreRetiredNowAndThen) {
  constexpr int kRequests = 1000;
  for (int i = 0; i < kRequests; ++i) {
    worker.stage(channel(), write_of(word, 0), nullptr);
    worker.ring(true);
    run(worker);
  }
  EXPECT_EQ(queue_pair().posted.size(), static_cast<std::size_t>(kRequests));
  const auto signalled =
      std::ranges::count_if(queue_pair().posted, [](const SendWr& wr) { return wr.flags & kSignaled; });
  EXPECT_GT(signalled, 0);
  EXPECT_LT(signalled, kRequests / 8) << "passive acknowledgement saves completions";
  EXPECT_EQ(cluster.fabric().refused, 0U);
}

TEST_F(WorkerTest, WhatDoesNotFitInTheQueueIsPostedLater) {
  std::vector<std::uint64_t> values(500);
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    values[i] = i + 1;
    worker.stage(channel(), write_of(reinterpret_cast<std::byte*>(&values[i]), 8 * i), nullptr);
  }
  worker.ring(true);
  EXPECT_EQ(queue_pair().posted.size(), 128U);
  const std::vector<std::uint64_t> staged = values;
  std::ranges::fill(values, ~std::uint64_t{0});  // inline: their buffers are free when ring() returns
  run(worker);
  EXPECT_EQ(queue_pair().posted.size(), values.size());
  EXPECT_EQ(cluster.fabric().refused, 0U);
  EXPECT_EQ(std::memcmp(remote().data(), staged.data(), 8 * staged.size()), 0);
}

TEST_F(WorkerTest, InlineBytesWaitForAFullQueueBesideAnotherFullOne) {
  std::vector<std::uint64_t> values(200);
  for (std::uint64_t i = 0; i < values.size(); ++i) values[i] = i + 1;
  const std::vector<std::uint64_t> staged = values;
  for (const int node : {1, 0}) {
    for (std::uint64_t i = 0; i < values.size(); ++i) {
      worker.stage(worker.channel(node, 0), write_of(reinterpret_cast<std::byte*>(&values[i]), 8 * i),
                   nullptr);
    }
  }
  worker.ring(true);
  std::ranges::fill(values, ~std::uint64_t{0});
  run(worker);
  for (const int node : {1, 0})
    EXPECT_EQ(std::memcmp(cluster.memory(node).local().data(), staged.data(), 8 * staged.size()), 0) << node;
}

TEST_F(WorkerTest, PlacesFreedByOnePollAreFilledByOneDoorbell) {
  for (const bool doorbell_batching : {true, false}) {
    const std::uint64_t before = queue_pair().doorbells;
    const std::size_t posted_before = queue_pair().posted.size();
    WaitGroup group(worker);
    for (int i = 0; i < 128 + 64; ++i) worker.stage(channel(), read_of(word, 0), &group);
    worker.ring(doorbell_batching);
    run(worker);
    EXPECT_EQ(queue_pair().posted.size() - posted_before, 192U);
    // 16 completions a poll free 16 places. A list that is taken in part, or not at all, is a try, too.
    const std::uint64_t doorbells = queue_pair().doorbells - before;
    if (doorbell_batching) {
      EXPECT_LE(doorbells, 1U + 4 + 8);
    } else {
      EXPECT_GE(doorbells, 192U);
    }
  }
}

Task<void> read_many(Worker& worker, Channel& channel, std::byte* to, int count, int& done) {
  WaitGroup group(worker);
  for (int i = 0; i < count; ++i) worker.stage(channel, read_of(to, 0), &group);
  worker.ring(false);
  co_await group;
  if (group.status() == WcStatus::kSuccess) ++done;
}

TEST_F(WorkerTest, WaitersOfRequestsThatWaitForRoomAreWokenToo) {
  int done = 0;
  for (int i = 0; i < 10; ++i) worker.spawn(read_many(worker, channel(), word, 50, done));
  run(worker);
  EXPECT_EQ(done, 10);
  EXPECT_EQ(queue_pair().posted.size(), 500U);
  EXPECT_EQ(cluster.fabric().refused, 0U);
}

TEST_F(WorkerTest, AFullChannelHoldsUpNoOther) {
  Channel& other = worker.channel(0, 0);
  for (int i = 0; i < 300; ++i) worker.stage(channel(), write_of(word, 0), nullptr);
  worker.stage(other, write_of(word, 0), nullptr);
  worker.ring(true);
  EXPECT_EQ(static_cast<FakeQueuePair&>(*other.queue_pair).posted.size(), 1U);
}

TEST_F(WorkerTest, ChannelsAreMadeOncePerNodeNicAndIndex) {
  FakeCluster large(ClusterShape{.nodes = 3, .threads = 2, .nics_per_node = 2, .qps_per_peer = 2}, 64);
  Worker one(large.port(0, 1), 64);
  std::vector<const Channel*> channels;
  for (int node = 0; node < 3; ++node) {
    for (int nic = 0; nic < 2; ++nic) {
      for (int index = 0; index < 2; ++index) {
        channels.push_back(&one.channel(node, nic, index));
        EXPECT_EQ(channels.back()->node, node);
      }
    }
  }
  EXPECT_EQ(one.nic(), 1);
  EXPECT_EQ(&one.channel(1, 1, 0), channels[6]);
  std::ranges::sort(channels);
  EXPECT_EQ(std::ranges::adjacent_find(channels), channels.end());
}

}  // namespace
}  // namespace verbtwin::protocols
