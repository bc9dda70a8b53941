// A sweep's outcome: a row per point, on the terminal as it comes and in points.csv with everything.
//
// Pure functions of result JSON (DESIGN.md "Result"); callable from any thread.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "scenarios/sweep.hpp"

namespace verbtwin::tools {

/// One finished point.
struct SweepRow {
  std::vector<std::pair<std::string, nlohmann::json>> settings;
  nlohmann::json result;
};

/// All rows with one header: the point's number, what identifies the run, its settings, and every figure with
/// its unit in its name. What a row does not have is empty. Ends in a newline.
std::string sweep_csv(const std::vector<SweepRow>& rows);

/// The table's head and one line of it; `settings` are those of any point. End in a newline.
std::string sweep_table_head(const std::vector<std::pair<std::string, nlohmann::json>>& settings);
std::string sweep_table_line(const SweepRow& row);

}  // namespace verbtwin::tools
