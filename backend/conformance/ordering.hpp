// Conformance of order: requests of one queue pair execute and complete in the order posted.
#pragma once

#include <random>

#include "backend/conformance/fixture.hpp"

namespace verbtwin::conformance {

TEST_P(VerbsConformance, AWriteLandsBehindTheWriteBeforeIt) {
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    SCOPED_TRACE(to_string(type));
    const Ends ends = connect(type);
    // A long record, then the flag that says it is there: what ring logs rely on.
    for (unsigned round = 1; round <= 20; ++round) {
      a().fill(0, 3000, round);
      a().set_word(4096, round);
      post(ends.near, {write(1, a().sge(0, 3000), b(), 0, 0), write(2, a().sge(4096, 8), b(), 8192)});
      ASSERT_TRUE(eventually([&] { return b().word(8192) == round; }));
      ASSERT_TRUE(b().holds(0, 3000, round)) << "round " << round;
      expect_success(a(), 1);
    }
    b().set_word(8192, 0);
  }
}

TEST_P(VerbsConformance, ALaterWriteOverwritesAnEarlierOne) {
  const Ends ends = connect();
  std::vector<SendWr> list;
  for (unsigned i = 0; i < 32; ++i) {
    const std::size_t length = i % 2 == 0 ? 2048 : 8;
    a().set_word(i * 2048, i);
    list.push_back(write(i, a().sge(i * 2048, length), b(), 0, i == 31 ? kSignaled : 0));
  }
  post(ends.near, list);
  expect_success(a(), 1);
  EXPECT_EQ(b().word(0), 31U);
}

TEST_P(VerbsConformance, AReadBehindACompareSwapSeesIt) {
  const Ends ends = connect();
  for (std::uint64_t i = 0; i < 20; ++i) {
    post(ends.near, {compare_swap(1, a().sge(0, 8), b(), 0, i, i + 1, 0), read(2, a().sge(8, 8), b(), 0)});
    expect_success(a(), 1);
    ASSERT_EQ(a().word(0), i) << "the CAS is done when the READ behind it is";
    ASSERT_EQ(a().word(8), i + 1);
  }
}

TEST_P(VerbsConformance, AReadBehindAWriteSeesIt) {
  const Ends ends = connect();
  const std::size_t length = 3 * a().device.attributes().mtu;
  for (unsigned round = 1; round <= 10; ++round) {
    a().fill(0, length, round);
    post(ends.near, {write(1, a().sge(0, length), b(), 0, 0), read(2, a().sge(length, length), b(), 0)});
    expect_success(a(), 1);
    ASSERT_TRUE(a().holds(length, length, round)) << "round " << round;
  }
}

TEST_P(VerbsConformance, ACompareSwapBehindAWriteSeesIt) {
  const Ends ends = connect();
  a().set_word(0, 7);
  post(ends.near, {write(1, a().sge(0, 8), b(), 0, 0), compare_swap(2, a().sge(8, 8), b(), 0, 7, 8)});
  expect_success(a(), 1);
  EXPECT_EQ(a().word(8), 7U);
  EXPECT_EQ(b().word(0), 8U);
}

TEST_P(VerbsConformance, ARecvSaysThatEarlierWritesHaveLanded) {
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    SCOPED_TRACE(to_string(type));
    const Ends ends = connect(type);
    for (unsigned round = 1; round <= 20; ++round) {
      a().fill(0, 8000, round);
      post(ends.far, recv(1, b().sge(16384, 8)));
      post(ends.near, {write(1, a().sge(0, 8000), b(), 0, 0), send(2, a().sge(0, 8))});
      ASSERT_EQ(received(b(), 1).size(), 1U);
      ASSERT_TRUE(b().holds(0, 8000, round)) << "round " << round;
      expect_success(a(), 1);
    }
  }
}

TEST_P(VerbsConformance, CompletionsComeInPostingOrder) {
  const Ends ends = connect();
  for (unsigned i = 0; i < 8; ++i) post(ends.far, recv(100 + i, b().sge(32768, 64)));
  std::vector<SendWr> list;
  for (unsigned i = 0; i < 8; ++i) {
    const std::uint64_t id = i * 6;
    list.push_back(read(id, a().sge(0, 4096), b(), 0));
    list.push_back(write(id + 1, a().sge(0, 8), b(), 8192));
    list.push_back(compare_swap(id + 2, a().sge(8192, 8), b(), 9000, 0, 1));
    list.push_back(send(id + 3, a().sge(0, 16)));
    list.push_back(write(id + 4, a().sge(0, 8192), b(), 16384));
    list.push_back(read(id + 5, a().sge(12288, 8), b(), 0));
  }
  post(ends.near, list);
  EXPECT_EQ(ids_of(sent(a(), 48)), range(0, 48));
  EXPECT_EQ(ids_of(received(b(), 8)), range(100, 8));
}

TEST_P(VerbsConformance, AFencedRequestUsesWhatAReadBroughtIn) {
  const Ends ends = connect();
  const std::size_t length = 2 * a().device.attributes().mtu;
  for (unsigned round = 1; round <= 10; ++round) {
    b().fill(0, length, round);
    post(ends.near, {read(1, a().sge(0, length), b(), 0, 0),
                     write(2, a().sge(0, length), b(), 32768, kSignaled | kFence)});
    expect_success(a(), 1);
    ASSERT_TRUE(b().holds(32768, length, round)) << "round " << round;
  }
}

