// Published figures, to be compared with and shown, never fitted: calibration/published/validation/*.csv,
// each opening with # lines that say cluster, source and conditions.
//
// Values; reading a file (published.hpp) throws UserError with its place.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace verbtwin::calibration {

/// One published point of a system's curve.
struct PublishedPoint {
  std::string workload;  // "smallbank", "tpcc-new-order"
  std::string protocol;  // our name of the system
  int coroutines = 0;    // 0: not what varies
  int machines = 0;
  double per_machine_mtps = 0;
  double latency_p50_us = 0;  // 0: not published
};

/// OSDI 2018, figure 14, throughput against latency. The figure does not say which concurrency a point is:
/// the n-th point of a series is taken for the n-th of 1, 2, 4, 6, ... coroutines, which latency times
/// throughput bears out.
std::vector<PublishedPoint> published_end_to_end();
/// OSDI 2018, figure 12, throughput against machines, DrTM+H.
std::vector<PublishedPoint> published_scale_out();

/// The directory that holds the files, beside the profiles.
std::filesystem::path published_directory();

}  // namespace verbtwin::calibration
