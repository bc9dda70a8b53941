// verbtwin compare-published: a sweep's points beside the published ones.
#include <CLI/App.hpp>
#include <cctype>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "backend/user_error.hpp"
#include "calibration/profile_file.hpp"
#include "scenarios/document.hpp"
#include "tools/commands.hpp"
#include "tools/comparison.hpp"
#include "tools/factors.hpp"
#include "tools/output_file.hpp"
#include "tools/plot.hpp"
#include "tools/ramp_ratios.hpp"
#include "tools/text.hpp"

namespace verbtwin::tools {

namespace {

/// How many machines or coroutines a sweep has varies: with several machine counts it is a scale-out.
bool is_scale_out(const std::vector<SimulatedPoint>& points) {
  for (const SimulatedPoint& point : points) {
    if (point.machines != points.front().machines) return true;
  }
  return false;
}

/// A sweep of something else has several points where the figure has one.
void refuse_others(const std::string& file, const std::vector<SimulatedPoint>& points) {
  std::set<std::tuple<std::string, std::string, int, int>> seen;
  for (const SimulatedPoint& p : points) {
    if (seen.emplace(p.workload, p.protocol, p.coroutines, p.machines).second) continue;
    throw UserError(
        "", fmt::format("{}: two points of {}, {}, {}, {}; allowed: sweeps over "
                        "systems and coroutines (figure 14), machines (figure 12), factors (figure 13) or "
                        "the RAMP family's ways to read and write",
                        file, p.workload, p.protocol, format_counted(p.machines, "machine"),
                        format_counted(p.coroutines, "coroutine")));
  }
}

std::string read_report(const std::filesystem::path& file) {
  try {
    return scenarios::read_text(file);
  } catch (const UserError& error) {
    throw UserError("",
                    fmt::format("{}; `verbtwin calibrate --published --evaluate` makes it", error.what()));
  }
}

Comparison compare_curves(const calibration::PublishedTable& table) {
  const std::vector<SimulatedPoint> simulated = simulated_points(table);
  refuse_others(table.name(), simulated);
  const bool scale_out = is_scale_out(simulated);
  const std::vector<PairedPoint> pairs = pair_points(
      scale_out ? calibration::published_scale_out() : calibration::published_end_to_end(), simulated);
  if (pairs.empty()) {
    throw UserError("",
                    table.name() +
                        ": no point of it has been published: see scenarios/osdi18 and scenarios/ramp for "
                        "sweeps that have");
  }
  const std::string title =
      fmt::format("{}: {}",
                  scale_out ? "OSDI 2018, figure 12: throughput against machines"
                            : "OSDI 2018, figure 14: throughput and latency, 16 machines",
                  pairs.front().published.workload);
  return {title, render_comparison(title, pairs), comparison_panels(title, pairs, scale_out)};
}

/// What the sweep varies tells which figure it belongs to.
Comparison compare_table(const calibration::PublishedTable& table) {
  if (varies_ramp_systems(table)) return compare_ramp(table);
  if (varies_factors(table)) return compare_factors(table);
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
  print(failure.empty() ? fmt::format("\nwrote {}\n", place.string())
                        : fmt::format("\nno {}: {}\n", place.string(), failure));
  return failure.empty();
}

/// Under the title.
std::string with_picture(const Comparison& comparison, const std::string& picture) {
  const std::size_t line = comparison.text.find('\n') + 1;
  return fmt::format("{}\n![{}]({})\n{}", comparison.text.substr(0, line), comparison.title, picture,
                     comparison.text.substr(line));
}

calibration::PublishedTable read_points(const std::filesystem::path& file) {
  using calibration::PublishedTable;
  try {
    return PublishedTable::read(file, PublishedTable::Kind::kPlain);
  } catch (const UserError& error) {
    throw UserError(
        "", fmt::format("{}; allowed: a sweep's points.csv, or the directory that holds it", error.what()));
  }
}

int compare(const std::string& given, bool report) {
  std::filesystem::path file = given;
  std::error_code ignored;  // what is no directory is read, and refused in words there
  if (std::filesystem::is_directory(file, ignored)) file /= "points.csv";
  const Comparison comparison = compare_table(read_points(file));
  print(comparison.text);
  const std::filesystem::path calibration = calibration::profile_directory().parent_path();
  const std::string picture = fmt::format("plots/{}.svg", file_name_of(comparison.title));
  const bool drawn =
      draw_and_say(comparison.panels, report ? calibration / picture : file.parent_path() / "published.svg");
  if (report) {
    const std::filesystem::path page = calibration / "REPORT.md";
    const std::string text = drawn ? with_picture(comparison, picture) : comparison.text;
    write_file_whole(page, with_comparison(read_report(page), comparison.title, text));
    print(fmt::format("wrote {}\n", page.string()));
  }
  return kExitDone;
}

}  // namespace

void add_compare_published_command(CLI::App& app, int& exit_code) {
  auto file = std::make_shared<std::string>();
  auto report = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(
      "compare-published", "Put a sweep's points beside published ones: Markdown, and published.svg");
  command->add_option("POINTS", *file, "A sweep's points.csv, or the directory that holds it")
      ->required()
      ->type_name("FILE");
  command->add_flag("--report", *report, "Also put it into calibration/REPORT.md");
  command->footer(
      "Example:\n"
      "  verbtwin run scenarios/osdi18/fig14-smallbank.json --out out/fig14\n"
      "  verbtwin compare-published out/fig14 --report\n"
      "Published figures are compared with and shown, never fitted.");
  command->callback([file, report, &exit_code] { exit_code = compare(*file, *report); });
}

}  // namespace verbtwin::tools
