// verbtwin calibrate: fits the machines' parameters to published measurements, and says how far off they are.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/user_error.hpp"
#include "calibration/evaluate.hpp"
#include "calibration/experiment.hpp"
#include "calibration/fit.hpp"
#include "calibration/machine.hpp"
#include "calibration/report.hpp"
#include "scenarios/document.hpp"
#include "scenarios/loader.hpp"
#include "scenarios/text.hpp"
#include "tools/catalog.hpp"
#include "tools/commands.hpp"
#include "tools/comparison.hpp"
#include "tools/output_file.hpp"
#include "tools/plot.hpp"
#include "tools/progress.hpp"
#include "tools/report_plots.hpp"
#include "tools/simulate.hpp"
#include "tools/stop_signals.hpp"
#include "tools/summary.hpp"
#include "tools/text.hpp"

namespace verbtwin::tools {

namespace {

namespace fs = std::filesystem;
using calibration::Experiment;
using calibration::Machines;
using calibration::ProfileKind;
using nlohmann::json;

struct CalibrateOptions {
  bool published = false;
  bool evaluate = false;
  int jobs = 2;
  std::optional<std::string> group;
};

struct Calibration {
  fs::path directory;  // calibration/ with its data
  Machines machines;
  calibration::ExperimentSet set;
};

/// What experiments may name: the machines, whether or not there is a profile of them yet.
scenarios::Catalog catalog_with(const Machines& machines) {
  scenarios::Catalog catalog = make_catalog();
  const auto add = [](std::vector<std::string>& known, const std::vector<std::string>& more) {
    known.insert(known.end(), more.begin(), more.end());
    std::sort(known.begin(), known.end());
    known.erase(std::unique(known.begin(), known.end()), known.end());
  };
  add(catalog.nics, machines.names(ProfileKind::kNic));
  add(catalog.hosts, machines.names(ProfileKind::kHost));
  return catalog;
}

Calibration read_calibration() {
  Calibration c;
  c.directory = calibration::profile_directory().parent_path();
  c.machines = Machines::read(c.directory / "machines");
  c.set = calibration::load_experiments(c.directory / "experiments", c.directory / "published" / "train",
                                        catalog_with(c.machines));
  return c;
}

std::vector<const Experiment*> experiments_of(const Calibration& c, const calibration::MachineGroup& group) {
  std::vector<const Experiment*> own;
  for (const Experiment& e : c.set.experiments) {
    if (std::find(group.machines.begin(), group.machines.end(), e.nic) != group.machines.end())
      own.push_back(&e);
  }
  return own;
}

json run_point(const scenarios::Scenario& scenario, const models::NicProfile& nic,
               const models::HostProfile& host) {
  RunControl control;
  control.nic = &nic;
  control.host = &host;
  try {
    return simulate(scenario, control);
  } catch (const UserError& error) {
    throw UserError("", scenarios::describe(scenario, error));
  }
}

/// A line on a terminal that is drawn again and again; nothing in a pipe.
class FitLine {
 public:
  FitLine()
      : width_columns_(style_of_stream(STDERR_FILENO).width_columns), shown_(isatty(STDERR_FILENO) != 0) {}
  ~FitLine() {
    if (shown_) fmt::print(stderr, "\r\x1b[K");
  }
  FitLine(const FitLine&) = delete;
  FitLine& operator=(const FitLine&) = delete;

  void update(const std::string& what, int done, int of, const std::string& more) {
    if (!shown_) return;
    const double now_s = Progress::monotonic_s();
    if (what != what_) {
      what_ = what;
      start_s_ = now_s;
      first_ = done;
    }
    const double each_s = done > first_ ? (now_s - start_s_) / (done - first_) : 0;
    std::string line = fmt::format("[{}] {} {}/{} {} ETA {}", format_bar(static_cast<double>(done) / of, 20),
                                   what, done, of, more, format_seconds(each_s * (of - done)));
    line.resize(std::min(line.size(), width_columns_ - 1));
    fmt::print(stderr, "\r\x1b[K{}", line);
    std::fflush(stderr);
  }

