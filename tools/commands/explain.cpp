// verbtwin explain: what limits a scenario, found by making one part of the cluster after another better.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cctype>
#include <csignal>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "backend/temporary_directory.hpp"
#include "backend/user_error.hpp"
#include "scenarios/document.hpp"
#include "scenarios/loader.hpp"
#include "scenarios/sweep.hpp"
#include "scenarios/text.hpp"
#include "tools/commands/commands.hpp"
#include "tools/console/exit_code.hpp"
#include "tools/console/output_file.hpp"
#include "tools/console/print.hpp"
#include "tools/console/stop_signals.hpp"
#include "tools/report/summary.hpp"
#include "tools/report/sweep_table.hpp"
#include "tools/run/catalog.hpp"
#include "tools/run/simulate.hpp"
#include "tools/sweeps/explain.hpp"
#include "tools/sweeps/side_by_side.hpp"
#include "tools/sweeps/sweep_points.hpp"

namespace verbtwin::tools {

namespace {

namespace fs = std::filesystem;
using calibration::ProfileKind;
using nlohmann::json;

constexpr const char* kExplanationFile = "explanation.json";

struct ExplainOptions {
  std::string scenario;
  std::vector<std::string> overrides, sweeps;
  int jobs = 1;
  std::optional<std::string> out;
  bool json = false, quiet = false;
  SimgridFlags simgrid;
};

/// Where the changed profiles are while they run: in --out, to be used again once keep() says that there is
/// an explanation to them, or for this process only.
class Profiles {
 public:
  static constexpr const char* kDirectory = "profiles";
  /// "nic-receive-engines.json", "nic-receive-engines-1.25.json".
  static std::string file_of(const Part& part, ProfileKind kind, double times) {
    const std::string step = times == kTwice ? "" : fmt::format("-{}", times);
    std::string file = fmt::format("{}-{}{}.json", calibration::to_string(kind), part.name, step);
    for (char& c : file) c = c == ' ' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return file;
  }

  explicit Profiles(const std::optional<std::string>& out) {
    directory_ = out ? fs::path(*out) / kDirectory : temporary_.emplace().path();
    is_new_ = fs::create_directories(directory_);
  }
  ~Profiles() {
    if (temporary_ || kept_) return;
    std::error_code ignored;
    for (const fs::path& path : made_) fs::remove(path, ignored);
    if (is_new_) fs::remove(directory_, ignored);
  }
  Profiles(const Profiles&) = delete;
  Profiles& operator=(const Profiles&) = delete;

  void keep() { kept_ = true; }

  /// The path of the part's profile, made of the one that the scenario names.
  /// Empty where all that there is to improve is as good as it can be.
  std::string make(const Part& part, ProfileKind kind, const std::string& name, double times) {
    const fs::path from = calibration::find_profile(name, kind);
    const json before = json::parse(scenarios::read_text(from));
    const json profile = improved(before, kind, parameters_of(part, kind), times);
    if (profile == before) return "";
    const fs::path path = fs::absolute(directory_ / file_of(part, kind, times));
    if (!fs::exists(path)) made_.push_back(path);
    write_file_whole(path, profile.dump(2) + "\n");
    return path.string();
  }

 private:
  std::optional<TemporaryDirectory> temporary_;
  fs::path directory_;
  std::vector<fs::path> made_;  // which were not there before
  bool is_new_ = false, kept_ = false;
};

class Explainer {
 public:
  explicit Explainer(const ExplainOptions& options) : options_(options) {
    if (!options.sweeps.empty()) {
      throw UserError("", fmt::format("--sweep {}: explain is for one run; allowed: --set PATH=VALUE, and "
                                      "explain again for the next value",
                                      scenarios::one_line(options.sweeps.front(), 120)));
    }
    points_ = load_runnable_points(options.scenario, options.overrides);
    if (points_.size() > 1) {
      std::vector<std::string> swept;
      for (const auto& [path, value] : points_.front().settings) swept.push_back(path);
      throw UserError(
          "", fmt::format("{} sweeps {} points: explain is for one; allowed: a scenario without a "
                          "sweep, or one of its points, by --set of {}",
                          scenarios::one_line(options.scenario), points_.size(), scenarios::listed(swept)));
    }
    if (base().backend != "sim")
      throw UserError("", "explain changes what is simulated: --set backend=sim is allowed");
  }

