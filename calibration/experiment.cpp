#include "calibration/experiment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "backend/user_error.hpp"
#include "scenarios/document.hpp"
#include "scenarios/json_schema.hpp"
#include "scenarios/loader.hpp"
#include "scenarios/text.hpp"
#include "scenarios/validate.hpp"

namespace verbtwin::calibration {

namespace {

using nlohmann::json;
using scenarios::Document;
namespace fs = std::filesystem;

constexpr const char* kLeftOutFile = "left-out.json";

/// What experiments and left-out.json account for.
struct Accounts {
  /// By row ("x.csv:7") that has been met: which numbers of the value's cell are not accounted for so far.
  std::map<std::string, std::set<std::size_t>> rows;
  /// By file: the columns that are.
  std::map<std::string, std::set<std::string>> columns;
};

json map_of(json values) {
  return {{"type", "object"}, {"additionalProperties", std::move(values)}};
}

/// By column: text, a number, texts of which one holds, or a range.
json where_schema() {
  using namespace scenarios::json_schema;
  json is = {{"type", {"string", "number", "array", "object"}}};
  is["items"] = text(0);
  is["properties"] = {{"min", {{"type", "number"}}}, {"max", {{"type", "number"}}}};
  is["additionalProperties"] = false;
  return map_of(std::move(is));
}

/// By path: any JSON, or what stands for a cell of the row.
json set_schema() {
  using namespace scenarios::json_schema;
  json value;
  value["properties"] = {{"text", text()}, {"column", text()}, {"times", {{"type", "number"}}}};
  return map_of(std::move(value));
}

const json& experiment_schema() {
  using namespace scenarios::json_schema;
  static const json where = where_schema(), set = set_schema();
  static const json schema = object(
      {{"format", exactly("verbtwin-experiment")},
       {"version", exactly(1)},
       {"name", text()},
       {"description", text()},
       {"data", text()},
       {"rows", where},
       {"machine", object({{"nic", text()}, {"host", text()}})},
       {"series", list_of(text())},
       {"x", text()},
       {"value", object({{"column", text()}, {"part", whole(0)}}, {"column"})},
       {"unit", text()},
       {"result", object({{"pointer", text()}, {"scale", positive()}})},
       {"assumptions", list_of(text())},
       {"scenario", {{"type", "object"}}},
       {"rules", list_of(object({{"where", where}, {"set", set}}, {"set"}))},
       {"best_over", list_of(set)},
       {"limits", list_of(object({{"where", where}, {"resources", list_of(text())}, {"source", text()}},
                                 {"resources", "source"}))},
       {"missing", list_of(object({{"where", where}, {"mechanism", text()}}))}},
      {"format", "version", "name", "description", "data", "machine", "series", "x", "value", "unit",
       "result", "assumptions", "scenario", "rules"});
  return schema;
}

/// Whether a row is one that WHERE means.
bool matches(const CsvTable& table, const CsvRow& row, const json& where) {
  for (const auto& [column, wanted] : where.items()) {
    if (wanted.is_object()) {
      const double value = table.number(row, column);
      if (value < wanted.value("min", -HUGE_VAL) || value > wanted.value("max", HUGE_VAL)) return false;
      continue;
    }
    if (wanted.is_number()) {
      if (table.number(row, column) != wanted.get<double>()) return false;
      continue;
    }
    const json cell = table.cell(row, column);
    const bool found =
        wanted.is_array() ? std::find(wanted.begin(), wanted.end(), cell) != wanted.end() : wanted == cell;
    if (!found) return false;
  }
  return true;
}

/// A whole number as an integer, which is what most parameters are.
json number_json(double value) {
  const double whole = std::round(value);
  return std::abs(value - whole) < 1e-6 ? json(static_cast<std::int64_t>(whole)) : json(value);
}

json value_for(const CsvTable& table, const CsvRow& row, const json& value) {
  if (!value.is_object()) return value;
  if (value.contains("text")) return table.cell(row, value.at("text"));
  if (!value.contains("column")) return value;
  return number_json(table.number(row, value.at("column")) * value.value("times", 1.0));
}

/// Sets "workload.verb" in a scenario; false where what it is in is no object.
bool set_path(json& scenario, std::string_view path, json value) {
  json* at = &scenario;
  for (std::size_t dot; (dot = path.find('.')) != path.npos; path.remove_prefix(dot + 1)) {
    at = &(*at)[std::string(path.substr(0, dot))];
    if (!at->is_null() && !at->is_object()) return false;
  }
  (*at)[std::string(path)] = std::move(value);
  return true;
}

/// Every key and every text in a document: its columns are among them.
void add_words(const json& document, std::set<std::string>& words) {
  for (const auto& [key, value] : document.items()) {
    if (document.is_object()) words.insert(key);
    if (value.is_string()) words.insert(value.get<std::string>());
    if (value.is_structured()) add_words(value, words);
  }
}

class Reader {
 public:
  Reader(Document document, const fs::path& published, const scenarios::Catalog& catalog)
      : document_(std::move(document)),
        root_(scenarios::require(document_, experiment_schema())),
        catalog_(catalog) {
    check_pointer();
    scenarios::require_file_name(document_, "/name");
    const std::string data = root_.at("data");
    if (fs::path(data).filename() != data) {
      refuse(document_, "/data", "a file of the fitted set by its name is allowed");
    }
    table_ = CsvTable::read(published / data);
  }

