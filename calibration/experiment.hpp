// Experiments: published measurements as scenarios that the simulator can run.
//
// calibration/experiments/*.json, one experiment each: which rows of which file, on which machine, the
// scenario they map to (parameters as a function of a row's columns), what is read off the result, and what
// its paper leaves open and is assumed here. Values, const use from any thread. What is wrong in a file is a
// UserError of one line with its place.
//
// {"format": "verbtwin-experiment", "version": 1, "name": "...", "data": "x.csv", "rows": WHERE,
//  "machine": {"nic": "...", "host": "..."}, "series": ["column"], "x": "column",
//  "value": {"column": "...", "part": 0}, "result": {"pointer": "/operations_per_s", "scale": 1e-6},
//  "assumptions": ["..."], "scenario": {...}, "rules": [{"where": WHERE, "set": {"workload.verb": "read"}}],
//  "best_over": [{"workload.outstanding": 8}, ...], "limits": [{"where": WHERE, "resources": ["core"],
//  "source": "..."}], "missing": [{"where": WHERE, "mechanism": "..."}]}
// WHERE: {"column": "text" | 8 | ["one", "of"] | {"min": 1, "max": 64}}, all of which must hold; values to
// set: any JSON, or of the row itself
// {"column": "payload_b", "times": 1} (a number) or {"text": "verb"}. Later rules win. "scenario" is a
// scenario without its NIC and host.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "calibration/csv_table.hpp"
#include "scenarios/catalog.hpp"
#include "scenarios/scenario.hpp"

namespace verbtwin::calibration {

/// One published value and the runs that predict it.
struct Point {
  std::string series;
  std::string x;
  double published = 0;
  std::string place;                          // file:line
  std::vector<scenarios::Scenario> variants;  // the best result counts ("best over window")
  std::vector<std::string> limits;  // resources that the paper says limit it; empty: it does not say
  std::string limit_source;
  std::string missing;  // the mechanism that a model of it lacks, where that is known
};

struct Experiment {
  std::string name;
  std::string description;
  std::string data;
  std::string unit;
  std::string x_name;  // the column
  std::string nic, host;
  std::string result_pointer;
  double scale = 1;
  std::vector<std::string> assumptions;
  std::vector<std::string> header;  // the '#' lines of its data
  std::vector<Point> points;
};

/// A row, or a measured column, that no experiment runs, and why.
struct LeftOut {
  std::string place;
  std::string what;
  std::string reason;
};

struct ExperimentSet {
  std::vector<Experiment> experiments;  // by name
  std::vector<LeftOut> left_out;
};

/// Reads every experiment of `experiments` over the data in `published`; each row, and each
/// column of numbers, must belong to an experiment or to left-out.json. `catalog` must know the NICs and
/// hosts that the experiments name.
ExperimentSet load_experiments(const std::filesystem::path& experiments,
                               const std::filesystem::path& published, const scenarios::Catalog& catalog);

/// What a scenario is called that is in no file: a place in it is none that the user could see.
inline constexpr const char* kUnseenScenario = "its scenario";
/// "x.json:7:3: point 1 cannot be simulated: why"; without the place where `why` begins with one in an unseen
/// scenario.
std::string cannot_be_simulated(const std::string& place, std::string_view why);

}  // namespace verbtwin::calibration
