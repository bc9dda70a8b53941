#include "tools/commands.hpp"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>

#include "scenarios/text.hpp"
#include "tools/sweep.hpp"

namespace verbtwin::tools {

void add_scenario_options(CLI::App& command, std::string& scenario, std::vector<std::string>& overrides) {
  command.add_option("SCENARIO", scenario, "Scenario file (JSON)")->required()->type_name("FILE");
  command
      .add_option(
          "--set", overrides,
          "Override a field, as cluster.nodes=80; may be repeated, the last one wins; a field that the "
          "scenario sweeps is refused")
      ->allow_extra_args(false)
      ->type_name("PATH=VALUE");
}

void add_jobs_option(CLI::App& command, int& jobs, const std::string& what) {
  command.add_option("--jobs", jobs, what)->type_name("N")->check(CLI::Range(1, 256));
}

void add_device_options(CLI::App& command, RankFlags& rank, const std::string& group) {
  command.add_option("--device", rank.devices, "RDMA device, or one for each NIC of a node: a,b")
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
}

std::string check_device_names(const std::string& text) {
  // A variable of a script that is not set would choose a device by itself.
  const std::string all = "," + text + ",";
  if (all.find(",,") == std::string::npos) return "";
  return scenarios::in_quotes(text) + ": allowed: a device's name, or one for each NIC of a node: a,b";
}

int exit_code_of_stop(int signal_number) {
  return signal_number == 0 ? kExitFailure : kExitSignal + signal_number;
}

int exit_code_of(const nlohmann::json& result, int signal_number) {
  if (violations_of(result) > 0) return kExitCheckFailed;
  if (!result.value("partial", false)) return kExitDone;
  return exit_code_of_stop(signal_number);
}

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot write to standard output");
  }
}

void print_written(const std::filesystem::path& file, std::string_view more) {
  print(fmt::format("wrote {}{}\n", scenarios::one_line(file.string()), more));
}

void print_error(std::string_view text) {
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
}

}  // namespace verbtwin::tools
