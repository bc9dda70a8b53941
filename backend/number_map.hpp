// NumberMap: values for the few numbers that are in use out of many, such as the peers that a worker has
// talked to out of a cluster's: what grows with the square of the cluster must not exist before it is used.
//
// Belongs to whoever owns it; one thread at a time. A value is made on its first use and stays until the end;
// references to values hold until the next one is made. Open addressing: a look-up costs a multiplication and
// mostly one cache line.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace verbtwin {

template <typename Value>
class NumberMap {
 public:
  /// The value of `number` (not ~0), or null.
  Value* find(std::uint32_t number) {
    if (entries_.empty()) return nullptr;
    Entry& entry = entries_[slot_of(number)];
    return entry.number == number ? &entry.value : nullptr;
  }
  const Value* find(std::uint32_t number) const { return const_cast<NumberMap*>(this)->find(number); }

  /// The same, made by Value{} if there is none.
  Value& operator[](std::uint32_t number) {
    if (entries_.empty()) grow();
    Entry* entry = &entries_[slot_of(number)];
    if (entry->number == number) return entry->value;
    if ((size_ + 1) * 3 > entries_.size() * 2) {
      grow();
      entry = &entries_[slot_of(number)];
    }
    ++size_;
    entry->number = number;
    return entry->value;
  }

  std::size_t size() const { return size_; }
  /// In ascending order.
  std::vector<std::uint32_t> numbers() const {
    std::vector<std::uint32_t> all;
    for (const Entry& entry : entries_) {
      if (entry.number != kNone) all.push_back(entry.number);
    }
    std::ranges::sort(all);
    return all;
  }

  /// Where a look-up will begin, for a prefetch.
  const void* near(std::uint32_t number) const { return entries_.data() + first_slot(number); }

 private:
  static constexpr std::uint32_t kNone = ~0U;
  static constexpr std::size_t kFirstEntries = 8;

  struct Entry {
    std::uint32_t number = kNone;
    Value value{};
  };

  std::size_t first_slot(std::uint32_t number) const {
    return number * std::uint64_t{0x9E3779B9} >> shift_ & mask_;
  }
  /// The number's slot, or the free one where it belongs.
  std::size_t slot_of(std::uint32_t number) const {
    std::size_t slot = first_slot(number);
    while (entries_[slot].number != number && entries_[slot].number != kNone) slot = (slot + 1) & mask_;
    return slot;
  }
  [[gnu::noinline]] void grow() {  // out of the way of look-ups
    std::vector<Entry> smaller(entries_.empty() ? kFirstEntries : entries_.size() * 2);
    smaller.swap(entries_);
    mask_ = entries_.size() - 1;
    shift_ = 32;
    for (std::size_t size = entries_.size(); size > 1; size /= 2) --shift_;
    for (Entry& entry : smaller) {
      if (entry.number != kNone) entries_[slot_of(entry.number)] = std::move(entry);
    }
  }

  std::vector<Entry> entries_;
  std::size_t mask_ = 0, size_ = 0;
  int shift_ = 32;
};

}  // namespace verbtwin
