// Dependencies between committed transactions and the cycles in them (Adya, "Weak Consistency", 1999, ch. 4):
// a history is serializable if and only if its direct serialization graph has none.
//
// Pure functions, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "protocols/checks/history.hpp"

namespace verbtwin::protocols {

enum class DependencyKind : std::uint32_t {
  kWriteWrite,  // the source installed a version, the target the next one
  kWriteRead,   // the target read what the source installed
  kReadWrite,   // the source read a version, the target installed the next one (anti-dependency)
};

/// "ww", "wr", "rw".
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

/// `transactions` is their count; a dependency of a transaction on itself must not be given.
Cycles find_cycles(std::uint32_t transactions, std::span<const Dependency> dependencies);

}  // namespace verbtwin::protocols
