// Accesses: what all workers did, as one flat array grouped by record, and the numbers of their transactions.
//
// Made by a check when every worker has stopped; it copies what it needs of the histories.
#pragma once

#include <boost/sort/spreadsort/integer_sort.hpp>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "protocols/checks/history.hpp"

namespace verbtwin::protocols {

using Histories = std::span<const History* const>;

enum class AccessKind : std::uint32_t { kWrite, kRead };

struct RecordAccess {
  Access access;
  std::uint32_t transaction = 0;  // as TransactionNumbers counts
  AccessKind kind = AccessKind::kWrite;
};

/// Numbers the transactions of all workers 0, 1, ...: those of the first history, then those of the second,
/// ...
class TransactionNumbers {
 public:
  /// Of any kind of history that tells its size().
  template <typename AnyHistory>
  explicit TransactionNumbers(std::span<const AnyHistory* const> histories) {
    std::size_t count = 0;
    for (const AnyHistory* history : histories) {
      first_.push_back(static_cast<std::uint32_t>(count));
      count += history->size();
    }
    assert(count <= std::numeric_limits<std::uint32_t>::max());
    first_.push_back(static_cast<std::uint32_t>(count));
  }

  std::uint32_t count() const { return first_.back(); }
  std::uint32_t first_of(std::size_t worker) const { return first_[worker]; }
  std::size_t worker_of(std::uint32_t transaction) const;

  /// "worker.index", the worker being its history's place in the span.
  std::string name(std::uint32_t transaction) const;

 private:
  std::vector<std::uint32_t> first_;  // of each worker; behind them the count of all
};

/// Every write, and on request every read, in no particular order.
std::vector<RecordAccess> collect_accesses(Histories histories, const TransactionNumbers& numbers,
                                           bool reads);

/// Orders `items` by the record of their member `access` and calls visit(span) for each record, the records
/// ascending. Within a record the order is unspecified: the visitor sorts its span as it needs it.
template <typename Item, typename Visit>
void for_each_record(std::vector<Item>& items, const Visit& visit) {
  const auto record_of = [](const Item& item) { return item.access.record; };
  boost::sort::spreadsort::integer_sort(
      items.begin(), items.end(),
      [&](const Item& item, unsigned shift) { return record_of(item).packed >> shift; },
      [&](const Item& left, const Item& right) { return record_of(left) < record_of(right); });
  for (std::size_t begin = 0, end = 0; begin < items.size(); begin = end) {
    while (end < items.size() && record_of(items[end]) == record_of(items[begin])) ++end;
    visit(std::span<Item>(items).subspan(begin, end - begin));
  }
}

}  // namespace verbtwin::protocols
