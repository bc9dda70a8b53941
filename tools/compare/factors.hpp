// Factors: a sweep that switches one optimisation on after another, beside OSDI 2018, figure 13(a):
// throughput by the base's, and what each step gains.
//
// Pure functions; callable from any thread. What does not pair throws UserError.
#pragma once

#include <string>
#include <vector>

#include "calibration/csv_table.hpp"
#include "calibration/published_points.hpp"
#include "tools/compare/comparison.hpp"

namespace verbtwin::tools {

struct PairedFactor {
  calibration::PublishedFactor published;
  double per_machine_mtps = 0;
  double latency_p50_us = 0;
};

/// Whether points.csv varies the factors of the figure.
bool varies_factors(const calibration::CsvTable& table);

/// For each published step the one point that has on what is on by then and nothing else, whatever the order
/// of the points.
std::vector<PairedFactor> pair_factors(const std::vector<calibration::PublishedFactor>& published,
                                       const calibration::CsvTable& table);

/// Markdown. Ends in a newline.
std::string render_factors(const std::string& title, const std::vector<PairedFactor>& pairs);

Comparison compare_factors(const calibration::CsvTable& table);

}  // namespace verbtwin::tools
