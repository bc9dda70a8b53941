// What a worker counts of its transactions inside the measurement window.
//
// One per worker, which alone writes it; read when the workers have stopped. Times in picoseconds.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "protocols/occ/transaction.hpp"

namespace verbtwin::protocols {

/// The window in simulated or real time; the same for all workers.
struct Window {
  std::int64_t begin_ps = 0;  // measurement starts
  std::int64_t end_ps = 0;    // it ends, and no transaction begins any more
  bool contains(std::int64_t at_ps) const { return at_ps >= begin_ps && at_ps < end_ps; }
};

/// One committed transaction.
struct TransactionSample {
  std::uint32_t type = 0;
  std::int64_t latency_ps = 0;                   // retries included
  std::array<std::int64_t, kPhases> phase_ps{};  // of the attempt that committed; 0: it had no such phase
};

struct WorkerStatistics {
  std::vector<TransactionSample> committed;
  std::vector<std::uint64_t> user_aborts;             // by type
  std::array<std::uint64_t, kAbortReasons> aborts{};  // attempts
  std::uint64_t committed_ever = 0;                   // outside the window too: for progress
};

}  // namespace verbtwin::protocols
