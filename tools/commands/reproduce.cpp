// verbtwin reproduce: runs the sweep behind a published figure, and puts it beside the published values.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backend/user_error.hpp"
#include "calibration/profile_file.hpp"
#include "scenarios/text.hpp"
#include "tools/commands/commands.hpp"
#include "tools/console/exit_code.hpp"
#include "tools/console/print.hpp"
#include "tools/sweeps/sweep_points.hpp"

namespace verbtwin::tools {

namespace {

namespace fs = std::filesystem;

/// A scenario that compare-published knows published values of, and what they are.
struct Figure {
  const char* name;
  const char* what;
};
constexpr std::array kFigures = {
    Figure{"osdi18/fig12-smallbank", "OSDI 2018, figure 12: DrTM+H, SmallBank over machines"},
    Figure{"osdi18/fig12-tpcc", "OSDI 2018, figure 12: DrTM+H, TPC-C new-order over machines"},
    Figure{"osdi18/fig13-factors", "OSDI 2018, figure 13(a): one optimisation after another"},
    Figure{"osdi18/fig14-smallbank", "OSDI 2018, figure 14: four systems, SmallBank"},
    Figure{"osdi18/fig14-tpcc", "OSDI 2018, figure 14: four systems, TPC-C new-order"},
    Figure{"fasst/smallbank", "OSDI 2016, section 6.4: FaSST and DrTM+R, SmallBank"},
    Figure{"fasst/tatp", "OSDI 2016, section 6.3: FaSST and FaRM, TATP"},
    Figure{"rpc/key-value", "TPDS 2019: RF-RPC and others, a key-value store"},
    Figure{"ramp/communication-types", "RAMP over RDMA: what carries requests"},
    Figure{"ramp/read-ratio", "RAMP over RDMA: the share of reads"},
    Figure{"ramp/transaction-size", "RAMP over RDMA: operations a transaction"},
    Figure{"ramp/ycsb", "RAMP over RDMA: YCSB"}};
constexpr const char* kAll = "all";

struct ReproduceOptions {
  std::vector<std::string> figures, overrides;
  std::string out;
  bool report = false;
  int jobs = 1;
};

/// Beside the profiles of an installation; of a source tree, beside calibration/.
fs::path scenario_file(const std::string& figure) {
  const fs::path data = calibration::profile_directory().parent_path();
  std::error_code ignored;
  const fs::path installed = data / "scenarios";
  const fs::path directory = fs::exists(installed, ignored) ? installed : data.parent_path() / "scenarios";
  return directory / (figure + ".json");
}

int list_figures() {
  std::string text = fmt::format("{:<25}{:>6}  {}\n", "figure", "points", "what");
  for (const Figure& figure : kFigures) {
    const auto points = load_runnable_points(scenario_file(figure.name), {});
    text += fmt::format("{:<25}{:>6}  {}\n", figure.name, points.size(), figure.what);
  }
  print(text + "\nto run one: verbtwin reproduce FIGURE --out DIR --jobs 2\n");
  return kExitDone;
}

std::vector<std::string> chosen(const ReproduceOptions& options) {
  std::vector<std::string> known;
  for (const Figure& figure : kFigures) known.emplace_back(figure.name);
  std::vector<std::string> figures;
  for (const std::string& figure : options.figures) {
    if (figure == kAll) return known;
    const auto is_named = [&](const std::string& one) {
      return one == figure || one.ends_with("/" + figure);
    };
    const auto found = std::ranges::find_if(known, is_named);
    if (found == known.end()) {
      throw UserError("", fmt::format("verbtwin reproduce: unknown figure {}; allowed: {}, all{}",
                                      scenarios::in_quotes(figure), scenarios::listed(known),
                                      scenarios::did_you_mean(figure, known)));
    }
    if (std::ranges::find(figures, *found) == figures.end()) figures.push_back(*found);
  }
  return figures;
}

/// A failed check of one figure's runs does not keep the others from theirs; whatever else ends a run does.
int reproduce(const ReproduceOptions& options) {
  if (options.figures.empty()) return list_figures();
  const std::vector<std::string> figures = chosen(options);
  if (options.out.empty()) throw UserError("", "verbtwin reproduce: --out DIR is missing, where points go");
  int code = kExitDone;
  for (const std::string& figure : figures) {
    const fs::path directory = fs::path(options.out) / figure;
    if (figures.size() > 1) print(fmt::format("{}{}\n", &figure == &figures.front() ? "" : "\n", figure));
    const int ran =
        resume_sweep(scenario_file(figure).string(), options.overrides, directory.string(), options.jobs);
    if (ran != kExitDone && ran != kExitCheckFailed) return ran;
    code = std::max(code, ran);
    print("\n");
    code = std::max(code, compare_published(directory.string(), options.report));
  }
  return code;
}

}  // namespace

void add_reproduce_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ReproduceOptions>();
  CLI::App* command =
      app.add_subcommand("reproduce", "Run what a published figure shows, and put it beside the figure");
  command->add_option("FIGURE", options->figures, "Figures, or all; left out: a list of them")->type_name("");
  command
      ->add_option("--set", options->overrides,
                   "Override a field, as run.measure_us=100; may be repeated. Points of another cluster than "
                   "the published one are not compared")
      ->type_name("PATH=VALUE")
      ->allow_extra_args(false);
  command
      ->add_option("--out", options->out,
                   "Directory for DIR/FIGURE/points.csv and what `run --out` writes beside it, and "
                   "published.svg; points that are there are kept")
      ->type_name("DIR");
  command->add_flag("--report", options->report,
                    "Also put the comparison into calibration/REPORT.md and report.json");
  add_jobs_option(*command, options->jobs, "Points that run side by side, each in a process of its own");
  command->footer(
      "A figure takes some minutes on two cores, all of them half an hour. Ctrl-C keeps the points that "
      "have\n"
      "ended; the same command goes on from there. Published figures are compared with, never fitted.\n"
      "Examples:\n"
      "  verbtwin reproduce\n"
      "  verbtwin reproduce osdi18/fig14-tpcc --jobs 2 --out out/published");
  command->callback([options, &exit_code] { exit_code = reproduce(*options); });
}

}  // namespace verbtwin::tools
