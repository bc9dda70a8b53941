// verbtwin run: runs one scenario, or every point of its sweep, simulated or as a rank of a real run; shows
// the results and keeps them.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "backend/user_error.hpp"
#include "scenarios/loader.hpp"
#include "scenarios/sweep.hpp"
#include "scenarios/text.hpp"
#include "tools/commands/commands.hpp"
#include "tools/commands/run_options.hpp"
#include "tools/console/exit_code.hpp"
#include "tools/console/output_file.hpp"
#include "tools/console/print.hpp"
#include "tools/console/stop_signals.hpp"
#include "tools/console/text.hpp"
#include "tools/ranks/rank_options.hpp"
#include "tools/report/html_report.hpp"
#include "tools/report/percentiles.hpp"
#include "tools/report/plot.hpp"
#include "tools/report/summary.hpp"
#include "tools/report/sweep_plot.hpp"
#include "tools/report/sweep_table.hpp"
#include "tools/run/simulate.hpp"
#include "tools/run/timeline.hpp"
#include "tools/run/verb_trace.hpp"
#include "tools/sweeps/saved_points.hpp"
#include "tools/sweeps/sweep_points.hpp"
#include "tools/sweeps/watched_runs.hpp"

namespace verbtwin::tools {

namespace {

constexpr const char* kPointsFile = "points.csv";
constexpr const char* kPlotFile = "points.svg";
constexpr const char* kReportFile = "report.html";

[[noreturn]] void refuse_file(const char* flag, const std::string& file, const std::system_error& failed) {
  const bool unread = failed.code() == std::errc::no_such_device_or_address;
  throw UserError(
      "", fmt::format("{} {}: cannot be written: {}", flag, scenarios::one_line(file),
                      unread ? "nobody reads this pipe; begin its reader first" : failed.code().message()));
}

/// None where none is asked for.
std::unique_ptr<Trace> make_trace(const RunOptions& options, const scenarios::Scenario& scenario) {
  if (!options.trace) return nullptr;
  try {
    if (!Timeline::is_for(*options.trace)) return std::make_unique<VerbTrace>(*options.trace);
    return std::make_unique<Timeline>(*options.trace, scenario.name);
  } catch (const std::system_error& failed) {
    refuse_file("--trace", *options.trace, failed);
  }
}

/// As above, of --hdr.
std::unique_ptr<PercentileFiles> make_percentiles(const RunOptions& options,
                                                  const scenarios::Scenario& scenario) {
  if (!options.hdr) return nullptr;
  try {
    return std::make_unique<PercentileFiles>(*options.hdr, has_second_hdr(*options.hdr, scenario),
                                             OutputFile::Replaces::kPlain);
  } catch (const std::system_error& failed) {
    refuse_file("--hdr", *options.hdr, failed);
  }
}

/// One of a run and one of a sweep in one directory would pass for a single one.
void refuse_mixture(const std::filesystem::path& directory, const char* other_file, const char* other) {
  std::error_code ignored;
  if (!std::filesystem::exists(directory / other_file, ignored)) return;
  throw UserError("", fmt::format("--out {}: has the results of a {} ({}); allowed: another directory",
                                  scenarios::one_line(directory.string()), other, other_file));
}

/// Whether results come to this process: those of a real run are rank 0's.
bool gets_results(const RunOptions& options, const scenarios::Scenario& scenario) {
  return scenario.backend == "sim" || complete_rank(options.rank, scenario.cluster.nodes).rank == 0;
}

/// Whether the sweep that has its points.csv there, if one has, is of these points.
bool has_only_points_of(const std::filesystem::path& directory,
                        const std::vector<scenarios::SweepPoint>& points) {
  std::error_code ignored;
  return !std::filesystem::exists(directory / kPointsFile, ignored) ||
         are_all_of(directory / "points", points);
}

/// What a sweep's points come to, all together.
void remove_summaries(const std::filesystem::path& directory) {
  std::error_code ignored;
  for (const char* file : {kPointsFile, kPlotFile, kReportFile})
    std::filesystem::remove(directory / file, ignored);
}

void warn_of_memory(const RunOptions& options, const std::vector<scenarios::SweepPoint>& points) {
  if (!options.quiet) print_error(memory_warning(points, options.jobs));
}

void show_result(const RunOptions& options, const scenarios::SweepPoint& point,
                 const nlohmann::json& result) {
  if (options.json) {
    print(result.dump(2) + "\n");
  } else if (!options.quiet) {
    print(render_summary(result, style_of_stream(STDOUT_FILENO)));
    if (options.out) {
      print_written(options.place_of(point) / kResultFile,
                    fmt::format(" and {} beside it: open that in a browser", kReportFile));
    }
  }
}

/// The one run of a scenario, or one point of its sweep; `points` are all of them.
int run_one(const RunOptions& options, const std::vector<scenarios::SweepPoint>& points) {
  const scenarios::SweepPoint& point = points[options.point.value_or(0)];
  const scenarios::Scenario& scenario = point.scenario;
  const StopSignals signals;
  std::optional<OutputDirectory> directory;
  if (options.out && gets_results(options, scenario)) {
    directory.emplace(options.place_of(point), result_files(), inputs_of(options.scenario, points));
  }
  std::optional<nlohmann::json> saved;
  if (options.resume) saved = saved_outcome(options.place_of(point), point);
  if (directory && options.point) refuse_mixture(*options.out, kResultFile, "run");
  // A sweep's summaries would not know of a new point; with --resume it makes them anew.
  if (directory && !saved && !(options.resume && has_only_points_of(*options.out, points)))
    refuse_mixture(*options.out, kPointsFile, "sweep");
  const std::unique_ptr<Trace> trace = make_trace(options, scenario);
  const std::unique_ptr<PercentileFiles> percentiles =
      gets_results(options, scenario) ? make_percentiles(options, scenario) : nullptr;
  if (directory || trace || percentiles)
    std::signal(SIGPIPE, SIG_IGN);  // who reads standard output may go; the files stay
  if (!saved || trace) warn_of_memory(options, {point});
  nlohmann::json result;
  try {
    result = saved && !trace ? std::move(*saved)
                             : run_watched(scenario, options.rank, signals, !options.quiet, trace.get());
  } catch (const Interrupted& stopped) {
    print_error(fmt::format("verbtwin: {}\n", scenarios::one_line(stopped.what())));
    return kExitSignal + signals.signal_number();
  }
  if (!gets_results(options, scenario)) return kExitDone;  // rank 0 has the result

  if (options.resume && !saved) remove_summaries(*options.out);
  if (options.out) write_result(options.place_of(point), result);
  std::string left_out;
  std::exception_ptr unwritten;
  const auto try_to = [&](auto&& write) {
    try {
      write();
    } catch (const std::system_error&) {  // the result is there whatever becomes of it
      unwritten = std::current_exception();
    }
  };
  if (percentiles) try_to([&] { percentiles->write(result); });
  if (trace) try_to([&] { left_out = trace->end(); });
  try {
    show_result(options, point, result);
  } catch (const std::system_error& failed) {
    if (failed.code() == std::errc::broken_pipe) return kExitSignal + SIGPIPE;  // as of a run without files
    throw;
  }
  if (unwritten) std::rethrow_exception(unwritten);
  if (!left_out.empty()) print_error(left_out + "\n");
  if (result.contains("failure")) throw std::runtime_error(result.at("failure").get<std::string>());
  return exit_code_of(result, signals.signal_number());
}

/// What a sweep leaves behind: a line for each point as it comes, DIR/points/NNN/result.json, in the end
/// DIR/points.csv, also where an exception is the end. What an earlier sweep left there of points that this
/// one has not goes with the points.csv that listed them. A violated check of any point weighs most.
/// With --resume, the points that are there already come first.
class SweepOutput {
 public:
  explicit SweepOutput(const RunOptions& options, const std::vector<scenarios::SweepPoint>& points)
      : options_(options), points_(points), directory_(options.out.value_or("")) {
    if (options_.out) {
      lock_.emplace(directory_, files(), inputs_of(options.scenario, points));
      refuse_mixture(directory_, kResultFile, "run");
      if (options_.resume) refuse_foreign();
    }
    for (const scenarios::SweepPoint& point : points_) {
      auto saved = options_.resume ? saved_outcome(options_.place_of(point), point) : std::nullopt;
      if (!saved) {
        left_.push_back(point);
        continue;
      }
      write_result(options_.place_of(point), *saved);  // what shows it may be gone
      keep_row(point, std::move(*saved));
    }
  }

