#include "tools/sweeps/saved_points.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <system_error>
#include <utility>

#include "scenarios/document.hpp"
#include "scenarios/text.hpp"
#include "tools/console/output_file.hpp"
#include "tools/console/text.hpp"
#include "tools/report/html_report.hpp"
#include "tools/report/percentiles.hpp"
#include "tools/report/plot.hpp"
#include "tools/report/sweep_table.hpp"
#include "tools/run/provenance.hpp"

namespace verbtwin::tools {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

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

/// "/cluster/nodes" of what differs anywhere in two scenarios.
void find_differences(const json& one, const json& other, const std::string& pointer,
                      std::vector<std::string>& found) {
  if (one == other) return;
  if (!one.is_object() || !other.is_object()) {
    found.push_back(pointer);
    return;
  }
  json both = one;
  both.update(other);
  for (const auto& [key, value] : both.items())
    find_differences(one.value(key, json()), other.value(key, json()), scenarios::child_pointer(pointer, key),
                     found);
}

/// "/protocol/name, /cluster/nodes and 3 more fields differ": what tells most first.
std::string describe_differences(const json& one, const json& other) {
  constexpr std::size_t kToldMax = 3;
  std::vector<std::string> found;
  find_differences(one, other, "", found);
  const auto differs = [&](const std::string& pointer) { return std::ranges::count(found, pointer) > 0; };
  const auto rank = [&](const std::string& pointer) {
    if (pointer == "/protocol/name" || pointer == "/workload/name") return 0;
    if (pointer == "/name" || pointer == "/description") return 3;
    for (const std::string kind : {"/protocol", "/workload"})  // others have other parameters
      if (pointer.starts_with(kind + "/") && differs(kind + "/name")) return 2;
    return 1;
  };
  std::vector<std::string> sorted = found;
  std::ranges::stable_sort(sorted, {}, rank);
  const std::size_t more = sorted.size() - std::min(sorted.size(), kToldMax);
  sorted.resize(sorted.size() - more);
  for (std::string& pointer : sorted) pointer = pointer.empty() ? "all of it" : scenarios::one_line(pointer);
  return fmt::format("{}{} differ{}", fmt::join(sorted, ", "),
                     more == 0 ? "" : " and " + format_counted(more, "more field"),
                     found.size() == 1 ? "s" : "");
}

}  // namespace

const std::vector<std::string>& result_files() {
  static const std::vector<std::string> files = {kResultFile, kReportFile, kPercentilesFile,
                                                 uncorrected_beside(kPercentilesFile)};
  return files;
}

fs::path place_of_point(const fs::path& points, std::size_t number) {
  return points / point_name(number);
}

void write_result(const fs::path& directory, const nlohmann::json& result) {
  write_file_whole(directory / kResultFile, result.dump(2) + "\n");
  write_file_whole(directory / kReportFile, html_report(result));
  const fs::path percentiles = directory / kPercentilesFile;
  PercentileFiles(percentiles, has_uncorrected(result), OutputFile::Replaces::kAnything).write(result);
  std::error_code ignored;
  if (!has_uncorrected(result)) fs::remove(uncorrected_beside(percentiles), ignored);  // a former run's
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
    return fmt::format("{} is a point of another scenario: {}", point_name(number),
                       describe_differences(scenario, ours));
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