  Experiment read(Accounts& accounts) {
    Experiment e;
    e.name = root_.at("name");
    e.description = root_.at("description");
    e.data = root_.at("data");
    e.unit = root_.at("unit");
    e.x_name = root_.at("x");
    e.nic = root_.at("machine").at("nic");
    e.host = root_.at("machine").at("host");
    e.result_pointer = root_.at("result").at("pointer");
    e.scale = root_.at("result").at("scale");
    e.assumptions = root_.at("assumptions").get<std::vector<std::string>>();
    e.header = table_.header();
    const std::size_t part = root_.at("value").value("part", 0);
    for (const CsvRow& row : table_.rows()) {
      if (!matches(table_, row, root_.value("rows", json::object()))) continue;
      e.points.push_back(point(row, part));
      account(row, part, accounts);
    }
    if (e.points.empty()) refuse(document_, "/rows", "no row of " + e.data + " is meant");
    json of_data = root_;
    of_data.erase("scenario");  // whose fields columns are often called after
    add_words(of_data, accounts.columns[e.data]);
    return e;
  }

  std::string place(const std::string& pointer) const { return document_.place(pointer); }

 private:
  void check_pointer() const {
    const std::string pointer = root_.at("result").at("pointer");
    try {
      json::json_pointer{pointer};
    } catch (const json::exception&) {
      refuse(
          document_, "/result/pointer",
          scenarios::in_quotes(pointer) + " is no JSON pointer; allowed: one such as \"/operations_per_s\"");
    }
  }

  void account(const CsvRow& row, std::size_t part, Accounts& accounts) const {
    const auto [entry, met_first] = accounts.rows.try_emplace(table_.place(row));
    if (met_first) {
      for (std::size_t i = 0; i < table_.parts(row, root_.at("value").at("column")); ++i) {
        entry->second.insert(i);
      }
    }
    entry->second.erase(part);
  }

  /// Of what stands at POINTER.
  void set_all(json& scenario, const json& values, const CsvRow& row, const std::string& pointer) const {
    for (const auto& [path, value] : values.items()) {
      if (set_path(scenario, path, value_for(table_, row, value))) continue;
      refuse(document_, pointer,
             fmt::format("{} is in no object of the scenario; allowed: a path such as \"workload.verb\"",
                         scenarios::in_quotes(path)));
    }
  }

  Point point(const CsvRow& row, std::size_t part) {
    Point p;
    for (const std::string column : root_.at("series")) {
      if (!p.series.empty()) p.series += ' ';
      p.series += table_.cell(row, column);
    }
    p.x = table_.cell(row, root_.at("x"));
    p.published = table_.positive(row, root_.at("value").at("column"), part);
    p.place = table_.place(row);
    for (const json& limit : root_.value("limits", json::array())) {
      if (!matches(table_, row, limit.value("where", json::object()))) continue;
      p.limits = limit.at("resources").get<std::vector<std::string>>();
      p.limit_source = limit.at("source");
    }
    for (const json& missing : root_.value("missing", json::array())) {
      if (matches(table_, row, missing.at("where"))) p.missing = missing.at("mechanism");
    }
    json scenario = root_.at("scenario");
    const json& machine = root_.at("machine");
    set_all(scenario, {{"cluster.nic", machine.at("nic")}, {"cluster.host", machine.at("host")}}, row,
            "/scenario");
    for (std::size_t r = 0; r < root_.at("rules").size(); ++r) {
      const json& rule = root_.at("rules")[r];
      if (!matches(table_, row, rule.value("where", json::object()))) continue;
      set_all(scenario, rule.at("set"), row, fmt::format("/rules/{}/set", r));
    }
    const json variants = root_.value("best_over", json::array({json::object()}));
    for (std::size_t v = 0; v < variants.size(); ++v) {
      json one = scenario;
      set_all(one, variants[v], row, fmt::format("/best_over/{}", v));
      const std::string label = fmt::format("{} (for {})", document_.label(), p.place);
      p.variants.push_back(scenarios::load_scenario(Document::parse(label, one.dump(2)), {}, catalog_));
    }
    return p;
  }

