#include "protocols/store/ring_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <deque>
#include <numeric>
#include <utility>
#include <vector>

#include "protocols/store/record.hpp"

namespace verbtwin::protocols {
namespace {

using testing::ElementsAreArray;

struct Entry {
  LogWriter::Place place;
  std::vector<std::byte> bytes;      // frames included
  std::vector<std::size_t> to_land;  // offsets of its bytes that are not in the ring yet, the next one last
  bool certain = false;
};

enum class Order { kAscending, kDescending, kAny };

/// A ring, its two ends, and the entries between them.
class Ring {
 public:
  Ring(const LogSpec& spec, Order order)
      : spec_(spec),
        order_(order),
        memory_(spec.ring_b / spec.part_b() * (spec.part_b() + kGapB) / 8, ~std::uint64_t{0}),
        log_{reinterpret_cast<std::byte*>(memory_.data()), spec.part_b(), spec.part_b() + kGapB},
        writer_(spec) {
    for (std::uint32_t at = 0; at < spec.ring_b; at += 8) store_word(log_.at(at), 0);
  }

  LogWriter& writer() { return writer_; }
  const std::deque<Entry>& unread() const { return unread_; }

  bool reserve(std::size_t bytes, std::uint64_t salt) {
    const auto place = writer_.reserve(bytes);
    if (!place) return false;
    RC_ASSERT(place->offset % 8 == 0U);
    RC_ASSERT(place->offset % spec_.part_b() + bytes <= spec_.part_b());
    RC_ASSERT(place->offset + bytes <= spec_.ring_b);
    for (const auto& [offset, size] : held_) {
      RC_ASSERT(place->offset + bytes <= offset || offset + size <= place->offset);  // else: overwritten
    }
    held_.emplace_back(place->offset, bytes);
    Entry entry{*place, std::vector<std::byte>(bytes), std::vector<std::size_t>(bytes)};
    for (std::size_t i = 0; i < bytes; ++i) entry.bytes[i] = static_cast<std::byte>(salt * 37 + i * 11);
    seal_log_entry(entry.bytes, place->frame);
    std::iota(entry.to_land.rbegin(), entry.to_land.rend(), std::size_t{0});
    if (order_ == Order::kDescending) std::ranges::reverse(entry.to_land);
    for (std::size_t i = bytes; order_ == Order::kAny && i > 1; --i) {
      salt = salt * 6364136223846793005ULL + 1442695040888963407ULL;
      std::swap(entry.to_land[i - 1], entry.to_land[(salt >> 33) % i]);
    }
    unread_.push_back(std::move(entry));
    return true;
  }

  /// Some bytes of some entry land.
  void land(std::size_t which, std::size_t count) {
    if (unread_.empty()) return;
    Entry& entry = unread_[which % unread_.size()];
    for (; count > 0 && !entry.to_land.empty(); --count) {
      const std::size_t at = entry.to_land.back();
      entry.to_land.pop_back();
      log_.at(entry.place.offset)[at] = entry.bytes[at];
    }
  }

  /// As a transaction commits: its entry is whole by then.
  void commit(std::size_t which) {
    if (unread_.empty()) return;
    which %= unread_.size();
    land(which, unread_[which].bytes.size());
    if (unread_[which].certain) return;
    unread_[which].certain = true;
    writer_.make_certain(unread_[which].place.frame);
  }

  /// Reads what is there; every entry must be the next one, whole.
  void read(std::size_t entries_max = ~std::size_t{0}) {
    for (; entries_max > 0; --entries_max) {
      const auto body = reader_.next(spec_, log_);
      if (!body) return;
      RC_ASSERT(!unread_.empty());
      const Entry& entry = unread_.front();
      RC_ASSERT(std::ranges::equal(*body, body_of(entry)));
      if (!entry.certain) writer_.make_certain(entry.place.frame);
      unread_.pop_front();
      ++read_;
    }
  }

  void tell_the_writer() {
    writer_.reclaimed(reader_.head());
    for (; read_ > 0; --read_) held_.pop_front();
  }

  /// What is certain can be read, all of it and nothing behind it.
  void check_certain() {
    std::size_t prefix = 0;
    while (prefix < unread_.size() && unread_[prefix].certain) ++prefix;
    LogReader reader = reader_;
    std::size_t found = 0;
    while (reader.head() < writer_.certain()) {
      RC_ASSERT(reader.next(spec_, log_).has_value());
      ++found;
    }
    RC_ASSERT(found == prefix);
  }

