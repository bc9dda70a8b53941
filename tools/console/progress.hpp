// Progress: one line on a terminal that says how far a long run is, how fast it goes and when it will be
// done.
//
// Made and used by one thread. Draws on `terminal` (not owned) at most ten times a wall second and erases
// itself when it is destroyed, so that what is printed next starts on a clean line. Simulated times in us,
// wall times in s.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

namespace verbtwin::tools {

/// What the line shows.
struct ProgressState {
  double simulated_us = 0;
  double total_us = 0;
  std::uint64_t committed = 0;
  double elapsed_s = 0;  // wall time since the first update
};

/// The line, no longer than `width_columns` (at least 40).
std::string render_progress(const ProgressState& state, std::size_t width_columns);

class Progress {
 public:
  /// `wall_s` is any clock in seconds; the default is the machine's monotonic one.
  Progress(std::FILE* terminal, std::size_t width_columns, std::function<double()> wall_s = monotonic_s);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(double simulated_us, double total_us, std::uint64_t committed);
  /// Until the next update: somebody prints. The clock goes on.
  void erase();

  static double monotonic_s();

 private:
  std::FILE* terminal_;
  std::size_t width_columns_;
  std::function<double()> wall_s_;
  double first_s_ = -1;
  double drawn_s_ = -1;
};

}  // namespace verbtwin::tools
