#include "tools/commands/calibrate_measured.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "backend/user_error.hpp"
#include "calibration/fit.hpp"
#include "calibration/measurement.hpp"
#include "calibration/profile_file.hpp"
#include "scenarios/document.hpp"
#include "scenarios/text.hpp"
#include "tools/commands/calibrating.hpp"
#include "tools/commands/commands.hpp"
#include "tools/console/exit_code.hpp"
#include "tools/console/output_file.hpp"
#include "tools/console/print.hpp"
#include "tools/console/stop_signals.hpp"

namespace verbtwin::tools {

namespace {

namespace fs = std::filesystem;
using calibration::Fitted;
using calibration::FitVariable;
using calibration::Machines;
using calibration::ProfileKind;
using nlohmann::json;

constexpr const char* kNicFile = "nic.json";
constexpr const char* kHostFile = "host.json";
constexpr const char* kNothing = "nothing is written";

/// Adds the profile that the fit begins with; its name.
std::string add_base(Machines& machines, ProfileKind kind, const std::string& name_or_path) {
  const json profile = calibration::load_profile(name_or_path, kind);
  machines.add_profile(kind, profile);
  return profile.at("name");
}

struct FactorTexts {
  std::string lines, rows;  // for a terminal, and of a table in the report
};

/// What the fit made of each factor, beside the profile that it began with.
FactorTexts factor_texts(const std::vector<Fitted>& fitted) {
  FactorTexts text;
  for (const Fitted& f : fitted) {
    const FitVariable& v = f.variable;
    const auto costs = [](double start) { return start != 0; };
    if (std::ranges::none_of(v.start, costs)) continue;  // of costs that are not there, any multiple
    std::string sure = fmt::format("+-{:.0f} %", f.uncertainty * 100);
    if (!f.determined || f.uncertainty >= 1) sure = "which the measurement does not determine";
    constexpr double kAtEnd = 1.01;
    if (f.value < v.lower * kAtEnd || f.value > v.upper / kAtEnd)
      sure = "the end of its range: the models do not explain this device";
    text.lines += fmt::format("{:<14} times {:.3g}, {}\n", v.name, f.value, sure);
    text.rows += fmt::format("| {} | {:.3g} | {} |\n", v.name, f.value, sure);
  }
  if (text.lines.empty()) text.lines = "no factor: all that they would multiply is 0 in these profiles\n";
  return text;
}

/// Where nothing is fitted, the link is the profile's too.
std::string other_link(const calibration::Measurement& measurement, double profile_gbps) {
  if (std::abs(profile_gbps / measurement.link_gbps - 1) < calibration::kLinkRounding - 1) return "";
  return fmt::format("The NIC profile has a link of {:g} Gb/s, and {} is of one of {:g} Gb/s.", profile_gbps,
                     measurement.file, measurement.link_gbps);
}

/// Printed, and in the report.
void note(calibration::ReportInput& input, const std::string& sentence) {
  if (sentence.empty()) return;
  print(sentence + "\n");
  input.note += (input.note.empty() ? "" : " ") + sentence;
}

}  // namespace

int calibrate_measured(const MeasuredOptions& options) {
  const calibration::Measurement measurement = calibration::read_measurement(options.file);
  Machines machines;
  const std::string base_nic = add_base(machines, ProfileKind::kNic, options.nic);
  const std::string base_host = add_base(machines, ProfileKind::kHost, options.host);
  std::string nic = base_nic, host = base_host;
  calibration::MachineGroup group;
  if (!options.evaluate) {
    nic += "-measured";
    host += "-measured";
  }
  if (std::set<std::string>{base_nic, base_host, nic, host}.size() < (options.evaluate ? 2 : 4)) {
    throw UserError(
        "", fmt::format("--nic and --host: profiles of the names {} and {}; allowed: two names, neither the "
                        "other's with \"-measured\" behind it",
                        scenarios::in_quotes(base_nic), scenarios::in_quotes(base_host)));
  }
  if (!options.evaluate) {
    group = calibration::add_machines(machines, measurement, nic, base_nic, host, base_host);
  }
  const calibration::ExperimentSet set{
      calibration::experiments_of(measurement, nic, host, catalog_with(machines)), {}};
  std::vector<const calibration::Experiment*> all;
  for (const calibration::Experiment& e : set.experiments) all.push_back(&e);

  const fs::path directory = options.out;
  std::vector<std::string> files = report_files(set);
  if (!options.evaluate) files.insert(files.end(), {kNicFile, kHostFile});
  const StopSignals signals;
  const OutputDirectory lock(
      directory, files,
      {{options.file, "what --measured names"},
       {calibration::find_profile(options.nic, ProfileKind::kNic), "what --nic names"},
       {calibration::find_profile(options.host, ProfileKind::kHost), "what --host names"}});
  const calibration::Evaluator evaluator(run_point, options.jobs, [&] { return !signals.stop().load(); });
  FactorTexts factors;
  if (!options.evaluate) {
    for (const std::string& machine : group.machines) machines.build(machine);
    std::optional<std::vector<Fitted>> fitted;
    {
      FitLine line;  // gone before anything else is said
      fitted = calibration::fit_group(machines, group, all, evaluator, line.progress());
    }
    if (!fitted) return stopped(signals, kNothing);
    factors = factor_texts(*fitted);
  }
  calibration::ReportInput input{&set,
                                 evaluator.evaluate(all, machines.profiles()),
                                 {machines.document(nic), machines.document(host)},
                                 {},
                                 calibration::Reference::kMeasured};
  if (input.predictions.size() != all.size()) return stopped(signals, kNothing);
  if (measurement.partial)
    note(input,
         fmt::format("{} is partial: it ended before all of its points were measured.", measurement.file));
  if (options.evaluate) note(input, other_link(measurement, machines.profiles().nics.at(nic).link_gbps));
  if (!options.evaluate) {
    write_file_whole(directory / kNicFile, calibration::profile_text(machines.document(nic)));
    write_file_whole(directory / kHostFile, calibration::profile_text(machines.document(host)));
  }
  ReportAppendix appendix;
  if (!factors.rows.empty()) {
    appendix.page =
        fmt::format("\n# Factors\n\nOf {} and {}.\n\n| factor | times | sure |\n| --- | ---: | --- |\n{}",
                    scenarios::one_line(base_nic), scenarios::one_line(base_host), factors.rows);
  }
  write_report_files(directory, std::move(input), appendix);
  if (!options.evaluate) {
    print(fmt::format(
        "\n{}, beside {} and {}:\n{}\nverbtwin run SCENARIO --set cluster.nic={} --set cluster.host={}\n",
        measurement.devices, scenarios::one_line(base_nic), scenarios::one_line(base_host), factors.lines,
        scenarios::one_line((directory / kNicFile).string()),
        scenarios::one_line((directory / kHostFile).string())));
  }
  return kExitDone;
}

}  // namespace verbtwin::tools
