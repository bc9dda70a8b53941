// verbtwin calibrate: fits the machines' parameters to published measurements or one's own, and says how far
// off they are.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/user_error.hpp"
#include "calibration/evaluate.hpp"
#include "calibration/experiment.hpp"
#include "calibration/fit.hpp"
#include "calibration/machine.hpp"
#include "calibration/report.hpp"
#include "scenarios/document.hpp"
#include "scenarios/text.hpp"
#include "tools/commands/calibrate_measured.hpp"
#include "tools/commands/calibrating.hpp"
#include "tools/commands/commands.hpp"
#include "tools/compare/comparison.hpp"
#include "tools/console/exit_code.hpp"
#include "tools/console/output_file.hpp"
#include "tools/console/print.hpp"
#include "tools/console/stop_signals.hpp"

namespace verbtwin::tools {

namespace {

namespace fs = std::filesystem;
using calibration::Experiment;
using calibration::Machines;
using calibration::ProfileKind;
using nlohmann::json;

struct CalibrateOptions {
  bool published = false;
  MeasuredOptions measured;  // its `evaluate` and `jobs` hold for both
  std::optional<std::string> group;
};

std::vector<const Experiment*> experiments_of(const Calibration& c, const calibration::MachineGroup& group) {
  std::vector<const Experiment*> own;
  for (const Experiment& e : c.set.experiments) {
    if (std::find(group.machines.begin(), group.machines.end(), e.nic) != group.machines.end())
      own.push_back(&e);
  }
  return own;
}

/// All groups in order, or one, beside which the others are as their profiles say; false if it was told to
/// stop.
bool fit(Calibration& c, const calibration::Evaluator& evaluator, const std::optional<std::string>& only) {
  FitLine line;
  for (const calibration::MachineGroup& group : c.machines.groups()) {
    if (only && group.name != only) {
      for (const std::string& machine : group.machines) {
        c.machines.adopt(machine, scenarios::Document::read(profile_file(c, machine)).root());
      }
      continue;
    }
    for (const std::string& machine : group.machines) c.machines.build(machine);
    const auto own = experiments_of(c, group);
    if (!fit_group(c.machines, group, own, evaluator, line.progress())) return false;
  }
  return true;
}

/// The report is of all machines: a profile that cannot be read is refused before the fit, not behind it.
void check_shipped(const Calibration& c, const std::string& only) {
  const fs::path profiles = c.directory / "profiles";
  const std::vector<std::string> hosts = c.machines.names(ProfileKind::kHost);
  for (const calibration::MachineGroup& group : c.machines.groups()) {
    if (group.name == only) continue;
    for (const std::string& machine : group.machines) {
      if (std::ranges::find(hosts, machine) != hosts.end()) {
        calibration::load_host_profile(machine, profiles);
      } else {
        calibration::load_nic_profile(machine, profiles);
      }
    }
  }
}

std::vector<std::string> written_machines(const Calibration& c, const std::optional<std::string>& only) {
  std::vector<std::string> names;
  for (const calibration::MachineGroup& group : c.machines.groups()) {
    if (!only || group.name == only) names.insert(names.end(), group.machines.begin(), group.machines.end());
  }
  return names;
}

/// False if it was told to stop.
bool write_report(const Calibration& c, const calibration::Evaluator& evaluator, bool replaced) {
  std::optional<calibration::ReportInput> input = evaluate_shipped(c, evaluator);
  if (!input) return false;
  // Comparisons of whole transactions stand behind it; they are of the profiles that a fit has replaced.
  ReportAppendix end_to_end;
  if (const fs::path page = c.directory / kReportPage; fs::exists(page))
    end_to_end.page = comparisons_of(scenarios::read_text(page));
  if (const fs::path file = c.directory / kReportFile; !end_to_end.page.empty() && fs::exists(file))
    end_to_end.points = compared_values_of(scenarios::Document::read(file).root());
  if (replaced && !end_to_end.page.empty()) {
    end_to_end = {};
    print(
        "left out of the report: whole transactions beside published ones, which were of the former "
        "profiles.\n"
        "To have them again: verbtwin reproduce all --out DIR --report\n");
  }
  write_report_files(c.directory, std::move(*input), end_to_end);
  return true;
}

int calibrate_published(const CalibrateOptions& options) {
  const bool evaluate = options.measured.evaluate;
  Calibration c = read_calibration();
  std::vector<std::string> groups;
  for (const auto& group : c.machines.groups()) groups.push_back(group.name);
  if (options.group && evaluate) {
    throw UserError(
        "", "verbtwin calibrate: --group is of a fit, and --evaluate fits nothing; allowed: one of them");
  }
  if (options.group && std::find(groups.begin(), groups.end(), *options.group) == groups.end()) {
    throw UserError("", fmt::format("verbtwin calibrate: unknown group {}; allowed: {}{}",
                                    scenarios::in_quotes(*options.group), scenarios::listed(groups),
                                    scenarios::did_you_mean(*options.group, groups)));
  }
  // Before minutes of fit, not behind them.
  std::vector<std::string> files = report_files(c.set);
  if (!evaluate) {
    for (const std::string& machine : written_machines(c, options.group))
      files.push_back(fmt::format("profiles/{}.json", machine));
  }
  const OutputDirectory lock(c.directory, files, {}, "");
  const StopSignals signals;
  const calibration::Evaluator evaluator(run_point, options.measured.jobs,
                                         [&] { return !signals.stop().load(); });
  bool replaced = false;  // a profile by another one
  if (!evaluate) {
    if (options.group) check_shipped(c, *options.group);
    if (!fit(c, evaluator, options.group)) return stopped(signals, "profiles and report are as they were");
    for (const std::string& machine : written_machines(c, options.group)) {
      const fs::path file = profile_file(c, machine);
      const std::string text = calibration::profile_text(c.machines.document(machine));
      replaced = replaced || (fs::exists(file) && scenarios::read_text(file) != text);
      write_file_whole(file, text);
    }
  }
  if (write_report(c, evaluator, replaced)) return kExitDone;
  return stopped(signals, evaluate ? "the report is as it was" : "profiles are written, the report is not");
}

int calibrate(const CalibrateOptions& options) {
  const MeasuredOptions& own = options.measured;
  if (!options.published && own.file.empty()) {
    throw UserError(
        "", "verbtwin calibrate: what to calibrate with is missing; allowed: --published, --measured FILE");
  }
  if (options.published && !own.file.empty()) {
    throw UserError("", "verbtwin calibrate: --published and --measured; allowed: one of them");
  }
  if (options.published) {
    if (own.nic.empty() && own.host.empty() && own.out.empty()) return calibrate_published(options);
    throw UserError("", "verbtwin calibrate: --nic, --host and --out are of --measured");
  }
  if (options.group) throw UserError("", "verbtwin calibrate: --group is of --published");
  if (own.nic.empty() || own.host.empty() || own.out.empty()) {
    throw UserError(
        "", fmt::format("verbtwin calibrate: --measured: {} is missing", own.nic.empty()    ? "--nic"
                                                                         : own.host.empty() ? "--host"
                                                                                            : "--out"));
  }
  return calibrate_measured(own);
}

}  // namespace

void add_calibrate_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<CalibrateOptions>();
  CLI::App* command =
      app.add_subcommand("calibrate", "Fit NIC and host profiles to measurements; report the misfit");
  command->add_flag(
      "--published", options->published,
      "Fit to the published measurements that come with verbtwin (calibration/published/train)");
  command
      ->add_option("--measured", options->measured.file,
                   "Fit to what `verbtwin measure` found: its measurement.json, or the directory of it")
      ->type_name("FILE");
  command
      ->add_option("--nic", options->measured.nic,
                   "With --measured: the NIC profile to begin with, the most alike; a name or a path")
      ->type_name("NAME");
  command->add_option("--host", options->measured.host, "With --measured: likewise of the host")
      ->type_name("NAME");
  command
      ->add_option("--out", options->measured.out,
                   "With --measured: directory for nic.json, host.json and the report; created if absent")
      ->type_name("DIR");
  command->add_flag("--evaluate", options->measured.evaluate,
                    "Fit nothing: only recompute the report from the profiles");
  command
      ->add_option("--group", options->group, "Fit one group of machines (calibration/machines/groups.json)")
      ->type_name("NAME");
  add_jobs_option(*command, options->measured.jobs, "Simulations at a time");
  command->footer(
      R"(--published writes calibration/profiles/*.json, calibration/REPORT.md, calibration/plots and
calibration/report.json. It takes twenty to fifty minutes on two cores; Ctrl-C leaves all profiles as they
were. Where a profile has changed, the report loses its comparisons of whole transactions, which are of the
former one (`verbtwin compare-published --report` adds new ones).
--measured writes the same into --out, and takes some minutes: two for the points that `measure` has without
flags, on two cores.
The same data give the same profiles.
Examples:
  verbtwin calibrate --published --evaluate
  verbtwin calibrate --published --group "ConnectX-4 cluster"
  verbtwin calibrate --measured out/measured/measurement.json --nic connectx-5 --host xeon-e5-2650v4 --out out/mine)");
  command->callback([options, &exit_code] { exit_code = calibrate(*options); });
}

}  // namespace verbtwin::tools
