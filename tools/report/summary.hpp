// The summary: a run's result as a person reads it.
//
// Pure function of the result JSON (tools/RESULT.md); callable from any thread. Members that a result does
// not have are left out, so it renders partial results and micro-benchmarks too. Beyond the contract it
// shows, where present:
//   "aborts": {"<reason>": count}               attempts aborted, by reason
//   "checks"[i]."examples": ["<text>", ...]     what the first violations are
//   "checks"[i]."allowed": {"<anomaly>": count} what the isolation level allows, counted
//   "user_aborts": count                        transactions that ended by their own rules
//   "datagrams_dropped": count, "location_cache": {"hit_ratio": share or null}
//   "bottleneck"."busiest": "<resource>"        the one most in use
//   "operations", "operations_per_s"            of micro-benchmarks, in place of "committed",
//   "committed_per_s"
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace verbtwin::tools {

struct SummaryStyle {
  bool color = false;
  std::size_t width_columns = 80;  // lines are no longer than this, down to 60
};

/// Ends in a newline. Throws nlohmann::json::exception if a member has another type than the contract gives
/// it.
std::string render_summary(const nlohmann::json& result, const SummaryStyle& style);

/// What the rate of a micro-benchmark is of: "per machine", "per pair", "at the one machine", or, where a
/// rank failed, "at rank 0", which counted by itself.
std::string_view operations_where(const nlohmann::json& result);

/// A terminal that understands escape sequences: TERM is not "dumb".
bool is_terminal(int file_descriptor);

/// The width of a terminal, or the default.
std::size_t columns_of_stream(int file_descriptor);

/// Colour and width for a stream: colour on a terminal unless NO_COLOR is set, at most 80 columns.
SummaryStyle style_of_stream(int file_descriptor);

}  // namespace verbtwin::tools
