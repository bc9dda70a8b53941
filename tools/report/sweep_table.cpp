#include "tools/report/sweep_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "scenarios/text.hpp"
#include "tools/console/text.hpp"

namespace verbtwin::tools {

using nlohmann::json;

const json& value_at(const json& root, const std::string& path) {
  static const json none;
  std::string pointer(1, '/');
  pointer += path;
  std::ranges::replace(pointer, '.', '/');
  const json::json_pointer at(pointer);
  return root.contains(at) ? root.at(at) : none;
}

std::string short_name(const std::string& path) {
  constexpr std::string_view kPhases = "protocol.phases.";
  if (path.starts_with(kPhases)) return path.substr(kPhases.size());
  const std::size_t dot = path.rfind('.');
  if (dot == std::string::npos) return path;
  const std::string last = path.substr(dot + 1);
  if (last == "mib") return path.substr(path.rfind('.', dot - 1) + 1);  // a unit alone is no name
  return last == "name" ? path.substr(0, dot) : last;
}

double machines_of(const json& result) {
  const char* counted = result.contains("machines") ? "machines" : "scenario.cluster.nodes";
  return std::max(1.0, value_at(result, counted).get<double>());
}

double rate_per_s(const json& result) {
  if (!result.contains("operations_per_s")) return result.at("committed_per_s").get<double>();
  return result.at("operations_per_s").get<double>() * machines_of(result);
}

namespace {

using Cells = std::vector<std::pair<std::string, std::string>>;  // column, text

constexpr const char* kIdentity[] = {"name",
                                     "protocol.name",
                                     "workload.name",
                                     "cluster.nodes",
                                     "cluster.threads",
                                     "cluster.coroutines",
                                     "cluster.replicas",
                                     "cluster.nics_per_node",
                                     "cluster.nic",
                                     "run.offered_per_s",
                                     "run.seed"};

/// On one line whatever a name has in it, so that a point is a line for every reader.
std::string quoted(const std::string& text) {
  const std::string line = scenarios::one_line(text, std::string::npos);
  if (line.find_first_of(",\"") == std::string::npos) return line;
  std::string out(1, '"');
  for (const char c : line) {
    out += c;
    if (c == '"') out += c;
  }
  out += '"';
  return out;
}

void add(Cells& cells, const std::string& column, const json& value) {
  if (!value.is_null()) cells.emplace_back(column, text_of(value));
}

void add_numbers(Cells& cells, const json& result) {
  for (const char* key : {"operations", "operations_per_s", "machines", "committed", "committed_per_s",
                          "offered", "user_aborts", "aborted_attempts", "abort_ratio"}) {
    add(cells, key, value_at(result, key));
  }
  for (const std::string latency : {"latency", "latency_uncorrected"}) {
    for (const auto& [name, value] : value_at(result, latency + "_us").items())
      add(cells, latency + "_" + name + "_us", value);
  }
  for (const auto& [phase, times] : value_at(result, "phases").items()) {
    for (const auto& [name, value] : times.items()) add(cells, phase + "_" + name, value);
  }
  for (const auto& [reason, count] : value_at(result, "aborts").items())
    add(cells, "aborts_" + reason, count);
  for (const auto& [verb, counts] : value_at(result, "verbs").items()) {
    add(cells, verb + "_count", counts.value("count", json()));
    add(cells, verb + "_b", counts.value("bytes", json()));
  }
  for (const char* lost : {"datagrams_dropped", "packets_lost", "ack_timeouts"})
    add(cells, lost, value_at(result, lost));
}

void add_resources(Cells& cells, const json& result) {
  for (const json& resource : value_at(result, "resources")) {
    const auto name = resource.value("name", "");
    add(cells, name + "_utilization_mean", resource.value("utilization_mean", json()));
    add(cells, name + "_utilization_max", resource.value("utilization_max", json()));
    add(cells, name + "_utilization_servers", resource.value("utilization_servers", json()));
    add(cells, name + "_utilization_clients", resource.value("utilization_clients", json()));
    add(cells, name + "_hit_ratio", resource.value("hit_ratio", json()));
    add(cells, name + "_hit_ratio_min", resource.value("hit_ratio_min", json()));
  }
  add(cells, "bottleneck", value_at(result, "bottleneck.resource"));
}

/// Its sentences; null: there are none.
json warning_of(const json& result) {
  std::string all;
  for (const json& sentence : value_at(result, "warning"))
    all += (all.empty() ? "" : "; ") + sentence.get<std::string>();
  return all.empty() ? json() : json(all);
}

Cells cells_of(const SweepRow& row, std::size_t number) {
  const json& result = row.result;
  Cells cells;
  add(cells, "point", number);
  const json scenario = result.value("scenario", json::object());
  for (const char* path : kIdentity) add(cells, path, value_at(scenario, path));
  const auto is_swept = [&](const char* path) {
    return std::ranges::find(row.settings, path, [](const auto& one) { return one.first; }) !=
           row.settings.end();
  };
  if (result.contains("run_index") && !is_swept("run.index")) add(cells, "run.index", result.at("run_index"));
  for (const auto& [path, value] : row.settings) {
    if (std::ranges::find(kIdentity, path) == std::end(kIdentity)) add(cells, path, value_at(scenario, path));
  }
  add(cells, "window_us", value_at(result, "window_us"));
  add_numbers(cells, result);
  add_resources(cells, result);
  add(cells, "location_cache_hit_ratio", value_at(result, "location_cache.hit_ratio"));
  add(cells, "violations", violations_of(result));
  add(cells, "partial", value_at(result, "partial"));
  add(cells, "warning", warning_of(result));
  for (const auto& [name, value] : value_at(result, "simulator").items())
    add(cells, "simulator_" + name, value);
  return cells;
}

constexpr std::size_t kCellColumns = 13;

std::size_t columns_of(const std::string& path) {
  return std::max(kCellColumns, short_name(path).size());
}

std::size_t column_at(const std::vector<std::size_t>& columns, std::size_t i, const std::string& path) {
  return i < columns.size() ? columns[i] : columns_of(path);
}

/// `resolved`: the scenario as the run took it.
std::string cell_text(const json& resolved, const std::string& path, const json& written) {
  const json& value = value_at(resolved, path);
  if (value.is_null()) return "null";  // left out, and there is no default
  if (!value.is_object()) return setting_text(path, value);
  const bool is_one_word = written.is_object() && written.size() == 1 && written.front().is_string();
  return setting_text(path, is_one_word ? written.front() : written);
}

}  // namespace

std::vector<std::size_t> setting_columns(const std::vector<scenarios::SweepPoint>& points,
                                         std::size_t width_columns) {
  constexpr std::size_t kFiguresColumns = 54, kLimitColumns = 8;  // as sweep_table_head() has them
  std::vector<std::size_t> usual, least, longest;
  for (const auto& [path, value] : points.front().settings) {
    usual.push_back(columns_of(path));
    least.push_back(short_name(path).size());
    longest.push_back(least.back());
  }
  for (const scenarios::SweepPoint& point : points) {
    for (std::size_t i = 0; i < usual.size(); ++i) {
      const auto& [path, value] = point.settings[i];
      longest[i] = std::max(longest[i], columns_in(cell_text(point.scenario.resolved, path, value)));
    }
  }
  // Where a name is too long for its column, the others give what they do not need.
  std::size_t taken = kFiguresColumns + kLimitColumns, room = taken;
  for (std::size_t i = 0; i < usual.size(); ++i) {
    least[i] = std::max(least[i], std::min(longest[i], kCellColumns));
    taken += least[i] + 1;
    room += usual[i] + 1;
  }
  room = std::max(room, width_columns);
  bool grown = false;
  for (std::size_t i = 0; i < usual.size(); ++i) {
    const std::size_t more = longest[i] - least[i];
    if (more == 0 || taken + more > room) continue;
    least[i] += more;
    taken += more;
    grown = true;
  }
  return grown ? least : usual;
}

std::string sweep_csv(const std::vector<SweepRow>& rows) {
  std::vector<Cells> table;
  std::vector<std::string> columns;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    table.push_back(cells_of(rows[i], rows[i].number.value_or(i)));
    for (const auto& [column, text] : table.back()) {
      if (std::ranges::find(columns, column) == columns.end()) columns.push_back(column);
    }
  }
  std::string csv;
  for (const std::string& column : columns) {
    if (!csv.empty()) csv += ',';
    csv += quoted(column);
  }
  csv += '\n';
  for (const Cells& cells : table) {
    std::string line;
    for (const std::string& column : columns) {
      const auto cell = std::ranges::find(cells, column, &Cells::value_type::first);
      if (!line.empty() || column != columns.front()) line += ',';
      if (cell != cells.end()) line += quoted(cell->second);
    }
    csv += line + '\n';
  }
  return csv;
}

