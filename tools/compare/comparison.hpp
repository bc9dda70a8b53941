// Comparison of a sweep with published curves: the error of each point, which system wins at each
// concurrency, and how far the peaks are off.
//
// Pure functions; callable from any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "calibration/csv_table.hpp"
#include "calibration/published_points.hpp"
#include "tools/report/plot.hpp"

namespace verbtwin::tools {

/// A row of points.csv.
struct SimulatedPoint {
  std::string workload;
  std::string protocol;
  int coroutines = 0;
  int machines = 0;
  double per_machine_mtps = 0;
  double latency_p50_us = 0;
  std::string number{};  // of the point, as the table has it
  std::string
      other_cluster{};    // in what its run is not the published one, but for `machines`; empty: in nothing
  bool violated = false;  // a check
};

/// Throws UserError where the table is no points.csv. A NIC profile that is a file of the user's may be of
/// any NIC; what an older table does not say of its cluster is not compared.
std::vector<SimulatedPoint> simulated_points(const calibration::CsvTable& table);

/// A point, and why it is mentioned: it has nothing to stand beside, or its run ended with a warning.
struct PointNote {
  std::string point;
  std::string why;
};
/// "points 0, 1: 1 thread, published with 24; point 3: ...".
std::string describe(const std::vector<PointNote>& left_out);
/// A paragraph with that, for the end of a comparison; nothing where all points are in it.
std::string render_left_out(const std::vector<PointNote>& left_out);

/// A paragraph on the points whose runs ended with a warning (a column of points.csv); nothing where none
/// did.
std::string render_point_warnings(const calibration::CsvTable& table);

/// The points of the published cluster; the others go into `left_out`.
std::vector<SimulatedPoint> of_published_cluster(std::vector<SimulatedPoint> points,
                                                 std::vector<PointNote>& left_out);

struct PairedPoint {
  calibration::PublishedPoint published;
  SimulatedPoint simulated;
};

/// The published points that were simulated, in the published order.
std::vector<PairedPoint> pair_points(const std::vector<calibration::PublishedPoint>& published,
                                     const std::vector<SimulatedPoint>& simulated);

/// How far off, "+12 %"; "-" where there is nothing to compare with.
std::string percent_off(double value, double reference);

/// Markdown: a table of points, the winners, the peaks. Ends in a newline.
std::string render_comparison(const std::string& title, const std::vector<PairedPoint>& pairs);

/// The published curves dashed, the simulated ones drawn through: latency over throughput, or throughput over
/// machines.
std::vector<Panel> comparison_panels(const std::string& title, const std::vector<PairedPoint>& pairs,
                                     bool over_machines);

struct ComparedValue {
  std::string series, x;
  double published = 0, simulated = 0;
};

/// One section of the report.
struct Comparison {
  std::string title;
  std::string text;  // Markdown that begins with the title
  std::vector<Panel> panels;
  std::vector<ComparedValue> values;  // that the text has beside each other
};

/// Figures 12 and 14: of a sweep over machines, or over systems and coroutines. Throws UserError where none
/// of its points has been published, or several are of one published point.
Comparison compare_curves(const calibration::CsvTable& table);

/// `report` (calibration/REPORT.md) with this comparison in its last part, "End to end", in place of an
/// earlier one of the same title.
std::string with_comparison(const std::string& report, const std::string& title,
                            const std::string& comparison);
/// That part of a report, or nothing.
std::string comparisons_of(const std::string& report);

/// `report` (calibration/report.json) with the comparison's values, as "set": "validation" and with its title
/// as their experiment, in place of earlier ones.
nlohmann::json with_compared_values(const nlohmann::json& report, const Comparison& comparison);
/// Those values of a report, of all comparisons.
nlohmann::json compared_values_of(const nlohmann::json& report);

}  // namespace verbtwin::tools
