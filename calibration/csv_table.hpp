// CsvTable: a table read from CSV: published measurements (calibration/published/), or the points of a sweep.
//
// A value, const use from any thread. A published file opens with '#' lines (cluster, source, units,
// conditions), then comes a line of column names, then rows. Quoting is RFC 4180's, within a line. What is
// malformed is refused: a UserError of one line, "file:line: ...".
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbtwin::calibration {

/// The finite number that is all of `text`; none where it is a name.
std::optional<double> number_of(std::string_view text);

struct CsvRow {
  std::size_t line = 0;  // in the file, from 1
  std::vector<std::string> cells;
};

class CsvTable {
 public:
  /// kPlain: no '#' lines are needed, and fields may be empty.
  enum class Kind : std::uint8_t { kPublished, kPlain };

  /// `name` is what errors and reports call the file.
  static CsvTable parse(std::string name, const std::string& text, Kind kind = Kind::kPublished);
  /// Of a published table; errors and reports call it by its name without the directory.
  static CsvTable read(const std::filesystem::path& file);

  const std::string& name() const { return name_; }
  const std::vector<std::string>& header() const { return header_; }  // the '#' lines without their mark
  const std::vector<std::string>& columns() const { return columns_; }
  const std::vector<CsvRow>& rows() const { return rows_; }

  bool has_column(const std::string& column) const;
  /// Whether all its cells are numbers.
  bool is_numeric(const std::string& column) const;
  const std::string& cell(const CsvRow& row, const std::string& column) const;
  /// The number in a cell; of "1.5 / 2.5" its part 0 or 1.
  double number(const CsvRow& row, const std::string& column, std::size_t part = 0) const;
  /// The same of what cannot be 0 or less.
  double positive(const CsvRow& row, const std::string& column, std::size_t part = 0) const;
  /// The same of what is counted, from 1 to `most`.
  int count(const CsvRow& row, const std::string& column, int most) const;
  /// How many numbers such a cell holds.
  std::size_t parts(const CsvRow& row, const std::string& column) const;
  /// "x.csv:7", for messages.
  std::string place(const CsvRow& row) const;

 private:
  [[noreturn]] void refuse(std::size_t line, const std::string& what) const;
  std::vector<std::string> split(std::size_t line, const std::string& text, Kind kind) const;
  std::size_t index_of(const std::string& column) const;

  std::string name_;
  std::vector<std::string> header_;
  std::vector<std::string> columns_;
  std::vector<CsvRow> rows_;
};

}  // namespace verbtwin::calibration
