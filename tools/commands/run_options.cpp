#include "tools/commands/run_options.hpp"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <system_error>
#include <utility>

#include "backend/user_error.hpp"
#include "scenarios/text.hpp"
#include "tools/console/output_file.hpp"
#include "tools/report/percentiles.hpp"
#include "tools/run/simulate.hpp"
#include "tools/sweeps/saved_points.hpp"
#include "tools/sweeps/sweep_points.hpp"

namespace verbtwin::tools {

namespace {

/// The file would take the place of what is read, or something else that is written that of the file.
void check_file(const char* flag, const std::filesystem::path& file, const std::vector<InputFile>& taken) {
  if (const InputFile* there = overwritten(file, taken)) {
    throw UserError("", fmt::format("{} {}: is {}; give another file", flag,
                                    scenarios::one_line(file.string()), there->what));
  }
}

/// --trace and --hdr are files of one run.
void check_files(const RunOptions& options, const std::vector<scenarios::SweepPoint>& points) {
  for (const auto& [flag, file] : {std::pair("--trace", &options.trace), std::pair("--hdr", &options.hdr)}) {
    if (!*file) continue;
    if ((*file)->empty()) throw UserError("", fmt::format("{}: is empty; give the name of a file", flag));
    if (points.size() > 1 && !options.point)
      throw UserError(
          "", fmt::format("{} is of one run, and this scenario is a sweep of several; add --point I", flag));
  }
  if (options.trace && points.front().scenario.backend != "sim")
    throw UserError("", "--trace is of simulated runs: --backend sim is allowed with it");
  std::vector<InputFile> taken = inputs_of(options.scenario, points);
  const scenarios::SweepPoint& point = points[options.point.value_or(0)];
  for (const std::string& file : result_files())
    if (options.out) taken.push_back({options.place_of(point) / file, "where the result goes"});
  if (options.trace) {
    check_file("--trace", *options.trace, taken);
    taken.push_back({*options.trace, "where the trace goes"});
  }
  if (options.hdr) {
    check_file("--hdr", *options.hdr, taken);
    if (has_second_hdr(*options.hdr, point.scenario))
      check_file("--hdr", uncorrected_beside(*options.hdr), taken);
  }
}

/// --resume is about the points of a sweep in --out, --point about one of them.
void check_parts(const RunOptions& options, const std::vector<scenarios::SweepPoint>& points) {
  if (!options.resume && !options.point) return;
  const char* flag = options.resume ? "--resume" : "--point";
  const auto refuse = [&](const std::string& why) { throw UserError("", fmt::format("{}: {}", flag, why)); };
  if (options.resume && !options.out) refuse("is about the results in a directory; add --out DIR");
  if (points.front().settings.empty()) refuse("is about a sweep's points, and this scenario is one run");
  if (points.front().scenario.backend != "sim")
    refuse("is of simulated sweeps; allowed: --backend sim, or a real sweep as a whole");
  if (options.point && *options.point >= points.size())
    throw UserError("", fmt::format("--point {}: allowed: 0 to {}", *options.point, points.size() - 1));
}

}  // namespace

std::filesystem::path RunOptions::place_of(const scenarios::SweepPoint& one) const {
  const std::filesystem::path directory = *out;
  return one.settings.empty() ? directory : place_of_point(directory / "points", one.number);
}

std::vector<scenarios::SweepPoint> load_points(const RunOptions& options) {
  std::vector<scenarios::Override> flags;
  if (!options.backend.empty())
    flags.push_back(scenarios::flag_override("backend", "--backend", options.backend));
  if (!options.seed.empty()) flags.push_back(scenarios::flag_override("run.seed", "--seed", options.seed));
  configure_simgrid(options.simgrid.cfg, options.simgrid.log);
  std::vector<scenarios::SweepPoint> points =
      load_runnable_points(options.scenario, options.overrides, flags, options.sweeps);
  for (const auto& [settings, scenario, number] : points) {
    if (scenario.backend == "sim" && options.rank.any()) {
      throw UserError("",
                      "--rank, --ranks, --rendezvous, --device, --port, --gid-index, --sl and "
                      "--traffic-class are for real "
                      "verbs: add --backend ibverbs");
    }
    if (scenario.backend != "sim" && options.jobs > 1) {
      throw UserError("",
                      fmt::format("--jobs {}: real runs share their machines, one runs at a time; allowed: 1",
                                  options.jobs));
    }
    if (scenario.backend != "sim" && !(options.simgrid.cfg.empty() && options.simgrid.log.empty()))
      throw UserError("", "--cfg and --log are SimGrid's: --backend sim is allowed with them");
  }
  check_parts(options, points);
  if (options.trace || options.hdr) check_files(options, points);
  return points;
}

bool has_second_hdr(const std::filesystem::path& file, const scenarios::Scenario& scenario) {
  std::error_code ignored;
  const auto status = std::filesystem::symlink_status(file, ignored);
  const bool is_plain = !std::filesystem::exists(status) || std::filesystem::is_regular_file(status);
  return scenario.run.offered_per_s > 0 && is_plain;
}

void add_run_options(CLI::App& command, RunOptions& options) {
  add_scenario_options(command, options.scenario, options.overrides);
  add_sweep_option(command, options.sweeps);
  command.add_option("--backend", options.backend, "sim or ibverbs; the same as --set backend=...")
      ->type_name("NAME");
  command.add_option("--seed", options.seed, "Seed of the run; the same as --set run.seed=...")
      ->type_name("N");
  command
      .add_option("--out", options.out,
                  "Directory for result.json, report.html and latency.hgrm, or a sweep's points.csv, "
                  "points.svg, report.html and points/; created if absent; points of an earlier sweep there "
                  "are removed; it holds a run or a sweep, not both")
      ->type_name("DIR");
  command.add_flag(
      "--resume", options.resume,
      "Run only what --out DIR has not: points of a simulated sweep that are there whole, of this "
      "program, scenario and profiles, are kept; refused where DIR has points of another scenario");
  command
      .add_option("--point", options.point,
                  "Run only this point of a simulated sweep, into DIR/points: jobs of a cluster can share a "
                  "sweep, and --resume joins it; points count from 0")
      ->type_name("I")
      ->check(CLI::Range(std::size_t{0}, scenarios::kSweepPointsMax - 1));
  command
      .add_option(
          "--trace", options.trace,
          "Write a trace to this file; simulated runs only. FILE.json: transactions, phases and requests, "
          "with arrows to their completions, on a timeline for https://ui.perfetto.dev; the first million "
          "events of the window. Any other: "
          "every request as it is posted, a line of CSV each: time_ns,node,thread,peer,queue_pair,verb,"
          "bytes,to,signalled,list")
      ->type_name("FILE");
  command
      .add_option("--hdr", options.hdr,
                  "Write the latencies to this file, as HdrHistogram's plotter reads them, in microseconds: "
                  "what --out has as latency.hgrm. With run.offered_per_s those without the wait for a "
                  "coroutine go beside it: NAME-uncorrected.hgrm of NAME.hgrm. Of one run, or of --point")
      ->type_name("FILE");
  command.add_flag("--json", options.json, "Print the result as JSON instead of the summary");
  add_jobs_option(command, options.jobs,
                  "Points of a sweep that run side by side, each in a process of its own");
  command.add_flag("--quiet", options.quiet, "Print no summary and no progress");
  add_simgrid_options(command, options.simgrid);
  constexpr const char* kGroup = "Real verbs (--backend ibverbs)";
  command
      .add_option("--rank", options.rank.rank,
                  "This process's number; from Slurm's, Open MPI's or MPICH's environment where absent")
      ->type_name("R")
      ->group(kGroup);
  command
      .add_option("--ranks", options.rank.ranks,
                  "How many there are: the scenario's nodes; from the environment where absent")
      ->type_name("N")
      ->group(kGroup);
  command.add_option("--rendezvous", options.rank.rendezvous, "Where rank 0 listens and the others find it")
      ->type_name("HOST:PORT")
      ->group(kGroup);
  add_device_options(command, options.rank, kGroup);
}

}  // namespace verbtwin::tools
