// What `measure` measures: each combination of its flags' values that makes sense.
//
// Values without an owner; any thread.
#pragma once

#include <string>
#include <vector>

#include "calibration/measurement.hpp"

namespace verbtwin::tools {

struct MeasuredGrid {
  std::vector<int> sizes{8, 64, 1024, 4096}, windows{1, 16}, threads{1}, queue_pairs{1}, batches{1};
  std::vector<std::string> verbs{"read", "write", "send", "compare_swap", "fetch_add", "send_ud"};
  int inline_b = calibration::kMeasuredInlineMax_b, signal_interval = 100;
};

struct MeasuredPoints {
  std::vector<calibration::PrimitivePoint> points;
  std::vector<std::string> skipped;  // what cannot be, in words, each once
};

/// Atomics have one size, a batch fits in its window, a datagram in a packet. Throws UserError where nothing
/// is left.
MeasuredPoints measured_points(const MeasuredGrid& grid);

}  // namespace verbtwin::tools