  int run() {
    const StopSignals signals;
    std::optional<OutputDirectory> directory;
    if (options_.out) {
      std::signal(SIGPIPE, SIG_IGN);  // who reads standard output may go; what was run stays
      directory.emplace(*options_.out, files(), inputs_of(options_.scenario, points_));
    }
    Profiles profiles(options_.out);
    for (const Part& part : parts()) add_trial(part, profiles, kTwice);
    add_other_seeds();
    run_added(signals);
    const json& result = explanation_.base;
    const bool measured = !result.is_null() && !result.value("partial", false) && rate_per_s(result) > 0;
    if (measured && !signals.stop()) {
      const std::vector<std::string> gaining = worth_a_smaller_step(result, explanation_.trials);
      for (const Part& part : parts())
        if (std::ranges::find(gaining, part.name) != gaining.end()) add_trial(part, profiles, kSmallerStep);
      run_added(signals);
    }
    if (measured) {
      explanation_.cut_off = cut_off();
      keep(explanation_);
      profiles.keep();
      tell(explanation_);
    }
    if (!measured && signals.stop() && !options_.quiet)
      print_error("PARTIAL: ended before the scenario itself was measured\n");
    if (violated_) return kExitCheckFailed;
    if (signals.stop()) return kExitSignal + signals.signal_number();
    if (!measured)
      throw UserError(
          "",
          "nothing was measured: nothing came to its end in the window; allowed: a longer run.measure_us");
    return kExitDone;
  }

 private:
  /// What a point that is not the scenario itself is run for.
  struct Asked {
    std::string what;
    double times = kTwice;
    bool finished = false;
  };

  const scenarios::Scenario& base() const { return points_.front().scenario; }

  static std::vector<std::string> files() {
    std::vector<std::string> all = {kExplanationFile};
    for (const Part& part : parts()) {
      for (const ProfileKind kind : {ProfileKind::kNic, ProfileKind::kHost, ProfileKind::kSocket}) {
        if (parameters_of(part, kind).empty()) continue;
        for (const double times : {kTwice, kSmallerStep})
          all.push_back(fmt::format("{}/{}", Profiles::kDirectory, Profiles::file_of(part, kind, times)));
      }
    }
    return all;
  }

  /// Those that were added since it was called last.
  void run_added(const StopSignals& signals) {
    const std::vector<scenarios::SweepPoint> added(points_.begin() + static_cast<std::ptrdiff_t>(run_),
                                                   points_.end());
    if (added.empty()) return;
    const std::size_t first = std::exchange(run_, points_.size());
    // Also one at a time: progress is that of all of them together.
    const bool show = !options_.quiet && is_terminal(STDERR_FILENO);
    run_side_by_side(added, options_.jobs, signals.stop(), show, [&](std::size_t number, json finished) {
      violated_ = violated_ || exit_code_of(finished, 0) == kExitCheckFailed;
      if (first + number == 0) {
        explanation_.base = std::move(finished);
      } else if (!finished.value("partial", false)) {
        Asked& asked = asked_[first + number - 1];
        asked.finished = true;
        std::vector<Trial>& trials = asked.times == kTwice ? explanation_.trials : explanation_.smaller_steps;
        trials.push_back({asked.what, std::move(finished)});
      }
    });
  }

