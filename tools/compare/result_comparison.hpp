// compare_results(): two results side by side, a measured run and its simulated twin above all.
//
// Shape chosen: a list of quantities by the names that RESULT.md, `plan --goal` and points.csv give them,
// each with both values and their ratio, and a list of what differs in the scenarios, so that no two runs of
// different things are taken for twins. Not chosen: a command that simulates a measured result's scenario by
// itself (a second way into `run`, with the same options), and a score of likeness (hides which part is off).
//
// Pure functions of the results' documents, which they only read; callable from any thread. What a document
// has wrongly is refused with its place (UserError, the whole line).
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/document.hpp"
#include "tools/report/summary.hpp"

namespace verbtwin::tools {

/// One value of both results; absent where a result does not have it (a device's use on real verbs).
struct ComparedQuantity {
  std::string name;  // "latency_us.p99"
  std::optional<double> a, b;
};

/// A value of the scenarios that is not the same; null where one has none.
struct ScenarioDifference {
  std::string path;  // "cluster.nic"
  nlohmann::json a, b;
};

struct ResultComparison {
  nlohmann::json a, b;  // what each result is: "file", "name", "backend", "seed", "window_us", "partial", ...
  std::vector<ScenarioDifference> differences;
  std::vector<ComparedQuantity> quantities;
};

/// Whether a value of a scenario, by its JSON pointer, is words: what a run does depends on all the others.
bool is_words(const std::string& pointer);
/// "/cluster/nic" as a user says it: "cluster.nic".
std::string path_of(const std::string& pointer);
/// What was run: the scenario, and of what describe() says a digest of each file that it names (RESULT.md,
/// `simulator.files`) and what SimGrid was told.
struct ComparedScenario {
  const nlohmann::json& scenario;
  const nlohmann::json& described;
};
/// But for words; files of one name whose contents are not the same among them, and --cfg.
std::vector<ScenarioDifference> differences_of(const ComparedScenario& a, const ComparedScenario& b);

/// `cluster.nic "connectx-4", "connectx-5"`.
std::string words_of(const ScenarioDifference& difference);
/// A semicolon between them; of many the first, and how many more there are.
std::string first_of(const std::vector<std::string>& parts);
/// A line of the head, wrapped beside its label.
std::string labelled(std::string_view label, const std::string& words, const SummaryStyle& style);

/// B divided by A; none where that is no number.
std::optional<double> ratio_of(const ComparedQuantity& quantity);

nlohmann::json quantities_json(const std::vector<ComparedQuantity>& quantities);

ResultComparison compare_results(const scenarios::Document& a, const scenarios::Document& b);

/// For a terminal; ends in a newline.
std::string render_comparison(const ResultComparison& comparison, const SummaryStyle& style);

/// For programs (RESULT.md "A comparison").
nlohmann::json comparison_json(const ResultComparison& comparison);

}  // namespace verbtwin::tools
