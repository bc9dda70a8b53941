#include "tools/compare/headlines.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/user_error.hpp"
#include "calibration/published_points.hpp"
#include "scenarios/text.hpp"

namespace verbtwin::tools {

namespace {

using calibration::CsvRow;
using calibration::CsvTable;

/// A column of points.csv and what is in it.
using Condition = std::pair<const char*, const char*>;

enum class Measure : std::uint8_t { kRate, kMeanLatency };

struct Stated {
  const char* begins;  // the figure's text does
  std::size_t part;    // of "1 / 2 / 3"
  const char* what;
  const char* sweep;  // its name
  Measure measure;
  std::vector<Condition> of;    // one system's points
  std::vector<Condition> over;  // those it is compared with; none: no ratio
};

const std::vector<Stated>& stated_figures() {
  static const std::vector<Stated> kStated = {
      {"16 B key 32 B value 95 % GET uniform",
       0,
       "Jakiro (RF-RPC)",
       "rpc-key-value",
       Measure::kRate,
       {{"workload.transport", "rf_rpc"}, {"cluster.nic", "connectx-3"}},
       {}},
      {"same: ServerReply",
       0,
       "ServerReply",
       "rpc-key-value",
       Measure::kRate,
       {{"workload.transport", "rc_write_poll"}, {"cluster.nic", "connectx-3"}},
       {}},
      {"same: mean latency",
       0,
       "Jakiro (RF-RPC), mean latency",
       "rpc-key-value",
       Measure::kMeanLatency,
       {{"workload.transport", "rf_rpc"}, {"cluster.nic", "connectx-3"}},
       {}},
      {"same: mean latency",
       1,
       "ServerReply, mean latency",
       "rpc-key-value",
       Measure::kMeanLatency,
       {{"workload.transport", "rc_write_poll"}, {"cluster.nic", "connectx-3"}},
       {}},
      {"SmallBank per machine FaSST / DrTM+R",
       0,
       "SmallBank, FaSST / DrTM+R with 8 threads",
       "fasst-smallbank",
       Measure::kRate,
       {{"protocol.name", "fasst"}, {"cluster.nic", "connectx-3"}},
       {{"protocol.name", "drtmr"}, {"cluster.nic", "connectx-3"}, {"cluster.threads", "8"}}},
      {"SmallBank per machine FaSST / DrTM+R",
       0,
       "SmallBank, FaSST / DrTM+R with 16 threads",
       "fasst-smallbank",
       Measure::kRate,
       {{"protocol.name", "fasst"}, {"cluster.nic", "connectx-3"}},
       {{"protocol.name", "drtmr"}, {"cluster.nic", "connectx-3"}, {"cluster.threads", "16"}}},
      {"TATP per machine FaSST / FaRM",
       0,
       "TATP, FaSST / FaRM, per machine",
       "fasst-tatp",
       Measure::kRate,
       {{"protocol.name", "fasst"}, {"cluster.nic", "connectx-3"}, {"cluster.nodes", "50"}},
       {{"protocol.name", "farm"}, {"cluster.nic", "connectx-3"}, {"cluster.nodes", "90"}}},
      {"TATP 90 machines",
       0,
       "TATP, FaRM, 90 machines",
       "fasst-tatp",
       Measure::kRate,
       {{"protocol.name", "farm"}, {"cluster.nic", "connectx-3"}, {"cluster.nodes", "90"}},
       {}},
  };
  return kStated;
}

std::string sweep_name(const CsvTable& table) {
  return table.has_column("name") && !table.rows().empty() ? table.cell(table.rows().front(), "name") : "";
}

bool holds(const CsvTable& table, const CsvRow& row, const std::vector<Condition>& conditions) {
  return std::ranges::all_of(conditions, [&](const Condition& condition) {
    return table.has_column(condition.first) && table.cell(row, condition.first) == condition.second;
  });
}

bool is_partial(const CsvTable& table, const CsvRow& row) {
  return table.has_column("partial") && table.cell(row, "partial") == "true";
}

constexpr int kMachinesMax = 4096;

/// Of all machines, millions a second.
double rate_mops(const CsvTable& table, const CsvRow& row) {
  if (table.has_column("committed_per_s")) return table.positive(row, "committed_per_s") / 1e6;
  return table.positive(row, "operations_per_s") / 1e6 * table.count(row, "machines", kMachinesMax);
}

double rate_per_machine(const CsvTable& table, const CsvRow& row) {
  return rate_mops(table, row) / table.count(row, "cluster.nodes", kMachinesMax);
}

std::vector<const CsvRow*> points_of(const CsvTable& table, const std::vector<Condition>& conditions) {
  std::vector<const CsvRow*> points;
  for (const CsvRow& row : table.rows()) {
    if (!is_partial(table, row) && holds(table, row, conditions)) points.push_back(&row);
  }
  return points;
}

const CsvRow* fastest(const CsvTable& table, const std::vector<Condition>& conditions) {
  const std::vector<const CsvRow*> points = points_of(table, conditions);
  const auto found =
      std::ranges::max_element(points, {}, [&](const CsvRow* row) { return rate_mops(table, *row); });
  return found == points.end() ? nullptr : *found;
}

std::optional<double> simulated(const CsvTable& table, const Stated& stated) {
  const CsvRow* of = fastest(table, stated.of);
  if (of == nullptr) return std::nullopt;
  if (stated.measure == Measure::kMeanLatency) return table.positive(*of, "latency_mean_us");
  if (stated.over.empty()) return rate_mops(table, *of);
  const CsvRow* over = fastest(table, stated.over);
  if (over == nullptr) return std::nullopt;
  return rate_per_machine(table, *of) / rate_per_machine(table, *over);
}

std::string conditions_text(const std::vector<Condition>& conditions) {
  std::vector<std::string> texts;
  for (const auto& [column, value] : conditions) texts.push_back(fmt::format("{} {}", column, value));
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

bool has_headlines(const CsvTable& table) {
  const std::string name = sweep_name(table);
  return std::ranges::any_of(stated_figures(), [&](const Stated& stated) { return name == stated.sweep; });
}

Comparison compare_headlines(const CsvTable& table) {
  const std::string name = sweep_name(table);
  const std::string title = "Stated in the text: " + name;
  std::string rows;
  std::vector<std::string> missing;
  std::vector<ComparedValue> values;
  Panel panel{title, "", "simulated / published", {}, {}};
  Curve bars{"simulated / published", {}, 0, false};
  for (const Stated& stated : stated_figures()) {
    if (name != stated.sweep) continue;
    const auto headline = calibration::published_headline(stated.begins, stated.part);
    const std::optional<double> value = simulated(table, stated);
    if (!value) {
      missing.push_back(fmt::format("{}: no point with {}{}{}", stated.what, conditions_text(stated.of),
                                    stated.over.empty() ? "" : " and one with ",
                                    conditions_text(stated.over)));
      continue;
    }
    rows += fmt::format("| {} | {} | {:.3g} {} | {:.3g} | {} |\n", stated.what, headline.source,
                        headline.value, headline.unit, *value, percent_off(*value, headline.value));
    values.push_back({stated.what, headline.source, headline.value, *value});
    panel.categories.emplace_back(stated.what);
    bars.points.emplace_back(static_cast<double>(bars.points.size()), *value / headline.value);
  }
  if (rows.empty()) {
    throw UserError(
        "", fmt::format("{}: none of its points is under the conditions of a published figure: {}",
                        table.name(), scenarios::one_line(fmt::format("{}", fmt::join(missing, "; ")), 400)));
  }
  panel.curves.push_back(bars);
  return {title,
          fmt::format(
              "## {}\n\n| figure | source | published | simulated | error |\n|---|---|---|---|---|\n{}{}",
              title, rows,
              missing.empty() ? "" : fmt::format("\nNot in this sweep:\n* {}\n", fmt::join(missing, "\n* "))),
          {panel},
          std::move(values)};
}

}  // namespace verbtwin::tools
