// verbtwin validate: simulates every published primitive again, says how far off the models are, and whether
// this build and these profiles give what calibration/report.json says.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "backend/user_error.hpp"
#include "calibration/evaluate.hpp"
#include "calibration/profile_file.hpp"
#include "calibration/report.hpp"
#include "scenarios/document.hpp"
#include "scenarios/text.hpp"
#include "tools/commands/calibrating.hpp"
#include "tools/commands/commands.hpp"
#include "tools/console/exit_code.hpp"
#include "tools/console/print.hpp"
#include "tools/console/stop_signals.hpp"

namespace verbtwin::tools {

namespace {

using calibration::Errors;
using nlohmann::json;

/// Experiment, series and x.
using Place = std::tuple<std::string, std::string, json>;

Place place_of(const json& point) {
  return {point.at("experiment"), point.at("series"), point.at("x")};
}

/// The simulated values of calibration/report.json that validate makes again.
std::map<Place, json> read_reported(const std::filesystem::path& file) {
  return read_report(file, [](const std::filesystem::path& path) {
    const scenarios::Document report = scenarios::Document::read(path);
    std::map<Place, json> values;
    try {
      for (const json& point : report.root())
        if (point.at("set") == "train") values[place_of(point)] = point.at("simulated");
    } catch (const json::exception&) {
      throw UserError("", fmt::format("{}: is no report", scenarios::one_line(path.string())));
    }
    return values;
  });
}

/// Points whose value is not the reported one: with it, or null where it has none.
json differing_points(const json& points, const std::map<Place, json>& reported) {
  json differing = json::array();
  for (const json& point : points) {
    const auto found = reported.find(place_of(point));
    if (found != reported.end() && found->second == point.at("simulated")) continue;
    json one = point;
    one["reported"] = found == reported.end() ? json() : found->second;
    differing.push_back(std::move(one));
  }
  return differing;
}

std::string render_row(const std::string& name, const Errors& errors, const std::string& fitted) {
  const auto percent = [](double share) { return fmt::format("{:.1f} %", share * 100); };
  return fmt::format("{:<14}{:>7}{:>10}{:>10}{:>10}{}\n", name, errors.points, percent(errors.median),
                     percent(errors.root_mean_square), percent(errors.worst), fitted);
}

std::string render_table(const calibration::ReportInput& input) {
  std::map<std::string, std::string> fitted;
  for (const calibration::ProfileInfo& profile : calibration::list_profiles(calibration::profile_directory()))
    fitted[profile.name] = profile.provenance;
  std::string text =
      fmt::format("{:<14}{:>7}{:>10}{:>10}{:>10}\n", "NIC", "points", "median", "rms", "worst");
  for (const auto& [nic, errors] : calibration::errors_by_nic(input))
    text += render_row(nic, errors, "   " + fitted[nic]);
  const Errors all = calibration::errors_of_all(input);
  const calibration::Shape shape = calibration::shape_of_all(input);
  return text + render_row("all", all, "") +
         fmt::format(
             "\n{} of {} pairs of points are in the published order, {} of {} limits are as papers say,\n"
             "{} points are more than 20 % off.\n",
             shape.pairs_kept, shape.pairs, shape.limits_right, shape.limits, all.far_off);
}

std::string render_differing(const json& differing, std::size_t points) {
  if (differing.empty())
    return fmt::format("PASS all {} simulated values are as in calibration/report.json\n", points);
  constexpr std::size_t kShown = 10;
  std::string text = fmt::format("FAIL {} of {} simulated values are not as in calibration/report.json:\n",
                                 differing.size(), points);
  for (std::size_t i = 0; i < std::min(kShown, differing.size()); ++i) {
    const json& point = differing[i];
    const json &x = point.at("x"), &was = point.at("reported");
    text +=
        fmt::format("  {}, {} {}: {} simulated, {} reported\n", point.at("experiment").get<std::string>(),
                    point.at("series").get<std::string>(), x.is_string() ? x.get<std::string>() : x.dump(),
                    point.at("simulated").dump(), was.is_null() ? "none" : was.dump());
  }
  if (differing.size() > kShown) text += "  ... (--json has all)\n";
  return text +
         "Another profile, or other models, than the report was made with. To make it anew: verbtwin "
         "calibrate\n--published --evaluate\n";
}

json errors_json(const Errors& errors) {
  return {{"points", errors.points},
          {"error_median", errors.median},
          {"error_root_mean_square", errors.root_mean_square},
          {"error_worst", errors.worst}};
}

json result_of(const calibration::ReportInput& input, const json& points, const json& differing) {
  const calibration::Shape shape = calibration::shape_of_all(input);
  json result = {{"format", "verbtwin-validation"},
                 {"version", 1},
                 {"nics", json::array()},
                 {"all", errors_json(calibration::errors_of_all(input))},
                 {"pairs", shape.pairs},
                 {"pairs_in_order", shape.pairs_kept},
                 {"limits", shape.limits},
                 {"limits_as_published", shape.limits_right},
                 {"points", points},
                 {"differing", differing}};
  for (const auto& [nic, errors] : calibration::errors_by_nic(input)) {
    result["nics"].push_back(errors_json(errors));
    result["nics"].back()["nic"] = nic;
  }
  return result;
}

int validate(int jobs, bool as_json) {
  const Calibration c = read_calibration();
  const std::map<Place, json> reported = read_reported(c.directory / kReportFile);
  const StopSignals signals;
  const calibration::Evaluator evaluator(run_point, jobs, [&] { return !signals.stop().load(); });
  const std::optional<calibration::ReportInput> input = evaluate_shipped(c, evaluator);
  if (!input) return stopped(signals, "nothing is validated");
  const json points = calibration::report_json(*input);
  const json differing = differing_points(points, reported);
  if (as_json) {
    print(result_of(*input, points, differing).dump(2) + "\n");
  } else {
    print(render_table(*input) + "\n" + render_differing(differing, points.size()));
  }
  return differing.empty() ? kExitDone : kExitCheckFailed;
}

}  // namespace

void add_validate_command(CLI::App& app, int& exit_code) {
  auto jobs = std::make_shared<int>(2);
  auto as_json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(
      "validate", "Simulate the published primitives again: how far off are the models, as the report says?");
  add_jobs_option(*command, *jobs, "Simulations at a time");
  command->add_flag("--json", *as_json, "Print all points and the table as JSON");
  command->footer(
      "Half a minute on two cores. Changes no file. Exit code 3 where a value is not the one in\n"
      "calibration/report.json: a profile or the models are others than those that it was made with.\n"
      "Whole transactions beside published ones: verbtwin reproduce.\n"
      "Example:\n"
      "  verbtwin validate --jobs 2");
  command->callback([jobs, as_json, &exit_code] { exit_code = validate(*jobs, *as_json); });
}

}  // namespace verbtwin::tools
