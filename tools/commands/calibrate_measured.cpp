#include "tools/commands/calibrate_measured.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "backend/user_error.hpp"
#include "calibration/fit.hpp"
#include "calibration/measurement.hpp"
#include "calibration/misfit.hpp"
#include "calibration/plausible.hpp"
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
using Experiments = std::vector<const calibration::Experiment*>;
using Predictions = std::vector<std::vector<calibration::Prediction>>;

constexpr const char* kNicFile = "nic.json";
constexpr const char* kHostFile = "host.json";
constexpr const char* kNothing = "nothing is written";

/// Of a directory, the file that `measure` writes there.
fs::path measured_file(const std::string& given) {
  std::error_code ignored;  // what is no directory is read, and refused in words there
  return fs::is_directory(given, ignored) ? fs::path(given) / calibration::kMeasurementFile : fs::path(given);
}

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
    if (!f.determined) sure = "which the measurement does not determine, though it speaks against 1";
    if (f.put_back) sure = "as before: the measurement does not tell it from 1";
    if (f.at_end) sure = "the end of its range: the models do not explain this device";
    text.lines += fmt::format("{:<14} times {:.3g}, {}\n", v.name, f.value, sure);
    text.rows += fmt::format("| {} | {:.3g} | {} |\n", v.name, f.value, sure);
  }
  const bool some_back = std::ranges::any_of(fitted, &Fitted::put_back);
  if (some_back && std::ranges::any_of(fitted, &Fitted::determined)) {
    constexpr const char* kGiven = "These uncertainties take what is as before for right.";
    text.lines += fmt::format("{}\n", kGiven);
    text.rows += fmt::format("\n{}\n", kGiven);
  }
  if (text.lines.empty()) text.lines = "no factor: all that they would multiply is 0 in these profiles\n";
  return text;
}

/// Where nothing is fitted, link and slot are the profile's too.
std::string other_than_profile(const calibration::Measurement& measurement, const models::NicProfile& nic) {
  const auto differs = [&](const char* what, double profile_gbps, double measured_gbps) -> std::string {
    if (std::abs(profile_gbps / measured_gbps - 1) < calibration::kLinkRounding - 1) return "";
    return fmt::format("The NIC profile has a {} of {:g} Gb/s, and {} is of one of {:g} Gb/s.", what,
                       profile_gbps, measurement.file, measured_gbps);
  };
  const std::string link = differs("link", nic.link_gbps, measurement.link_gbps);
  const std::string slot = differs("slot", nic.pcie_gbps, measurement.pcie_gbps.value_or(nic.pcie_gbps));
  return link + (link.empty() || slot.empty() ? "" : " ") + slot;
}

/// Where neither the measurement nor the fit says it, the slot's rate is the profile's.
std::string assumed_slot(const calibration::Measurement& measurement, const std::vector<Fitted>& fitted,
                         double profile_gbps) {
  const auto found = std::ranges::find(fitted, calibration::kPcieRateFactor,
                                       [](const Fitted& f) { return f.variable.name; });
  if (measurement.pcie_gbps || (found != fitted.end() && !found->put_back)) return "";
  return fmt::format("{} does not say the rate of the NICs' slots: taken for the {:g} Gb/s of the profile.",
                     measurement.file, profile_gbps);
}

/// Warned of before the fit, which would take long in vain. Nothing if it was told to stop.
std::optional<std::string> warn_of_units(const calibration::Measurement& measurement,
                                         const Experiments& experiments, const Predictions& predictions) {
  if (predictions.size() != experiments.size()) return std::nullopt;
  std::string doubts = calibration::unit_doubts(measurement, experiments, predictions);
  if (!doubts.empty()) doubts = "WARNING: " + doubts;
  if (!doubts.empty()) print(doubts + "\n");
  return doubts;
}

/// A fit, with what it began from.
struct Attempt {
  Machines machines;
  std::vector<Fitted> fitted;
  Predictions predictions;
};

double root_mean_square(const Experiments& experiments, const Predictions& predictions) {
  const calibration::Values errors = calibration::errors_of(experiments, predictions);
  const double squares = std::inner_product(errors.begin(), errors.end(), errors.begin(), 0.0);
  return std::sqrt(squares / static_cast<double>(errors.size()));
}

/// Whether a limit that no factor is on may be at work: rates are there, and explained worse than they are
/// read.
bool may_have_limits(const Experiments& experiments, const Predictions& predictions) {
  constexpr double kWellExplained = 0.03;
  return root_mean_square(experiments, predictions) > kWellExplained &&
         std::ranges::any_of(experiments,
                             [](const auto* e) { return e->result_pointer == "/operations_per_s"; });
}

/// What a fit begins with: the machines `nic` and `host` are made of the bases.
struct Beginning {
  const Machines& machines;
  const calibration::Measurement& measurement;
  const std::string &nic, &base_nic, &host, &base_host;
};

