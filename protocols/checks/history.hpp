// History: what committed transactions read and wrote, and what aborted attempts had meant to write, recorded
// while they run and judged afterwards.
//
// One History belongs to one worker, which alone appends to it; the checks read all of them when every worker
// has stopped. Append-only: a transaction costs its operations, nothing more.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "protocols/checks/parts.hpp"

namespace verbtwin::protocols {

/// A record's name across the cluster: table in the top 8 bits, partition in the next 16, the key within the
/// partition in the low 40.
struct RecordId {
  std::uint64_t packed = 0;

  static constexpr RecordId make(std::uint32_t table, std::uint32_t partition, std::uint64_t key) {
    return {static_cast<std::uint64_t>(table) << 56 | static_cast<std::uint64_t>(partition) << 40 | key};
  }
  constexpr std::uint32_t table() const { return static_cast<std::uint32_t>(packed >> 56); }
  constexpr std::uint32_t partition() const { return static_cast<std::uint32_t>(packed >> 40) & 0xFFFF; }
  constexpr std::uint64_t key() const { return packed & ((1ULL << 40) - 1); }
  friend constexpr auto operator<=>(RecordId, RecordId) = default;
};

/// One record as a transaction saw it or left it. `digest` stands for the value's bytes (value_digest()).
struct Access {
  RecordId record;
  std::uint64_t version = 0;  // read: the version seen; write: the version installed
  std::uint64_t digest = 0;
};

/// A committed transaction's time, on some clock: it did nothing before its begin, and was certain at its
/// end. By default nothing is known of it.
struct Interval {
  std::int64_t begin_ps = std::numeric_limits<std::int64_t>::min();
  std::int64_t end_ps = std::numeric_limits<std::int64_t>::max();
};

/// A record's write as it was found in a backup's log.
struct LoggedWrite {
  Access write;
  std::uint32_t backup = 0;  // node that holds the log
};

class History {
 public:
  struct Transaction {
    std::span<const Access> reads;  // every record read, those written later among them
    std::span<const Access> writes;
    std::int64_t effect = 0;  // what the workload says this commit did to its invariant (SmallBank: cents)
    Interval when;
  };

  History() = default;
  History(History&&) = default;  // not copied: its transactions say where their accesses lie

  /// A committed transaction, at the moment it became certain.
  void commit(std::span<const Access> reads, std::span<const Access> writes, std::int64_t effect,
              Interval when = {}) {
    transactions_.push_back({accesses_.append(reads, writes), reads.size(), effect, when});
  }

  /// An attempt that came to nothing had meant to write it, and may have locked it.
  void abort(RecordId record) { aborted_.push_back(record); }

  std::size_t size() const { return transactions_.size(); }
  std::span<const RecordId> aborted() const { return aborted_; }

  Transaction operator[](std::size_t i) const {
    const Entry& entry = transactions_[i];
    return {entry.accesses.first(entry.reads), entry.accesses.subspan(entry.reads), entry.effect, entry.when};
  }

 private:
  struct Entry {
    std::span<const Access> accesses;  // the reads, and behind them the writes
    std::size_t reads;
    std::int64_t effect;
    Interval when;
  };
  Parts<Access> accesses_;
  std::vector<Entry> transactions_;
  std::vector<RecordId> aborted_;
};

/// A 64-bit digest of a value's bytes (xxh3): equal values agree, torn or lost ones do not.
std::uint64_t value_digest(std::span<const std::byte> value);

}  // namespace verbtwin::protocols