TEST_P(VerbsConformance, MoreReadsThanTheWindowAllComeInOrder) {
  for (const std::uint8_t window : std::array<std::uint8_t, 3>{1, 2, 16}) {
    SCOPED_TRACE(static_cast<int>(window));
    QpInitAttributes few = attributes();
    few.max_rd_atomic = window;
    const Ends ends = connect(few);
    std::vector<SendWr> list;
    for (unsigned i = 0; i < 60; ++i) {
      b().set_word(i * 8, 1000 + i);
      list.push_back(i % 3 == 2 ? fetch_add(i, a().sge(i * 8, 8), b(), i * 8, 0) : read(i, a().sge(i * 8, 8), b(), i * 8));
    }
    post(ends.near, list);
    EXPECT_EQ(ids_of(sent(a(), 60)), range(0, 60));
    for (unsigned i = 0; i < 60; ++i) EXPECT_EQ(a().word(i * 8), 1000 + i);
    for (unsigned i = 0; i < 60; ++i) a().set_word(i * 8, 0);
  }
}

TEST_P(VerbsConformance, AWriteBehindReadsThatWaitKeepsItsPlace) {
  QpInitAttributes one = attributes();
  one.max_rd_atomic = 1;
  const Ends ends = connect(one);
  b().set_word(0, 1);
  a().set_word(64, 2);
  post(ends.near, {read(0, a().sge(0, 8), b(), 0), read(1, a().sge(8, 8), b(), 0), read(2, a().sge(16, 8), b(), 0),
                   write(3, a().sge(64, 8), b(), 0)});
  EXPECT_EQ(ids_of(sent(a(), 4)), range(0, 4));
  for (const std::size_t offset : {0, 8, 16}) EXPECT_EQ(a().word(offset), 1U);
  EXPECT_EQ(b().word(0), 2U);
}

/// Several queue pairs of each endpoint to each other, all busy at once with messages of very different lengths: what
/// one queue pair promises must not depend on what the others do. Each queue pair counts one word of its target up
/// with WRITEs and looks at it with READs behind them.
TEST_P(VerbsConformance, OrderHoldsUnderLoad) {
  constexpr unsigned kQueuePairs = 6;
  constexpr unsigned kRequests = 240;
  constexpr std::size_t kLane = 8192;
  std::mt19937 random(7);
  struct Lane {
    QueuePair* qp;
    std::uint64_t next_posted = 0, next_completed = 0, written = 0;
    std::vector<std::uint64_t> seen_at;  // the count that the READ of each slot must find; 0: not a READ
  };
  QpInitAttributes deep = attributes();
  deep.max_send_wr = 64;
  std::vector<Lane> lanes;
  for (unsigned i = 0; i < kQueuePairs; ++i) {
    lanes.push_back({&connect(a(), i % 2 == 0 ? b() : c(), deep).near, 0, 0, 0, {}});
  }
  // A lane's part of a's buffer: counters to write from (one a request), results of READs, one lane each.
  const auto post_some = [&](unsigned index) {
    Lane& lane = lanes[index];
    Endpoint& target = index % 2 == 0 ? b() : c();
    while (lane.next_posted < kRequests && lane.next_posted - lane.next_completed < 16) {
      const std::size_t slot = index * kLane + lane.next_posted % 16 * 16;
      const std::size_t length = std::array<std::size_t, 3>{8, 200, 6000}[random() % 3];
      const std::uint64_t id = index * 1000 + lane.next_posted++;
      switch (random() % 3) {
        case 0:
          a().set_word(slot, ++lane.written);
          post(*lane.qp, write(id, a().sge(slot, 8), target, index * kLane));
          lane.seen_at.push_back(0);
          break;
        case 1:
          post(*lane.qp, read(id, a().sge(slot + 8, 8), target, index * kLane));
          lane.seen_at.push_back(1 + lane.written);
          break;
        default:
          post(*lane.qp, write(id, a().sge(0, length), target, index * kLane + 1024));
          lane.seen_at.push_back(0);
      }
    }
  };
  const auto all_done = [&] {
    for (unsigned i = 0; i < kQueuePairs; ++i) post_some(i);
    for (const WorkCompletion& wc : drain(*a().send_cq)) {
      const auto index = static_cast<unsigned>(wc.wr_id / 1000);
      Lane& lane = lanes[index];
      EXPECT_EQ(to_string(wc.status), "success");
      EXPECT_EQ(wc.wr_id % 1000, lane.next_completed) << "queue pair " << index;
      const std::size_t slot = index * kLane + wc.wr_id % 1000 % 16 * 16;
      if (const std::uint64_t seen = lane.seen_at[wc.wr_id % 1000]) {
        EXPECT_EQ(a().word(slot + 8), seen - 1) << "READ " << wc.wr_id;
      }
      lane.next_completed = wc.wr_id % 1000 + 1;
    }
    return HasFailure() || std::all_of(lanes.begin(), lanes.end(), [](const Lane& l) { return l.next_completed == kRequests; });
  };
  EXPECT_TRUE(eventually(all_done));
}

}  // namespace verbtwin::conformance
