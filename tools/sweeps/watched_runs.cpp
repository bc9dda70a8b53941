#include "tools/sweeps/watched_runs.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <stdexcept>

#include "backend/user_error.hpp"
#include "scenarios/loader.hpp"
#include "tools/console/progress.hpp"
#include "tools/ranks/ibverbs_run.hpp"
#include "tools/report/summary.hpp"
#include "tools/run/simulate.hpp"
#include "tools/sweeps/side_by_side.hpp"

namespace verbtwin::tools {

namespace {

/// What goes wrong in a run does not tell which of many it was; a UserError has its place.
template <typename Run>
nlohmann::json named(std::size_t number, const scenarios::SweepPoint& point, const Run& run) {
  try {
    return run();
  } catch (const UserError&) {
    throw;
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& error) {
    throw std::runtime_error(describe_point(number, point) + ": " + error.what());
  }
}

}  // namespace

nlohmann::json run_watched(const scenarios::Scenario& scenario, const RankFlags& flags,
                           const StopSignals& signals, bool may_show, Trace* trace) {
  RunControl control;
  control.stop = &signals.stop();
  control.trace = trace;
  std::optional<Progress> progress;
  if (may_show && is_terminal(STDERR_FILENO)) {
    progress.emplace(stderr, style_of_stream(STDERR_FILENO).width_columns);
    control.progress = [&progress](double simulated_us, double total_us, std::uint64_t committed) {
      progress->update(simulated_us, total_us, committed);
    };
  }
  try {
    if (scenario.backend == "sim") return simulate(scenario, control);
    return run_on_ibverbs(scenario, complete_rank(flags, scenario.cluster.nodes), control);
  } catch (const UserError& error) {
    throw UserError("", scenarios::describe(scenario, error));
  }
}

void run_points(const std::vector<scenarios::SweepPoint>& points, const RankFlags& flags, int jobs,
                const StopSignals& signals, bool may_show,
                const std::function<void(std::size_t point, nlohmann::json result)>& finished) {
  // Nothing may follow a platform with profiles in its process, and the ways through SimGrid's own fat tree
  // depend on those before. A rank has its processes.
  const bool apart = std::ranges::any_of(points, [](const auto& point) {
    return point.scenario.backend == "sim" && !point.scenario.cluster.network.platform.empty();
  });
  if (jobs > 1 || apart) {
    run_side_by_side(points, jobs, signals.stop(), may_show && is_terminal(STDERR_FILENO), finished);
    return;
  }
  try {
    for (std::size_t i = 0; i < points.size() && !signals.stop(); ++i) {
      nlohmann::json result =
          named(i, points[i], [&] { return run_watched(points[i].scenario, flags, signals, may_show); });
      const bool stopped = result.is_object() && result.value("partial", false);
      finished(i, std::move(result));
      if (stopped) return;  // by a signal that another rank may have had alone
    }
  } catch (const Interrupted&) {  // nothing of that point is there
  }
}

}  // namespace verbtwin::tools
