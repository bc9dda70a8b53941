// The report: published or measured against simulated, point by point, and what it says of the model.
//
// Pure functions, callable from any thread.
#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "calibration/evaluate.hpp"
#include "calibration/experiment.hpp"

namespace verbtwin::calibration {

/// What simulated values stand beside.
enum class Reference { kPublished, kMeasured };

struct ReportInput {
  const ExperimentSet* set = nullptr;
  std::vector<std::vector<Prediction>> predictions;  // by experiment and point
  std::vector<nlohmann::json> profiles;              // the documents used, in the order to show them
  std::vector<std::string> pictures{};               // by experiment, as paths from the report; empty: none
  Reference reference = Reference::kPublished;
  std::string note{};  // what has to be known of all of it: a sentence, or nothing
  bool fitted = true;  // the profiles, to these values
};

struct ReportRow {
  std::string set, experiment, series, x;
  double reference = 0, simulated = 0;
};
/// {"set", "experiment", "series", "x", "published", "simulated", "error"}: x is a number where it reads as
/// one, error is simulated / published - 1. Of a measurement, "set" and the key of its value are "measured".
nlohmann::json report_json(const ReportRow& row);
/// The list of these for all points.
nlohmann::json report_json(const ReportInput& input);

/// How far off points are, by |simulated / published - 1|.
struct Errors {
  std::size_t points = 0;
  double median = 0, root_mean_square = 0, worst = 0;
  std::size_t worst_point = 0, far_off = 0;  // the latter: more than 20 %
};
/// Of the points of each NIC's experiments, by its name.
std::map<std::string, Errors> errors_by_nic(const ReportInput& input);
Errors errors_of_all(const ReportInput& input);

/// How many pairs of points are in the published order, and how many limits are as papers say.
struct Shape {
  std::size_t pairs = 0, pairs_kept = 0, limits = 0, limits_right = 0;
};
Shape shape_of_all(const ReportInput& input);

/// The same for people: misfit per experiment, shapes, bottlenecks, points, parameters.
std::string report_markdown(const ReportInput& input);

/// One line per experiment: median and worst error; and how many points are more than 20 % off.
/// Beside a measurement, where most of those are at one limit that a machine's slot or NIC sets, which it is.
std::string report_summary(const ReportInput& input);

}  // namespace verbtwin::calibration
