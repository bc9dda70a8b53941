#include "protocols/checks/accesses.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <numeric>

namespace verbtwin::protocols {

std::size_t TransactionNumbers::worker_of(std::uint32_t transaction) const {
  const auto next_worker = std::upper_bound(first_.begin(), first_.end() - 1, transaction);
  return static_cast<std::size_t>(next_worker - first_.begin() - 1);
}

std::string TransactionNumbers::name(std::uint32_t transaction) const {
  const std::size_t worker = worker_of(transaction);
  return fmt::format("{}.{}", worker, transaction - first_[worker]);
}

namespace {

template <typename Visit>
void for_each_access(Histories histories, const TransactionNumbers& numbers, const Visit& visit) {
  for (std::size_t worker = 0; worker < histories.size(); ++worker) {
    const History& history = *histories[worker];
    for (std::size_t i = 0; i < history.size(); ++i) {
      const History::Transaction transaction = history[i];
      const std::uint32_t number = numbers.first_of(worker) + static_cast<std::uint32_t>(i);
      for (const Access& write : transaction.writes) visit(write, number, AccessKind::kWrite);
      for (const Access& read : transaction.reads) visit(read, number, AccessKind::kRead);
    }
  }
}

/// Records as dense numbers in the same order: of table, partition and key the bits that differ.
class DenseOrder {
 public:
  /// `differ` has a bit set where two records differ.
  explicit DenseOrder(RecordId differ)
      : key_bits_(static_cast<int>(std::bit_width(differ.key()))),
        partition_bits_(static_cast<int>(std::bit_width(differ.partition()))),
        table_bits_(static_cast<int>(std::bit_width(differ.table()))) {}

  int bits() const { return key_bits_ + partition_bits_ + table_bits_; }
  std::uint64_t operator()(RecordId record) const {
    return (low(record.table(), table_bits_) << partition_bits_ | low(record.partition(), partition_bits_))
               << key_bits_ |
           low(record.key(), key_bits_);
  }

 private:
  static std::uint64_t low(std::uint64_t value, int bits) { return value & ((std::uint64_t{1} << bits) - 1); }

  int key_bits_, partition_bits_, table_bits_;
};

/// A stable radix sort from the lowest byte on, of those that differ; `other` is room for as many items.
void sort_by_record(std::span<RecordAccess> items, std::span<RecordAccess> other) {
  constexpr std::size_t kFewItems = 24;
  if (items.size() <= kFewItems) {  // insertion costs less than counting
    for (std::size_t i = 1; i < items.size(); ++i) {
      const RecordAccess item = items[i];
      std::size_t to = i;
      for (; to > 0 && items[to - 1].access.record > item.access.record; --to) items[to] = items[to - 1];
      items[to] = item;
    }
    return;
  }
  std::uint64_t differ = 0;
  for (const RecordAccess& item : items) differ |= item.access.record.packed ^ items[0].access.record.packed;
  std::span<RecordAccess> from = items, to = other.first(items.size());
  for (int shift = 0; shift < 64 && differ >> shift != 0; shift += 8) {
    if ((differ >> shift & 0xFF) == 0) continue;
    std::array<std::uint32_t, 257> begin{};
    for (const RecordAccess& item : from) ++begin[(item.access.record.packed >> shift & 0xFF) + 1];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    for (const RecordAccess& item : from) to[begin[item.access.record.packed >> shift & 0xFF]++] = item;
    std::swap(from, to);
  }
  if (from.data() != items.data()) std::ranges::copy(from, items.begin());
}

}  // namespace

GroupedAccesses::GroupedAccesses(Histories histories) : histories_(histories), numbers_(histories) {
  group();
  for_each_record([&](std::span<const RecordAccess> record) {
    const bool written =
        std::ranges::any_of(record, [](const RecordAccess& a) { return a.kind == AccessKind::kWrite; });
    if (written) written_.push_back(record.front().access.record);
  });
  std::vector<RecordId> aborted;  // few
  for (const History* history : histories)
    aborted.insert(aborted.end(), history->aborted().begin(), history->aborted().end());
  std::ranges::sort(aborted);
  aborted.erase(std::unique(aborted.begin(), aborted.end()), aborted.end());
  claimed_.reserve(written_.size() + aborted.size());
  std::set_union(written_.begin(), written_.end(), aborted.begin(), aborted.end(),
                 std::back_inserter(claimed_));
}

// Dealt to boxes by the highest bits straight from the histories; a box fits the caches, in which its records
// are then brought into order.
void GroupedAccesses::group() {
  constexpr int kBoxBits = 11;
  std::size_t count = 0;
  std::uint64_t any = 0, all = ~std::uint64_t{0};
  for_each_access(histories_, numbers_, [&](const Access& access, std::uint32_t, AccessKind) {
    ++count;
    any |= access.record.packed;
    all &= access.record.packed;
  });
  if (count == 0) return;
  const DenseOrder dense({any & ~all});
  const int shift = std::max(0, dense.bits() - kBoxBits);
  std::vector<std::size_t> ends((std::size_t{1} << kBoxBits) + 1);
  for_each_access(histories_, numbers_, [&](const Access& access, std::uint32_t, AccessKind) {
    ++ends[(dense(access.record) >> shift) + 1];
  });
  const std::size_t largest = *std::ranges::max_element(ends);
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  accesses_.resize(count);
  for_each_access(histories_, numbers_, [&](const Access& access, std::uint32_t number, AccessKind kind) {
    accesses_[ends[dense(access.record) >> shift]++] = {access, number, kind};
  });
  std::vector<RecordAccess> room(largest);
  for (std::size_t box = 0, begin = 0; box < ends.size() - 1; begin = ends[box++]) {
    sort_by_record(std::span(accesses_).subspan(begin, ends[box] - begin), room);
  }
}

}  // namespace verbtwin::protocols
