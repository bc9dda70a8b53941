#include "protocols/store/record.hpp"
#include "protocols/store/record_for_test.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace verbtwin::protocols {
namespace {

constexpr std::uint32_t kValueMaxB = 300;

/// A record where it may live: on a line of its own.
struct alignas(kCacheLineBytes) Area {
  std::byte bytes[512] = {};
};

TEST(RecordLayout, HoldsEverySize) {
  for (std::uint32_t value_b = 1; value_b <= kValueMaxB; ++value_b) {
    const RecordLayout layout(value_b);
    EXPECT_EQ(layout.image_b % 8, 0U) << value_b;
    EXPECT_EQ(layout.stride_b % 8, 0U) << value_b;
    EXPECT_GE(layout.image_b, kRecordHeaderBytes + value_b + (layout.has_tail ? 8 : 0)) << value_b;
    EXPECT_LE(layout.image_b, layout.stride_b) << value_b;
    EXPECT_LT(layout.stride_b, 2 * layout.image_b + kCacheLineBytes) << value_b << ": wasteful";
    if (layout.has_tail) {
      EXPECT_GE(layout.tail_offset(), kRecordHeaderBytes + value_b) << value_b;
    }
  }
}

TEST(RecordLayout, ARecordStraddlesALineOnlyIfItHasATail) {
  for (std::uint32_t value_b = 1; value_b <= kValueMaxB; ++value_b) {
    const RecordLayout layout(value_b);
    for (std::uint32_t slot = 0; slot < 64 && !layout.has_tail; ++slot) {
      const std::uint32_t first = slot * layout.stride_b, last = first + layout.image_b - 1;
      ASSERT_EQ(first / kCacheLineBytes, last / kCacheLineBytes) << value_b << " B, slot " << slot;
    }
  }
  EXPECT_FALSE(RecordLayout(48).has_tail);
  EXPECT_TRUE(RecordLayout(49).has_tail);
}

TEST(Record, WhatIsInstalledIsRead) {
  for (std::uint32_t value_b = 1; value_b <= kValueMaxB; ++value_b) {
    const RecordLayout layout(value_b);
    Area record, image;
    install(layout, record.bytes, 3, value_of(layout, 3));
    const RecordView view = copy_record(layout, record.bytes, image.bytes);
    ASSERT_EQ(view.state, RecordState::kStable) << value_b;
    ASSERT_EQ(view.version, 3U) << value_b;
    ASSERT_EQ(view.lock, 0U) << value_b;
    ASSERT_TRUE(holds(layout, image.bytes, 3)) << value_b;
    ASSERT_EQ(load_word(record.bytes + layout.image_b), 0U) << value_b << ": wrote past the record";
  }
}

TEST(Record, InstallLeavesTheLockAlone) {
  const RecordLayout layout(100);
  Area record, image;
  const std::uint64_t owner = owner_word(1, 2, 3);
  ASSERT_TRUE(try_lock(record.bytes, owner));
  install(layout, record.bytes, 1, value_of(layout, 1));
  EXPECT_EQ(load_word(record.bytes), owner);
  const RecordView view = copy_record(layout, record.bytes, image.bytes);
  EXPECT_EQ(view.state, RecordState::kLocked);
  EXPECT_EQ(view.lock, owner);
  unlock(record.bytes);
  EXPECT_EQ(copy_record(layout, record.bytes, image.bytes).state, RecordState::kStable);
}

TEST(Record, AnUntouchedRecordIsStableAtVersionZero) {
  for (const std::uint32_t value_b : {8U, 48U, 49U, 300U}) {
    const Area record;
    const RecordView view = inspect(RecordLayout(value_b), record.bytes);
    EXPECT_EQ(view.state, RecordState::kStable);
    EXPECT_EQ(view.version, 0U);
  }
}

TEST(Record, ALockHasOneHolder) {
  Area record;
  EXPECT_TRUE(try_lock(record.bytes, owner_word(0, 0, 0)));
  EXPECT_FALSE(try_lock(record.bytes, owner_word(0, 0, 1)));
  EXPECT_FALSE(try_lock(record.bytes, owner_word(0, 0, 0))) << "not even its holder takes it twice";
  unlock(record.bytes);
  EXPECT_TRUE(try_lock(record.bytes, owner_word(0, 0, 1)));
}

TEST(Record, OwnersDiffer) {
  std::vector<std::uint64_t> owners;
  for (const int node : {0, 1, 4095}) {
    for (const int thread : {0, 1, 255}) {
      for (const int coroutine : {0, 1, 1023}) owners.push_back(owner_word(node, thread, coroutine));
    }
  }
  std::ranges::sort(owners);
  EXPECT_EQ(std::ranges::adjacent_find(owners), owners.end());
  EXPECT_NE(owners.front(), 0U);
}

/// An image as a READ may find it that met a writer: each line as it was before the write, while the record
/// was locked, or after it.
struct Mixture {
  RecordLayout layout;
  std::uint64_t version;   // before the write
  std::vector<int> lines;  // 0: before, 1: locked and written, 2: written and unlocked
  Area image;

