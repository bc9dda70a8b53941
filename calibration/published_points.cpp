#include "calibration/published_points.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <map>

#include "backend/user_error.hpp"
#include "calibration/csv_table.hpp"
#include "calibration/profile_file.hpp"

namespace verbtwin::calibration {

namespace {

constexpr std::array kConcurrency = {1, 2, 4, 6, 8, 10, 12, 14, 16};

std::string protocol_of(const std::string& series) {
  static const std::map<std::string, std::string> kNames = {
      {"DrTM+H", "drtmh"}, {"DrTM+R", "drtmr"}, {"FaRM", "farm"}, {"FaSST-OCC", "fasst-occ"}};
  const auto found = kNames.find(series);
  return found == kNames.end() ? series : found->second;
}

}  // namespace

std::vector<PublishedPoint> published_end_to_end() {
  const auto table = CsvTable::read(published_directory() / "cx4_end_to_end.csv");
  std::vector<PublishedPoint> points;
  for (const CsvRow& row : table.rows()) {
    const auto point = static_cast<std::size_t>(table.number(row, "point"));
    if (point < 1 || point > kConcurrency.size()) continue;
    points.push_back({table.cell(row, "workload"), protocol_of(table.cell(row, "series")),
                      kConcurrency[point - 1], PublishedCluster().nodes,
                      table.number(row, "mtps_per_machine"), table.number(row, "latency_p50_us")});
  }
  return points;
}

std::vector<PublishedPoint> published_scale_out() {
  const auto table = CsvTable::read(published_directory() / "cx4_scale_out.csv");
  std::vector<PublishedPoint> points;
  for (const CsvRow& row : table.rows()) {
    const int machines = static_cast<int>(std::lround(table.number(row, "machines")));
    if (machines < 1) continue;
    points.push_back({table.cell(row, "workload"), protocol_of(table.cell(row, "series")), 0, machines,
                      table.number(row, "total_mtps") / machines, 0});
  }
  return points;
}

std::vector<PublishedFactor> published_factors() {
  const auto table = CsvTable::read(published_directory() / "cx4_factor_analysis.csv");
  std::vector<PublishedFactor> factors;
  for (const CsvRow& row : table.rows()) {
    factors.push_back({table.cell(row, "step"), static_cast<int>(table.number(row, "coroutines")),
                       table.number(row, "ratio")});
  }
  return factors;
}

std::vector<PublishedRatio> published_ramp_ratios() {
  std::vector<PublishedRatio> ratios;
  const auto add = [&](const std::filesystem::path& file, const char* what, bool may_be_fitted) {
    const auto table = CsvTable::read(file);
    for (const CsvRow& row : table.rows()) {
      if (table.cell(row, "source") != "RAMP over RDMA" || table.cell(row, "unit") != "x") continue;
      ratios.push_back({table.cell(row, what), table.number(row, "value"), may_be_fitted});
    }
  };
  add(published_directory() / "headlines.csv", "experiment", false);
  add(published_directory().parent_path() / "train" / "text_figures.csv", "what", true);
  return ratios;
}

PublishedHeadline published_headline(const std::string& begins, std::size_t part) {
  const auto table = CsvTable::read(published_directory() / "headlines.csv");
  for (const CsvRow& row : table.rows()) {
    if (!table.cell(row, "experiment").starts_with(begins)) continue;
    return {table.cell(row, "source"), table.number(row, "value", part), table.cell(row, "unit")};
  }
  throw UserError("", fmt::format("{}: no experiment begins with \"{}\"", table.name(), begins));
}

std::filesystem::path published_directory() {
  return profile_directory().parent_path() / "published" / "validation";
}

}  // namespace verbtwin::calibration