  /// The points that are to run.
  const std::vector<scenarios::SweepPoint>& left() const { return left_; }

  /// Of the next of those, or of a later one where those between have none. The file first: standard output
  /// may be gone.
  void add(const scenarios::SweepPoint& point, nlohmann::json result) {
    if (options_.out) {
      const auto place = options_.place_of(point);
      std::filesystem::create_directories(place);
      write_result(place, result);
    }
    keep_row(point, std::move(result));
  }

  /// In an exception's way: what there is, where there is any. How many points of an earlier sweep went.
  std::size_t keep() {
    if (!options_.out || rows_.empty()) return 0;
    std::ranges::sort(rows_, {}, &SweepRow::number);
    write_file_whole(directory_ / kPointsFile, sweep_csv(rows_));
    std::error_code ignored;
    for (const char* file : {kPlotFile, kReportFile})  // of the former table
      std::filesystem::remove(directory_ / file, ignored);
    if (options_.resume) return 0;  // those of another program are of this sweep as well
    std::set<std::size_t> has;
    for (const SweepRow& row : rows_) has.insert(*row.number);
    return remove_points(directory_ / "points", has);
  }

  int end(int signal_number) {
    const std::size_t removed = keep();
    if (removed > 0 && table()) {
      print(fmt::format("removed {} of an earlier sweep from {}\n", format_counted(removed, "point"),
                        scenarios::one_line((directory_ / "points").string())));
    }
    const bool has_files = options_.out && !rows_.empty();
    if (has_files) {
      draw_plot();
      write_report();
    }
    if (table() && points_.size() > 1)
      print(render_own_rules(rows_) + render_warnings(sweep_warnings(rows_)));
    if (options_.json) {
      nlohmann::json all = {{"format", "verbtwin-sweep"},
                            {"version", 1},
                            {"partial", !partial_text(rows_, points_.size()).empty()},
                            {"settings", nlohmann::json::array()},
                            {"points", nlohmann::json::array()}};
      for (const auto& [path, value] : points_.front().settings) all["settings"].push_back(path);
      for (const SweepRow& row : rows_) all["points"].push_back(row.result);
      print(all.dump(2) + "\n");
    } else if (table() && has_files) {
      print_written(directory_ / kPointsFile);
    }
    return exit_code(signal_number);
  }

