#include "calibration/evaluate.hpp"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "backend/user_error.hpp"
#include "calibration/forked.hpp"
#include "scenarios/text.hpp"

namespace verbtwin::calibration {

namespace {

using nlohmann::json;

struct Task {
  std::size_t experiment, point, variant;
};

Prediction prediction_of(const Experiment& experiment, const Point& point, const ForkedResult& result,
                         std::size_t variant) {
  if (!result.error.empty()) {
    const std::string what = cannot_be_simulated(point.place, result.error);
    if (result.user_error) throw UserError("", what);  // the file first, as everywhere
    throw std::runtime_error(experiment.name + ": " + what);
  }
  Prediction p;
  p.variant = variant;
  const json read = json::parse(result.text);
  p.value = read.at("value").get<double>() * experiment.scale;
  p.bottleneck = read.at("bottleneck").at("resource");
  p.utilization = read.at("bottleneck").at("utilization");
  p.busiest = read.at("bottleneck").value("busiest", p.bottleneck);
  return p;
}

}  // namespace

double log_error(const Point& point, const Prediction& prediction) {
  // A rate of 0 has no logarithm. No more than that: where all errors are the same, a fit finds no way.
  constexpr double kLeastRatio = 1e-6;
  return std::log(std::max(prediction.value / point.published, kLeastRatio));
}

std::vector<std::vector<Prediction>> Evaluator::evaluate(
    std::span<const Experiment* const> experiments, const ProfileSet& profiles,
    const std::function<void(int, int)>& progress) const {
  std::vector<Task> tasks;
  std::vector<std::vector<Prediction>> best;
  for (std::size_t e = 0; e < experiments.size(); ++e) {
    best.emplace_back(experiments[e]->points.size());
    for (std::size_t p = 0; p < experiments[e]->points.size(); ++p) {
      for (std::size_t v = 0; v < experiments[e]->points[p].variants.size(); ++v) tasks.push_back({e, p, v});
    }
  }
  const auto work = [&](std::size_t i) {
    const Experiment& e = *experiments[tasks[i].experiment];
    const json result = run_(e.points[tasks[i].point].variants[tasks[i].variant], profiles.nics.at(e.nic),
                             profiles.hosts.at(e.host));
    const json::json_pointer pointer(e.result_pointer);
    if (!result.contains(pointer) || !result.at(pointer).is_number()) {
      throw UserError(
          "", "/result/pointer: no number of a result is at " + scenarios::in_quotes(e.result_pointer));
    }
    return json{{"value", result.at(pointer)}, {"bottleneck", result.at("bottleneck")}}.dump();
  };
  int done = 0;
  const std::vector<ForkedResult> results =
      in_processes(tasks.size(), jobs_, work, going_on_, [&](std::size_t, const ForkedResult&) {
        if (progress) progress(++done, static_cast<int>(tasks.size()));
      });
  if (results.size() != tasks.size()) return {};
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const Experiment& e = *experiments[tasks[i].experiment];
    Prediction p = prediction_of(e, e.points[tasks[i].point], results[i], tasks[i].variant);
    Prediction& kept = best[tasks[i].experiment][tasks[i].point];
    if (tasks[i].variant == 0 || p.value > kept.value) kept = std::move(p);
  }
  return best;
}

}  // namespace verbtwin::calibration
