#include "tools/sweeps/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "tools/console/text.hpp"
#include "tools/report/sweep_table.hpp"
#include "tools/run/warnings.hpp"

namespace verbtwin::tools {

namespace {

using nlohmann::json;

constexpr std::size_t kSeeds = 3;

/// "protocol=farm, coroutines=4"; a run's windows say nothing of a cluster.
std::string describe_settings(const Alternative& alternative) {
  std::vector<std::string> words;
  for (const auto& [path, value] : alternative.settings()) {
    if (path.starts_with("run.") && path != "run.offered_per_s") continue;
    words.push_back(fmt::format("{}={}", short_name(path), setting_text(path, value)));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string describe_missed(const std::vector<Goal>& goals, const json& result) {
  std::vector<std::string> words;
  const bool limits = !std::ranges::all_of(goals, &Goal::at_least);  // else the load is no matter
  if (limits && rate_per_s(result) == 0) return "nothing comes to its end in the window";
  const std::optional<double> done = limits ? behind_with(result) : std::nullopt;
  if (done) words.push_back(format_percent(*done) + " of the offered load is done");
  for (const Goal& goal : missed(goals, result)) {
    if (done && !goal.at_least) continue;
    const double value = goal.of(result);
    std::string is = with_unit(goal, value);
    if (is == with_unit(goal, goal.bound)) {  // 199.8 M/s is 200 M/s to three digits
      const std::string off = format_percent(std::abs(1 - value / goal.bound));
      is += goal.at_least ? " less " + off : " and " + off + " more";
    }
    words.push_back(fmt::format("{} is {}", goal.path, is));
    if (!goal.at_least || !does_offered_load(result)) continue;
    const bool few = asked_per_s(result) >= goal.bound;  // and of as many as expected enough would commit
    words.back() +=
        few ? fmt::format(": {:.0f} of {:.0f} expected came to their end; lengthen run.measure_us",
                          ended_of(result), expected_of(result))
            : fmt::format(", which is all of the load: {} of it ends by the application's own rules",
                          format_percent(1 - committed_share(result)));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string describe_met(const std::vector<Goal>& goals, const json& result) {
  std::vector<std::string> words;
  for (const Goal& goal : goals) {
    words.push_back(fmt::format("{} {}", goal.path, with_unit(goal, goal.of(result))));
    if (goal.at_least && goal.of(result) < goal.bound) words.back() += " (all that came)";
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

bool is_over(const Alternative& alternative) {
  return alternative.next().empty();
}

/// "10 to 13, 15"
std::string listed(const std::vector<SizeSearch::Range>& ranges) {
  std::vector<std::string> words;
  for (const auto& [first, last] : ranges)
    words.push_back(first == last ? fmt::format("{}", first) : fmt::format("{} to {}", first, last));
  return fmt::format("{}", fmt::join(words, ", "));
}

/// "; 10 to 13 were not tried", nothing where all below the answer were.
std::string describe_not_tried(const Alternative& alternative) {
  const std::vector<SizeSearch::Range> ranges = alternative.search().not_tried();
  if (ranges.empty()) return "";
  const bool one = ranges.size() == 1 && ranges.front().first == ranges.front().second;
  return fmt::format("; {} {} not tried", listed(ranges), one ? "was" : "were");
}

/// "; by the seed: 1 of 3 meets the goals with 11 machines, 2 of 3 with 12": the sizes whose seeds differ.
std::string describe_seeds(const Alternative& alternative) {
  std::vector<std::string> words;
  for (const auto& [nodes, results] : alternative.results()) {
    const std::size_t met = alternative.met(nodes);
    if (met == 0 || met == results.size()) continue;
    words.push_back(words.empty() ? fmt::format("{} of {} seeds {} the goals with {}", met, results.size(),
                                                met == 1 ? "meets" : "meet", format_counted(nodes, "machine"))
                                  : fmt::format("{} with {}", met, nodes));
  }
  return words.empty() ? ""
                       : fmt::format("; within chance, {}: lengthen run.measure_us", fmt::join(words, ", "));
}

/// " (seed 2)": of a run that has another than the scenario.
std::string seed_of(const Alternative& alternative, int nodes) {
  const json& result = alternative.decided(nodes);
  if (&result == &alternative.results().at(nodes).front()) return "";
  return fmt::format(" (seed {})", text_of(value_at(result, "scenario.run.seed")));
}

struct Outcome {
  bool meets;
  std::string words;
};

Outcome outcome_of(const Alternative& alternative, const std::vector<Goal>& goals) {
  if (alternative.search().next()) return {false, "the search had not come to its end"};
  if (!is_over(alternative)) {
    return {false, fmt::format("{} by one seed: the others had not all run",
                               format_counted(*alternative.search().found(), "machine"))};
  }
  const json* answer = alternative.answer();
  const int most = alternative.results().rbegin()->first;
  const auto missed_by = [&](int nodes) {
    return describe_missed(goals, alternative.decided(nodes)) + seed_of(alternative, nodes);
  };
  if (answer == nullptr)
    return {false, fmt::format("at {} machines {}{}", most, missed_by(most), describe_seeds(alternative))};
  const int nodes = *alternative.nodes();
  if (!missed(goals, *answer).empty()) {
    const bool has_rate = std::ranges::any_of(goals, &Goal::at_least) || offers_load(*answer);
    std::string words =
        fmt::format("{} {} {}", has_rate ? format_counted(nodes, "machine") : "with",
                    has_rate ? "reach the rate, and" : format_counted(nodes, "machine"), missed_by(nodes));
    // The search steps over sizes: of those that it ran.
    if (most != nodes) words += fmt::format("; with {}, the most tried, {}", most, missed_by(most));
    return {false, words + describe_seeds(alternative)};
  }
  std::string words =
      fmt::format("{}: {}{}, limited by {}", format_counted(nodes, "machine"), describe_met(goals, *answer),
                  seed_of(alternative, nodes), text_of(value_at(*answer, "bottleneck.resource")));
  if (alternative.results().contains(nodes - 1))
    words += fmt::format("; with {}, {}", nodes - 1, missed_by(nodes - 1));
  return {true, words + describe_not_tried(alternative) + describe_seeds(alternative)};
}

/// What a reader of the answer should know.
std::vector<std::string> warnings_of(const Alternative& alternative, const std::vector<Goal>& goals) {
  const json* answer = alternative.answer();
  if (answer == nullptr) return {};
  std::vector<std::string> all = sweep_warnings({{{}, *answer}});
  if (const std::string few = warning_of_few(goals, *answer); !few.empty()) all.push_back(few);
  return all;
}

}  // namespace

std::vector<Alternative::Run> Alternative::next() const {
  if (const std::optional<int> nodes = search_.next()) return {{*nodes, 0}};
  std::vector<Run> runs;
  const std::optional<int> found = search_.found();
  if (!found || !search_.met_by(decided(*found))) return runs;
  for (const int nodes : {*found, *found - 1}) {
    const auto ran = results_.find(nodes);
    if (ran == results_.end()) continue;
    for (std::size_t seed = ran->second.size(); seed < kSeeds; ++seed) runs.push_back({nodes, seed});
  }
  return runs;
}

void Alternative::add(int nodes, json result) {
  std::vector<json>& results = results_[nodes];
  results.push_back(std::move(result));
  if (results.size() == 1 || results.size() == kSeeds) search_.add(nodes, decided(nodes));
}

std::size_t Alternative::met(int nodes) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      results_.at(nodes), [this](const json& result) { return search_.met_by(result); }));
}

const json& Alternative::decided(int nodes) const {
  const std::vector<json>& results = results_.at(nodes);
  if (results.size() < kSeeds) return results.front();
  const bool most = 2 * met(nodes) > results.size();
  return *std::ranges::find_if(results, [&](const json& result) { return search_.met_by(result) == most; });
}

std::optional<int> Alternative::nodes() const {
  return is_over(*this) ? search_.found() : std::nullopt;
}

const json* Alternative::answer() const {
  const std::optional<int> size = nodes();
  return size ? &decided(*size) : nullptr;
}

std::optional<std::size_t> best_of(const std::vector<Alternative>& alternatives,
                                   const std::vector<Goal>& goals) {
  std::optional<std::size_t> best;
  std::pair<int, double> least;  // machines, and the rate with its sign turned
  for (std::size_t i = 0; i < alternatives.size(); ++i) {
    const json* answer = alternatives[i].answer();
    if (answer == nullptr || !missed(goals, *answer).empty()) continue;
    const std::pair machines(*alternatives[i].nodes(), -rate_per_s(*answer));
    if (best && least <= machines) continue;
    best = i;
    least = machines;
  }
  return best;
}

json plan_json(const std::vector<Alternative>& alternatives, const std::vector<Goal>& goals, int low,
               int high) {
  json plan = {{"format", "verbtwin-plan"}, {"version", 1}, {"nodes_low", low}, {"nodes_high", high}};
  plan["goals"] = json::array();
  for (const Goal& goal : goals) {
    plan["goals"].push_back({{"quantity", goal.path}, {goal.at_least ? "at_least" : "at_most", goal.bound}});
  }
  plan["alternatives"] = json::array();
  for (const Alternative& alternative : alternatives) {
    json& one = plan["alternatives"].emplace_back();
    one["settings"] = json::object();
    for (const auto& [path, value] : alternative.settings()) one["settings"][path] = value;
    one["runs"] = json::array();
    for (const char* key : {"other_seeds", "seeds", "not_tried", "missed"}) one[key] = json::array();
    for (const auto& [nodes, results] : alternative.results()) {
      one["runs"].push_back(results.front());
      if (results.size() == 1) continue;
      std::copy(std::next(results.begin()), results.end(), std::back_inserter(one["other_seeds"]));
      one["seeds"].push_back({{"nodes", nodes}, {"runs", results.size()}, {"met", alternative.met(nodes)}});
    }
    one["warnings"] = warnings_of(alternative, goals);
    one["nodes"] = nullptr;
    const json* answer = alternative.answer();
    if (answer == nullptr) continue;
    one["nodes"] = *alternative.nodes();
    for (const auto& [first, last] : alternative.search().not_tried())
      one["not_tried"].push_back({{"from", first}, {"to", last}});
    for (const Goal& goal : missed(goals, *answer)) one["missed"].push_back(goal.path);
  }
  const std::optional<std::size_t> best = best_of(alternatives, goals);
  plan["partial"] = !std::ranges::all_of(alternatives, is_over);
  plan["best"] = best ? json(*best) : json();
  return plan;
}

std::string render_plan(const std::vector<Alternative>& alternatives, const std::vector<Goal>& goals, int low,
                        int high) {
  const std::optional<std::size_t> best = best_of(alternatives, goals);
  std::string text;
  for (std::size_t i = 0; i < alternatives.size(); ++i) {
    const Outcome outcome = outcome_of(alternatives[i], goals);
    const std::string settings = describe_settings(alternatives[i]);
    const std::string line =
        settings.empty() ? outcome.words : fmt::format("{}: {}", settings, outcome.words);
    const char* verdict = !is_over(alternatives[i]) ? "cut off" : outcome.meets ? "or" : "not";
    if (best == i) verdict = alternatives[i].search().not_tried().empty() ? "smallest" : "found";
    text += labelled(verdict, line);
    text += render_warnings(warnings_of(alternatives[i], goals));
  }
  if (!std::ranges::all_of(alternatives, is_over)) {
    text += "PARTIAL: the search was ended early\n";
  } else if (!best) {
    const bool rate_reached =
        std::ranges::any_of(alternatives, [](const auto& one) { return one.answer() != nullptr; });
    text += rate_reached ? std::string("no cluster that meets the goals was found\n")
                         : fmt::format("no cluster of {} to {} machines meets the goals\n", low, high);
  }
  return text;
}

}  // namespace verbtwin::tools
