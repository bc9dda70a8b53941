// verbtwin plan: the smallest cluster that meets goals, for everything else that the scenario sweeps.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/user_error.hpp"
#include "scenarios/loader.hpp"
#include "scenarios/sweep.hpp"
#include "scenarios/text.hpp"
#include "tools/commands/commands.hpp"
#include "tools/console/exit_code.hpp"
#include "tools/console/output_file.hpp"
#include "tools/console/print.hpp"
#include "tools/console/stop_signals.hpp"
#include "tools/console/text.hpp"
#include "tools/report/summary.hpp"
#include "tools/report/sweep_table.hpp"
#include "tools/run/catalog.hpp"
#include "tools/run/simulate.hpp"
#include "tools/sweeps/plan.hpp"
#include "tools/sweeps/sweep_points.hpp"
#include "tools/sweeps/watched_runs.hpp"

namespace verbtwin::tools {

namespace {

constexpr const char* kPlanFile = "plan.json";
constexpr const char* kRunsFile = "plan.csv";  // not a sweep's points.csv, which others read with its points/
constexpr const char* kNodes = "cluster.nodes";

struct PlanOptions {
  std::string scenario;
  std::vector<std::string> overrides, sweeps, goals;
  std::optional<int> low;
  int high = 256;
  int jobs = 1;
  std::optional<std::string> out;
  bool json = false, quiet = false;
  SimgridFlags simgrid;
};

scenarios::Override machines(int nodes, const char* flag) {
  return scenarios::flag_override(kNodes, flag, std::to_string(nodes));
}

std::vector<scenarios::SweepPoint> load(const PlanOptions& options,
                                        const std::vector<scenarios::Override>& flags = {}) {
  return load_runnable_points(options.scenario, options.overrides, flags, options.sweeps);
}

class Planner {
 public:
  Planner(const PlanOptions& options, std::vector<Goal> goals) : options_(options), goals_(std::move(goals)) {
    points_ = load(options);
    low_ = options.low.value_or(0);
    for (const auto& [settings, scenario, number] : points_) {
      refuse_others(settings, scenario);
      refuse_more_than_offered(goals_, scenario.run.offered_per_s);
      if (const int replicas = scenario.cluster.replicas; options.low && low_ < replicas) {
        throw UserError("",
                        fmt::format("--from {}: a record has {} replicas, on a machine each; allowed: {} or "
                                    "more, or --set cluster.replicas={}",
                                    low_, replicas, replicas, low_));
      }
      if (!options.low) low_ = std::max({low_, 2, scenario.cluster.replicas});
    }
    if (low_ > options.high) {
      throw UserError("", fmt::format("--to {}: the search begins at {} machines; allowed: {} or more",
                                      options.high, low_, low_));
    }
    // What the largest or the smallest cluster would be refused for is told before anything runs.
    load(options, {machines(low_, "--from")});
    try {
      load(options, {machines(options.high, "--to")});
    } catch (const UserError& error) {
      const std::string what = error.what();
      if (!error.pointer().empty() || what.find("--to") != std::string::npos) throw;
      throw UserError("", fmt::format("{}; in a cluster of {} machines, the largest of the search (--to)",
                                      what, options.high));
    }
    for (const auto& [settings, scenario, number] : points_) {
      alternatives_.emplace_back(settings, SizeSearch(goals_, low_, options.high));
    }
    std::vector<scenarios::SweepPoint> shown = points_;
    for (scenarios::SweepPoint& point : shown) point.settings.emplace_back(kNodes, low_);
    columns_ = setting_columns(shown, columns_of_stream(STDOUT_FILENO));
  }

