#include "sim/memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/user_error.hpp"

namespace verbtwin::sim {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

struct Registered {
  std::array<std::byte, 256> bytes{};
  Memory memory;
  std::uint32_t key = memory.add(bytes, kAccessAll);
  std::uint64_t base = reinterpret_cast<std::uint64_t>(bytes.data());

  bool allows(std::uint64_t addr, std::uint64_t length, unsigned access = kAccessRemoteRead) const {
    return memory.allows(key, addr, length, access);
  }
};

TEST(Memory, GrantsWhatIsInsideTheRegion) {
  const Registered r;
  EXPECT_TRUE(r.allows(r.base, 1));
  EXPECT_TRUE(r.allows(r.base, 256));
  EXPECT_TRUE(r.allows(r.base + 255, 1));
  EXPECT_TRUE(r.allows(r.base + 256, 0)) << "nothing, at the end";
}

TEST(Memory, RefusesWhatIsNot) {
  const Registered r;
  EXPECT_FALSE(r.allows(r.base - 1, 1));
  EXPECT_FALSE(r.allows(r.base - 1, 2));
  EXPECT_FALSE(r.allows(r.base, 257));
  EXPECT_FALSE(r.allows(r.base + 1, 256));
  EXPECT_FALSE(r.allows(r.base + 256, 1));
  EXPECT_FALSE(r.allows(r.base + 257, 0));
  EXPECT_FALSE(r.allows(0, 1));
}

TEST(Memory, RefusesRangesThatWrapTheAddressSpace) {
  const Registered r;
  EXPECT_FALSE(r.allows(r.base + 8, kMax));
  EXPECT_FALSE(r.allows(r.base + 8, kMax - 7)) << "addr + length is addr";
  EXPECT_FALSE(r.allows(r.base + 8, kMax - r.base)) << "addr + length is 7";
  EXPECT_FALSE(r.allows(kMax, 1));
  EXPECT_FALSE(r.allows(kMax, kMax));
  EXPECT_FALSE(r.allows(kMax - 7, 8 + r.base)) << "addr + length is base";
}

TEST(Memory, GrantsOnlyTheAccessThatWasGiven) {
  std::array<std::byte, 64> bytes{};
  const auto base = reinterpret_cast<std::uint64_t>(bytes.data());
  Memory memory;
  const std::uint32_t key = memory.add(bytes, kAccessLocalWrite | kAccessRemoteRead);
  EXPECT_TRUE(memory.allows(key, base, 8, 0)) << "to read locally needs no access flag";
  EXPECT_TRUE(memory.allows(key, base, 8, kAccessLocalWrite));
  EXPECT_TRUE(memory.allows(key, base, 8, kAccessRemoteRead));
  EXPECT_FALSE(memory.allows(key, base, 8, kAccessRemoteWrite));
  EXPECT_FALSE(memory.allows(key, base, 8, kAccessRemoteAtomic));
  EXPECT_FALSE(memory.allows(key, base, 8, kAccessRemoteRead | kAccessRemoteWrite))
      << "all of them or nothing";
}

TEST(Memory, KeysNameOneRegionEach) {
  std::array<std::byte, 64> first{}, second{};
  Memory memory;
  const std::uint32_t first_key = memory.add(first, kAccessAll);
  const std::uint32_t second_key = memory.add(second, kAccessAll);
  EXPECT_NE(first_key, second_key);
  EXPECT_TRUE(memory.allows(first_key, reinterpret_cast<std::uint64_t>(first.data()), 64, 0));
  EXPECT_FALSE(memory.allows(second_key, reinterpret_cast<std::uint64_t>(first.data()), 64, 0));
  EXPECT_FALSE(memory.allows(0, reinterpret_cast<std::uint64_t>(first.data()), 1, 0));
  EXPECT_FALSE(memory.allows(second_key + 1, reinterpret_cast<std::uint64_t>(first.data()), 1, 0));
}

TEST(Memory, ARemovedRegionGrantsNothingAndItsKeyIsNotGivenAgain) {
  Registered r;
  r.memory.remove(r.key);
  EXPECT_FALSE(r.allows(r.base, 1));
  EXPECT_FALSE(r.allows(r.base, 0, 0));
  EXPECT_NE(r.memory.add(r.bytes, kAccessAll), r.key);
  EXPECT_FALSE(r.allows(r.base, 1)) << "an old key does not reach the new region";
}

std::size_t resident_pages(std::span<std::byte> bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages(bytes.size() / page);
  EXPECT_EQ(mincore(bytes.data(), bytes.size(), pages.data()), 0);
  std::size_t resident = 0;
  for (const unsigned char state : pages) resident += state & 1U;
  return resident;
}

TEST(LazyMapping, ExistsOnlyWhereItIsTouched) {
  const LazyMapping mapping(std::size_t{64} << 20);
  ASSERT_EQ(mapping.bytes().size(), std::size_t{64} << 20);
  EXPECT_EQ(resident_pages(mapping.bytes()), 0U);
  mapping.bytes()[std::size_t{10} << 20] = std::byte{1};
  mapping.bytes()[std::size_t{40} << 20] = std::byte{1};
  EXPECT_EQ(resident_pages(mapping.bytes()), 2U);
}

TEST(LazyMapping, ReadsAsZero) {
  const LazyMapping mapping(1 << 20);
  for (std::size_t i = 0; i < mapping.bytes().size(); i += 4096) EXPECT_EQ(mapping.bytes()[i], std::byte{0});
  mapping.bytes()[12345] = std::byte{7};
  EXPECT_EQ(mapping.bytes()[12345], std::byte{7});
  EXPECT_EQ(mapping.bytes()[12346], std::byte{0});
}

TEST(LazyMapping, MayBeLargerThanTheMachine) {
  std::vector<std::unique_ptr<LazyMapping>> nodes;
  for (int node = 0; node < 80; ++node) nodes.push_back(std::make_unique<LazyMapping>(std::size_t{8} << 30));
  nodes.back()->bytes().back() = std::byte{1};
  EXPECT_EQ(nodes.back()->bytes().back(), std::byte{1});
}

/// Not one of what the user gave: another machine, or another `ulimit -v`, may grant it.
TEST(LazyMapping, WhatTheSystemDoesNotGrantIsNoErrorOfTheInput) {
  try {
    const LazyMapping more_than_addresses(std::size_t{1} << 60);
    FAIL() << "granted";
  } catch (const UserError& error) {
    FAIL() << "told as one of the input: " << error.what();
  } catch (const std::runtime_error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("cannot reserve 1099511627776 MiB of address space"))
        << error.what();
  }
}

}  // namespace
}  // namespace verbtwin::sim
