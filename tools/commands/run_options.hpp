// What `verbtwin run` is told on its command line, and the points that it is to run.
//
// Values; one thread. Throws UserError, its message being the whole line to show.
#pragma once

#include <CLI/App.hpp>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/sweep.hpp"
#include "tools/commands/commands.hpp"
#include "tools/ranks/rank_options.hpp"

namespace verbtwin::tools {

struct RunOptions {
  std::string scenario;
  std::vector<std::string> overrides, sweeps;
  std::string backend;
  std::string seed;
  std::optional<std::string> out, trace, hdr;
  bool json = false;
  bool quiet = false;
  bool resume = false;
  std::optional<std::size_t> point;
  int jobs = 1;
  RankFlags rank;
  SimgridFlags simgrid;

  /// Where one point's results go: of a sweep's each has a directory of its own.
  std::filesystem::path place_of(const scenarios::SweepPoint& one) const;
};

/// Adds the flags to `command`; `options` outlives it.
void add_run_options(CLI::App& command, RunOptions& options);

/// Whether --hdr FILE has another one beside it: of a load that is offered, and not beside a pipe.
bool has_second_hdr(const std::filesystem::path& file, const scenarios::Scenario& scenario);

/// The points of the scenario, all of which could run, with what was asked for.
std::vector<scenarios::SweepPoint> load_points(const RunOptions& options);

}  // namespace verbtwin::tools