  int run() {
    const StopSignals signals;
    std::optional<OutputDirectory> directory;
    if (options_.out) {
      std::signal(SIGPIPE, SIG_IGN);  // who reads standard output may go; what was run stays
      directory.emplace(*options_.out, std::vector<std::string>{kPlanFile, kRunsFile},
                        inputs_of(options_.scenario, points_));
    }
    if (table()) print(wanted() + sweep_table_head(settings_of(0, low_), columns_));
    try {
      while (!signals.stop() && run_next(signals)) continue;
    } catch (...) {
      keep();
      throw;
    }
    keep();
    const std::string answer = render_plan(alternatives_, goals_, low_, options_.high);
    if (options_.json) {
      print(plan().dump(2) + "\n");
    } else if (options_.quiet) {
      print(answer);
    } else {
      if (std::ranges::any_of(rows_, [](const SweepRow& row) { return row.result.contains("warning"); }))
        print("*: not what it seems; of an answer below it says why, of others in plan.csv (--out DIR)\n");
      print("\n" + answer);
      if (options_.out) print_written(file(kPlanFile));
    }
    if (violated_) return kExitCheckFailed;
    if (signals.stop()) return kExitSignal + signals.signal_number();
    return best_of(alternatives_, goals_) ? kExitDone : kExitFailure;
  }

 private:
  using Settings = Alternative::Settings;

  static void refuse_others(const Settings& settings, const scenarios::Scenario& scenario) {
    const auto says_nodes = [](const Settings::value_type& setting) {
      return setting.first == kNodes || (setting.first == "cluster" && setting.second.is_object());
    };
    if (std::ranges::any_of(settings, says_nodes)) {
      throw UserError("",
                      "the scenario sweeps cluster.nodes, which plan looks for: leave it out of the sweep");
    }
    if (scenario.resolved.at("cluster").contains("roles")) {
      throw UserError("",
                      "cluster.roles says how many machines serve and ask: plan, which looks for a number of "
                      "machines, has no rule to divide them; allowed: without roles every machine does both");
    }
    if (scenario.backend != "sim")
      throw UserError("", "plan simulates clusters that are not there: --set backend=sim is allowed");
    if (scenario.protocol.is_null()) {
      throw UserError("", fmt::format("workload {} is a micro-benchmark, whose rate is per machine: plan is "
                                      "for transactions",
                                      scenario.workload.at("name").get<std::string>()));
    }
  }

  /// No cluster does more than it is asked for, and the largest would be tried.
  static void refuse_more_than_offered(const std::vector<Goal>& goals, double offered_per_s) {
    for (const Goal& goal : goals) {
      if (!goal.at_least || offered_per_s == 0 || goal.bound <= offered_per_s) continue;
      throw UserError("",
                      fmt::format("--goal {}: run.offered_per_s asks for {}/s; allowed: no more than that",
                                  describe(goal), format_si(offered_per_s)));
    }
  }

  bool table() const { return !options_.quiet && !options_.json; }
  std::filesystem::path file(const char* name) const { return std::filesystem::path(*options_.out) / name; }
  Settings settings_of(std::size_t alternative, int nodes) const {
    Settings settings = alternatives_[alternative].settings();
    settings.emplace_back(kNodes, nodes);
    return settings;
  }

  std::string wanted() const {
    std::vector<std::string> goals;
    for (const Goal& goal : goals_) goals.push_back(describe(goal));
    return labelled("wanted",
                    fmt::format("{}, of {} to {} machines", fmt::join(goals, ", "), low_, options_.high)) +
           "\n";
  }

  /// One size of each alternative that wants one, or its other seeds. False: none does.
  bool run_next(const StopSignals& signals) {
    std::vector<scenarios::SweepPoint> points;
    std::vector<std::pair<std::size_t, Alternative::Run>> whose;
    for (std::size_t i = 0; i < alternatives_.size(); ++i) {
      for (const Alternative::Run& run : alternatives_[i].next()) {
        scenarios::Scenario scenario =
            with_override(points_[i].scenario, machines(run.nodes, "--to"), catalog_);
        if (run.seed > 0) scenario = with_other_seeds(scenario, catalog_).at(run.seed - 1);
        points.push_back({settings_of(i, run.nodes), std::move(scenario), points.size()});
        whose.emplace_back(i, run);
      }
    }
    run_points(points, {}, options_.jobs, signals, !options_.quiet,
               [&](std::size_t number, nlohmann::json result) {
                 const auto& [alternative, run] = whose[number];
                 add(alternatives_[alternative], run, points[number].settings, std::move(result));
               });
    return !points.empty();
  }