std::string setting_text(const std::string& path, const json& value) {
  if (path.ends_with("_per_s") && value.is_number()) return format_si(value.get<double>());
  return scenarios::one_line(text_of(value));
}

std::string sweep_table_head(const std::vector<std::pair<std::string, json>>& settings,
                             const std::vector<std::size_t>& columns) {
  std::string line;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const std::string& path = settings[i].first;
    line += fmt::format("{:<{}} ", short_name(path), column_at(columns, i, path));
  }
  return line + fmt::format("{:>11} {:>11} {:>9} {:>9} {:>8}  {}\n", "per s", "per s/node", "p50 us",
                            "p99 us", "aborts", "limit");
}

std::string point_text(const SweepRow& row, const std::string& path) {
  const auto setting = std::ranges::find(row.settings, path, &std::pair<std::string, json>::first);
  const json& resolved = value_at(row.result, "scenario");
  return cell_text(resolved, path,
                   setting == row.settings.end() ? value_at(resolved, path) : setting->second);
}

std::string sweep_table_line(const SweepRow& row, const std::vector<std::size_t>& columns) {
  const json& result = row.result;
  std::string line;
  for (std::size_t i = 0; i < row.settings.size(); ++i) {
    const std::string& path = row.settings[i].first;
    const std::size_t width = column_at(columns, i, path);
    line += fmt::format("{:<{}} ", end_of(point_text(row, path), width), width);
  }
  const double total = rate_per_s(result);
  const auto latency = [&](const char* path) {
    return total > 0 ? format_us(value_at(result, path).get<double>()) : "-";
  };
  line += fmt::format("{:>11} {:>11} {:>9} {:>9} {:>8}  {}", format_si(total),
                      format_si(total / machines_of(result)), latency("latency_us.p50"),
                      latency("latency_us.p99"), format_percent(result.value("abort_ratio", 0.0)),
                      limit_text(result));
  return line + '\n';
}

