// Headlines: figures that papers state in their text (throughput of one system, its mean latency, how often
// one is as fast as another), beside the shipped sweeps that run them: scenarios/fasst, scenarios/rpc.
//
// Pure functions; callable from any thread. What does not pair throws UserError.
#pragma once

#include "calibration/csv_table.hpp"
#include "tools/compare/comparison.hpp"

namespace verbtwin::tools {

/// Whether points.csv is of a sweep, told by its name, that has such figures.
bool has_headlines(const calibration::CsvTable& table);

/// Each figure by the fastest of the points under its conditions; a ratio by each system's, machine for
/// machine.
Comparison compare_headlines(const calibration::CsvTable& table);

}  // namespace verbtwin::tools
