#include "calibration/csv_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "backend/user_error.hpp"
#include "scenarios/document.hpp"
#include "scenarios/text.hpp"

namespace verbtwin::calibration {

namespace {

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

}  // namespace

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

CsvTable CsvTable::read(const std::filesystem::path& file) {
  CsvTable table = parse(file.string(), scenarios::read_text(file));
  table.name_ = file.filename().string();
  return table;
}

CsvTable CsvTable::parse(std::string name, const std::string& text, Kind kind) {
  CsvTable table;
  table.name_ = std::move(name);
  std::istringstream in(
      text.starts_with(scenarios::kByteOrderMark) ? text.substr(scenarios::kByteOrderMark.size()) : text);
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.starts_with("#")) {
      if (!table.columns_.empty()) table.refuse(number, "a comment behind the column names");
      table.header_.push_back(trimmed(line.substr(1)));
    } else if (table.columns_.empty()) {
      table.columns_ = table.split(number, line, kind);
      auto sorted = table.columns_;
      std::sort(sorted.begin(), sorted.end());
      const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
      if (twice != sorted.end())
        table.refuse(number, "column " + scenarios::in_quotes(*twice) + " stands twice");
    } else {
      table.rows_.push_back({number, table.split(number, line, kind)});
      const std::size_t fields = table.rows_.back().cells.size();
      if (fields != table.columns_.size()) {
        table.refuse(number, std::to_string(fields) + (fields == 1 ? " field" : " fields") + "; allowed: " +
                                 std::to_string(table.columns_.size()) + ", as many as columns");
      }
    }
  }
  if (table.header_.empty() && kind == Kind::kPublished) table.refuse(1, "no '#' line that names the source");
  if (table.rows_.empty()) table.refuse(std::max<std::size_t>(number, 1), "no rows");
  return table;
}

std::vector<std::string> CsvTable::split(std::size_t line, const std::string& text, Kind kind) const {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' && quoted && text.substr(i + 1, 1) == "\"") {  // two stand for one
      cells.back() += text[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  if (quoted) refuse(line, "a quote is not closed");
  for (std::string& cell : cells) {
    cell = trimmed(cell);
    if (cell.empty() && kind == Kind::kPublished) refuse(line, "an empty field");
  }
  return cells;
}

bool CsvTable::has_column(const std::string& column) const {
  return std::find(columns_.begin(), columns_.end(), column) != columns_.end();
}

bool CsvTable::is_numeric(const std::string& column) const {
  const std::size_t i = index_of(column);
  return std::ranges::all_of(rows_, [i](const CsvRow& row) { return number_of(row.cells[i]).has_value(); });
}

std::size_t CsvTable::index_of(const std::string& column) const {
  const auto found = std::find(columns_.begin(), columns_.end(), column);
  if (found == columns_.end()) {
    throw UserError("", name_ + ": no column " + scenarios::in_quotes(column) + "; there are " +
                            scenarios::listed(columns_) + scenarios::did_you_mean(column, columns_));
  }
  return static_cast<std::size_t>(found - columns_.begin());
}

const std::string& CsvTable::cell(const CsvRow& row, const std::string& column) const {
  return row.cells[index_of(column)];
}

double CsvTable::number(const CsvRow& row, const std::string& column, std::size_t part) const {
  std::istringstream parts(cell(row, column));
  std::string text;
  for (std::size_t i = 0; i <= part; ++i) {
    if (!std::getline(parts, text, '/')) {
      const std::string wanted =
          part == 0 ? "a number" : std::to_string(part + 1) + " numbers, as in \"1 / 2\"";
      refuse(row.line, "column " + scenarios::in_quotes(column) + ": " +
                           scenarios::in_quotes(trimmed(cell(row, column))) + "; allowed: " + wanted);
    }
  }
  text = trimmed(text);
  const std::optional<double> value = number_of(text);
  if (!value) {
    refuse(row.line,
           "column " + scenarios::in_quotes(column) + ": " + scenarios::in_quotes(text) + " is no number");
  }
  return *value;
}

double CsvTable::positive(const CsvRow& row, const std::string& column, std::size_t part) const {
  const double value = number(row, column, part);
  if (value <= 0) {
    refuse(row.line,
           fmt::format("column {}: {:g}; allowed: more than 0", scenarios::in_quotes(column), value));
  }
  return value;
}

int CsvTable::count(const CsvRow& row, const std::string& column, int most) const {
  const double value = number(row, column);
  if (!(value >= 1 && value <= most) || value != std::trunc(value)) {
    refuse(row.line,
           fmt::format("column {}: {}; allowed: a whole number, 1 to {}", scenarios::in_quotes(column),
                       scenarios::one_line(cell(row, column), 60), most));
  }
  return static_cast<int>(value);
}

std::size_t CsvTable::parts(const CsvRow& row, const std::string& column) const {
  const std::string& text = cell(row, column);
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '/')) + 1;
}

std::string CsvTable::place(const CsvRow& row) const {
  return name_ + ":" + std::to_string(row.line);
}

void CsvTable::refuse(std::size_t line, const std::string& what) const {
  throw UserError("", scenarios::one_line(name_) + ":" + std::to_string(line) + ": " + what);
}

}  // namespace verbtwin::calibration