  explicit Mixture(std::uint32_t value_b)
      : layout(value_b), version(*rc::gen::inRange<std::uint64_t>(1, 1000)) {
    Area states[3];
    install(layout, states[0].bytes, version, value_of(layout, version));
    install(layout, states[2].bytes, version + 1, value_of(layout, version + 1));
    states[1] = states[2];
    store_word(states[1].bytes, owner_word(1, 2, 3));
    for (std::uint32_t at = 0; at < layout.image_b; at += kCacheLineBytes) {
      lines.push_back(*rc::gen::inRange(0, 3));
      const std::byte* from = states[lines.back()].bytes + at;
      std::copy_n(from, std::min(kCacheLineBytes, layout.image_b - at), image.bytes + at);
    }
  }

  void check() const {
    const RecordView view = inspect(layout, image.bytes);
    RC_CLASSIFY(view.state == RecordState::kStable, "stable");
    RC_CLASSIFY(view.state == RecordState::kTorn, "torn");
    if (view.state == RecordState::kStable) RC_ASSERT(holds(layout, image.bytes, view.version));
    const bool one_state = std::ranges::all_of(lines, [&](int line) { return line == lines.front(); });
    if (one_state) RC_ASSERT(view.state == (lines[0] == 1 ? RecordState::kLocked : RecordState::kStable));
  }
};

TEST(RecordProperty, OfUpToTwoLinesNoTornImageIsAccepted) {
  EXPECT_TRUE(rc::check([] {
    const Mixture mixture(
        *rc::gen::inRange<std::uint32_t>(1, 2 * kCacheLineBytes - kRecordHeaderBytes - 8 + 1));
    RC_ASSERT(mixture.lines.size() <= 2);
    mixture.check();
  }));
}

TEST(RecordProperty, NoTornImageIsAccepted) {
  EXPECT_TRUE(rc::check([] {
    const auto value_b = *rc::gen::inRange<std::uint32_t>(1, kValueMaxB + 1);
    Mixture(value_b).check();
  }));
}

/// A reader that takes lines in ascending order meets a CPU that installs.
TEST(Record, AReaderAcceptsNoMixtureFromAWriterAtWork) {
  const RecordLayout layout(200);
  Area record;
  install(layout, record.bytes, 1, value_of(layout, 1));
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (std::uint64_t version = 2; !stop.load(std::memory_order_relaxed); ++version) {
      while (!try_lock(record.bytes, owner_word(0, 0, 0))) {
      }
      install(layout, record.bytes, version, value_of(layout, version));
      unlock(record.bytes);
    }
  });
  int stable = 0;
  bool whole = true;
  // On a busy machine the writer may sleep while it holds the lock: look on until a copy has been accepted.
  for (int i = 0; whole && (i < 200'000 || (stable == 0 && i < 1'000'000'000)); ++i) {
    Area image;
    const RecordView view = copy_record(layout, record.bytes, image.bytes);
    if (view.state != RecordState::kStable) continue;
    ++stable;
    whole = holds(layout, image.bytes, view.version);
  }
  stop = true;
  writer.join();
  EXPECT_TRUE(whole) << "a torn copy was accepted";
  EXPECT_GT(stable, 0);
}

}  // namespace
}  // namespace verbtwin::protocols