/// Nothing if it was told to stop.
std::optional<Attempt> fit(const Beginning& from, bool limits, const Experiments& experiments,
                           const calibration::Evaluator& evaluator) {
  Attempt attempt{from.machines, {}, {}};
  const calibration::MachineGroup group = calibration::add_machines(
      attempt.machines, from.measurement, from.nic, from.base_nic, from.host, from.base_host, limits);
  for (const std::string& machine : group.machines) attempt.machines.build(machine);
  FitLine line;  // gone before anything else is said
  auto fitted = calibration::fit_group(attempt.machines, group, experiments, evaluator, line.progress());
  if (!fitted) return std::nullopt;
  attempt.fitted = std::move(*fitted);
  attempt.predictions = evaluator.evaluate(experiments, attempt.machines.profiles());
  if (attempt.predictions.size() != experiments.size()) return std::nullopt;
  return attempt;
}

/// Where a limit may be at work that no factor is on, the others will have gone where they make up for it:
/// all are fitted anew with it, which has to explain much more.
std::optional<Attempt> fit_with_limits(const Beginning& from, const Experiments& experiments,
                                       const calibration::Evaluator& evaluator) {
  constexpr double kMuchBetter = 0.8;
  std::optional<Attempt> best = fit(from, false, experiments, evaluator);
  if (!best || !may_have_limits(experiments, best->predictions)) return best;
  std::optional<Attempt> limited = fit(from, true, experiments, evaluator);
  if (!limited || root_mean_square(experiments, limited->predictions) <
                      kMuchBetter * root_mean_square(experiments, best->predictions)) {
    return limited;
  }
  return best;
}

/// Printed, and in the report.
void note(calibration::ReportInput& input, const std::string& sentence) {
  if (sentence.empty()) return;
  print(sentence + "\n");
  input.note += (input.note.empty() ? "" : " ") + sentence;
}

}  // namespace

int calibrate_measured(const MeasuredOptions& options) {
  const fs::path file = measured_file(options.file);
  const calibration::Measurement measurement = calibration::read_measurement(file);
  Machines machines;
  const std::string base_nic = add_base(machines, ProfileKind::kNic, options.nic);
  const std::string base_host = add_base(machines, ProfileKind::kHost, options.host);
  std::string nic = base_nic, host = base_host;
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
  if (!options.evaluate) calibration::add_machines(machines, measurement, nic, base_nic, host, base_host);
  const calibration::ExperimentSet set{
      calibration::experiments_of(measurement, nic, host, catalog_with(machines)), {}};
  Experiments all;
  for (const calibration::Experiment& e : set.experiments) all.push_back(&e);

  const fs::path directory = options.out;
  std::vector<std::string> files = report_files(set);
  if (!options.evaluate) files.insert(files.end(), {kNicFile, kHostFile});
  const StopSignals signals;
  const OutputDirectory lock(
      directory, files,
      {{file, "what --measured names"},
       {calibration::find_profile(options.nic, ProfileKind::kNic), "what --nic names"},
       {calibration::find_profile(options.host, ProfileKind::kHost), "what --host names"}});
  const calibration::Evaluator evaluator(run_point, options.jobs, [&] { return !signals.stop().load(); });
  Attempt done{machines, {}, {}};
  if (!options.evaluate) {
    for (const std::string& name : {nic, host}) done.machines.build(name);
  }
  done.predictions = evaluator.evaluate(all, done.machines.profiles());
  const std::optional<std::string> doubts = warn_of_units(measurement, all, done.predictions);
  if (!doubts) return stopped(signals, kNothing);
  if (!options.evaluate) {
    const Beginning beginning{machines, measurement, nic, base_nic, host, base_host};
    std::optional<Attempt> best = fit_with_limits(beginning, all, evaluator);
    if (!best) return stopped(signals, kNothing);
    done = std::move(*best);
  }
  const FactorTexts factors = options.evaluate ? FactorTexts{} : factor_texts(done.fitted);
  calibration::ReportInput input{&set,
                                 std::move(done.predictions),
                                 {done.machines.document(nic), done.machines.document(host)},
                                 {},
                                 calibration::Reference::kMeasured};
  input.fitted = !options.evaluate;
  input.note = *doubts;
  if (measurement.partial)
    note(input,
         fmt::format("{} is partial: it ended before all of its points were measured.", measurement.file));
  const models::NicProfile used = done.machines.profiles().nics.at(nic);
  if (options.evaluate) note(input, other_than_profile(measurement, used));
  if (!options.evaluate) note(input, assumed_slot(measurement, done.fitted, used.pcie_gbps));
  if (!options.evaluate) {
    write_file_whole(directory / kNicFile, calibration::profile_text(done.machines.document(nic)));
    write_file_whole(directory / kHostFile, calibration::profile_text(done.machines.document(host)));
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
