// RankReport: what a rank of a real run tells rank 0 when it has ended, and how that travels.
//
// A value. unpack() throws std::runtime_error where the bytes are no report. Times in ps, as everywhere.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backend/verbs.hpp"
#include "protocols/checks/history.hpp"
#include "protocols/statistics.hpp"

namespace verbtwin::tools {

struct RankReport {
  bool partial = false;
  std::int64_t window_ps = 0;
  VerbCounts verbs;                        // inside the window
  std::vector<std::int64_t> core_busy_ps;  // by thread, inside the window
  std::uint64_t location_cache_hits = 0, location_cache_misses = 0;
  std::vector<protocols::WorkerStatistics> statistics;  // by thread
  std::vector<protocols::History> histories;            // by thread; empty where nothing is checked
  std::vector<protocols::LoggedWrite> logged;
  nlohmann::json machine;  // host, CPU, kernel, devices
};

std::string pack(const RankReport& report);
RankReport unpack(const std::string& bytes);

}  // namespace verbtwin::tools