std::string point_name(std::size_t number) {
  return fmt::format("{:03}", number);
}

std::uint64_t violations_of(const json& result) {
  std::uint64_t sum = 0;
  for (const json& check : value_at(result, "checks")) sum += check.value("violations", std::uint64_t{0});
  return sum;
}

std::string limit_text(const json& result) {
  std::string text = text_of(value_at(result, "bottleneck.resource"));
  if (!warning_of(result).is_null()) text += " *";
  const json checks = value_at(result, "checks");
  const bool unfinished = checks.size() == 1 && checks[0].value("name", "") == "finished";
  if (violations_of(result) > 0) text += unfinished ? "  UNFINISHED" : "  VIOLATED";
  if (result.value("partial", false)) text += "  PARTIAL";
  return text;
}

namespace {

/// What a field that does anything changes at least the last digit of.
std::string figures_of(const json& result) {
  std::string figures;
  for (const char* key : {"committed", "operations", "aborted_attempts", "latency_us", "verbs"})
    figures += value_at(result, key).dump() + ' ';
  return figures;
}

/// Whether it is swept, and nothing is different where nothing else is.
bool changes_nothing(const std::vector<SweepRow>& rows, const std::string& path) {
  struct Seen {
    json value;
    std::string figures;
  };
  std::map<std::string, Seen> first_of;  // by all other settings
  bool compared = false;
  for (const SweepRow& row : rows) {
    std::string others;
    json value;
    for (const auto& [name, setting] : row.settings) {
      if (name == path) value = setting;
      if (name != path) others += setting.dump() + ' ';
    }
    std::string figures = figures_of(row.result);
    const auto [first, is_new] = first_of.try_emplace(std::move(others), Seen{value, figures});
    if (is_new || first->second.value == value) continue;
    if (first->second.figures != figures) return false;
    compared = true;
  }
  return compared;
}

/// A flat curve over a field that this workload or protocol does not have would pass for a finding.
void add_idle_settings(const std::vector<SweepRow>& rows, std::vector<std::string>& warnings) {
  const auto ended = [](const SweepRow& row) {
    return rate_per_s(row.result) > 0 && !row.result.value("partial", false);
  };
  if (rows.size() < 2 || !std::ranges::all_of(rows, ended)) return;
  for (const auto& [path, value] : rows.front().settings) {
    if (path == "name" || path == "description" || path == "run.check" || !changes_nothing(rows, path))
      continue;
    warnings.push_back(
        fmt::format("{} does nothing here: points that differ in it alone are the same to the last digit",
                    scenarios::one_line(path, 120)));
  }
}

}  // namespace

