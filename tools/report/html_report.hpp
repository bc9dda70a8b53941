// A result as a page: one HTML file that opens offline, without scripts, in light or dark.
//
// Pure functions of result JSON (tools/RESULT.md); callable from any thread. Names and descriptions may be
// anything: a user's file has them.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tools/report/sweep_table.hpp"

namespace verbtwin::tools {

/// What limits the run, how long its transactions took and in which phase, why they aborted, how full each
/// resource was. Members that a result does not have are left out.
std::string html_report(const nlohmann::json& result);

/// A row per point, each leading to the page of its own at points/NNN/report.html; `plot_svg`: what to show
/// above, or nothing. `points`: how many the sweep has; those without a row were not run.
std::string html_report(const std::vector<SweepRow>& rows, std::size_t points, std::string_view plot_svg);

}  // namespace verbtwin::tools
