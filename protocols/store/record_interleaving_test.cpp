// Every way in which a writer's stores fall between a reader's loads, of records whose writer is a CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "protocols/store/record_for_test.hpp"
#include "protocols/store/record_steps.hpp"

namespace verbtwin::protocols {
namespace {

struct alignas(kCacheLineBytes) Area {
  std::byte bytes[4 * kCacheLineBytes] = {};
};

constexpr std::uint64_t kBefore = 5;

/// A record of version kBefore, and what a CPU stores to write the next: lock, value, version, unlock.
struct Written {
  explicit Written(std::uint32_t value_b) : layout(value_b) {
    install(layout, before.bytes, kBefore, value_of(layout, kBefore));
    const auto store = [this](std::uint32_t at, std::uint64_t word) { stores.emplace_back(at, word); };
    store(0, owner_word(1, 2, 3));
    install_by(layout, store, kBefore + 1, value_of(layout, kBefore + 1));
    store(0, 0);
  }

  /// As it is after so many of the stores.
  Area after(std::size_t count) const {
    Area area = before;
    for (std::size_t i = 0; i < count; ++i) store_word(area.bytes + stores[i].first, stores[i].second);
    return area;
  }

  RecordLayout layout;
  Area before;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> stores;
};

/// Calls visit(schedule) with every ascending row of `length` numbers of 0 to `most`.
template <typename Visit>
void for_each_schedule(std::size_t length, std::size_t most, const Visit& visit) {
  std::vector<std::size_t> schedule(length, 0);
  for (;;) {
    visit(schedule);
    std::size_t at = length;
    while (at > 0 && schedule[at - 1] == most) --at;
    if (at == 0) return;
    const std::size_t next = schedule[at - 1] + 1;
    std::fill(schedule.begin() + static_cast<std::ptrdiff_t>(at) - 1, schedule.end(), next);
  }
}

TEST(RecordInterleaving, NoCopyByACpuMixesTwoVersions) {
  for (const std::uint32_t value_b : {8U, 16U, 24U}) {
    const Written written(value_b);
    const RecordLayout& layout = written.layout;
    std::vector<Area> states;
    for (std::size_t i = 0; i <= written.stores.size(); ++i) states.push_back(written.after(i));
    const std::size_t loads = 1 + layout.image_b / 8 + 2;
    std::uint64_t stable = 0, mixed = 0;
    for_each_schedule(loads, written.stores.size(), [&](const std::vector<std::size_t>& schedule) {
      Area image;
      std::size_t done = 0;
      const auto load = [&](std::uint32_t at) { return load_word(states[schedule[done++]].bytes + at); };
      const RecordView view = copy_record_by(layout, load, image.bytes);
      ASSERT_LE(done, loads);
      if (view.state != RecordState::kStable) return;
      ++stable;
      mixed += holds(layout, image.bytes, view.version) ? 0U : 1U;
    });
    EXPECT_EQ(mixed, 0U) << value_b << " B: copies that were accepted";
    EXPECT_GE(stable, 2U) << value_b << " B";
  }
}

/// A NIC takes each line whole, in any order, whenever it comes to it.
TEST(RecordInterleaving, NoReadOfTwoLinesMixesTwoVersions) {
  for (const std::uint32_t value_b : {49U, 72U, 104U}) {
    const Written written(value_b);
    const RecordLayout& layout = written.layout;
    ASSERT_LE(layout.image_b, 2 * kCacheLineBytes);
    for (std::size_t first = 0; first <= written.stores.size(); ++first) {
      for (std::size_t second = 0; second <= written.stores.size(); ++second) {
        Area image = written.after(first);
        const Area later = written.after(second);
        std::copy_n(later.bytes + kCacheLineBytes, kCacheLineBytes, image.bytes + kCacheLineBytes);
        const RecordView view = inspect(layout, image.bytes);
        if (view.state != RecordState::kStable) continue;
        EXPECT_TRUE(holds(layout, image.bytes, view.version))
            << value_b << " B: the first line after " << first << " of the writer's stores, the second after "
            << second;
      }
    }
  }
}

}  // namespace
}  // namespace verbtwin::protocols
