// Published figures, to be compared with and shown, never fitted: calibration/published/validation/*.csv,
// each opening with # lines that say cluster, source and conditions.
//
// Values; reading a file (csv_table.hpp) throws UserError with its place.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace verbtwin::calibration {

/// The machines of figures 12 to 14 of OSDI 2018, as the first lines of their files have them.
struct PublishedCluster {
  int nodes = 16;  // of figures 13 and 14
  int threads = 24;
  int nics_per_node = 2;
  int replicas = 3;
  const char* nic = "connectx-4";
};

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

/// A bar of OSDI 2018, figure 13(a): what is switched on beside the bars before it, and throughput by the
/// first bar's.
struct PublishedFactor {
  std::string step;
  int coroutines = 0;
  double ratio = 0;
};
/// TPC-C new-order with DrTM+H, 16 machines; the first step is the base.
std::vector<PublishedFactor> published_factors();

/// A ratio of two systems of one experiment, as a paper's text states it.
struct PublishedRatio {
  std::string experiment;
  double ratio = 0;
  bool may_be_fitted = false;  // of the train set
};
/// Those of RAMP over RDMA: in headlines.csv, and the train set's one.
std::vector<PublishedRatio> published_ramp_ratios();

/// A number that a paper's text states.
struct PublishedHeadline {
  std::string source;  // "OSDI 2016 FaSST"
  double value = 0;
  std::string unit;
};
/// The one of headlines.csv whose experiment begins so; of "1 / 2" the part. There is one, or it
/// throws UserError.
PublishedHeadline published_headline(const std::string& begins, std::size_t part);

/// The directory that holds the files, beside the profiles.
std::filesystem::path published_directory();

}  // namespace verbtwin::calibration