  void add(Alternative& alternative, const Alternative::Run& run, const Settings& settings,
           nlohmann::json result) {
    violated_ = violated_ || exit_code_of(result, 0) == kExitCheckFailed;
    rows_.push_back({settings, result});
    if (table()) print(line(rows_.back(), run.seed > 0));
    if (!result.value("partial", false)) alternative.add(run.nodes, std::move(result));
  }

  /// The seed in a column of its own would be the same in most lines.
  std::string line(const SweepRow& row, bool other_seed) const {
    std::string text = sweep_table_line(row, columns_);
    if (!other_seed) return text;
    text.pop_back();
    return fmt::format("{}, seed {}\n", text, text_of(value_at(row.result, "scenario.run.seed")));
  }

  nlohmann::json plan() const { return plan_json(alternatives_, goals_, low_, options_.high); }
  void keep() const {
    if (!options_.out) return;
    write_file_whole(file(kPlanFile), plan().dump(2) + "\n");
    write_file_whole(file(kRunsFile), sweep_csv(rows_));
  }

  const PlanOptions& options_;
  std::vector<Goal> goals_;
  const scenarios::Catalog catalog_ = make_catalog();
  std::vector<scenarios::SweepPoint> points_;  // as the file has them
  int low_ = 0;
  std::vector<Alternative> alternatives_;  // by point
  std::vector<std::size_t> columns_;       // of the table's settings
  std::vector<SweepRow> rows_;
  bool violated_ = false;
};

/// The sizes are what is searched: one that is given would not count.
void refuse_size(const PlanOptions& options) {
  const auto refuse = [](const std::string& place) {
    throw UserError("", place +
                            ": cluster.nodes is what plan looks for; allowed: --from N and --to N, between "
                            "which it looks");
  };
  for (const std::string& text : options.overrides) {
    const scenarios::Override override = scenarios::parse_override(text);
    if (override.path == std::vector<std::string>{"cluster", "nodes"}) refuse(override.place());
  }
  for (const std::string& text : options.sweeps)
    if (text.substr(0, text.find('=')) == kNodes) refuse("--sweep " + scenarios::one_line(text, 120));
}

int plan(const PlanOptions& options) {
  refuse_size(options);
  std::vector<Goal> goals;
  for (const std::string& text : options.goals) goals.push_back(parse_goal(text));
  return Planner(options, std::move(goals)).run();
}

}  // namespace

void add_plan_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand("plan", "Find the smallest cluster that meets goals");
  add_scenario_options(*command, options->scenario, options->overrides);
  add_sweep_option(*command, options->sweeps);
  command
      ->add_option(
          "--goal", options->goals,
          "What the cluster has to reach: committed_per_s>=VALUE decides its size; "
          "latency_us.p99<=VALUE (mean, p50, p90, p999, max) and abort_ratio<=VALUE must hold there; "
          "may be repeated")
      ->required()
      ->allow_extra_args(false)
      ->type_name("NAME>=VALUE");
  command
      ->add_option("--from", options->low,
                   "Fewest machines to try; without it as many as replicas, 2 at least")
      ->type_name("N")
      ->check(CLI::Range(2, 4096));
  command->add_option("--to", options->high, "Most machines to try")
      ->type_name("N")
      ->check(CLI::Range(2, 4096))
      ->capture_default_str();
  add_jobs_option(*command, options->jobs,
                  "Runs side by side, each in a process of its own: settings of a sweep, and other seeds");
  command->add_option("--out", options->out, "Directory for plan.json and plan.csv; created if absent")
      ->type_name("DIR");
  command->add_flag("--json", options->json, "Print the plan as JSON");
  command->add_flag("--quiet", options->quiet, "Print the answer alone: no table and no progress");
  add_simgrid_options(*command, options->simgrid);
  command->footer(
      "Example:\n"
      "  verbtwin plan scenarios/smallbank-16.json --goal 'committed_per_s>=200e6' --goal "
      "'latency_us.p99<=60'\n"
      "A sweep is searched for each of its settings; cluster.nodes is what is found. The answer and the "
      "size\n"
      "below it run with two more seeds, and most of the three decide.\n"
      "Exit code 1: no cluster meets the goals.");
  command->callback([options, &exit_code] {
    configure_simgrid(options->simgrid.cfg, options->simgrid.log);
    exit_code = plan(*options);
  });
}

}  // namespace verbtwin::tools
