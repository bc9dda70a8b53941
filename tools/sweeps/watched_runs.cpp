#include "tools/sweeps/watched_runs.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <utility>

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
nlohmann::json named(const scenarios::SweepPoint& point, const Run& run) {
  try {
    return run();
  } catch (const UserError&) {
    throw;
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& error) {
    throw std::runtime_error(describe_point(point) + ": " + error.what());
  }
}

void open_line(bool may_show, std::optional<Progress>& line) {
  if (may_show && is_terminal(STDERR_FILENO))
    line.emplace(stderr, style_of_stream(STDERR_FILENO).width_columns);
}

nlohmann::json run_with(const RunControl& control, const scenarios::Scenario& scenario,
                        const RankFlags& flags) {
  try {
    if (scenario.backend == "sim") return simulate(scenario, control);
    return run_on_ibverbs(scenario, complete_rank(flags, scenario.cluster.nodes), control);
  } catch (const UserError& error) {
    throw UserError("", scenarios::describe(scenario, error));
  }
}

}  // namespace

nlohmann::json run_watched(const scenarios::Scenario& scenario, const RankFlags& flags,
                           const StopSignals& signals, bool may_show, Trace* trace) {
  RunControl control;
  control.stop = &signals.stop();
  control.trace = trace;
  std::optional<Progress> line;
  open_line(may_show, line);
  if (line) {
    control.progress = [&line](double simulated_us, double total_us, std::uint64_t committed) {
      line->update(simulated_us, total_us, committed);
    };
  }
  return run_with(control, scenario, flags);
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
  std::optional<Progress> line;
  open_line(may_show, line);
  double before_us = 0, total_us = 0;  // of the points before, and of all
  std::uint64_t before = 0, committed_now = 0;
  for (const auto& point : points) total_us += point.scenario.run.length_us();
  RunControl control;
  control.stop = &signals.stop();
  if (line) {
    control.progress = [&](double simulated_us, double, std::uint64_t committed) {
      committed_now = committed;
      line->update(before_us + simulated_us, total_us, before + committed);
    };
  }
  try {
    for (std::size_t i = 0; i < points.size() && !signals.stop(); ++i) {
      nlohmann::json result = named(points[i], [&] { return run_with(control, points[i].scenario, flags); });
      before_us += points[i].scenario.run.length_us();
      before += std::exchange(committed_now, 0);
      const bool stopped = result.is_object() && result.value("partial", false);
      if (line) line->erase();  // it is somebody else's now
      finished(i, std::move(result));
      if (stopped) return;  // by a signal that another rank may have had alone
    }
  } catch (const Interrupted&) {  // nothing of that point is there
  }
}

}  // namespace verbtwin::tools
