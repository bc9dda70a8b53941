// Conformance of order: requests of one queue pair execute and complete in the order posted.
#pragma once

#include <map>
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
      list.push_back(i % 3 == 2 ? fetch_add(i, a().sge(i * 8, 8), b(), i * 8, 0)
                                : read(i, a().sge(i * 8, 8), b(), i * 8));
    }
    post(ends.near, list);
    EXPECT_EQ(ids_of(sent(a(), 60)), range(0, 60));
    for (unsigned i = 0; i < 60; ++i) EXPECT_EQ(a().word(i * 8), 1000 + i);
    for (unsigned i = 0; i < 60; ++i) a().set_word(i * 8, 0);
  }
}

TEST_P(VerbsConformance, ReadsPostedOneByOneIntoAFullWindowAllCome) {
  for (const std::uint8_t window : std::array<std::uint8_t, 2>{2, 16}) {
    SCOPED_TRACE(static_cast<int>(window));
    QpInitAttributes few = attributes();
    few.max_rd_atomic = window;
    const Ends ends = connect(few);
    for (unsigned i = 0; i < 60; ++i) {
      b().set_word(i * 8, 1000 + i);
      // Between two of them answers come closer: some READs find the window full of answers on their way.
      post(ends.near, {read(i, a().sge(i * 8, 8), b(), i * 8, i % 10 == 9 ? kSignaled | kFence : kSignaled)});
      int looks = 0;
      binding->run_until([&looks] { return ++looks > 2; });
    }
    EXPECT_EQ(ids_of(sent(a(), 60)), range(0, 60));
  }
}

TEST_P(VerbsConformance, AWriteBehindReadsThatWaitKeepsItsPlace) {
  QpInitAttributes one = attributes();
  one.max_rd_atomic = 1;
  const Ends ends = connect(one);
  b().set_word(0, 1);
  a().set_word(64, 2);
  post(ends.near, {read(0, a().sge(0, 8), b(), 0), read(1, a().sge(8, 8), b(), 0),
                   read(2, a().sge(16, 8), b(), 0), write(3, a().sge(64, 8), b(), 0)});
  EXPECT_EQ(ids_of(sent(a(), 4)), range(0, 4));
  for (const std::size_t offset : {0, 8, 16}) EXPECT_EQ(a().word(offset), 1U);
  EXPECT_EQ(b().word(0), 2U);
}

/// What one queue pair promises must not depend on what the others do. Each lane is a queue pair from `a`
/// with 8 KiB of each buffer to itself; it counts a word of its target up with WRITEs, looks at it with READs
/// and names it in SENDs, between long messages that hold the others up.
class Lane {
 public:
  static constexpr std::size_t kBytes = 8192;
  static constexpr std::uint64_t kRequests = 240;

  Lane(std::size_t index, QueuePair& near, QueuePair& far, Endpoint& source, Endpoint& target)
      : base_(index * kBytes), near_(near), far_(far), source_(source), target_(target) {}

  bool done() const { return completed_ == kRequests; }

  void post_some(std::mt19937& random) {
    while (posted_ < kRequests && posted_ - completed_ < kSlots)
      post_one(static_cast<std::uint32_t>(random()));
  }

  /// Completions are in order, and READs have seen every WRITE before them.
  void take(const WorkCompletion& wc) {
    EXPECT_EQ(to_string(wc.status), "success");
    ASSERT_EQ(wc.wr_id, completed_) << "completions in posting order";
    const std::uint64_t expected = count_seen_by_[wc.wr_id];
    EXPECT_TRUE(expected == kNotARead || source_.word(slot(wc.wr_id) + 8) == expected) << "READ " << wc.wr_id;
    ++completed_;
  }

  /// A SEND has arrived: the count that it names is there.
  void take_recv(const WorkCompletion& wc) {
    EXPECT_EQ(to_string(wc.status), "success");
    const std::uint64_t named = target_.word(recv_slot(wc.wr_id));
    EXPECT_GE(target_.word(base_), named) << "the WRITE before the SEND";
    EXPECT_GE(named, last_named_) << "SENDs in posting order";
    last_named_ = named;
  }
  std::size_t recv_slot(std::uint64_t id) const { return base_ + 64 + id % kSlots * 8; }

 private:
  static constexpr std::uint64_t kSlots = 16;
  static constexpr std::uint64_t kNotARead = ~0ULL;

  std::size_t slot(std::uint64_t id) const { return base_ + id % kSlots * 16; }

  void post_one(std::uint32_t draw) {
    const std::uint64_t id = posted_++;
    const std::size_t length = std::array<std::size_t, 3>{8, 200, 6000}[draw / 4 % 3];
    count_seen_by_.push_back(kNotARead);
    SendWr wr;
    switch (draw % 4) {
      case 0:
        source_.set_word(slot(id), ++count_);
        wr = write(id, source_.sge(slot(id), 8), target_, base_);
        break;
      case 1:
        count_seen_by_.back() = count_;
        wr = read(id, source_.sge(slot(id) + 8, 8), target_, base_);
        break;
      case 2: {
        const RecvWr to_take = recv(id, target_.sge(recv_slot(id), 8));
        EXPECT_EQ(far_.post_recv({&to_take, 1}).posted, 1U);
        source_.set_word(slot(id), count_);
        wr = send(id, source_.sge(slot(id), 8));
        break;
      }
      default:
        wr = write(id, source_.sge(base_ + 1024, length), target_, base_ + 1024);
    }
    EXPECT_EQ(near_.post_send({&wr, 1}).posted, 1U);
  }

  std::size_t base_;
  QueuePair& near_;
  QueuePair& far_;
  Endpoint& source_;
  Endpoint& target_;
  std::uint64_t posted_ = 0, completed_ = 0, count_ = 0, last_named_ = 0;
  std::vector<std::uint64_t> count_seen_by_;
};

TEST_P(VerbsConformance, OrderHoldsUnderLoad) {
  std::mt19937 random(7);
  std::vector<Lane> lanes;
  std::map<std::uint32_t, Lane*> by_number;
  lanes.reserve(6);
  for (std::size_t i = 0; i < 6; ++i) {
    Endpoint& target = i % 2 == 0 ? b() : c();
    const Ends ends = connect(a(), target, attributes());
    lanes.emplace_back(i, ends.near, ends.far, a(), target);
    by_number[ends.near.address().qp_num] = by_number[ends.far.address().qp_num] = &lanes.back();
  }
  const auto all_done = [&] {
    for (Lane& lane : lanes) lane.post_some(random);
    for (const WorkCompletion& wc : drain(*a().send_cq)) by_number.at(wc.qp_num)->take(wc);
    for (Endpoint* target : {&b(), &c()}) {
      for (const WorkCompletion& wc : drain(*target->recv_cq)) by_number.at(wc.qp_num)->take_recv(wc);
    }
    return HasFailure() ||
           std::all_of(lanes.begin(), lanes.end(), [](const Lane& lane) { return lane.done(); });
  };
  EXPECT_TRUE(eventually(all_done));
}

}  // namespace verbtwin::conformance
