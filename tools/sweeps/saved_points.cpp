#include "tools/sweeps/saved_points.hpp"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <map>
#include <system_error>
#include <utility>

#include "scenarios/text.hpp"
#include "tools/console/output_file.hpp"
#include "tools/console/text.hpp"
#include "tools/report/html_report.hpp"
#include "tools/report/plot.hpp"
#include "tools/report/sweep_table.hpp"
#include "tools/run/provenance.hpp"

namespace verbtwin::tools {

namespace {

namespace fs = std::filesystem;

constexpr const char* kReportFile = "report.html";
constexpr const char* kPercentilesFile = "latency.hgrm";

/// The number of the point whose directory is called so; none: no point's.
std::optional<std::size_t> number_of_point(const std::string& name) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool is_number = error == std::errc() && end == name.data() + name.size();
  return is_number && point_name(number) == name ? std::optional(number) : std::nullopt;
}

/// A result that verbtwin wrote, and nothing that a user may have put in its place; else null.
nlohmann::json read_result(const fs::path& file) {
  std::error_code ignored;
  if (!fs::is_regular_file(fs::symlink_status(file, ignored))) return nullptr;
  std::ifstream in(file);
  nlohmann::json result = nlohmann::json::parse(in, nullptr, false);
  const bool is_one = result.is_object() && result.value("format", nlohmann::json()) == "verbtwin-result";
  return is_one ? std::move(result) : nullptr;
}

/// Of the points there that say it, in order: damaged ones may be of whichever sweep.
std::map<std::size_t, nlohmann::json> scenarios_in(const fs::path& directory) {
  std::map<std::size_t, nlohmann::json> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    const std::optional<std::size_t> number = number_of_point(entry.path().filename().string());
    const nlohmann::json result = number ? read_result(entry.path() / kResultFile) : nullptr;
    if (!result.is_object()) continue;
    nlohmann::json scenario = result.value("scenario", nlohmann::json());
    if (scenario.is_object()) found.emplace(*number, std::move(scenario));
  }
  return found;
}

}  // namespace

const std::vector<std::string>& result_files() {
  static const std::vector<std::string> files = {kResultFile, kReportFile, kPercentilesFile};
  return files;
}

fs::path place_of_point(const fs::path& points, std::size_t number) {
  return points / point_name(number);
}

void write_result(const fs::path& directory, const nlohmann::json& result) {
  write_file_whole(directory / kResultFile, result.dump(2) + "\n");
  write_file_whole(directory / kReportFile, html_report(result));
  write_file_whole(directory / kPercentilesFile, percentile_file(result));
}

std::optional<nlohmann::json> saved_outcome(const fs::path& directory, const scenarios::SweepPoint& point) {
  nlohmann::json result = read_result(directory / kResultFile);
  return is_outcome_of(result, point.scenario) ? std::optional(std::move(result)) : std::nullopt;
}

bool are_all_of(const fs::path& directory, const std::vector<scenarios::SweepPoint>& points) {
  return !scenarios_in(directory).empty() && !describe_foreign(directory, points);
}

std::optional<std::string> describe_foreign(const fs::path& directory,
                                            const std::vector<scenarios::SweepPoint>& points) {
  for (const auto& [number, scenario] : scenarios_in(directory)) {
    if (number >= points.size()) {
      return fmt::format("{} is a point of another sweep: this one has {}", point_name(number),
                         format_counted(points.size(), "point"));
    }
    const nlohmann::json& ours = points[number].scenario.resolved;
    if (scenario == ours) continue;
    const auto difference = nlohmann::json::diff(scenario, ours).front();
    const auto path = difference.at("path").get<std::string>();
    return fmt::format("{} is a point of another scenario: {} differs", point_name(number),
                       scenarios::one_line(path.empty() ? "all of it" : path));
  }
  return std::nullopt;
}

std::size_t remove_points(const fs::path& points, const std::set<std::size_t>& has) {
  std::error_code ignored;
  std::vector<fs::path> old;
  for (const auto& entry : fs::directory_iterator(points, ignored)) {
    const std::optional<std::size_t> number = number_of_point(entry.path().filename().string());
    if (!number || has.contains(*number) || entry.is_symlink(ignored)) continue;
    if (!read_result(entry.path() / kResultFile).is_null()) old.push_back(entry.path());
  }
  for (const fs::path& point : old) {
    for (const std::string& file : result_files()) fs::remove(point / file, ignored);
    fs::remove(point, ignored);  // not where anything else is in it
  }
  return old.size();
}

}  // namespace verbtwin::tools
