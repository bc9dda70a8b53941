// verbtwin check: says whether a scenario could run, and what it would run, without running it.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/text.hpp"
#include "tools/commands/commands.hpp"
#include "tools/console/exit_code.hpp"
#include "tools/console/print.hpp"
#include "tools/console/text.hpp"
#include "tools/report/conditions.hpp"
#include "tools/report/sweep_table.hpp"
#include "tools/run/simulate.hpp"
#include "tools/sweeps/sweep_points.hpp"

namespace verbtwin::tools {

namespace {

constexpr std::size_t kWidthColumns = 80;

struct CheckOptions {
  std::string scenario;
  std::vector<std::string> overrides, sweeps;
  bool json = false;
  SimgridFlags simgrid;
};

/// The shape of the run in one paragraph.
std::string describe_shape(const scenarios::Scenario& scenario) {
  const scenarios::Cluster& cluster = scenario.cluster;
  // Servers run no transactions.
  const auto in_flight = static_cast<std::uint64_t>(cluster.nodes - cluster.servers) *
                         static_cast<std::uint64_t>(cluster.threads) *
                         static_cast<std::uint64_t>(cluster.coroutines);
  std::string work =
      fmt::format("{} on {} x {}", scenario.workload.value("name", ""),
                  format_counted(cluster.nodes, "machine"), format_counted(cluster.threads, "thread"));
  if (!scenario.protocol.is_null()) {
    work = fmt::format("{} running {} x {} ({} in flight), {}", scenario.protocol.value("name", ""), work,
                       format_counted(cluster.coroutines, "coroutine"),
                       format_counted(in_flight, "transaction"), format_counted(cluster.replicas, "replica"));
  }
  if (const std::string offered = describe_offered(scenario.resolved); !offered.empty())
    work += fmt::format(", offered {}", offered);
  const std::string machines =
      scenario.backend == "sim"
          ? fmt::format("Each machine is a {} with {} x {}; they are joined by {}.", cluster.host,
                        cluster.nics_per_node, cluster.nic, describe_network(scenario.resolved))
          : fmt::format("Machines and network are those that it runs on, with {} of each machine.",
                        format_counted(cluster.nics_per_node, "NIC"));
  const std::uint64_t index = scenario.run.index;
  const std::string seed =
      fmt::format("seed {}{}", scenario.run.seed, index == 0 ? "" : fmt::format(", run {}", index));
  return fmt::format("{} is valid: {}. {} {} us of warm-up, {} us measured, {}, check: {}, backend {}.",
                     scenarios::one_line(scenario.name), work, machines, format_us(scenario.run.warmup_us),
                     format_us(scenario.run.measure_us), seed, scenario.run.check, scenario.backend);
}

/// Empty: little.
std::string describe_memory(const scenarios::Scenario& scenario) {
  if (scenario.backend != "sim") return "";
  const double gib = about_memory_gib(scenario);
  return gib < 1 ? "" : fmt::format(" It takes about {:.2g} GiB of memory.", gib);
}

/// Of the first point that has one.
std::string warning_of(const std::vector<scenarios::SweepPoint>& points) {
  for (const scenarios::SweepPoint& point : points) {
    if (point.scenario.backend != "sim") continue;
    const std::string more = more_threads_than_cores(point.scenario.cluster);
    if (!more.empty()) return point.settings.empty() ? more : more + "; in " + describe_point(point);
  }
  return "";
}

int check(const CheckOptions& options) {
  const std::vector<scenarios::SweepPoint> points =
      load_runnable_points(options.scenario, options.overrides, {}, options.sweeps);
  const scenarios::Scenario& first = points.front().scenario;
  std::string text = describe_shape(first) + describe_memory(first);
  if (points.size() > 1) text += fmt::format(" It is the first of {} points.", points.size());
  if (options.json) {
    print(first.resolved.dump(2) + "\n");
    return kExitDone;
  }
  print(wrap(text, 0, kWidthColumns) + "\n");
  if (const std::string warning = warning_of(points); !warning.empty()) print(render_warnings({warning}));
  return kExitDone;
}

}  // namespace

void add_check_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* command = app.add_subcommand("check", "Validate a scenario and say what it would run");
  add_scenario_options(*command, options->scenario, options->overrides);
  add_sweep_option(*command, options->sweeps);
  command->add_flag("--json", options->json,
                    "Print the whole scenario, of a sweep its first point's, with every default filled in");
  add_simgrid_options(*command, options->simgrid);
  command->footer(
      "Example:\n"
      "  verbtwin check scenarios/smallbank-16.json --set cluster.nodes=80 --json");
  command->callback([options, &exit_code] {
    configure_simgrid(options->simgrid.cfg, options->simgrid.log);
    exit_code = check(*options);
  });
}

}  // namespace verbtwin::tools
