// RampHistory: what one client of a key-value protocol (RAMP, S2PL) read and wrote, with the timestamps that
// name versions.
//
// A client is whoever runs one transaction after another: a coroutine. It alone appends, each transaction
// when its outcome is certain and before the next begins; the checks read all histories when every worker has
// stopped.
//
// A version is named by the timestamp of the transaction that wrote it; 0 is a key's initial value, which
// nobody wrote. Which keys were written together is told by the writer's own history, never by the sibling
// lists that readers are given: those are what a broken protocol gets wrong.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "protocols/checks/history.hpp"

namespace verbtwin::protocols {

struct RampRead {
  std::uint64_t key = 0;
  std::uint64_t timestamp = 0;  // of the version returned to the application
  /// The key's latest committed version by what its server said in the first round (RAMP's lastCommit[key]).
  /// The one returned is the same, or a newer one that only a second round finds. S2PL: the one returned.
  std::uint64_t last_commit = 0;
  std::uint64_t digest = 0;  // of the value's bytes (value_digest())
};

struct RampWrite {
  std::uint64_t key = 0;
  std::uint64_t digest = 0;
};

/// What a server holds as a key's last committed version.
struct LastVersion {
  std::uint64_t key = 0;
  std::uint64_t timestamp = 0;
  std::uint64_t digest = 0;  // of the value's bytes
};

class RampHistory {
 public:
  struct Transaction {
    std::uint64_t timestamp = 0;  // of what it wrote; counts for nothing where it only read
    bool committed = false;
    Interval when;
    std::span<const RampRead> reads;    // by key
    std::span<const RampWrite> writes;  // by key
    bool reads_only() const { return writes.empty(); }
  };

  /// A transaction in any order of keys. One that aborted is entered too, if it gave a version to any server;
  /// run again, it takes another timestamp.
  void add(std::uint64_t timestamp, bool committed, std::span<const RampRead> reads,
           std::span<const RampWrite> writes, Interval when = {}) {
    entries_.push_back({timestamp, when, reads_.size(), writes_.size(), committed});
    append(reads_, reads);
    append(writes_, writes);
  }

  std::size_t size() const { return entries_.size(); }

  Transaction operator[](std::size_t i) const {
    const Entry& entry = entries_[i];
    const bool last = i + 1 == entries_.size();
    const std::size_t reads_end = last ? reads_.size() : entries_[i + 1].reads_at;
    const std::size_t writes_end = last ? writes_.size() : entries_[i + 1].writes_at;
    return {entry.timestamp, entry.committed, entry.when,
            std::span(reads_).subspan(entry.reads_at, reads_end - entry.reads_at),
            std::span(writes_).subspan(entry.writes_at, writes_end - entry.writes_at)};
  }

 private:
  struct Entry {
    std::uint64_t timestamp;
    Interval when;
    std::size_t reads_at, writes_at;
    bool committed;
  };

  template <typename Item>
  static void append(std::vector<Item>& all, std::span<const Item> items) {
    const auto begin = static_cast<std::ptrdiff_t>(all.size());
    all.insert(all.end(), items.begin(), items.end());
    std::ranges::sort(all.begin() + begin, all.end(), {}, &Item::key);
  }

  std::vector<Entry> entries_;
  std::vector<RampRead> reads_;
  std::vector<RampWrite> writes_;
};

/// One per client, in an order that is the same in every run.
using RampHistories = std::span<const RampHistory* const>;

}  // namespace verbtwin::protocols
