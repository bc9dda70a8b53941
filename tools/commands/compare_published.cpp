// verbtwin compare-published: a sweep's points beside the published ones.
#include <CLI/App.hpp>
#include <cctype>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "backend/user_error.hpp"
#include "calibration/profile_file.hpp"
#include "scenarios/document.hpp"
#include "scenarios/text.hpp"
#include "tools/commands/calibrating.hpp"
#include "tools/commands/commands.hpp"
#include "tools/compare/comparison.hpp"
#include "tools/compare/factors.hpp"
#include "tools/compare/headlines.hpp"
#include "tools/compare/ramp_ratios.hpp"
#include "tools/console/exit_code.hpp"
#include "tools/console/output_file.hpp"
#include "tools/console/print.hpp"
#include "tools/report/plot.hpp"

namespace verbtwin::tools {

namespace {

/// What the sweep varies, or its name, tells which figure it belongs to.
Comparison compare_table(const calibration::CsvTable& table) {
  if (varies_ramp_systems(table)) return compare_ramp(table);
  if (varies_factors(table)) return compare_factors(table);
  if (has_headlines(table)) return compare_headlines(table);
  return compare_curves(table);
}

/// "OSDI 2018, figure 14: x" -> "osdi-2018-figure-14-x".
std::string file_name_of(const std::string& title) {
  std::string name;
  for (const char c : title) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!name.ends_with('-')) {
      name += '-';
    }
  }
  return name;
}

/// Whether there is a picture now.
bool draw_and_say(const std::vector<Panel>& panels, const std::filesystem::path& place) {
  const std::string failure = draw(plot_script(panels), place);
  print("\n");
  if (failure.empty()) {
    print_written(place);
  } else {
    print(fmt::format("no {}: {}\n", scenarios::one_line(place.string()), scenarios::one_line(failure)));
  }
  return failure.empty();
}

/// Under the title.
std::string with_picture(const Comparison& comparison, const std::string& picture) {
  const std::size_t line = comparison.text.find('\n') + 1;
  return fmt::format("{}\n![{}]({})\n{}", comparison.text.substr(0, line), comparison.title, picture,
                     comparison.text.substr(line));
}

calibration::CsvTable read_points(const std::filesystem::path& file) {
  using calibration::CsvTable;
  try {
    return CsvTable::parse(file.string(), scenarios::read_text(file), CsvTable::Kind::kPlain);
  } catch (const UserError& error) {
    throw UserError(
        "", fmt::format("{}; give a sweep's points.csv, or the directory that holds it", error.what()));
  }
}

}  // namespace

int compare_published(const std::string& given, bool report) {
  std::filesystem::path file = given;
  std::error_code ignored;  // what is no directory is read, and refused in words there
  if (std::filesystem::is_directory(file, ignored)) file /= "points.csv";
  const std::filesystem::path calibration = calibration::profile_directory().parent_path();
  const std::filesystem::path page = calibration / kReportPage, list = calibration / kReportFile;
  std::optional<OutputDirectory> directory;  // another one's comparison would be lost
  if (report)
    directory.emplace(calibration, std::vector<std::string>{kReportPage, kReportFile},
                      std::vector<InputFile>{}, "");
  const calibration::CsvTable points = read_points(file);
  Comparison comparison = compare_table(points);
  comparison.text += render_point_warnings(points);
  print(comparison.text);
  const std::string picture = fmt::format("plots/{}.svg", file_name_of(comparison.title));
  const bool drawn =
      draw_and_say(comparison.panels, report ? calibration / picture : file.parent_path() / "published.svg");
  if (report) {
    const std::string text = drawn ? with_picture(comparison, picture) : comparison.text;
    const nlohmann::json values =
        read_report(list, [](const auto& path) { return scenarios::Document::read(path).root(); });
    const std::string all = read_report(page, [](const auto& path) { return scenarios::read_text(path); });
    write_file_whole(list, report_text(with_compared_values(values, comparison)));
    write_file_whole(page, with_comparison(all, comparison.title, text));
    print_written(page);
  }
  return kExitDone;
}

void add_compare_published_command(CLI::App& app, int& exit_code) {
  auto file = std::make_shared<std::string>();
  auto report = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(
      "compare-published", "Put a sweep's points beside published ones: Markdown, and published.svg");
  command->add_option("POINTS", *file, "A sweep's points.csv, or the directory that holds it")
      ->required()
      ->type_name("FILE");
  command->add_flag("--report", *report, "Also put it into calibration/REPORT.md and report.json");
  command->footer(
      "Example:\n"
      "  verbtwin run scenarios/osdi18/fig14-smallbank.json --out out/fig14\n"
      "  verbtwin compare-published out/fig14 --report\n"
      "Sweeps that have published figures: verbtwin reproduce lists them, and runs them.\n"
      "Published figures are compared with and shown, never fitted.");
  command->callback([file, report, &exit_code] { exit_code = compare_published(*file, *report); });
}

}  // namespace verbtwin::tools
