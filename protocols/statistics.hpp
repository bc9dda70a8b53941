// What a worker counts of its transactions inside the measurement window.
//
// One per worker, which alone writes it; read when the workers have stopped. Times in picoseconds.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "protocols/occ/transaction.hpp"
#include "protocols/program.hpp"

namespace verbtwin::protocols {

/// One committed transaction.
struct TransactionSample {
  std::uint32_t type = 0;
  std::int64_t latency_ps = 0;                   // retries included
  std::array<std::int64_t, kPhases> phase_ps{};  // of the attempt that committed; kNoPhase: it had none
};

struct WorkerStatistics {
  std::vector<TransactionSample> committed;
  std::vector<std::int64_t>
      waited_ps;  // with an offered load, of each of `committed`: until a coroutine took it
  std::vector<std::uint64_t> user_aborts;                    // by type
  std::array<std::uint64_t, kAbortReasons> aborts{};         // attempts
  std::uint64_t committed_ever = 0;                          // outside the window too: for progress
  std::uint64_t offered = 0;                                 // that were due in the window (Arrivals)
  std::uint64_t locations_cached = 0, locations_missed = 0;  // look-ups of attempts that ended in the window
};

}  // namespace verbtwin::protocols