std::string render_own_rules(const std::vector<SweepRow>& rows) {
  constexpr double kWorthSaying = 0.01;
  std::vector<double> shares;
  for (const SweepRow& row : rows) {
    const double by_rules = row.result.value("user_aborts", 0.0);
    const double share = by_rules / std::max(1.0, row.result.value("committed", 0.0) + by_rules);
    if (share > kWorthSaying) shares.push_back(share);
  }
  if (shares.empty()) return "";
  const std::string least = format_percent(std::ranges::min(shares));
  const std::string most = format_percent(std::ranges::max(shares));
  const std::string where = shares.size() == rows.size() ? ""
                                                         : fmt::format(" at {} of {}", shares.size(),
                                                                       format_counted(rows.size(), "point"));
  return labelled("own rules",
                  fmt::format("{}{} of the transactions that ended did so by the application's own rules{}: "
                              "per s counts those that committed",
                              least == most ? "" : least + " to ", most, where));
}

std::vector<std::string> sweep_warnings(const std::vector<SweepRow>& rows) {
  constexpr std::size_t kShown = 4;
  std::vector<std::string> all;
  std::size_t others = 0;
  for (const SweepRow& row : rows) {
    const json warning = warning_of(row.result);
    if (warning.is_null()) continue;
    if (all.size() == kShown) {
      ++others;
      continue;
    }
    std::vector<std::string> settings;
    for (const auto& [path, value] : row.settings) {
      const std::string text = point_text(row, path);
      if (!text.empty()) settings.push_back(fmt::format("{}={}", short_name(path), text));
    }
    const std::string where = fmt::format("{}", fmt::join(settings, ", "));
    all.push_back((where.empty() ? "" : where + ": ") + warning.get<std::string>());
  }
  if (others > 0)
    all.push_back(
        fmt::format("and of {} more: the column warning has them", format_counted(others, "point")));
  add_idle_settings(rows, all);
  return all;
}

std::string render_warnings(const std::vector<std::string>& warnings) {
  std::string text;
  for (const std::string& warning : warnings) text += labelled("* warning", warning);
  return text;
}

std::string partial_text(const std::vector<SweepRow>& rows, std::size_t points) {
  const auto is_complete = [](const SweepRow& row) { return !row.result.value("partial", false); };
  const auto complete = static_cast<std::size_t>(std::ranges::count_if(rows, is_complete));
  if (complete == points) return "";
  const std::size_t cut = rows.size() - complete;
  return fmt::format("PARTIAL: {} of {}{}", complete, format_counted(points, "point"),
                     cut == 0 ? "" : fmt::format(", and {} cut short", cut));
}

}  // namespace verbtwin::tools