 private:
  std::size_t width_columns_;
  bool shown_;
  std::string what_;
  double start_s_ = 0;
  int first_ = 0;
};

fs::path profile_file(const Calibration& c, const std::string& machine) {
  return c.directory / "profiles" / (machine + ".json");
}

/// All groups in order, or one, beside which the others are as their profiles say; false if it was told to
/// stop.
bool fit(Calibration& c, const calibration::Evaluator& evaluator, const std::optional<std::string>& only) {
  FitLine line;
  const auto progress = [&](const calibration::MachineGroup& group, int done, int of, double best) {
    line.update(group.name, done, of, fmt::format("misfit {:.2f} %", std::sqrt(best) * 100));
  };
  for (const calibration::MachineGroup& group : c.machines.groups()) {
    if (only && group.name != only) {
      for (const std::string& machine : group.machines) {
        c.machines.adopt(machine, scenarios::Document::read(profile_file(c, machine)).root());
      }
      continue;
    }
    for (const std::string& machine : group.machines) c.machines.build(machine);
    const auto own = experiments_of(c, group);
    if (!fit_group(c.machines, group, own, evaluator, progress)) return false;
  }
  return true;
}

/// The report is of all machines: a profile that cannot be read is refused before the fit, not behind it.
void check_shipped(const Calibration& c, const std::string& only) {
  const std::vector<fs::path> search{c.directory / "profiles"};
  const std::vector<std::string> hosts = c.machines.names(ProfileKind::kHost);
  for (const calibration::MachineGroup& group : c.machines.groups()) {
    if (group.name == only) continue;
    for (const std::string& machine : group.machines) {
      if (std::ranges::find(hosts, machine) != hosts.end()) {
        calibration::load_host_profile(machine, search);
      } else {
        calibration::load_nic_profile(machine, search);
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

/// Their paths from the report, by experiment; where there is none, "".
std::vector<std::string> draw_experiments(
    const Calibration& c, const std::vector<std::vector<calibration::Prediction>>& predictions) {
  std::vector<std::string> pictures;
  for (std::size_t e = 0; e < c.set.experiments.size(); ++e) {
    pictures.emplace_back();
    const std::vector<Panel> panels = experiment_panels(c.set.experiments[e], predictions[e]);
    if (panels.empty()) continue;
    const std::string picture = fmt::format("plots/{}.svg", c.set.experiments[e].name);
    const std::string failure = draw(plot_script(panels), c.directory / picture);
    if (failure.empty()) {
      pictures.back() = picture;
    } else {
      print(fmt::format("no {}: {}\n", picture, failure));
    }
  }
  return pictures;
}

void write_report(const Calibration& c, const calibration::Evaluator& evaluator,
                  const std::vector<json>& profiles, bool fitted) {
  calibration::ProfileSet set;
  const std::vector<fs::path> search{c.directory / "profiles"};
  for (const Experiment& e : c.set.experiments) {
    set.nics[e.nic] = calibration::load_nic_profile(e.nic, search);
    set.hosts[e.host] = calibration::load_host_profile(e.host, search);
  }
  std::vector<const Experiment*> all;
  for (const Experiment& e : c.set.experiments) all.push_back(&e);
  calibration::ReportInput input{&c.set, evaluator.evaluate(all, set), profiles, {}};
  if (input.predictions.size() != all.size()) return;
  input.pictures = draw_experiments(c, input.predictions);
  std::string list = "[\n";
  for (const json& entry : calibration::report_json(input))
    list += fmt::format("{}  {}", list.size() > 2 ? ",\n" : "", entry.dump());
  write_file_whole(c.directory / "report.json", list + "\n]\n");
  // Comparisons of whole transactions stand behind it; they are of the profiles that a fit has replaced.
  std::ifstream former(c.directory / "REPORT.md");
  std::string end_to_end = comparisons_of({std::istreambuf_iterator<char>(former), {}});
  if (fitted && !end_to_end.empty()) {
    end_to_end.clear();
    print(
        "left out of the report: whole transactions beside published ones, which were of the former "
        "profiles.\n"
        "To have them again, for each scenario of scenarios/osdi18 and scenarios/ramp: verbtwin run SCENARIO "
        "--out DIR, verbtwin compare-published DIR --report\n");
  }
  write_file_whole(c.directory / "REPORT.md", calibration::report_markdown(input) + end_to_end);
  print(calibration::report_summary(input));
  print(fmt::format("wrote {}\n", (c.directory / "REPORT.md").string()));
}

std::vector<json> shipped_profiles(const Calibration& c) {
  std::vector<json> documents;
  for (const std::string& machine : written_machines(c, std::nullopt)) {
    documents.push_back(scenarios::Document::read(profile_file(c, machine)).root());
  }
  return documents;
}

int calibrate(const CalibrateOptions& options) {
  if (!options.published) {
    throw UserError("", "verbtwin calibrate: what to calibrate with is missing; allowed: --published");
  }
  Calibration c = read_calibration();
  std::vector<std::string> groups;
  for (const auto& group : c.machines.groups()) groups.push_back(group.name);
  if (options.group && options.evaluate) {
    throw UserError(
        "", "verbtwin calibrate: --group is of a fit, and --evaluate fits nothing; allowed: one of them");
  }
  if (options.group && std::find(groups.begin(), groups.end(), *options.group) == groups.end()) {
    throw UserError("", fmt::format("verbtwin calibrate: unknown group {}; allowed: {}{}",
                                    scenarios::in_quotes(*options.group), scenarios::listed(groups),
                                    scenarios::did_you_mean(*options.group, groups)));
  }
  // Before minutes of fit, not behind them.
  prepare_output_directory(c.directory, "REPORT.md", "");
  prepare_output_directory(c.directory / "plots", "experiment.svg", "");
  if (!options.evaluate) prepare_output_directory(c.directory / "profiles", "profile.json", "");
  const StopSignals signals;
  const calibration::Evaluator evaluator(run_point, options.jobs, [&] { return !signals.stop().load(); });
  if (!options.evaluate) {
    if (options.group) check_shipped(c, *options.group);
    if (!fit(c, evaluator, options.group)) return kExitSignal + signals.signal_number();
    for (const std::string& machine : written_machines(c, options.group)) {
      write_file_whole(profile_file(c, machine), calibration::profile_text(c.machines.document(machine)));
    }
  }
  write_report(c, evaluator, shipped_profiles(c), !options.evaluate);
  return signals.stop() ? kExitSignal + signals.signal_number() : kExitDone;
}

}  // namespace

void add_calibrate_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<CalibrateOptions>();
  CLI::App* command =
      app.add_subcommand("calibrate", "Fit NIC and host profiles to measurements; report the misfit");
  command->add_flag(
      "--published", options->published,
      "Fit to the published measurements that come with verbtwin (calibration/published/train)");
  command->add_flag("--evaluate", options->evaluate,
                    "Fit nothing: only recompute the report from the profiles");
  command
      ->add_option("--group", options->group, "Fit one group of machines (calibration/machines/groups.json)")
      ->type_name("NAME");
  command->add_option("--jobs", options->jobs, "Simulations at a time")
      ->type_name("N")
      ->check(CLI::Range(1, 256));
  command->footer(
      "Writes calibration/profiles/*.json, calibration/REPORT.md, calibration/plots and "
      "calibration/report.json.\n"
      "A fit drops the comparisons of whole transactions from the report: they are of the former profiles.\n"
      "A fit takes twenty to fifty minutes on two cores; Ctrl-C leaves all profiles as they were. The same "
      "data\n"
      "give the same profiles.\n"
      "Examples:\n"
      "  verbtwin calibrate --published --evaluate\n"
      "  verbtwin calibrate --published --group \"ConnectX-4 cluster\"\n"
      "  verbtwin calibrate --published --jobs 8");
  command->callback([options, &exit_code] { exit_code = calibrate(*options); });
}

}  // namespace verbtwin::tools
