#include "sim/record_memory.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace verbtwin::sim {
namespace {

constexpr std::size_t kPage = 4096;

std::uint64_t word_at(const std::byte* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

TEST(RecordMemory, KnowsWhatIsARecord) {
  RecordPool pool(1 << 20);
  RecordMemory memory(pool);
  memory.add(kPage, 1024, 32);
  memory.add(3 * kPage, 704, 704);
  EXPECT_FALSE(memory.find(kPage - 1).is_record);
  EXPECT_EQ(memory.find(kPage - 1).run_b, 1);
  EXPECT_TRUE(memory.find(kPage).is_record);
  EXPECT_FALSE(memory.find(kPage + 1024).is_record);
  EXPECT_TRUE(memory.find(3 * kPage + 703).is_record);
  EXPECT_EQ(memory.find(3 * kPage + 700).run_b, 4);
  EXPECT_FALSE(memory.use(3 * kPage + 704).is_record);
}

TEST(RecordMemory, AnUnusedRecordIsNowhereAndAUsedOneStaysWhereItIs) {
  RecordPool pool(1 << 22);
  RecordMemory memory(pool), other(pool);
  constexpr std::size_t kRecords = 10'000, kStride = 64;
  memory.add(0, kRecords * kStride, kStride);
  other.add(0, kRecords * kStride, kStride);
  EXPECT_EQ(memory.find(0).at, nullptr);
  std::vector<std::byte*> places;
  for (std::size_t i = 0; i < kRecords; ++i) {  // more than the first table holds, in a scattered order
    std::byte* at = memory.use(i * 7919 % kRecords * kStride).at;
    EXPECT_EQ(word_at(at), 0);
    const std::uint64_t mine = i + 1;
    std::memcpy(at, &mine, sizeof mine);
    places.push_back(at);
  }
  for (std::size_t i = 0; i < kRecords; ++i) {
    const RecordMemory::Piece piece = memory.find(i * 7919 % kRecords * kStride);
    EXPECT_EQ(piece.at, places[i]);
    EXPECT_EQ(word_at(piece.at), i + 1);
  }
  EXPECT_EQ(other.find(0).at, nullptr) << "another node's";
}

TEST(RecordMemory, RecordsOfALineStayInIt) {
  RecordPool pool(1 << 20);
  RecordMemory memory(pool);
  memory.add(0, kPage, 32);
  memory.add(kPage, 10 * 192, 192);
  for (std::size_t offset = 0; offset < kPage + 10 * 192; offset += 32) {
    const auto at = reinterpret_cast<std::uintptr_t>(memory.use(offset).at);
    EXPECT_EQ(at % 64, offset % 64);
  }
}

TEST(RecordMemory, AFullPoolSaysSo) {
  RecordPool pool(kPage);
  RecordMemory memory(pool);
  memory.add(0, 2 * kPage, 128);
  for (std::size_t offset = 0; offset < kPage; offset += 128) memory.use(offset);
  EXPECT_THROW(memory.use(kPage), std::bad_alloc);
}

/// Requests find records and what lies around them as if it were one piece of memory.
TEST(RecordMemory, RequestsCrossItsEdges) {
  LazyMapping mapping(4 * kPage);
  RecordPool pool(1 << 20);
  RecordMemory records(pool);
  records.add(kPage, kPage, 32);
  mapping.forbid(kPage, kPage);
  Memory memory;
  const std::uint32_t key = memory.add(mapping.bytes(), kAccessAll, &records);
  const auto base = reinterpret_cast<std::uint64_t>(mapping.bytes().data());

  std::vector<std::byte> seen(3 * kPage, std::byte{1});
  memory.read(key, base, seen.data(), static_cast<std::uint32_t>(seen.size()));
  EXPECT_EQ(seen, std::vector<std::byte>(3 * kPage)) << "all zeros before anything is written";
  EXPECT_EQ(records.find(kPage).at, nullptr) << "a READ uses nothing";

  std::vector<std::byte> written(2 * kPage);
  for (std::size_t i = 0; i < written.size(); ++i) written[i] = static_cast<std::byte>(i * 31 >> 3);
  memory.write(key, base + kPage / 2, written.data(), static_cast<std::uint32_t>(written.size()));
  memory.read(key, base + kPage / 2, seen.data(), static_cast<std::uint32_t>(written.size()));
  seen.resize(written.size());
  EXPECT_EQ(seen, written);
  EXPECT_EQ(mapping.bytes()[kPage - 1], written[kPage / 2 - 1]);
  EXPECT_EQ(*records.find(kPage + 40).at, written[kPage / 2 + 40]);

  memory.word(key, base + kPage + 64) = 42;
  EXPECT_EQ(word_at(records.find(kPage + 64).at), 42);
  memory.word(key, base + 64) = 43;
  EXPECT_EQ(word_at(mapping.bytes().data() + 64), 43);
}

using RecordMemoryDeathTest = ::testing::Test;
TEST(RecordMemoryDeathTest, WhoeverGoesPastItFaults) {
  LazyMapping mapping(2 * kPage);
  mapping.forbid(kPage, kPage);
  volatile std::byte* at = mapping.bytes().data() + kPage;
  EXPECT_DEATH(*at = std::byte{1}, "");
}

}  // namespace
}  // namespace verbtwin::sim
