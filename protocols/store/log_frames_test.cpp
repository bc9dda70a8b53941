// What the frames of a log's entry say of what stands between them.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "protocols/store/record.hpp"
#include "protocols/store/ring_log.hpp"

namespace verbtwin::protocols {
namespace {

/// As when the number's bytes of a later entry land on both frames of one that stands there since a lap ago.
TEST(LogReader, AnEntryWithNothingButAnotherNumberIsNone) {
  constexpr std::size_t kBytes = 64;
  const LogSpec spec{1024, 128};
  std::vector<std::uint64_t> memory(spec.ring_b / 8);
  const LogRing ring{reinterpret_cast<std::byte*>(memory.data()), spec.part_b(), spec.part_b()};
  LogWriter writer(spec);
  std::vector<std::byte> first(kBytes, std::byte{7});
  seal_log_entry(first, writer.reserve(kBytes)->frame);
  writer.reserve(kBytes);
  std::memcpy(ring.at(0), first.data(), kBytes);
  for (const std::size_t frame_at : {std::size_t{0}, kBytes - kLogFrameBytes}) {
    constexpr std::uint64_t kNumber1To2 = std::uint64_t{1 ^ 2} << 48;
    store_word(first.data() + frame_at, load_word(first.data() + frame_at) ^ kNumber1To2);
  }
  std::memcpy(ring.at(kBytes), first.data(), kBytes);
  LogReader reader;
  EXPECT_TRUE(reader.next(spec, ring));
  EXPECT_FALSE(reader.next(spec, ring));
  reader.for_each_ahead(spec, ring, writer.tail(), [](auto) { ADD_FAILURE() << "found whole"; });
}

}  // namespace
}  // namespace verbtwin::protocols
