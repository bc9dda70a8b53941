// Dependencies between committed transactions and the cycles in them (Adya, "Weak Consistency", 1999, ch. 4):
// a history is serializable if and only if its direct serialization graph has none.
//
// Pure functions, any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "protocols/checks/history.hpp"

namespace verbtwin::protocols {

enum class DependencyKind : std::uint32_t {
  kWriteWrite,  // the source installed a version, the target the next one
  kWriteRead,   // the target read what the source installed
  kReadWrite,   // the source read a version, the target installed the next one (anti-dependency)
  kRealTime,    // the source had ended when the target began, on the clock of both; of no record
};

/// "ww", "wr", "rw", "ended before".
std::string_view to_string(DependencyKind kind);

/// The source comes before the target in every equivalent serial order. Both are TransactionNumbers.
struct Dependency {
  std::uint32_t source = 0, target = 0;
  RecordId record;
  std::uint64_t version = 0;  // the one the source installed (ww, wr) or read (rw)
  DependencyKind kind = DependencyKind::kWriteWrite;
};

struct Cycles {
  std::uint64_t components = 0;  // strongly connected, of more than one transaction
  /// A shortest cycle (in huge components: of those looked at); empty if there is none.
  std::vector<Dependency> shortest;
};

/// Transactions that come before one that had ended when they began.
struct Overtakings {
  std::uint64_t transactions = 0;
  /// From the first of them to one that had ended.
  std::vector<Dependency> path;
};

class DependencyGraph {
 public:
  /// `transactions` is their count; a dependency of a transaction on itself must not be given. The
  /// dependencies outlive the graph.
  DependencyGraph(std::uint32_t transactions, std::span<const Dependency> dependencies);
  ~DependencyGraph();

  Cycles find_cycles() const;

  /// In a graph without cycles, among the transactions from `first` to before `last`, whose times are on one
  /// clock; `when` is that of all. If there are none, some serial order agrees with the clock: where real
  /// time and dependencies disagree, one step back in time is enough to close a cycle, because of two such
  /// steps either one can be left out, or it leads to where the other did.
  Overtakings find_overtakings(std::span<const Interval> when, std::uint32_t first, std::uint32_t last) const;

  /// In a graph without cycles in which nobody is overtaken on any one clock: the cycles of dependencies and
  /// real time that need several clocks. Those of one clock are the transactions from one of `clocks`
  /// (ascending, the first is 0) to before the next.
  Cycles find_cycles_in_time(std::span<const Interval> when, std::span<const std::uint32_t> clocks) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace verbtwin::protocols