 private:
  bool table() const { return !options_.quiet && !options_.json; }

  /// They may have taken hours, and going on with this sweep would take them away.
  void refuse_foreign() const {
    const std::optional<std::string> foreign = describe_foreign(directory_ / "points", points_);
    if (!foreign) return;
    throw UserError("", fmt::format("--resume: {}/points/{}; allowed: another directory, or no --resume, "
                                    "which replaces what is there",
                                    scenarios::one_line(directory_.string()), *foreign));
  }

  std::vector<std::string> files() const {
    std::vector<std::string> all = {kPointsFile, kPlotFile, kReportFile};
    for (std::size_t i = 0; i < points_.size(); ++i)
      for (const std::string& file : result_files())
        all.push_back(fmt::format("points/{}/{}", point_name(i), file));
    return all;
  }

  void keep_row(const scenarios::SweepPoint& point, nlohmann::json result) {
    rows_.push_back({point.settings, std::move(result), point.number});  // kept, should printing fail
    if (!table()) return;
    if (points_.size() == 1) {  // of which there is more to say than a line
      print(render_summary(rows_.back().result, style_of_stream(STDOUT_FILENO)));
      return;
    }
    if (rows_.size() == 1) print(sweep_table_head(points_.front().settings, columns_));
    print(sweep_table_line(rows_.back(), columns_));
  }

