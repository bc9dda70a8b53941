// `verbtwin calibrate --measured`: a NIC and a host profile fitted to what `verbtwin measure` found on a
// cluster.
//
// A free function, one thread, which starts processes. Throws UserError for what the user gave wrongly.
#pragma once

#include <string>

namespace verbtwin::tools {

struct MeasuredOptions {
  std::string file;       // measurement.json, or its directory
  std::string nic, host;  // the profiles to begin with: names or paths
  std::string out;        // the directory for nic.json, host.json and the report
  bool evaluate = false;  // fit nothing: only say how far off those profiles are
  int jobs = 2;
};

/// The exit code.
int calibrate_measured(const MeasuredOptions& options);

}  // namespace verbtwin::tools
