// What fits have in common, whether to published or to measured values: how a point is simulated, what
// experiments may name, progress, pictures and the report.
//
// Free functions and a line on the terminal; one thread.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/user_error.hpp"
#include "calibration/evaluate.hpp"
#include "calibration/experiment.hpp"
#include "calibration/fit.hpp"
#include "calibration/machine.hpp"
#include "calibration/report.hpp"
#include "models/profile.hpp"
#include "scenarios/catalog.hpp"
#include "scenarios/scenario.hpp"
#include "tools/console/stop_signals.hpp"

namespace verbtwin::tools {

/// calibration/ with its data.
struct Calibration {
  std::filesystem::path directory;
  calibration::Machines machines;
  calibration::ExperimentSet set;
};
Calibration read_calibration();
std::filesystem::path profile_file(const Calibration& calibration, const std::string& machine);

/// All experiments, simulated with the profiles as they are in the files. It points to `calibration`. Nothing
/// if it was told to stop.
std::optional<calibration::ReportInput> evaluate_shipped(const Calibration& calibration,
                                                         const calibration::Evaluator& evaluator);

/// What experiments may name: the machines, whether or not there is a profile of them yet.
scenarios::Catalog catalog_with(const calibration::Machines& machines);

/// Simulates one point with these profiles, whatever its scenario names; the result.
nlohmann::json run_point(const scenarios::Scenario& scenario, const models::NicProfile& nic,
                         const models::HostProfile& host);

/// A line on a terminal that is drawn again and again; in a pipe a line a minute.
class FitLine {
 public:
  FitLine();
  ~FitLine();
  FitLine(const FitLine&) = delete;
  FitLine& operator=(const FitLine&) = delete;

  calibration::FitProgress progress();  // must not outlive the line
  /// "what 3/17 more", with the time that is left.
  void update(const std::string& what, int done, int of, const std::string& more);

 private:
  std::size_t width_columns_;
  bool shown_;
  std::string what_;
  double start_s_ = 0;
  double said_s_ = 0;
  int first_ = 0;
};

/// Where a signal ended the work: says so, and what is there of it; the exit code.
int stopped(const StopSignals& signals, std::string_view what_is_there);

inline constexpr const char* kReportFile = "report.json";
inline constexpr const char* kReportPage = "REPORT.md";

/// What `read` makes of one of them.
template <typename Read>
auto read_report(const std::filesystem::path& file, const Read& read) {
  try {
    return read(file);
  } catch (const UserError& error) {
    throw UserError("",
                    fmt::format("{}; `verbtwin calibrate --published --evaluate` makes it", error.what()));
  }
}

/// What write_report_files() writes of these experiments.
std::vector<std::string> report_files(const calibration::ExperimentSet& set);

/// report.json's text of such a list: a point a line.
std::string report_text(const nlohmann::json& points);

/// What stands in REPORT.md and report.json behind what a fit or an evaluation makes: comparisons.
struct ReportAppendix {
  std::string page{};
  nlohmann::json points = nlohmann::json::array();
};

/// Draws what has enough points into `directory`/plots and writes report.json and REPORT.md there; prints the
/// summary.
void write_report_files(const std::filesystem::path& directory, calibration::ReportInput input,
                        const ReportAppendix& appendix);

}  // namespace verbtwin::tools
