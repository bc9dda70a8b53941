// verbtwin launch: starts every rank of a run on real verbs, here or over ssh.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/user_error.hpp"
#include "scenarios/overrides.hpp"
#include "scenarios/sweep.hpp"
#include "tools/commands/commands.hpp"
#include "tools/console/text.hpp"
#include "tools/ranks/launcher.hpp"
#include "tools/ranks/rank_options.hpp"
#include "tools/run/catalog.hpp"
#include "tools/sweeps/sweep_points.hpp"

namespace verbtwin::tools {

namespace {

constexpr const char* kDataVariable = "VERBTWIN_DATA_DIR";

struct LaunchOptions {
  std::string scenario;
  std::vector<std::string> overrides;
  int local = 0;
  std::string hosts;
  RankFlags rank;
  std::string seed, out;
  std::optional<std::string> hdr;
  bool json = false, quiet = false;
};

/// What ranks over ssh find in their environment, which ssh does not take along: where the data are, as the
/// error of a rank without them says, and what drivers are told.
std::vector<std::string> with_environment() {
  std::vector<std::string> words = {"env"};
  if (const char* data = std::getenv(kDataVariable))
    words.push_back(fmt::format("{}={}", kDataVariable, data));
  for (const auto& [name, value] : driver_environment()) words.push_back(fmt::format("{}={}", name, value));
  return words;
}

/// The ranks run on real verbs, whatever is given: it would not count.
void refuse_simulated(const std::vector<std::string>& overrides) {
  for (const std::string& text : overrides) {
    const scenarios::Override override = scenarios::parse_override(text);
    if (override.pointer != "/backend" || scenarios::loose_value(override) == "ibverbs") continue;
    throw UserError(
        "", override.place() + ": launch is for real verbs; allowed: ibverbs; `verbtwin run` simulates");
  }
}

void check_nodes(const LaunchOptions& options, int ranks) {
  std::vector<scenarios::Override> flags = {scenarios::flag_override("backend", "--backend", "ibverbs")};
  if (!options.seed.empty()) flags.push_back(scenarios::flag_override("run.seed", "--seed", options.seed));
  const auto points = load_runnable_points(options.scenario, options.overrides, flags);
  if (options.hdr && points.size() > 1)
    throw UserError("", "--hdr is of one run, and this scenario is a sweep of several; allowed: --out DIR");
  const scenarios::Scenario& scenario = points.front().scenario;  // all points have as many nodes
  if (scenario.cluster.nodes == ranks) return;
  throw UserError("",
                  fmt::format("{}, but the scenario has {}, one rank each; allowed: {}",
                              format_counted(ranks, "rank"), format_counted(scenario.cluster.nodes, "node"),
                              allowed_ranks(scenario.cluster.nodes, ranks)));
}

std::vector<std::string> rank_arguments(const LaunchOptions& options, int rank, int ranks,
                                        const std::string& rendezvous) {
  std::vector<std::string> arguments;
  if (!options.hosts.empty()) arguments = with_environment();
  arguments.insert(arguments.end(), {std::filesystem::read_symlink("/proc/self/exe").string(), "run",
                                     options.scenario, "--backend", "ibverbs", "--rank", std::to_string(rank),
                                     "--ranks", std::to_string(ranks), "--rendezvous", rendezvous});
  const auto add = [&](const std::string& flag, const std::string& value) {
    arguments.push_back(flag);
    arguments.push_back(value);
  };
  for (const std::string& override : options.overrides) add("--set", override);
  if (!options.seed.empty()) add("--seed", options.seed);
  for (std::string& argument : device_arguments(options.rank)) arguments.push_back(std::move(argument));
  if (rank == 0 && !options.out.empty()) add("--out", options.out);
  if (rank == 0 && options.hdr) add("--hdr", *options.hdr);
  if (rank == 0 && options.json) arguments.emplace_back("--json");
  if (rank != 0 || options.quiet) arguments.emplace_back("--quiet");
  return arguments;
}

/// A line may be for ssh, user@host: ranks connect to the host.
std::string without_user(const std::string& host) {
  return host.substr(host.rfind('@') + 1);  // npos + 1 is 0
}

int launch(const LaunchOptions& options) {
  if ((options.local > 0) == !options.hosts.empty()) {
    throw UserError("", "verbtwin launch: where? allowed: either --local N or --hosts FILE");
  }
  refuse_simulated(options.overrides);
  const std::vector<std::string> hosts =
      options.hosts.empty() ? std::vector<std::string>(static_cast<std::size_t>(options.local))
                            : read_hosts(options.hosts);
  const int ranks = static_cast<int>(hosts.size());
  check_nodes(options, ranks);
  const StopSignals signals;
  const std::string token = make_token();
  std::string rendezvous = options.rank.rendezvous;
  if (rendezvous.empty()) {
    rendezvous = options.hosts.empty() ? fmt::format("127.0.0.1:{}", free_port())
                                       : fmt::format("{}:{}", without_user(hosts.front()), random_port());
  }
  std::vector<RankCommand> commands;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<std::string> arguments = rank_arguments(options, rank, ranks, rendezvous);
    const std::string& host = hosts[static_cast<std::size_t>(rank)];
    if (host.empty()) {
      commands.push_back({arguments, ""});
    } else {
      commands.push_back({over_ssh(host, std::filesystem::current_path(), arguments), token, -1, -1, host});
    }
  }
  return launch_ranks(commands, token, signals);
}

}  // namespace

void add_launch_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<LaunchOptions>();
  CLI::App* command = app.add_subcommand(
      "launch", "Run a scenario, or every point of its sweep, on real verbs: start all its ranks");
  add_scenario_options(*command, options->scenario, options->overrides);
  command->add_option("--local", options->local, "Start that many ranks on this machine")
      ->type_name("N")
      ->check(CLI::Range(1, most_allowed("cluster.nodes")));
  command
      ->add_option("--hosts", options->hosts,
                   "File with one host, or user@host, a line: a rank on each, over ssh")
      ->type_name("FILE");
  command->add_option("--rendezvous", options->rank.rendezvous, "Where rank 0 listens; chosen where absent")
      ->type_name("HOST:PORT");
  add_device_options(*command, options->rank);
  command->add_option("--seed", options->seed, "Seed of the run")->type_name("N");
  command
      ->add_option("--out", options->out,
                   "Directory, on rank 0's machine, for result.json or what `verbtwin run` leaves of a sweep")
      ->type_name("DIR");
  command
      ->add_option("--hdr", options->hdr,
                   "Write the latencies to this file, on rank 0's machine, as `verbtwin run --hdr` does")
      ->type_name("FILE");
  command->add_flag("--json", options->json, "Print the result as JSON instead of the summary");
  command->add_flag("--quiet", options->quiet, "Print no summary and no progress");
  command->footer(
      "Examples:\n"
      "  verbtwin launch --local 3 scenarios/smallbank-3-rxe.json\n"
      "  verbtwin launch --hosts hosts.txt scenarios/smallbank-3-rxe.json --device mlx5_0\n"
      "With --hosts the program and the scenario are at the same path everywhere, as on a shared file "
      "system; of the environment VERBTWIN_DATA_DIR, MLX5_*, MLX4_*, RDMAV_* and IBV_* go along.");
  command->callback([options, &exit_code] { exit_code = launch(*options); });
}

}  // namespace verbtwin::tools
