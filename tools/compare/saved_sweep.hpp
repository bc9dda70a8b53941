// SavedSweep: a sweep as `run` kept or printed it, read again; of each point what a comparison needs.
//
// Values; whoever reads one owns it. Reads files; callable from any thread. What is wrong in them is refused
// with its place (UserError, the whole line).
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/document.hpp"

namespace verbtwin::tools {

struct SavedPoint {
  std::size_t number = 0;
  nlohmann::json described;  // describe(CheckedResult)
  nlohmann::json scenario;
  std::map<std::string, nlohmann::json> values;  // of the scenario, by JSON pointer, without words
  std::optional<double> rate_per_s;              // of all machines counted, as the sweep's table has it
  std::optional<double> latency_p50_us, latency_p99_us, abort_ratio;
};

struct SavedSweep {
  std::string label;  // as the user gave it
  std::vector<SavedPoint> points;
  /// The values in which the points differ, by JSON pointer, as few as tell all of them apart: of what moves
  /// together (a protocol and its phases, coroutines and the run's length) one is enough.
  std::vector<std::string> varied;
};

/// Null where the point has none.
std::vector<nlohmann::json> values_of(const SavedPoint& point, const std::vector<std::string>& pointers);

/// `directory`: what `run --out` filled; the points that its points.csv lists.
SavedSweep read_saved_sweep(const std::filesystem::path& directory);

/// Whether a document is what `run --json` prints of a sweep, and reading it.
bool is_sweep(const scenarios::Document& document);
SavedSweep read_saved_sweep(const scenarios::Document& document);

}  // namespace verbtwin::tools