  int exit_code(int signal_number) const {
    int code = kExitDone;
    for (const SweepRow& row : rows_) {
      if (exit_code_of(row.result, signal_number) == kExitCheckFailed) code = kExitCheckFailed;
    }
    const std::string partial = partial_text(rows_, points_.size());
    if (partial.empty()) return code;
    if (table()) print(partial + "\n");
    if (options_.json && !options_.quiet) print_error(partial + "\n");
    return code == kExitDone ? exit_code_of_stop(signal_number) : code;
  }

  void draw_plot() {
    const std::vector<Panel> panels = sweep_panels(rows_);
    if (panels.empty()) {
      const auto ended = [](const SweepRow& row) { return rate_per_s(row.result) > 0; };
      if (!options_.quiet && !rows_.empty() && std::ranges::none_of(rows_, ended))
        print_error(fmt::format("no {}: nothing to draw, as nothing came to its end\n", kPlotFile));
      return;
    }
    const std::string failure = draw(plot_script(panels), directory_ / kPlotFile);
    if (!failure.empty()) {
      if (!options_.quiet) print_error(fmt::format("no {}: {}\n", kPlotFile, scenarios::one_line(failure)));
    } else if (table()) {
      print_written(directory_ / kPlotFile);
    }
  }

  void write_report() {
    std::ifstream plot(directory_ / kPlotFile);  // none where gnuplot is not there
    const std::string svg{std::istreambuf_iterator<char>(plot), {}};
    write_file_whole(directory_ / kReportFile, html_report(rows_, points_.size(), svg));
    if (table()) print_written(directory_ / kReportFile);
  }

  const RunOptions& options_;
  const std::vector<scenarios::SweepPoint>& points_;
  std::filesystem::path directory_;
  std::vector<std::size_t> columns_ = setting_columns(points_, columns_of_stream(STDOUT_FILENO));
  std::optional<OutputDirectory> lock_;
  std::vector<scenarios::SweepPoint> left_;
  std::vector<SweepRow> rows_;
};

/// A signal ends the sweep with the points it interrupts, a rank's failure with the point that it cuts short.
int run_sweep(const RunOptions& options, const std::vector<scenarios::SweepPoint>& points) {
  const StopSignals signals;
  if (!gets_results(options, points.front().scenario)) {
    run_points(points, options.rank, 1, signals, false, [](std::size_t, const nlohmann::json&) {});
    return kExitDone;
  }
  if (options.out) std::signal(SIGPIPE, SIG_IGN);  // who reads standard output may go; what is measured stays
  SweepOutput output(options, points);
  warn_of_memory(options, output.left());
  try {
    run_points(output.left(), options.rank, options.jobs, signals, !options.quiet,
               [&](std::size_t at, nlohmann::json result) {
                 const scenarios::SweepPoint& point = output.left()[at];
                 const std::string failure = result.value("failure", "");
                 output.add(point, std::move(result));
                 if (!failure.empty()) throw std::runtime_error(describe_point(point) + ": " + failure);
               });
  } catch (...) {
    output.keep();
    throw;
  }
  return output.end(signals.signal_number());
}

int run(const RunOptions& options) {
  const std::vector<scenarios::SweepPoint> points = load_points(options);
  const bool is_one = points.front().settings.empty() || options.point || options.trace || options.hdr;
  return is_one ? run_one(options, points) : run_sweep(options, points);
}

}  // namespace

int resume_sweep(const std::string& scenario, const std::vector<std::string>& overrides,
                 const std::string& out, int jobs) {
  RunOptions options;
  options.scenario = scenario;
  options.overrides = overrides;
  options.out = out;
  options.resume = true;
  options.jobs = jobs;
  return run(options);
}

void add_run_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Run a scenario and show what it does and what limits it");
  add_run_options(*command, *options);
  command->footer(
      "Examples:\n"
      "  verbtwin run scenarios/smallbank-16.json --set cluster.nodes=80 --seed 7 --out out/80\n"
      "  verbtwin run scenarios/smallbank-16.json --sweep protocol.name=farm,drtmh --sweep "
      "cluster.coroutines=1,2,4,8\n"
      "  verbtwin run scenarios/osdi18/fig14-tpcc.json --jobs 2 --out out/tpcc --resume\n"
      "Ctrl-C ends the run early and keeps what it has, marked partial; a second one ends it at once.");
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace verbtwin::tools
