#include "backend/ibverbs/memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include "backend/user_error.hpp"

namespace verbtwin::ibverbs {
namespace {

/// What the kernel says of the mapping that holds `address` (proc_pid_smaps(5)).
std::string vm_flags(const void* address) {
  std::ifstream smaps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(smaps, line);) {
    std::uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      const auto at = reinterpret_cast<std::uintptr_t>(address);
      here = begin <= at && at < end;
    }
    if (here && line.starts_with("VmFlags:")) return line + " ";
  }
  return "";
}

TEST(NodeArea, IsWholeHugePagesThatReadAsZeros) {
  constexpr std::size_t kBytes = (std::size_t{5} << 20) + 3, kHuge = std::size_t{2} << 20;
  const NodeArea area(kBytes);
  EXPECT_EQ(area.bytes().size(), kBytes);
  EXPECT_EQ(area.mapping().size(), 3 * kHuge);
  EXPECT_EQ(area.mapping().data(), area.bytes().data());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(area.bytes().data()) % kHuge, 0U);
  EXPECT_TRUE(std::ranges::all_of(area.mapping(), [](std::byte b) { return b == std::byte{0}; }));
  std::ranges::fill(area.mapping(), std::byte{1});
}

/// Reserved ones (ht), else those that the kernel may give by itself (hg), where it is built to.
TEST(NodeArea, AsksForHugePages) {
  const NodeArea area(1);
  const bool kernel_gives = std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled").is_open();
  if (area.warning().empty()) {
    EXPECT_THAT(vm_flags(area.bytes().data()), testing::HasSubstr(" ht "));
  } else if (kernel_gives) {
    EXPECT_THAT(vm_flags(area.bytes().data()), testing::HasSubstr(" hg "));
  }
}

TEST(NodeArea, TooMuchIsRefused) {
  EXPECT_THROW(NodeArea(std::size_t{1} << 60), UserError);
}

}  // namespace
}  // namespace verbtwin::ibverbs
