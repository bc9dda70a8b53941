// The measurement that perftest's tools (ib_write_bw, ib_read_lat, ...) made: what they printed, with -a too,
// or wrote with --out_json, as the file that `verbtwin measure` writes (measurement.hpp).
//
// A free function, callable from any thread. What is wrong in a file is a UserError of one line,
// "file:line:column: what; allowed: ...".
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace verbtwin::calibration {

struct PerftestImport {
  nlohmann::json measurement;
  /// Results that are sound and that no simulated point can be compared with: "file:line: skipped: why".
  std::vector<std::string> skipped;
};

/// Whether it is likely meant for import_perftest().
bool looks_like_perftest(std::string_view text);

/// `link_gbps` is of the slower end: perftest does not say it.
PerftestImport import_perftest(const std::vector<std::filesystem::path>& files, double link_gbps);

}  // namespace verbtwin::calibration
