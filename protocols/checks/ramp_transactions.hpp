// What the checks of key-value protocols share: all clients' transactions in one row, and the order of each
// key's versions.
//
// Made by a check when every worker has stopped; they refer to the histories, which outlive them.
#pragma once

#include <tsl/robin_map.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "protocols/checks/accesses.hpp"
#include "protocols/checks/ramp_history.hpp"
#include "protocols/checks/report.hpp"

namespace verbtwin::protocols {

/// A transaction's number where there is none.
inline constexpr std::uint32_t kNoTransaction = std::numeric_limits<std::uint32_t>::max();

/// The entries of `items`, which are sorted by key, for this one.
template <typename Item>
std::span<const Item> of_key(std::span<const Item> items, std::uint64_t key) {
  return {std::ranges::lower_bound(items, key, {}, &Item::key),
          std::ranges::upper_bound(items, key, {}, &Item::key)};
}

class RampTransactions {
 public:
  using Transaction = RampHistory::Transaction;

  explicit RampTransactions(RampHistories histories);

  std::uint32_t count() const { return numbers_.count(); }
  std::uint32_t first_of(std::size_t client) const { return numbers_.first_of(client); }
  const Transaction& operator[](std::uint32_t number) const { return all_[number]; }
  /// "client.index".
  std::string name(std::uint32_t number) const { return numbers_.name(number); }
  /// Committed, reads and writes.
  bool updates(std::uint32_t number) const {
    const Transaction& transaction = all_[number];
    return transaction.committed && !transaction.reads.empty() && !transaction.writes.empty();
  }

 private:
  TransactionNumbers numbers_;
  std::vector<Transaction> all_;
};

/// All committed versions, by key and timestamp.
class VersionOrder {
 public:
  explicit VersionOrder(const RampTransactions& transactions);

  /// Who wrote the version behind this one.
  std::uint32_t overwriter(std::uint64_t key, std::uint64_t timestamp) const;

  /// 1 for a key's first version, and so on; 0 for the initial one, `kUnknown` for one that nobody committed.
  static constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t rank(std::uint64_t key, std::uint64_t timestamp) const;

 private:
  struct Version {
    std::uint64_t key, timestamp;
    std::uint32_t writer;
    auto place() const { return std::tuple(key, timestamp); }
  };
  std::vector<Version> versions_;
};

/// Versions that a transaction read and overwrote though another one had done the same.
std::uint64_t count_lost_updates(const RampTransactions& transactions);
/// Pairs that wrote different keys and each overwrote what the other one read.
std::uint64_t count_write_skews(const RampTransactions& transactions);

}  // namespace verbtwin::protocols