  /// A recovery finds whatever has landed, each entry once, in order, and nothing else.
  void check_ahead() {
    auto expected = unread_.begin();
    reader_.for_each_ahead(spec_, log_, writer_.tail(), [&](std::span<const std::byte> body) {
      const auto stands_there = [&](const Entry& entry) {
        return log_.at(entry.place.offset) + kLogFrameBytes == body.data();
      };
      for (; expected != unread_.end() && !stands_there(*expected); ++expected)
        RC_ASSERT(!expected->to_land.empty());
      RC_ASSERT(expected != unread_.end());
      RC_ASSERT(std::ranges::equal(body, body_of(*expected)));
      ++expected;
    });
    for (; expected != unread_.end(); ++expected) RC_ASSERT(!expected->to_land.empty());
  }

 private:
  static std::span<const std::byte> body_of(const Entry& entry) {
    return {entry.bytes.data() + kLogFrameBytes, entry.bytes.size() - 2 * kLogFrameBytes};
  }

  static constexpr std::uint32_t kGapB = 8;  // what lies between its parts is others'

  LogSpec spec_;
  Order order_;
  std::vector<std::uint64_t> memory_;
  LogRing log_;
  LogWriter writer_;
  LogReader reader_;
  std::deque<Entry> unread_;
  std::deque<std::pair<std::uint64_t, std::size_t>> held_;  // places the writer must not give away
  std::size_t read_ = 0;
};

void use_at_random(Order order) {
  LogSpec spec;
  spec.entry_max_b = *rc::gen::inRange<std::uint32_t>(2, 20) * 8;
  spec.ring_b = *rc::gen::inRange<std::uint32_t>(spec.entry_max_b / 4, 150) * 8;
  const auto parts = *rc::gen::inRange<std::uint32_t>(0, 4);  // 0: whole
  if (parts > 0) spec.segment_b = std::exchange(spec.ring_b, parts * spec.ring_b);
  Ring ring(spec, order);
  const auto steps = *rc::gen::container<std::vector<std::pair<std::uint8_t, std::uint32_t>>>(
      rc::gen::arbitrary<std::pair<std::uint8_t, std::uint32_t>>());
  std::size_t reserved = 0;
  // The same steps again and again: several laps.
  for (int lap = 0; lap < 5; ++lap) {
    for (const auto& [kind, number] : steps) {
      switch (kind % 8) {
        case 0:
        case 1:
        case 2:
          reserved += ring.reserve(16 + number % (spec.entry_max_b - 15) / 8 * 8, number + reserved);
          break;
        case 3:
        case 4:
          ring.land(number, 1 + number % 97);
          break;
        case 5:
          ring.commit(number);
          break;
        case 6:
          ring.read(number % 3);
          break;
        default:
          ring.read();
          ring.tell_the_writer();
      }
      ring.check_certain();
      ring.check_ahead();
    }
  }
  // Everything that lands is read, and an empty ring has room for any entry.
  while (!ring.unread().empty()) {
    ring.land(0, ~std::size_t{0});
    ring.read();
  }
  ring.tell_the_writer();
  RC_ASSERT(ring.reserve(spec.entry_max_b, 1));
  RC_CLASSIFY(reserved > 3 * spec.ring_b / spec.entry_max_b, "laps");
}

TEST(RingLogProperty, EntriesThatLandInAscendingOrderAreReadOnceAndWhole) {
  EXPECT_TRUE(rc::check([] { use_at_random(Order::kAscending); }));
}

TEST(RingLogProperty, EntriesThatLandInDescendingOrderAreReadOnceAndWhole) {
  EXPECT_TRUE(rc::check([] { use_at_random(Order::kDescending); }));
}

TEST(RingLogProperty, EntriesThatLandInAnyOrderAreReadOnceAndWhole) {
  EXPECT_TRUE(rc::check([] { use_at_random(Order::kAny); }));
}

TEST(LogWriter, RefusesWhatDoesNotFit) {
  LogWriter writer({1024, 128});
  EXPECT_FALSE(writer.reserve(136));
  int entries = 0;
  while (writer.reserve(128)) ++entries;
  EXPECT_EQ(entries, 8);
  EXPECT_FALSE(writer.reserve(16));
}

TEST(LogWriter, AsksForAReclaimWhenHalfFullAndSomethingIsCertain) {
  LogWriter writer({1024, 128});
  std::vector<LogWriter::Place> places;
  for (int i = 0; i < 4; ++i) places.push_back(*writer.reserve(128));
  for (const auto& place : places) writer.make_certain(place.frame);
  EXPECT_FALSE(writer.wants_reclaim()) << "half full";
  places.push_back(*writer.reserve(128));
  EXPECT_TRUE(writer.wants_reclaim());
  writer.reclaimed(writer.certain());
  EXPECT_FALSE(writer.wants_reclaim());
}

TEST(LogWriter, AsksForAReclaimAfterSomeEntriesUnlessEachRecordSaysHowFar) {
  const auto wants_after = [](LogSpec spec, int entries) {
    LogWriter writer(spec);
    const auto write = [&](int more) {
      for (int i = 0; i < more; ++i) writer.make_certain(writer.reserve(64)->frame);
    };
    write(3);
    writer.reclaimed(writer.ask());
    write(entries);
    return writer.wants_reclaim();
  };
  for (const std::uint32_t ring_b : {4096U, 16384U, 1U << 20}) {
    EXPECT_FALSE(wants_after({ring_b, 128}, 8)) << ring_b;
    EXPECT_TRUE(wants_after({ring_b, 128}, 9)) << ring_b;
  }
  EXPECT_TRUE(wants_after({512, 128}, 5)) << "half of a small ring";
  LogSpec in_segments{4096, 128};
  in_segments.segment_b = 512;
  EXPECT_FALSE(wants_after(in_segments, 8));
  EXPECT_TRUE(wants_after(in_segments, 9));
  LogSpec lock_records{16384, 128};
  lock_records.answers = 8;
  EXPECT_FALSE(wants_after(lock_records, 128));
  EXPECT_TRUE(wants_after(lock_records, 129));
}

/// As one long in use is found: some are reclaimed soon, others late.
TEST(LogWriter, ARingBeginsAsThoughItHeldMore) {
  for (std::uint32_t held = 0; held <= 8; ++held) {
    LogWriter writer({16384, 128}, held);
    const auto entries_until_asked = [&] {
      int entries = 0;
      for (; !writer.wants_reclaim(); ++entries) writer.make_certain(writer.reserve(64)->frame);
      writer.reclaimed(writer.ask());
      return entries;
    };
    EXPECT_EQ(writer.holds_more(), held > 0);
    EXPECT_EQ(entries_until_asked(), 9 - static_cast<int>(held));
    EXPECT_FALSE(writer.holds_more());
    EXPECT_EQ(entries_until_asked(), 9) << "once";
  }
}

TEST(LogSpec, WhatALogBeginsWithIsSpreadEvenly) {
  const LogSpec spec;
  std::array<int, 9> logs{};
  for (int node = 0; node < 20; ++node) {
    for (int thread = 0; thread < 4; ++thread) {
      for (int backup = 0; backup < 20; ++backup) ++logs.at(spec.held_at_start(node, thread, backup));
    }
  }
  EXPECT_EQ(logs[0], 0);
  for (std::size_t held = 1; held <= spec.reclaim_entries; ++held)
    EXPECT_NEAR(logs.at(held), 200, 60) << held;
  LogSpec often = spec;
  often.reclaim_entries = 1;
  EXPECT_EQ(often.held_at_start(1, 2, 3), 1U);
  LogSpec lock_records = spec;
  lock_records.answers = 8;
  EXPECT_EQ(lock_records.held_at_start(1, 2, 3), 0U);
}

TEST(LogWriter, CertainIsAPrefix) {
  LogWriter writer({4096, 128});
  std::vector<LogWriter::Place> places;
  for (int i = 0; i < 4; ++i) places.push_back(*writer.reserve(64));
  writer.make_certain(places[2].frame);
  writer.make_certain(places[1].frame);
  EXPECT_EQ(writer.certain(), 0U);
  writer.make_certain(places[0].frame);
  EXPECT_EQ(writer.certain(), 3U * 64);
  writer.make_certain(places[3].frame);
  EXPECT_EQ(writer.certain(), 4U * 64);
}

/// One may wait long, while others go on behind it.
TEST(LogWriter, KnowsAnEntryBehindMoreThanThereAreNumbers) {
  constexpr std::uint64_t kEntries = 70'000, kBytes = 64;
  LogWriter writer({8U << 20, 256});
  const LogWriter::Place slow = *writer.reserve(kBytes);
  for (std::uint64_t i = 1; i < kEntries; ++i) writer.make_certain(writer.reserve(kBytes)->frame);
  EXPECT_EQ(writer.certain(), 0U);
  writer.make_certain(slow.frame);
  EXPECT_EQ(writer.certain(), kEntries * kBytes);
}

/// Room that was promised is there however the ring has been used meanwhile.
void keeps_its_promises(const LogSpec& spec) {
  LogWriter writer(spec);
  std::deque<std::size_t> promised;
  std::deque<LogWriter::Place> placed;
  std::uint64_t salt = 1, laps = 0, refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    salt = salt * 6364136223846793005ULL + 1442695040888963407ULL;
    const std::size_t bytes = 16 + (salt >> 40) % 31 * 8;
    if (writer.promise(bytes)) {
      promised.push_back(bytes);
    } else {
      ++refused;
    }
    if (salt >> 63 != 0 && !promised.empty()) {
      placed.push_back(writer.reserve_promised(promised.front()));
      laps += placed.back().offset == 0;
      promised.pop_front();
    } else if ((salt >> 62 & 1) != 0 && !promised.empty()) {
      writer.withdraw_promise(promised.back());
      promised.pop_back();
    }
    if ((salt >> 61 & 1) == 0 || placed.empty()) continue;
    writer.make_certain(placed.front().frame);
    placed.pop_front();
    writer.reclaimed(writer.certain());
  }
  EXPECT_GT(laps, 100U);
  EXPECT_GT(refused, 100U);
}

TEST(LogWriter, KeepsItsPromises) {
  LogSpec spec{2048, 256};
  keeps_its_promises(spec);
  spec.ring_b = 4096;
  for (const std::uint32_t segment_b : {512U, 1024U}) {
    SCOPED_TRACE(segment_b);
    spec.segment_b = segment_b;
    keeps_its_promises(spec);
  }
}

TEST(LogReader, StopsAtAnOpenLockRecord) {
  constexpr LogSpec kSpec{2048, 256};
  std::vector<std::uint64_t> memory(kSpec.ring_b / 8);
  const std::span<std::byte> ring = std::as_writable_bytes(std::span(memory));
  const LogRing log{ring.data(), kSpec.ring_b, 0};
  LogWriter writer(kSpec);
  const auto append = [&](LogKind kind) {
    const LogWriter::Place place = *writer.reserve(16 + sizeof(LogRecord));
    new (ring.data() + place.offset + kLogFrameBytes) LogRecord{1, 2, 3, 0, kind};
    seal_log_entry(ring.subspan(place.offset, 16 + sizeof(LogRecord)), place.frame);
    return ring.data() + place.offset;
  };
  append(LogKind::kBackup);
  std::byte* lock = append(LogKind::kLock);
  append(LogKind::kBackup);
  LogReader reader;
  EXPECT_TRUE(reader.next(kSpec, log));
  EXPECT_FALSE(reader.next(kSpec, log)) << "its values are still needed";
  close_lock_entry(lock);
  EXPECT_TRUE(reader.next(kSpec, log));
  EXPECT_TRUE(reader.next(kSpec, log));
  EXPECT_FALSE(reader.next(kSpec, log));
}

/// Who polls a log for FaRM's records goes ahead of who truncates it.
/// Their numbers have 16 bits.
TEST(LogReader, TakesNoEntryOfALapAgoForNewWhereALapHoldsAsManyAsThereAreNumbers) {
  constexpr std::size_t kEntryB = 24, kEntries = 65'536;
  const LogSpec spec{kEntryB * kEntries, kEntryB};
  std::vector<std::uint64_t> memory(spec.ring_b / 8);
  const std::span<std::byte> ring = std::as_writable_bytes(std::span(memory));
  const LogRing log{ring.data(), spec.ring_b, 0};
  LogWriter writer(spec);
  LogReader backup, polling;
  const auto write = [&] {
    const auto place = writer.reserve(kEntryB);
    ASSERT_TRUE(place);
    seal_log_entry(ring.subspan(place->offset, kEntryB), place->frame);
    writer.make_certain(place->frame);
  };
  const auto read = [&] { return backup.next(spec, log).has_value() && polling.take(spec, log).has_value(); };
  for (std::size_t i = 0; i < kEntries; ++i) write();
  for (std::size_t i = 0; i < kEntries; ++i) ASSERT_TRUE(read());
  EXPECT_FALSE(backup.next(spec, log));
  EXPECT_FALSE(polling.take(spec, log));
  writer.reclaimed(backup.head());
  write();
  EXPECT_TRUE(read());
  EXPECT_FALSE(backup.next(spec, log));
}

/// The same, of a LOCK record that is closed.
TEST(LogReader, KnowsALockRecordAfterItsNumberHasWrapped) {
  constexpr std::size_t kEntryB = 2 * kLogFrameBytes + sizeof(LogHead);
  const LogSpec spec{kEntryB * 16, kEntryB};
  std::vector<std::uint64_t> memory(spec.ring_b / 8);
  const std::span<std::byte> ring = std::as_writable_bytes(std::span(memory));
  const LogRing log{ring.data(), spec.ring_b, 0};
  LogWriter writer(spec);
  LogReader backup;
  for (int i = 0; i < 65'540; ++i) {
    const auto place = writer.reserve(kEntryB);
    ASSERT_TRUE(place);
    const std::span<std::byte> entry = ring.subspan(place->offset, kEntryB);
    new (entry.data() + kLogFrameBytes) LogHead{1, 0, 0, 0, LogKind::kLock};
    seal_log_entry(entry, place->frame);
    writer.make_certain(place->frame);
    ASSERT_TRUE(is_lock_entry(spec, entry.data(), place->frame)) << i;
    ASSERT_FALSE(backup.next(spec, log)) << "open";
    close_lock_entry(entry.data());
    ASSERT_TRUE(is_lock_entry(spec, entry.data(), place->frame)) << i;
    ASSERT_TRUE(backup.next(spec, log)) << i;
    writer.reclaimed(backup.head());
  }
}

TEST(LogReader, TakesRecordsAheadOfTheirTruncation) {
  constexpr LogSpec kSpec{2048, 256};
  constexpr std::size_t kBytes = 16 + sizeof(LogHead);
  std::vector<std::uint64_t> memory(kSpec.ring_b / 8);
  const std::span<std::byte> ring = std::as_writable_bytes(std::span(memory));
  const LogRing log{ring.data(), kSpec.ring_b, 0};
  LogWriter writer(kSpec);
  LogReader poller, truncator;
  const LogWriter::Place place = *writer.reserve(kBytes);
  std::vector<std::byte> record(kBytes);
  new (record.data() + kLogFrameBytes) LogHead{77, 0, 0, 0, LogKind::kLock};
  seal_log_entry(record, place.frame);
  for (std::size_t landed = 0; landed < kBytes; landed += 8) {  // the last word first
    EXPECT_FALSE(poller.take(kSpec, log)) << landed;
    const std::size_t at = kBytes - 8 - landed;
    std::ranges::copy(std::span(record).subspan(at, 8), ring.subspan(place.offset + at).begin());
  }
  const auto entry = poller.take(kSpec, log);
  ASSERT_TRUE(entry);
  EXPECT_EQ(log_head(log_entry_body(entry->data())).about, 77U);
  EXPECT_TRUE(log_writes(log_entry_body(entry->data())).empty());
  EXPECT_FALSE(poller.take(kSpec, log));
  EXPECT_FALSE(truncator.next(kSpec, log)) << "the LOCK record is open";
  EXPECT_TRUE(is_lock_entry(kSpec, entry->data(), place.frame));
  EXPECT_FALSE(is_lock_entry(kSpec, entry->data(), place.frame + (1ULL << 48))) << "another record's place";
  close_lock_entry(entry->data());
  EXPECT_TRUE(is_lock_entry(kSpec, entry->data(), place.frame));
  EXPECT_TRUE(truncator.next(kSpec, log));
}

TEST(LoggedRecords, AreWalkedWithTheirValues) {
  std::vector<std::byte> body;
  const auto append = [&](LogRecord record, std::vector<std::byte> value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&record);
    body.insert(body.end(), bytes, bytes + sizeof record);
    value.resize((value.size() + 7) / 8 * 8);
    body.insert(body.end(), value.begin(), value.end());
  };
  append({11, 1, 3, 8}, std::vector<std::byte>(8, std::byte{1}));
  append({12, 2, 4, 13}, std::vector<std::byte>(13, std::byte{2}));
  append({13, 3, 5, 0}, {});
  std::vector<std::uint64_t> records, sizes;
  for_each_logged(body, [&](const LogRecord& record, std::span<const std::byte> value) {
    records.push_back(record.record);
    sizes.push_back(value.size());
    EXPECT_TRUE(
        std::ranges::all_of(value, [&](std::byte b) { return b == static_cast<std::byte>(record.version); }));
  });
  EXPECT_THAT(records, ElementsAreArray({11, 12, 13}));
  EXPECT_THAT(sizes, ElementsAreArray({8, 13, 0}));
}

TEST(LoggedRecords, AValueThatRunsOverTheEndIsNotRead) {
  const LogRecord record{11, 1, 3, 100};
  int visits = 0;
  for_each_logged(std::as_bytes(std::span(&record, 1)),
                  [&](const LogRecord&, std::span<const std::byte>) { ++visits; });
  EXPECT_EQ(visits, 0);
}

}  // namespace
}  // namespace verbtwin::protocols
