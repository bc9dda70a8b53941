// Parts: items in the order of their coming, in parts that never move: what is kept of a long run is neither
// copied nor left behind as its place grows.
//
// Owned by who appends; who reads does so when that one has stopped, or under its lock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace verbtwin::protocols {

template <typename Item>
class Parts {
 public:
  void append(const Item& item) { part_for(1).push_back(item); }

  /// Side by side: where they lie from now on.
  std::span<const Item> append(std::span<const Item> first, std::span<const Item> second) {
    const std::size_t count = first.size() + second.size();
    if (count == 0) return {};
    std::vector<Item>& part = part_for(count);
    part.insert(part.end(), first.begin(), first.end());
    part.insert(part.end(), second.begin(), second.end());
    return std::span<const Item>(part).last(count);
  }

  std::vector<Item> all() const {
    std::vector<Item> all;
    for (const auto& part : parts_) all.insert(all.end(), part.begin(), part.end());
    return all;
  }
  /// Calls visit(span) for each part.
  template <typename Visit>
  void for_each_part(const Visit& visit) const {
    for (const auto& part : parts_) visit(std::span<const Item>(part));
  }

 private:
  static constexpr std::size_t kFirst = 32, kMost = 1024;  // items of a part

  /// One with room for so many more.
  std::vector<Item>& part_for(std::size_t count) {
    if (parts_.empty() || parts_.back().capacity() - parts_.back().size() < count) {
      const std::size_t as_before = parts_.empty() ? kFirst : 2 * parts_.back().capacity();
      parts_.emplace_back().reserve(std::max(count, std::min(as_before, kMost)));
    }
    return parts_.back();
  }

  std::vector<std::vector<Item>> parts_;
};

}  // namespace verbtwin::protocols