  void add_trial(const Part& part, Profiles& profiles, double times) {
    const scenarios::Cluster& cluster = base().cluster;
    const bool locks = cluster.shared_contexts || cluster.threads_per_queue_pair > 1;
    if (part.only_with_locks && !locks) return;
    // What a platform file says of links and latencies is nothing that can be set.
    const bool of_network =
        std::ranges::any_of(part.fields, [](auto field) { return field.starts_with("cluster.network."); });
    std::vector<std::string>& not_tried = explanation_.not_tried;
    if (of_network && !cluster.network.platform.empty() && (part.socket.empty() || cluster.sockets.empty())) {
      not_tried.push_back(fmt::format("{} (the platform file's)", part.name));
      return;
    }
    scenarios::Scenario scenario = base();
    bool changed = false;
    const auto set = [&](const std::string& path, const std::string& value) {
      if (value.empty()) return;
      scenario = with_override(scenario, scenarios::flag_override(path, "explain", value), catalog_);
      changed = true;
    };
    try {
      if (!part.nic.empty()) set("cluster.nic", profiles.make(part, ProfileKind::kNic, cluster.nic, times));
      if (!part.host.empty())
        set("cluster.host", profiles.make(part, ProfileKind::kHost, cluster.host, times));
      if (!part.socket.empty() && !cluster.sockets.empty())
        set("cluster.sockets", profiles.make(part, ProfileKind::kSocket, cluster.sockets, times));
      for (const std::string_view field : part.fields) {
        const json value = improved_field(base().resolved, field, times);
        if (!value.is_null()) set(std::string(field), value.dump());
      }
      if (changed) check_runnable(scenario);
    } catch (const UserError&) {
      if (times == kTwice) not_tried.emplace_back(part.name);  // beyond what a scenario may ask for
      return;
    }
    if (!changed && part.fields.empty() && part.socket.empty())
      not_tried.push_back(fmt::format("{}{}", part.name, kAsGoodAsCanBe));
    if (!changed) return;
    const std::string setting = times == kTwice ? "twice as good" : fmt::format("{} times as good", times);
    points_.push_back({{{setting, part.name}}, std::move(scenario), points_.size()});
    asked_.push_back({std::string(part.name), times});
  }

  void add_other_seeds() {
    const auto others = with_other_seeds(base(), catalog_);
    for (const scenarios::Scenario& scenario : others)
      points_.push_back({{{"run.seed", scenario.run.seed}}, scenario, points_.size()});
    for (const char* what : {kOtherSeed, kThirdSeed}) asked_.push_back({what});
  }

  std::vector<std::string> cut_off() const {
    std::vector<std::string> all;
    for (const Asked& asked : asked_)
      if (!asked.finished) all.push_back(asked.times == kTwice ? asked.what : smaller_step_of(asked.what));
    return all;
  }

  void keep(const Explanation& explanation) const {
    if (!options_.out) return;
    write_file_whole(fs::path(*options_.out) / kExplanationFile,
                     explanation_json(explanation).dump(2) + "\n");
  }

  void tell(const Explanation& explanation) const {
    if (options_.json) {
      print(explanation_json(explanation).dump(2) + "\n");
    } else if (options_.quiet) {
      print(render_verdict(explanation));
    } else {
      print(render_explanation(explanation));
      if (options_.out) print_written(fs::path(*options_.out) / kExplanationFile);
    }
  }

  const ExplainOptions& options_;
  const scenarios::Catalog catalog_ = make_catalog();
  std::vector<scenarios::SweepPoint> points_;  // the first as the scenario has it
  std::vector<Asked> asked_;                   // of the others
  std::size_t run_ = 0;                        // so many of the points were
  Explanation explanation_;
  bool violated_ = false;
};

}  // namespace

void add_explain_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* command =
      app.add_subcommand("explain", "Find what limits a scenario, by making each part of the cluster better");
  add_scenario_options(*command, options->scenario, options->overrides);
  // Known, and no part of the help: whoever tries what other commands take is told what to do.
  add_sweep_option(*command, options->sweeps)->group("");
  add_jobs_option(*command, options->jobs, "Runs side by side, each in a process of its own");
  command
      ->add_option("--out", options->out,
                   "Directory for explanation.json and the changed profiles; created if absent")
      ->type_name("DIR");
  command->add_flag("--json", options->json, "Print the explanation as JSON");
  command->add_flag("--quiet", options->quiet, "Print the verdict alone: no table and no progress");
  add_simgrid_options(*command, options->simgrid);
  command->footer(
      "Example:\n"
      "  verbtwin explain scenarios/smallbank-16.json --set run.measure_us=200 --jobs 2\n"
      "Some twenty runs: one as the scenario is, one with each part of the cluster twice as good (times\n"
      "halved, rates and numbers doubled), two with other seeds, which say what is chance, and one more of\n"
      "each of the three parts that gain most, 1.25 times as good. Of a load (run.offered_per_s) that is\n"
      "all done it finds what makes the latency.");
  command->callback([options, &exit_code] {
    configure_simgrid(options->simgrid.cfg, options->simgrid.log);
    exit_code = Explainer(*options).run();
  });
}

}  // namespace verbtwin::tools