  Document document_;
  json root_;
  const scenarios::Catalog& catalog_;
  CsvTable table_;
};

/// Rows by what they are left out for: [{"data": "x.csv", "rows": WHERE, "reason": "..."}]; with "part", one
/// number of rows whose others are run; with "column" and no rows, a column.
std::vector<LeftOut> read_left_out(const fs::path& file, const fs::path& published, Accounts& accounts) {
  using namespace scenarios::json_schema;
  const json schema = list_of(object({{"data", text()},
                                      {"rows", where_schema()},
                                      {"part", whole(0)},
                                      {"column", text()},
                                      {"reason", text()}},
                                     {"data", "reason"}));
  const Document document = Document::read(file);
  const json entries = scenarios::require(document, schema);
  std::vector<LeftOut> all;
  for (const auto& [number, entry] : entries.items()) {
    if (entry.contains("rows") == entry.contains("column")) {
      refuse(document, "/" + number, "allowed: \"rows\", or \"column\"");
    }
    const std::string data = entry.at("data");
    const CsvTable table = CsvTable::read(published / fs::path(data).filename());
    if (entry.contains("column")) {
      const std::string column = entry.at("column");
      table.is_numeric(column);  // there is one
      accounts.columns[data].insert(column);
      all.push_back({data, "column " + column, entry.at("reason")});
      continue;
    }
    for (const CsvRow& row : table.rows()) {
      if (!matches(table, row, entry.at("rows"))) continue;
      if (!entry.contains("part")) {
        accounts.rows[table.place(row)].clear();
      } else if (const auto met = accounts.rows.find(table.place(row)); met != accounts.rows.end()) {
        met->second.erase(entry.at("part").get<std::size_t>());
      }
      std::string what;
      for (const std::string& cell : row.cells) what += (what.empty() ? "" : ", ") + cell;
      if (entry.contains("part")) what += fmt::format("; part {} only", entry.at("part").get<int>());
      all.push_back({table.place(row), what, entry.at("reason")});
    }
  }
  return all;
}

/// A measured quantity beside the one that is fitted has a column of its own.
void require_every_column(const CsvTable& table, const std::set<std::string>& accounted) {
  for (const std::string& column : table.columns()) {
    if (accounted.contains(column) || !table.is_numeric(column)) continue;
    throw UserError("", fmt::format("{}: no experiment uses column {} and {} does not name it", table.name(),
                                    scenarios::in_quotes(column), kLeftOutFile));
  }
}

void require_every_number(const fs::path& published, const Accounts& accounts) {
  for (const fs::path& file : scenarios::files_in(published, ".csv")) {
    const CsvTable table = CsvTable::read(file);
    for (const CsvRow& row : table.rows()) {
      const auto met = accounts.rows.find(table.place(row));
      if (met != accounts.rows.end() && met->second.empty()) continue;
      const std::string what =
          met == accounts.rows.end() ? "this row" : fmt::format("part {} of this row", *met->second.begin());
      throw UserError("", fmt::format("{}: no experiment runs {} and {} does not name it", table.place(row),
                                      what, kLeftOutFile));
    }
    if (const auto columns = accounts.columns.find(table.name()); columns != accounts.columns.end()) {
      require_every_column(table, columns->second);
    }
  }
}

}  // namespace

ExperimentSet load_experiments(const fs::path& experiments, const fs::path& published,
                               const scenarios::Catalog& catalog) {
  ExperimentSet set;
  Accounts accounts;
  for (const fs::path& file : scenarios::files_in(experiments, ".json")) {
    if (file.filename() == kLeftOutFile) continue;
    Reader reader(Document::read(file), published, catalog);
    Experiment read = reader.read(accounts);
    if (std::ranges::find(set.experiments, read.name, &Experiment::name) != set.experiments.end()) {
      throw UserError("", fmt::format("{}: {} is another file's name; allowed: one of its own",
                                      reader.place("/name"), scenarios::in_quotes(read.name)));
    }
    set.experiments.push_back(std::move(read));
  }
  set.left_out = read_left_out(experiments / kLeftOutFile, published, accounts);
  require_every_number(published, accounts);
  return set;
}

std::string cannot_be_simulated(const std::string& place, std::string_view why) {
  if (why.starts_with(kUnseenScenario)) why.remove_prefix(why.find(": ") + 2);
  return fmt::format("{} cannot be simulated: {}", place, why);
}

}  // namespace verbtwin::calibration
