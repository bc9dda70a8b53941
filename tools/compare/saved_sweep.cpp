#include "tools/compare/saved_sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "backend/user_error.hpp"
#include "calibration/csv_table.hpp"
#include "scenarios/sweep.hpp"
#include "scenarios/text.hpp"
#include "tools/compare/checked_result.hpp"
#include "tools/compare/result_comparison.hpp"
#include "tools/report/sweep_table.hpp"

namespace verbtwin::tools {

namespace {

using nlohmann::json;
using scenarios::Document;
using scenarios::kSweepPointsMax;

SavedPoint point_of(std::size_t number, const CheckedResult& result) {
  SavedPoint point;
  point.number = number;
  point.described = describe(result);
  point.scenario = result.object("/scenario");
  if (!point.scenario.empty()) {
    const json flat = point.scenario.flatten();
    for (const auto& [pointer, value] : flat.items()) {
      if (!is_words(pointer)) point.values.emplace(pointer, value);
    }
  }
  point.rate_per_s = result.number("/committed_per_s");
  if (const std::optional<double> per_machine = result.number("/operations_per_s")) {
    const char* counted = result.has("/machines") ? "/machines" : "/scenario/cluster/nodes";
    point.rate_per_s = *per_machine * std::max(1.0, result.number(counted).value_or(1));
  }
  point.latency_p50_us = result.number("/latency_us/p50");
  point.latency_p99_us = result.number("/latency_us/p99");
  point.abort_ratio = result.number("/abort_ratio");
  return point;
}

/// All pointers of the points' scenarios: first those that `swept` names, in its order; last a run's length,
/// which only follows what tells points apart.
std::vector<std::string> candidates_of(const std::vector<SavedPoint>& points,
                                       const std::vector<std::string>& swept) {
  std::map<std::string, std::pair<std::size_t, bool>> ranks;  // of one rank names come first
  const auto rank_of = [&](const std::string& pointer) {
    if (pointer == "/run/warmup_us" || pointer == "/run/measure_us") return std::pair(swept.size() + 1, true);
    const std::string path = path_of(pointer);
    const auto names = [&](const std::string& one) { return path == one || path.starts_with(one + "."); };
    const auto rank = static_cast<std::size_t>(std::ranges::find_if(swept, names) - swept.begin());
    return std::pair(rank, !pointer.ends_with("/name"));
  };
  for (const SavedPoint& point : points) {
    for (const auto& [pointer, value] : point.values) {
      if (!ranks.contains(pointer)) ranks.emplace(pointer, rank_of(pointer));
    }
  }
  std::vector<std::string> pointers;
  for (const auto& [pointer, rank] : ranks) pointers.push_back(pointer);
  std::ranges::stable_sort(pointers, {}, [&](const std::string& pointer) { return ranks.at(pointer); });
  return pointers;
}

std::size_t told_apart(const SavedSweep& sweep, const std::vector<std::string>& pointers) {
  std::set<std::vector<json>> all;
  for (const SavedPoint& point : sweep.points) all.insert(values_of(point, pointers));
  return all.size();
}

void refuse_twins(const SavedSweep& sweep, const std::vector<std::string>& varied) {
  std::map<std::vector<json>, std::size_t> numbers;
  for (const SavedPoint& point : sweep.points) {
    const auto [first, is_new] = numbers.emplace(values_of(point, varied), point.number);
    if (!is_new)
      throw UserError("", fmt::format("{}: points {} and {} are of one scenario; allowed: points that differ",
                                      scenarios::one_line(sweep.label), first->second, point.number));
  }
}

/// One setting after another that tells points apart which those before it do not; then without those that
/// others make needless, but for names.
std::vector<std::string> varied_in(const SavedSweep& sweep, const std::vector<std::string>& swept) {
  std::vector<std::string> varied;
  std::size_t apart = 1;
  for (const std::string& pointer : candidates_of(sweep.points, swept)) {
    if (apart == sweep.points.size()) break;
    varied.push_back(pointer);
    const std::size_t now = told_apart(sweep, varied);
    if (now == apart) varied.pop_back();
    apart = now;
  }
  refuse_twins(sweep, varied);
  for (std::size_t at = 0; at < varied.size();) {
    std::vector<std::string> others = varied;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(at));
    if (!varied[at].ends_with("/name") && told_apart(sweep, others) == apart) {
      varied = std::move(others);
    } else {
      ++at;
    }
  }
  return varied;
}

/// What the first columns of a table name, up to the results: what identifies a run, and what is swept.
std::vector<std::string> swept_by(const calibration::CsvTable& table) {
  const std::vector<std::string>& columns = table.columns();
  return {columns.begin(), std::ranges::find(columns, "window_us")};
}

std::vector<std::string> settings_of(const Document& document) {
  std::vector<std::string> settings;
  for (const json& setting : document.root().value("settings", json::array())) {
    if (!setting.is_string()) scenarios::refuse(document, "/settings", "wrong; allowed: a list of paths");
    settings.push_back(setting);
  }
  return settings;
}

}  // namespace

std::vector<json> values_of(const SavedPoint& point, const std::vector<std::string>& pointers) {
  std::vector<json> values;
  for (const std::string& pointer : pointers) {
    const auto found = point.values.find(pointer);
    values.push_back(found == point.values.end() ? json() : found->second);
  }
  return values;
}

SavedSweep read_saved_sweep(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / "points.csv";
  const auto table = calibration::CsvTable::parse(file.string(), scenarios::read_text(file),
                                                  calibration::CsvTable::Kind::kPlain);
  SavedSweep sweep{directory.string(), {}, {}};
  if (table.rows().size() > kSweepPointsMax)
    throw UserError("", fmt::format("{}: {} points; allowed: {}", scenarios::one_line(file.string()),
                                    table.rows().size(), kSweepPointsMax));
  for (const calibration::CsvRow& row : table.rows()) {
    const double number = table.number(row, "point");
    if (number != std::floor(number) || number < 0 || number >= kSweepPointsMax)
      throw UserError("", fmt::format("{}: {} is no point's number; allowed: 0 to {}",
                                      scenarios::one_line(table.place(row)), table.cell(row, "point"),
                                      kSweepPointsMax - 1));
    const auto at = static_cast<std::size_t>(number);
    const Document document = Document::read(directory / "points" / point_name(at) / "result.json");
    sweep.points.push_back(point_of(at, CheckedResult(document)));
  }
  sweep.varied = varied_in(sweep, swept_by(table));
  return sweep;
}

bool is_sweep(const Document& document) {
  const json& root = document.root();
  return root.is_object() && root.value("format", json()) == "verbtwin-sweep";
}

SavedSweep read_saved_sweep(const Document& document) {
  const json& root = document.root();
  if (!root.contains("version")) scenarios::refuse(document, "", "missing key \"version\"; allowed: 1");
  if (root.at("version") != 1)
    scenarios::refuse(document, "/version", "a sweep of another version; allowed: 1");
  const auto points = root.find("points");
  if (points == root.end() || !points->is_array() || points->empty() || points->size() > kSweepPointsMax)
    scenarios::refuse(document, "/points",
                      fmt::format("wrong; allowed: a list of 1 to {} results", kSweepPointsMax));
  SavedSweep sweep{document.label(), {}, {}};
  for (std::size_t at = 0; at < points->size(); ++at)
    sweep.points.push_back(point_of(at, CheckedResult(document, fmt::format("/points/{}", at))));
  sweep.varied = varied_in(sweep, settings_of(document));
  return sweep;
}

}  // namespace verbtwin::tools
