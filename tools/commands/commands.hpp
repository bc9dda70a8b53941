// The commands of the verbtwin program, one file each (<name>.cpp).
//
// Each function adds its command to `app`; once `app` has parsed a command line that names it, the command
// runs and stores its exit code (README.md "Asking questions"). `exit_code` must outlive `app`. Commands
// throw UserError for what the user gave wrongly, its message being the whole line to show; nothing here
// exits. One thread.
#pragma once

#include <CLI/App.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/ranks/rank_options.hpp"

namespace verbtwin::tools {

void add_run_command(CLI::App& app, int& exit_code);
void add_check_command(CLI::App& app, int& exit_code);
void add_schema_command(CLI::App& app, int& exit_code);
void add_list_command(CLI::App& app, int& exit_code);
void add_calibrate_command(CLI::App& app, int& exit_code);
void add_launch_command(CLI::App& app, int& exit_code);
void add_compare_command(CLI::App& app, int& exit_code);
void add_compare_published_command(CLI::App& app, int& exit_code);
void add_measure_command(CLI::App& app, int& exit_code);
void add_plan_command(CLI::App& app, int& exit_code);
void add_explain_command(CLI::App& app, int& exit_code);
void add_sweep_command(CLI::App& app, int& exit_code);
void add_reproduce_command(CLI::App& app, int& exit_code);
void add_validate_command(CLI::App& app, int& exit_code);

/// `run SCENARIO --set ... --out DIR --resume --jobs N`: the exit code.
int resume_sweep(const std::string& scenario, const std::vector<std::string>& overrides,
                 const std::string& out, int jobs);
/// `compare-published POINTS [--report]`: the exit code.
int compare_published(const std::string& points, bool report);

/// What every command on a scenario takes: the file, and --set. Both strings outlive the command.
void add_scenario_options(CLI::App& command, std::string& scenario, std::vector<std::string>& overrides);
CLI::Option* add_sweep_option(CLI::App& command, std::vector<std::string>& sweeps);

/// --cfg and --log, which are SimGrid's. `options` outlives the command.
struct SimgridFlags {
  std::vector<std::string> cfg, log;
};
void add_simgrid_options(CLI::App& command, SimgridFlags& options);

/// --jobs. `jobs` outlives the command; `what` says what runs side by side.
void add_jobs_option(CLI::App& command, int& jobs, const std::string& what);

/// Which RDMA device a command on real verbs uses: --device, --port, --gid-index, --sl, --traffic-class.
/// `rank` outlives the command.
void add_device_options(CLI::App& command, RankFlags& rank, const std::string& group = "Options");

/// What --port, --gid-index, --sl and --traffic-class may be, and why a list of devices' names is none ("" if
/// it is one), for CLI11.
inline const CLI::Range kPortNumbers(1, 255);
inline const CLI::Range kGidIndices(0, 255);
inline const CLI::Range kServiceLevels(0, 15);
inline const CLI::Range kTrafficClasses(0, 255);
std::string check_device_names(const std::string& text);

/// How `run` ends after a result: a violated check weighs more than a run that a signal ended early.
int exit_code_of(const nlohmann::json& result, int signal_number);

}  // namespace verbtwin::tools
