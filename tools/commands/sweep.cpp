// verbtwin sweep: the points of a sweep and which of them a directory has; a batch script for the others.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "backend/user_error.hpp"
#include "scenarios/text.hpp"
#include "tools/commands/commands.hpp"
#include "tools/console/exit_code.hpp"
#include "tools/console/print.hpp"
#include "tools/console/shell_word.hpp"
#include "tools/console/text.hpp"
#include "tools/report/sweep_table.hpp"
#include "tools/run/simulate.hpp"
#include "tools/sweeps/saved_points.hpp"
#include "tools/sweeps/sweep_points.hpp"

namespace verbtwin::tools {

namespace {

namespace fs = std::filesystem;

struct SweepOptions {
  std::string scenario;
  std::vector<std::string> overrides, sweeps;
  SimgridFlags simgrid;
  std::optional<std::string> out;
  std::optional<std::size_t> slurm_tasks;
  bool json = false;
};

struct ListedPoint {
  const scenarios::SweepPoint* point;
  bool done;
};

std::vector<ListedPoint> list_points(const SweepOptions& options,
                                     const std::vector<scenarios::SweepPoint>& points) {
  if (points.front().settings.empty()) {
    throw UserError(
        "", fmt::format("verbtwin sweep: {} is one run; allowed: a scenario with \"sweep\", or --sweep "
                        "PATH=V1,V2",
                        scenarios::one_line(options.scenario)));
  }
  if (points.front().scenario.backend != "sim")
    throw UserError("", "verbtwin sweep: is of simulated sweeps; a real one: verbtwin launch");
  std::vector<ListedPoint> listed;
  for (const scenarios::SweepPoint& point : points) {
    const bool done =
        options.out && saved_outcome(place_of_point(fs::path(*options.out) / "points", point.number), point);
    listed.push_back({&point, done});
  }
  return listed;
}

std::string absolute(const std::string& path) {
  return fs::absolute(path).lexically_normal().string();
}

/// `run` with what makes the same sweep, up to where its own flags go.
std::string run_command(const SweepOptions& options) {
  std::string text = fmt::format("{} run {}", shell_word(fs::read_symlink("/proc/self/exe")),
                                 shell_word(absolute(options.scenario)));
  for (const std::string& set : options.overrides) text += " --set " + shell_word(set);
  for (const std::string& sweep : options.sweeps) text += " --sweep " + shell_word(sweep);
  for (const std::string& cfg : options.simgrid.cfg) text += " --cfg " + shell_word(cfg);
  for (const std::string& log : options.simgrid.log) text += " --log " + shell_word(log);
  return text + " --out " + shell_word(absolute(*options.out)) + " --resume";
}

/// The points that are not done, dealt to tasks in turn: neighbours take alike long.
std::string slurm_script(const SweepOptions& options, const std::vector<ListedPoint>& listed) {
  std::string left;
  std::size_t count = 0;
  for (const ListedPoint& one : listed) {
    if (one.done) continue;
    left += fmt::format("{}{}", count == 0 ? "" : " ", one.point->number);
    ++count;
  }
  const std::size_t tasks = std::clamp<std::size_t>(count, 1, *options.slurm_tasks);
  return fmt::format(
      "#!/bin/bash\n"
      "# {} of a sweep, in {}. To submit: sbatch THIS_FILE. When all have ended, for\n"
      "# points.csv, points.svg and report.html: bash THIS_FILE gather\n"
      "#SBATCH --job-name=verbtwin\n"
      "#SBATCH --array=0-{}\n"
      "#SBATCH --ntasks=1\n"
      "#SBATCH --cpus-per-task=1\n"
      "cd {} || exit 1\n"
      "run=({})\n"
      "if [ \"${{1:-}}\" = gather ]; then exec \"${{run[@]}}\"; fi\n"
      "points=({})\n"
      "status=0\n"
      "for ((i = SLURM_ARRAY_TASK_ID; i < ${{#points[@]}}; i += {})); do\n"
      "  \"${{run[@]}}\" --quiet --point \"${{points[i]}}\" || status=$?\n"
      "done\n"
      "exit \"$status\"\n",
      format_counted(count, "point"), format_counted(tasks, "task"), tasks - 1,
      shell_word(fs::current_path().string()), run_command(options), left, tasks);
}

std::string settings_text(const scenarios::SweepPoint& point) {
  std::string text;
  for (const auto& [path, value] : point.settings)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", path, setting_text(path, value));
  return scenarios::one_line(text);
}

std::string render(const SweepOptions& options, const std::vector<ListedPoint>& listed) {
  std::string text;
  for (const ListedPoint& one : listed) {
    const char* state = !options.out ? "" : one.done ? "done    " : "to run  ";
    text += fmt::format("{:>4}  {}{}\n", one.point->number, state, settings_text(*one.point));
  }
  text += fmt::format("\n{}", format_counted(listed.size(), "point"));
  if (!options.out) return text + "\n";
  const auto done = static_cast<std::size_t>(std::ranges::count_if(listed, &ListedPoint::done));
  return text + fmt::format(": {} done, {} to run; here: {}\n", done, listed.size() - done,
                            scenarios::one_line(run_command(options), 1000));
}

nlohmann::json json_of(const SweepOptions& options, const std::vector<ListedPoint>& listed) {
  nlohmann::json all = {
      {"format", "verbtwin-sweep-points"}, {"version", 1}, {"points", nlohmann::json::array()}};
  for (const ListedPoint& one : listed) {
    nlohmann::json settings = nlohmann::json::object();
    for (const auto& [path, value] : one.point->settings) settings[path] = value;
    all["points"].push_back({{"point", one.point->number}, {"settings", settings}});
    if (options.out) all["points"].back()["done"] = one.done;
  }
  return all;
}

int sweep(const SweepOptions& options) {
  if (options.slurm_tasks && !options.out)
    throw UserError("", "--slurm: is about the points that a directory has not; add --out DIR");
  if (options.slurm_tasks && options.json) throw UserError("", "--slurm and --json; allowed: one of them");
  configure_simgrid(options.simgrid.cfg, options.simgrid.log);
  const std::vector<scenarios::SweepPoint> points =
      load_runnable_points(options.scenario, options.overrides, {}, options.sweeps);
  const std::vector<ListedPoint> listed = list_points(options, points);
  if (options.json) {
    print(json_of(options, listed).dump(2) + "\n");
  } else {
    print(options.slurm_tasks ? slurm_script(options, listed) : render(options, listed));
  }
  return kExitDone;
}

}  // namespace

void add_sweep_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<SweepOptions>();
  CLI::App* command = app.add_subcommand(
      "sweep", "List the points of a sweep, and which are done; make a batch script for the others");
  add_scenario_options(*command, options->scenario, options->overrides);
  add_sweep_option(*command, options->sweeps);
  add_simgrid_options(*command, options->simgrid);
  command->add_option("--out", options->out, "The sweep's directory: which of the points it has")
      ->type_name("DIR");
  command
      ->add_option("--slurm", options->slurm_tasks,
                   "Print a script for sbatch: the points that DIR has not, as an array of so many tasks")
      ->type_name("TASKS")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1000}));
  command->add_flag("--json", options->json, "Print the points as JSON");
  command->footer(
      "It runs nothing. `run` runs a sweep: --jobs N on this machine, --point I one of its points, --resume\n"
      "what is left of it.\n"
      "Examples:\n"
      "  verbtwin sweep scenarios/osdi18/fig14-tpcc.json --out out/fig14\n"
      "  verbtwin sweep scenarios/osdi18/fig14-tpcc.json --out out/fig14 --slurm 8 > fig14.sh && sbatch "
      "fig14.sh");
  command->callback([options, &exit_code] { exit_code = sweep(*options); });
}

}  // namespace verbtwin::tools
