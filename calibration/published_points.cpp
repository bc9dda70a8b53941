#include "calibration/published_points.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>

#include "backend/user_error.hpp"
#include "calibration/profile_file.hpp"

namespace verbtwin::calibration {

namespace {

constexpr std::array kConcurrency = {1, 2, 4, 6, 8, 10, 12, 14, 16};
constexpr int kMachines = 16;  // of figure 14

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  return cells;
}

std::string protocol_of(const std::string& series) {
  static const std::map<std::string, std::string> kNames = {
      {"DrTM+H", "drtmh"}, {"DrTM+R", "drtmr"}, {"FaRM", "farm"}, {"FaSST-OCC", "fasst-occ"}};
  const auto found = kNames.find(series);
  return found == kNames.end() ? series : found->second;
}

}  // namespace

std::optional<std::size_t> CsvTable::column(const std::string& name) const {
  const auto found = std::ranges::find(columns, name);
  if (found == columns.end()) return std::nullopt;
  return static_cast<std::size_t>(found - columns.begin());
}

std::string CsvTable::cell(std::size_t row, const std::string& name) const {
  const auto at = column(name);
  return at && *at < rows[row].size() ? rows[row][*at] : "";
}

double CsvTable::number(std::size_t row, const std::string& name) const {
  return std::strtod(cell(row, name).c_str(), nullptr);
}

CsvTable read_csv(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw UserError("", file.string() + ": cannot be read");
  CsvTable table;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line.front() == '#') continue;
    if (table.columns.empty()) {
      table.columns = split(line);
    } else {
      table.rows.push_back(split(line));
    }
  }
  if (table.columns.empty()) throw UserError("", file.string() + ": is no CSV table: it has no header");
  return table;
}

std::vector<PublishedPoint> published_end_to_end() {
  const CsvTable table = read_csv(published_directory() / "cx4_end_to_end.csv");
  std::vector<PublishedPoint> points;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const auto point = static_cast<std::size_t>(table.number(row, "point"));
    if (point < 1 || point > kConcurrency.size()) continue;
    points.push_back({table.cell(row, "workload"), protocol_of(table.cell(row, "series")),
                      kConcurrency[point - 1], kMachines, table.number(row, "mtps_per_machine"),
                      table.number(row, "latency_p50_us")});
  }
  return points;
}

std::vector<PublishedPoint> published_scale_out() {
  const CsvTable table = read_csv(published_directory() / "cx4_scale_out.csv");
  std::vector<PublishedPoint> points;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const int machines = static_cast<int>(std::lround(table.number(row, "machines")));
    if (machines < 1) continue;
    points.push_back({table.cell(row, "workload"), protocol_of(table.cell(row, "series")), 0, machines,
                      table.number(row, "total_mtps") / machines, 0});
  }
  return points;
}

std::filesystem::path published_directory() {
  return profile_directory().parent_path() / "published" / "validation";
}

}  // namespace verbtwin::calibration
