// A sweep's outcome: a row per point, on the terminal as it comes and in points.csv with everything.
//
// Pure functions of result JSON (tools/RESULT.md); callable from any thread.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/sweep.hpp"

namespace verbtwin::tools {

using scenarios::text_of;

/// One finished point.
struct SweepRow {
  std::vector<std::pair<std::string, nlohmann::json>> settings;
  nlohmann::json result;
  std::optional<std::size_t> number = std::nullopt;  // of the point; none: the row's
};

/// All rows with one header: the point's number, what identifies the run, its settings, and every figure with
/// its unit in its name. What a row does not have is empty. Ends in a newline.
std::string sweep_csv(const std::vector<SweepRow>& rows);

/// How wide the table's columns of settings are: 13 characters, or more where whole names need that and lines
/// of `width_columns` have the room.
std::vector<std::size_t> setting_columns(const std::vector<scenarios::SweepPoint>& points,
                                         std::size_t width_columns);

/// The table's head and one line of it; `settings` are those of any point, `columns` their widths (13 where
/// none are given). End in a newline.
std::string sweep_table_head(const std::vector<std::pair<std::string, nlohmann::json>>& settings,
                             const std::vector<std::size_t>& columns = {});
std::string sweep_table_line(const SweepRow& row, const std::vector<std::size_t>& columns = {});
/// What limits a point, and whether a check was violated or (a star) figures are not what they seem.
std::string limit_text(const nlohmann::json& result);
std::uint64_t violations_of(const nlohmann::json& result);
/// A line below the table on what ended by the application's own rules, which "per s" does not count; empty:
/// 1 % at most at every point.
std::string render_own_rules(const std::vector<SweepRow>& rows);
/// The stars' reasons, a sentence each: "coroutines=128: the rate is not steady ...". The first few of many.
/// And what is swept without any effect.
std::vector<std::string> sweep_warnings(const std::vector<SweepRow>& rows);
/// The same as lines below the table; empty: there are none.
std::string render_warnings(const std::vector<std::string>& warnings);

/// "PARTIAL: 3 of 9 points, and 1 cut short"; empty: the sweep's `points` have all run to their end.
std::string partial_text(const std::vector<SweepRow>& rows, std::size_t points);

/// The directory of a point's result in DIR/points.
std::string point_name(std::size_t number);

/// The value at "cluster.nodes", or null.
const nlohmann::json& value_at(const nlohmann::json& root, const std::string& path);
/// The value at `path` as a person reads it: 20e6 of "run.offered_per_s" is "20.0 M".
std::string setting_text(const std::string& path, const nlohmann::json& value);
/// A setting of a point as its run took it, which a sweep's null does not say; of an object, in which much is
/// filled in, what was written, or its one word: {"name": "tatp"} is "tatp".
std::string point_text(const SweepRow& row, const std::string& path);
/// "protocol" for protocol.name, "commit.primitive" for protocol.phases.commit.primitive, else the last word.
std::string short_name(const std::string& path);
/// What a rate is shared by: the machines that a micro-benchmark counts (1 where the others face one), else
/// all nodes.
double machines_of(const nlohmann::json& result);
/// Committed transactions a second, or a micro-benchmark's operations, of all of these.
double rate_per_s(const nlohmann::json& result);

}  // namespace verbtwin::tools
