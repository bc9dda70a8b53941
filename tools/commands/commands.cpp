#include "tools/commands/commands.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "scenarios/text.hpp"
#include "tools/console/exit_code.hpp"
#include "tools/report/sweep_table.hpp"

namespace verbtwin::tools {

void add_scenario_options(CLI::App& command, std::string& scenario, std::vector<std::string>& overrides) {
  command.add_option("SCENARIO", scenario, "Scenario file (JSON)")->required()->type_name("FILE");
  command
      .add_option(
          "--set", overrides,
          "Override a field, as cluster.nodes=80; may be repeated, the last one wins; of a field that "
          "the scenario sweeps: only the points with this value")
      ->allow_extra_args(false)
      ->type_name("PATH=VALUE");
}

CLI::Option* add_sweep_option(CLI::App& command, std::vector<std::string>& sweeps) {
  return command
      .add_option(
          "--sweep", sweeps,
          "Run with each of these values, as cluster.coroutines=1,2,4; may be repeated: every value of "
          "one with every value of the others, and with the points of the scenario's own sweep")
      ->allow_extra_args(false)
      ->type_name("PATH=V1,V2,...");
}

void add_simgrid_options(CLI::App& command, SimgridFlags& options) {
  constexpr const char* kGroup = "SimGrid";
  command
      .add_option("--cfg", options.cfg,
                  "Passed on to SimGrid, as network/weight-S:100; may be repeated. Platforms and routes are "
                  "SimGrid's, messages only with cluster.network.model=simgrid; refused: keys that every "
                  "simulation sets, such as network/model")
      ->allow_extra_args(false)
      ->type_name("KEY:VALUE")
      ->group(kGroup);
  command
      .add_option("--log", options.log,
                  "Passed on to SimGrid, as root.thres:verbose; may be repeated. It writes to standard "
                  "error")
      ->allow_extra_args(false)
      ->type_name("CATEGORY.KEY:VALUE")
      ->group(kGroup);
}

void add_jobs_option(CLI::App& command, int& jobs, const std::string& what) {
  command.add_option("--jobs", jobs, what)->type_name("N")->check(CLI::Range(1, 256));
}

void add_device_options(CLI::App& command, RankFlags& rank, const std::string& group) {
  command
      .add_option("--device", rank.devices,
                  "RDMA device, or one for each NIC of a node: a,b (or ports of one: a:1,a:2)")
      ->type_name("NAME")
      ->check(check_device_names)
      ->group(group);
  command.add_option("--port", rank.port, "Port of the device")
      ->type_name("N")
      ->check(kPortNumbers)
      ->group(group);
  command.add_option("--gid-index", rank.gid_index, "GID of the port")
      ->type_name("N")
      ->check(kGidIndices)
      ->group(group);
  command.add_option("--sl", rank.sl, "Service level of all that is sent; absent: 0")
      ->type_name("N")
      ->check(kServiceLevels)
      ->group(group);
  command
      .add_option("--traffic-class", rank.traffic_class,
                  "Traffic class of all that is sent; RoCE: 4 times the DSCP; absent: 0")
      ->type_name("N")
      ->check(kTrafficClasses)
      ->group(group);
}

std::string check_device_names(const std::string& text) {
  // A variable of a script that is not set would choose a device by itself.
  if (!named_ports(text, 0).empty()) return "";
  return scenarios::in_quotes(text) +
         ": allowed: a device's name, with a port of its own NAME:PORT, or one for each NIC of a node: a,b";
}

int exit_code_of(const nlohmann::json& result, int signal_number) {
  if (violations_of(result) > 0) return kExitCheckFailed;
  if (!result.value("partial", false)) return kExitDone;
  return exit_code_of_stop(signal_number);
}

}  // namespace verbtwin::tools
