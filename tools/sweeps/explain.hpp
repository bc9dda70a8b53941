// Explaining: what limits a run, found by trying. Each part of the cluster in turn is made twice as good, and
// the run is done again: what the rate gains says how much that part held it back. A run that does all the
// load it is offered has no other rate: there it is the mean latency that gets shorter. The few parts that
// gain most are tried with a smaller step as well: a part that is a little better may fill another one up.
//
// Chosen: whole runs of changed profiles, one part at a time, and two with other seeds, which say what is
// chance. Rejected: shares of use (`bottleneck` in every result, at no cost: a resource may be busy with what
// another one causes, or wait in a queue that moves elsewhere), and derivatives (a few percent drown in
// chance where runs are short; twice is what a next generation brings).
//
// Values and pure functions; one thread.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "calibration/profile_file.hpp"

namespace verbtwin::tools {

/// A part of the cluster, as the parameters of profiles and the fields of a scenario that make it better:
/// times are halved, rates and numbers doubled.
struct Part {
  std::string_view name;  // "receive engines"
  std::vector<std::string_view> nic{}, host{}, socket{};
  std::vector<std::string_view> fields{};  // of the scenario, "cluster.network.switch_ns"
  bool only_with_locks = false;            // threads share a device context or queue pairs
};
std::span<const Part> parts();

/// The parameters of a part in profiles of that kind.
const std::vector<std::string_view>& parameters_of(const Part& part, calibration::ProfileKind kind);

inline constexpr double kTwice = 2, kSmallerStep = 1.25;

/// A profile file with these parameters so many times as good, no better than a profile may be.
nlohmann::json improved(nlohmann::json profile, calibration::ProfileKind kind,
                        const std::vector<std::string_view>& parameters, double times = kTwice);

/// A number of the scenario, so many times as good; null where it has none there, or 0.
nlohmann::json improved_field(const nlohmann::json& resolved, std::string_view field, double times = kTwice);

struct Trial {
  std::string what;  // the part; of the runs with other seeds: kOtherSeed, kThirdSeed
  nlohmann::json result;
};
inline constexpr const char* kOtherSeed = "another seed";
inline constexpr const char* kThirdSeed = "a third seed";
/// Behind the name of a part that is not tried because there is nothing to improve: it holds nothing back.
inline constexpr std::string_view kAsGoodAsCanBe = " (as good as they can be)";
/// Whether a trial's name is that of a run with another seed: what it changes is chance.
inline bool is_seed(std::string_view what) {
  return what == kOtherSeed || what == kThirdSeed;
}

/// What `gain` is of: "rate", or "latency" where the base does all the load that it is offered.
const char* gains_in(const nlohmann::json& base);
/// By how much the rate grows or the mean latency shrinks: 0.1 is 110 transactions where 100 were, or a
/// latency divided by 1.1. `base` has a rate.
double gain(const nlohmann::json& base, const nlohmann::json& result);

/// What was found, as far as it came.
struct Explanation {
  nlohmann::json base;  // the scenario's own result, which has a rate
  std::vector<Trial> trials;
  std::vector<std::string> not_tried = {};  // parts that the scenario does not let be twice as good
  std::vector<std::string> cut_off = {};    // trials that a signal left no time for
  std::vector<Trial> smaller_steps = {};    // of parts that gain, kSmallerStep times as good
};

/// How that run is called: "send engines, 1.25 times".
std::string smaller_step_of(std::string_view part);
/// The parts, three at most, that gain most of those that gain what is worth saying.
std::vector<std::string> worth_a_smaller_step(const nlohmann::json& base, const std::vector<Trial>& trials);

/// What `explain --json` prints (tools/RESULT.md).
nlohmann::json explanation_json(const Explanation& explanation);
/// A line for each trial that moves anything, most gain first, and what that says.
std::string render_explanation(const Explanation& explanation);
/// What it says alone.
std::string render_verdict(const Explanation& explanation);

}  // namespace verbtwin::tools
