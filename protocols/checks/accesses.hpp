// GroupedAccesses: what all workers did, as one flat array by record, and the numbers of their transactions.
//
// Made once when every worker has stopped, and shared read-only by the checks of a run. It copies the
// accesses; the histories outlive it. One thread.
#pragma once

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

/// A check that is given plain histories groups them for itself.
class GroupedAccesses {
 public:
  GroupedAccesses(Histories histories);

  Histories histories() const { return histories_; }
  const TransactionNumbers& numbers() const { return numbers_; }
  /// Every record that a committed transaction wrote, once, ascending.
  std::span<const RecordId> written() const { return written_; }
  /// The same, and those that aborted attempts had meant to write.
  std::span<const RecordId> claimed() const { return claimed_; }

  /// Calls visit(span) for each record, the records ascending: its accesses by transaction, of each the
  /// writes before the reads.
  template <typename Visit>
  void for_each_record(const Visit& visit) const {
    const std::span<const RecordAccess> all(accesses_);
    for (std::size_t begin = 0, end = 0; begin < all.size(); begin = end) {
      const RecordId record = all[begin].access.record;
      while (end < all.size() && all[end].access.record == record) ++end;
      visit(all.subspan(begin, end - begin));
    }
  }

 private:
  void group();

  Histories histories_;
  TransactionNumbers numbers_;
  std::vector<RecordAccess> accesses_;
  std::vector<RecordId> written_, claimed_;
};

}  // namespace verbtwin::protocols
