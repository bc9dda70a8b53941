// DIR/points of a sweep's DIR: what the runs of its points left there, each in a directory of its number.
//
// One thread, which alone writes there. What a user put there stays.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scenarios/sweep.hpp"

namespace verbtwin::tools {

inline constexpr const char* kResultFile = "result.json";

/// What the run of one point writes into its directory: that, and what shows it.
const std::vector<std::string>& result_files();

std::filesystem::path place_of_point(const std::filesystem::path& points, std::size_t number);

/// Writes them, kResultFile first of all.
void write_result(const std::filesystem::path& directory, const nlohmann::json& result);

/// The result that is there of a simulated point, where it is whole and what running the point would give
/// again.
std::optional<nlohmann::json> saved_outcome(const std::filesystem::path& directory,
                                            const scenarios::SweepPoint& point);

/// Whether a sweep's DIR/points has results, all of them of these points, of whatever program and profiles.
bool are_all_of(const std::filesystem::path& directory, const std::vector<scenarios::SweepPoint>& points);

/// What a point there is of that is none of these, in words; none: all are of these points.
std::optional<std::string> describe_foreign(const std::filesystem::path& directory,
                                            const std::vector<scenarios::SweepPoint>& points);

/// Takes away the results of points that `has` does not name, and their directories where nothing else is in
/// them; how many. What cannot be taken away stays.
std::size_t remove_points(const std::filesystem::path& points, const std::set<std::size_t>& has);

}  // namespace verbtwin::tools
