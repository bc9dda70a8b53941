#include "tools/compare/ramp_ratios.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "backend/user_error.hpp"
#include "tools/console/text.hpp"

namespace verbtwin::tools {

namespace {

using calibration::CsvRow;
using calibration::CsvTable;

constexpr std::array<const char*, kRampSystems> kSystemNames = {
    "S2PL on IPoIB", "RAMP on Ethernet", "RAMP on IPoIB", "SEND/RECV", "GET+,PUT+", "GET*,PUT+"};
constexpr std::array kOrder = {kS2plOnIpoib, kRampOnIpoib, kGetPlus, kGetStar};  // the slowest first

/// A ratio that the paper states: how its text begins, of what workload, and the systems.
struct Stated {
  const char* begins;
  const char* workload;  // begins so
  double read_share;
  RampSystem faster, slower;
};
constexpr std::array kStated = {
    Stated{"YCSB 100 % reads: GET+,PUT+ over", "ycsb-groups", 1, kGetPlus, kRampOnIpoib},
    Stated{"YCSB 100 % reads: GET*,PUT+ over", "ycsb-groups", 1, kGetStar, kRampOnIpoib},
    Stated{"RAMP-Fast over IPoIB relative to TCP on 1 Gb/s Ethernet", "read-write-mix", 0.95, kRampOnIpoib,
           kRampOnEthernet},
};

struct StatedRatio {
  calibration::PublishedRatio published;
  std::string workload;
  double simulated = 0;
};

std::string cell_or(const CsvTable& table, const CsvRow& row, const char* column, const char* otherwise) {
  return table.has_column(column) ? table.cell(row, column) : otherwise;
}

std::optional<RampSystem> system_of(const CsvTable& table, const CsvRow& row) {
  const std::string protocol = table.cell(row, "protocol.name");
  const std::string transport = table.cell(row, "protocol.transport");
  const std::string get = cell_or(table, row, "protocol.get", "rpc");
  const std::string put = cell_or(table, row, "protocol.put", "rpc");
  if (protocol == "s2pl") return transport == "ipoib_tcp" ? std::optional(kS2plOnIpoib) : std::nullopt;
  if (protocol != "ramp-fast") return std::nullopt;
  if (get == "get_star" && put == "put_plus") return kGetStar;
  if (get == "get_plus" && put == "put_plus") return kGetPlus;
  if (get != "rpc" || put != "rpc") return std::nullopt;
  if (transport == "rdma_write") return kGetPlus;
  if (transport == "send_recv") return kSendRecv;
  return transport == "ipoib_tcp" ? kRampOnIpoib : kRampOnEthernet;
}

/// The share of transactions that only read.
double read_share_of(const CsvTable& table, const CsvRow& row) {
  if (table.has_column("workload.read_ratio")) return table.number(row, "workload.read_ratio");
  const std::string mix = cell_or(table, row, "workload.mix", "B");
  return mix == "C" ? 1 : mix == "B" ? 0.95 : 0.5;
}

/// "ycsb-groups, mix C": its name and what the sweep varies of it.
std::string workload_of(const CsvTable& table, const CsvRow& row) {
  constexpr std::string_view kPrefix = "workload.";
  std::string text = table.cell(row, "workload.name");
  for (const std::string& column : table.columns()) {
    if (!column.starts_with(kPrefix) || column == "workload.name") continue;
    text += fmt::format(", {} {}", column.substr(kPrefix.size()), table.cell(row, column));
  }
  return text;
}

/// The ratios that groups have the systems and the workload of.
std::vector<StatedRatio> stated_ratios(const std::vector<calibration::PublishedRatio>& published,
                                       const std::vector<RampGroup>& groups) {
  std::vector<StatedRatio> ratios;
  for (const calibration::PublishedRatio& ratio : published) {
    const auto stated = std::ranges::find_if(
        kStated, [&](const Stated& one) { return ratio.experiment.starts_with(one.begins); });
    if (stated == kStated.end()) continue;
    for (const RampGroup& group : groups) {
      const double faster = group.per_s[stated->faster], slower = group.per_s[stated->slower];
      if (!group.workload.starts_with(stated->workload) || group.read_share != stated->read_share) continue;
      if (faster > 0 && slower > 0) ratios.push_back({ratio, group.workload, faster / slower});
    }
  }
  return ratios;
}

std::string render_stated(const std::vector<StatedRatio>& ratios) {
  std::string rows;
  for (const auto& [published, workload, simulated] : ratios) {
    rows += fmt::format("| {} | {} | {:.2f} | {:.2f} | {}{} |\n", published.experiment, workload,
                        published.ratio, simulated, percent_off(simulated, published.ratio),
                        published.may_be_fitted ? " (train set)" : "");
  }
  if (rows.empty()) return "";
  return "| ratio | simulated with | published | simulated | error |\n|---|---|---|---|---|\n" + rows + "\n";
}

/// The systems of the order that a group has, by what they do; nothing if they are too few.
std::string order_of(const RampGroup& group, bool& right) {
  std::vector<RampSystem> simulated;
  for (const RampSystem system : kOrder) {
    if (group.per_s[system] > 0) simulated.push_back(system);
  }
  if (simulated.size() < 2) return "";
  std::ranges::stable_sort(simulated, {}, [&](RampSystem system) { return group.per_s[system]; });
  right = std::ranges::is_sorted(simulated, {},
                                 [](RampSystem s) { return std::ranges::find(kOrder, s) - kOrder.begin(); });
  std::vector<const char*> names;
  for (const RampSystem system : simulated) names.push_back(kSystemNames[system]);
  return fmt::format("{}", fmt::join(names, " < "));
}

std::string render_order(const std::vector<RampGroup>& groups) {
  std::string exceptions;
  int compared = 0, in_order = 0;
  for (const RampGroup& group : groups) {
    if (group.read_share == 0 && group.per_s[kGetPlus] > 0 && group.per_s[kGetStar] > 0) {
      exceptions += fmt::format("* {}: nothing is read, where GET* and GET+ should meet: GET* is {} off\n",
                                group.workload, percent_off(group.per_s[kGetStar], group.per_s[kGetPlus]));
    }
    if (group.read_share <= 0.5) continue;
    bool right = false;
    const std::string order = order_of(group, right);
    if (order.empty()) continue;
    ++compared;
    in_order += right;
    if (!right) exceptions += fmt::format("* {}: {}\n", group.workload, order);
  }
  if (compared == 0) return exceptions.empty() ? "" : exceptions + "\n";
  return fmt::format(
      "Where most transactions only read, S2PL < RAMP on IPoIB < GET+,PUT+ < GET*,PUT+ holds at {} of {} "
      "workloads.\n{}\n",
      in_order, compared, exceptions);
}

/// Those that any workload was run with.
std::vector<std::size_t> systems_of(const std::vector<RampGroup>& groups) {
  std::vector<std::size_t> systems;
  for (std::size_t system = 0; system < kRampSystems; ++system) {
    if (std::ranges::any_of(groups, [&](const RampGroup& group) { return group.per_s[system] > 0; }))
      systems.push_back(system);
  }
  return systems;
}

std::string render_groups(const std::vector<RampGroup>& groups) {
  std::string head = "| workload, transactions/s |", rule = "|---|", rows;
  const std::vector<std::size_t> shown = systems_of(groups);
  for (const std::size_t system : shown) {
    head += fmt::format(" {} |", kSystemNames[system]);
    rule += "---|";
  }
  for (const RampGroup& group : groups) {
    rows += fmt::format("| {} |", group.workload);
    for (const std::size_t system : shown) {
      rows += fmt::format(" {} |", group.per_s[system] > 0 ? format_si(group.per_s[system]) : "-");
    }
    rows += '\n';
  }
  return fmt::format("{}\n{}\n{}", head, rule, rows);
}

}  // namespace

bool varies_ramp_systems(const CsvTable& table) {
  return table.has_column("protocol.name") && table.has_column("protocol.transport");
}

std::vector<RampGroup> ramp_groups(const CsvTable& table) {
  std::vector<RampGroup> groups;
  for (const CsvRow& row : table.rows()) {
    const std::optional<RampSystem> system = system_of(table, row);
    if (!system) continue;
    const std::string workload = workload_of(table, row);
    auto group = std::ranges::find(groups, workload, &RampGroup::workload);
    if (group == groups.end()) {
      groups.push_back({workload, read_share_of(table, row), {}});
      group = groups.end() - 1;
    }
    double& best = group->per_s[*system];
    best = std::max(best, table.positive(row, "committed_per_s"));
  }
  if (groups.empty()) {
    throw UserError("", table.name() +
                            ": no point of it is a system that RAMP over RDMA compares: see scenarios/ramp "
                            "for sweeps that have some");
  }
  return groups;
}

std::string render_ramp(const std::string& title, const std::vector<calibration::PublishedRatio>& published,
                        const std::vector<RampGroup>& groups) {
  return fmt::format("## {}\n\n{}{}{}", title, render_stated(stated_ratios(published, groups)),
                     render_order(groups), render_groups(groups));
}

namespace {
/// Bars: what each system of the sweep does on each workload.
std::vector<Panel> ramp_panels(const std::string& title, const std::vector<RampGroup>& groups) {
  Panel panel{title, "", "M/s", {}, {}};
  for (const RampGroup& group : groups) panel.categories.push_back(group.workload);
  for (const std::size_t system : systems_of(groups)) {
    Curve bars{kSystemNames[system], {}, static_cast<int>(system), false};
    for (std::size_t x = 0; x < groups.size(); ++x)
      bars.points.emplace_back(static_cast<double>(x), groups[x].per_s[system] / 1e6);
    panel.curves.push_back(bars);
  }
  return {panel};
}
}  // namespace

Comparison compare_ramp(const CsvTable& table) {
  const std::string title = "RAMP over RDMA: " + table.cell(table.rows().front(), "name");
  const std::vector<RampGroup> groups = ramp_groups(table);
  const std::vector<calibration::PublishedRatio> published = calibration::published_ramp_ratios();
  std::vector<ComparedValue> values;
  for (const auto& [ratio, workload, simulated] : stated_ratios(published, groups))
    if (!ratio.may_be_fitted) values.push_back({ratio.experiment, workload, ratio.ratio, simulated});
  return {title, render_ramp(title, published, groups), ramp_panels(title, groups), std::move(values)};
}

}  // namespace verbtwin::tools
