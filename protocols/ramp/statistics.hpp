// What a worker counts of the RAMP family's transactions inside the measurement window.
//
// One per worker, which alone writes it; read when the workers have stopped.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "protocols/statistics.hpp"

namespace verbtwin::protocols {

enum class RampPhase : std::uint8_t { kGet, kPrepare, kCommit };
inline constexpr std::size_t kRampPhases = 3;
static_assert(kRampPhases <= kPhases);
inline constexpr std::array<std::string_view, kRampPhases> kRampPhaseNames = {"get", "prepare", "commit"};

enum class RampAbort : std::uint8_t {
  kNone,
  kVersionCollected,  // what a second round asked for is gone: read again
  kLockRefused,       // S2PL
  kVerbFailed
};
inline constexpr std::size_t kRampAborts = 4;
static_assert(kRampAborts <= kAbortReasons);
inline constexpr std::array<std::string_view, kRampAborts> kRampAbortNames = {"none", "version_collected",
                                                                              "lock_refused", "verb_failed"};

struct RampStatistics : WorkerStatistics {
  /// Transactions that read, by how often they waited for servers in the attempt that committed.
  std::array<std::uint64_t, 4> reads_by_rounds{};
  std::uint64_t in_place = 0;           // GET*: their READs in that attempt
  std::uint64_t in_place_accepted = 0;  // that found a current version
};

}  // namespace verbtwin::protocols
