// compare_sweeps(): two sweeps point by point: one before and after a change, a measured set and its twin.
//
// Points are matched by the settings that either sweep varies, not by number: sweeps of unequal grids share
// what both ran. What is partial, failed or violates a check is said, and is in no ratio. Not chosen: curves
// that are interpolated to meet (a value that nobody ran).
//
// Pure functions of what saved_sweep.hpp reads; callable from any thread.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/compare/result_comparison.hpp"
#include "tools/compare/saved_sweep.hpp"
#include "tools/report/summary.hpp"

namespace verbtwin::tools {

using Settings = std::vector<std::pair<std::string, nlohmann::json>>;  // "cluster.coroutines", 4

/// A point that both have.
struct PointComparison {
  Settings settings;
  nlohmann::json a, b;                       // what each result is, as in a ResultComparison
  std::vector<ComparedQuantity> quantities;  // rate_per_s, latency_us.p50, latency_us.p99, abort_ratio
};

/// The same at so many of the shared points.
struct SharedDifference {
  ScenarioDifference values;
  std::size_t points = 0;
};

/// B / A of a quantity over the points that can be compared.
struct RatioSummary {
  std::string name;
  double median = 0;
  double furthest = 0;    // from 1
  std::size_t point = 0;  // which one has that
};

/// Whether A and B agree which of two points has the higher rate. Where a setting that is no number varies
/// (systems are compared), the pairs are of points that are the same in all numbers.
struct RateOrder {
  std::vector<std::string> same;  // the settings in which the points of a pair are the same; none: all pairs
  std::size_t pairs = 0;          // of which no rate is within 1 % of the other, in A or in B
  std::size_t swapped = 0;
  std::vector<std::pair<std::size_t, std::size_t>> examples;  // the first is ahead in A
};

struct SweepComparison {
  nlohmann::json a, b;  // "file", "points" (how many), "varied"; "names", "backends", "devices" of these
  std::vector<SharedDifference> differences;
  std::vector<PointComparison> points;
  std::vector<Settings> only_a, only_b;
  std::vector<RatioSummary> ratios;
  RateOrder order;
};

/// Throws UserError, the whole line, where they share no point, or one of transactions and one of operations.
SweepComparison compare_sweeps(const SavedSweep& a, const SavedSweep& b);

/// For a terminal; ends in a newline.
std::string render_comparison(const SweepComparison& comparison, const SummaryStyle& style);

/// For programs (RESULT.md "A comparison of sweeps").
nlohmann::json comparison_json(const SweepComparison& comparison);

}  // namespace verbtwin::tools
