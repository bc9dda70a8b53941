// verbtwin compare-published: a sweep's points beside the published ones.
#include <CLI/App.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backend/user_error.hpp"
#include "tools/commands.hpp"
#include "tools/comparison.hpp"

namespace verbtwin::tools {

namespace {

/// How many machines or coroutines a sweep has varies: with several machine counts it is a scale-out.
bool is_scale_out(const std::vector<SimulatedPoint>& points) {
  for (const SimulatedPoint& point : points) {
    if (point.machines != points.front().machines) return true;
  }
  return false;
}

int compare(const std::string& given) {
  std::filesystem::path file = given;
  if (std::filesystem::is_directory(file)) file /= "points.csv";
  using calibration::PublishedTable;
  const std::vector<SimulatedPoint> simulated =
      simulated_points(PublishedTable::read(file, PublishedTable::Kind::kPlain));
  const bool scale_out = is_scale_out(simulated);
  const std::vector<PairedPoint> pairs = pair_points(
      scale_out ? calibration::published_scale_out() : calibration::published_end_to_end(), simulated);
  if (pairs.empty()) {
    throw UserError("", file.string() +
                            ": no point of it has been published: see scenarios/osdi18 for sweeps "
                            "that have");
  }
  print(render_comparison(scale_out ? "OSDI 2018, figure 12: throughput against machines"
                                    : "OSDI 2018, figure 14: throughput and latency, 16 machines",
                          pairs));
  return kExitDone;
}

}  // namespace

void add_compare_published_command(CLI::App& app, int& exit_code) {
  auto file = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("compare-published", "Put a sweep's points beside published ones, as Markdown");
  command->add_option("POINTS", *file, "A sweep's points.csv, or the directory that holds it")
      ->required()
      ->type_name("FILE");
  command->footer(
      "Example:\n"
      "  verbtwin run scenarios/osdi18/fig14-smallbank.json --out out/fig14\n"
      "  verbtwin compare-published out/fig14\n"
      "Published figures are compared with and shown, never fitted.");
  command->callback([file, &exit_code] { exit_code = compare(*file); });
}

}  // namespace verbtwin::tools
