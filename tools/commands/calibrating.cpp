#include "tools/commands/calibrating.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "backend/user_error.hpp"
#include "scenarios/loader.hpp"
#include "scenarios/text.hpp"
#include "tools/commands/commands.hpp"
#include "tools/console/exit_code.hpp"
#include "tools/console/output_file.hpp"
#include "tools/console/print.hpp"
#include "tools/console/progress.hpp"
#include "tools/console/text.hpp"
#include "tools/report/plot.hpp"
#include "tools/report/report_plots.hpp"
#include "tools/report/summary.hpp"
#include "tools/run/catalog.hpp"
#include "tools/run/simulate.hpp"

namespace verbtwin::tools {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string picture_of(const calibration::Experiment& experiment) {
  return fmt::format("plots/{}.svg", experiment.name);
}

/// Their paths from the report, by experiment; where there is none, "".
std::vector<std::string> draw_experiments(const fs::path& directory, const calibration::ReportInput& input) {
  std::vector<std::string> pictures;
  for (std::size_t e = 0; e < input.set->experiments.size(); ++e) {
    pictures.emplace_back();
    const std::vector<Panel> panels = experiment_panels(input.set->experiments[e], input.predictions[e]);
    if (panels.empty()) continue;
    const std::string picture = picture_of(input.set->experiments[e]);
    fs::create_directories((directory / picture).parent_path());
    const std::string failure = draw(plot_script(panels), directory / picture);
    if (failure.empty()) {
      pictures.back() = picture;
    } else {
      print(fmt::format("no {}: {}\n", scenarios::one_line(picture), scenarios::one_line(failure)));
    }
  }
  return pictures;
}

}  // namespace

scenarios::Catalog catalog_with(const calibration::Machines& machines) {
  scenarios::Catalog catalog = make_catalog();
  const auto add = [](std::vector<std::string>& known, const std::vector<std::string>& more) {
    known.insert(known.end(), more.begin(), more.end());
    std::sort(known.begin(), known.end());
    known.erase(std::unique(known.begin(), known.end()), known.end());
  };
  add(catalog.nics, machines.names(calibration::ProfileKind::kNic));
  add(catalog.hosts, machines.names(calibration::ProfileKind::kHost));
  return catalog;
}

json run_point(const scenarios::Scenario& scenario, const models::NicProfile& nic,
               const models::HostProfile& host) {
  RunControl control;
  control.nic = &nic;
  control.host = &host;
  json result;
  try {
    result = simulate(scenario, control);
  } catch (const UserError& error) {
    throw UserError("", scenarios::describe(scenario, error));
  }
  for (const json& check : result.at("checks"))
    if (check.at("violations") > 0) throw std::runtime_error(check.at("examples").at(0).get<std::string>());
  return result;
}

Calibration read_calibration() {
  Calibration c;
  c.directory = calibration::profile_directory().parent_path();
  c.machines = calibration::Machines::read(c.directory / "machines");
  c.set = calibration::load_experiments(c.directory / "experiments", c.directory / "published" / "train",
                                        catalog_with(c.machines));
  return c;
}

fs::path profile_file(const Calibration& calibration, const std::string& machine) {
  return calibration.directory / "profiles" / (machine + ".json");
}

std::optional<calibration::ReportInput> evaluate_shipped(const Calibration& calibration,
                                                         const calibration::Evaluator& evaluator) {
  calibration::ProfileSet set;
  const fs::path directory = calibration.directory / "profiles";
  std::vector<const calibration::Experiment*> all;
  for (const calibration::Experiment& e : calibration.set.experiments) {
    set.nics[e.nic] = calibration::load_nic_profile(e.nic, directory);
    set.hosts[e.host] = calibration::load_host_profile(e.host, directory);
    all.push_back(&e);
  }
  calibration::ReportInput input;
  input.set = &calibration.set;
  for (const calibration::MachineGroup& group : calibration.machines.groups()) {
    for (const std::string& machine : group.machines)
      input.profiles.push_back(scenarios::Document::read(profile_file(calibration, machine)).root());
  }
  {
    FitLine line;
    input.predictions = evaluator.evaluate(
        all, set, [&line](int done, int of) { line.update("experiments' points", done, of, ""); });
  }
  if (input.predictions.size() != all.size()) return std::nullopt;
  return input;
}

FitLine::FitLine()
    : width_columns_(style_of_stream(STDERR_FILENO).width_columns), shown_(is_terminal(STDERR_FILENO)) {}

FitLine::~FitLine() {
  if (shown_) print_error("\r\x1b[K");
}

calibration::FitProgress FitLine::progress() {
  return [this](const calibration::MachineGroup& group, int done, int of, double best) {
    update(group.name, done, of, fmt::format("misfit {:.2f} %", std::sqrt(best) * 100));
  };
}

void FitLine::update(const std::string& what, int done, int of, const std::string& more) {
  constexpr double kSayEveryS = 60;  // where nothing can be drawn again
  const double now_s = Progress::monotonic_s();
  if (said_s_ == 0) said_s_ = now_s;
  if (what != what_) {
    what_ = what;
    start_s_ = now_s;
    first_ = done;
  }
  if (!shown_ && now_s - said_s_ < kSayEveryS) return;
  said_s_ = now_s;
  const double each_s = done > first_ ? (now_s - start_s_) / (done - first_) : 0;
  if (!shown_) {
    print_error(
        fmt::format("{} {}/{} {} ETA {}\n", what, done, of, more, format_seconds(each_s * (of - done))));
    return;
  }
  std::string line = fmt::format("[{}] {} {}/{} {} ETA {}", format_bar(static_cast<double>(done) / of, 20),
                                 what, done, of, more, format_seconds(each_s * (of - done)));
  line.resize(std::min(line.size(), width_columns_ - 1));
  print_error(fmt::format("\r\x1b[K{}", line));
  std::fflush(stderr);
}

int stopped(const StopSignals& signals, std::string_view what_is_there) {
  print_error(fmt::format("PARTIAL: ended before all points were simulated; {}\n", what_is_there));
  return kExitSignal + signals.signal_number();
}

std::vector<std::string> report_files(const calibration::ExperimentSet& set) {
  std::vector<std::string> files = {kReportFile, kReportPage};
  for (const calibration::Experiment& experiment : set.experiments) files.push_back(picture_of(experiment));
  return files;
}

std::string report_text(const json& points) {
  std::string list = "[\n";
  for (const json& point : points) list += fmt::format("{}  {}", list.size() > 2 ? ",\n" : "", point.dump());
  return list + "\n]\n";
}

void write_report_files(const fs::path& directory, calibration::ReportInput input,
                        const ReportAppendix& appendix) {
  input.pictures = draw_experiments(directory, input);
  json points = calibration::report_json(input);
  points.insert(points.end(), appendix.points.begin(), appendix.points.end());
  write_file_whole(directory / kReportFile, report_text(points));
  write_file_whole(directory / kReportPage, calibration::report_markdown(input) + appendix.page);
  print(calibration::report_summary(input));
  print_written(directory / kReportPage);
}

}  // namespace verbtwin::tools
