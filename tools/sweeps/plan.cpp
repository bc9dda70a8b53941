#include "tools/sweeps/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "backend/user_error.hpp"
#include "scenarios/text.hpp"
#include "tools/console/text.hpp"
#include "tools/report/sweep_table.hpp"
#include "tools/run/warnings.hpp"

namespace verbtwin::tools {

namespace {

using nlohmann::json;

constexpr double kStepMost = 4;  // times as many machines: a small cluster may say little about a large one
constexpr double kStepForLimits = 1.5;
constexpr int kHardlyBetterRuns = 2;    // so many in a row that are
constexpr double kHardlyBetter = 0.97;  // times what the smaller ones had

struct Quantity {
  const char* path;
  enum class Unit : std::uint8_t { kPerSecond, kMicroseconds, kShare } unit;
};
constexpr std::array<Quantity, 8> kQuantities = {{{"committed_per_s", Quantity::Unit::kPerSecond},
                                                  {"latency_us.mean", Quantity::Unit::kMicroseconds},
                                                  {"latency_us.p50", Quantity::Unit::kMicroseconds},
                                                  {"latency_us.p90", Quantity::Unit::kMicroseconds},
                                                  {"latency_us.p99", Quantity::Unit::kMicroseconds},
                                                  {"latency_us.p999", Quantity::Unit::kMicroseconds},
                                                  {"latency_us.max", Quantity::Unit::kMicroseconds},
                                                  {"abort_ratio", Quantity::Unit::kShare}}};

std::vector<std::string> quantity_names() {
  std::vector<std::string> names;
  for (const Quantity& quantity : kQuantities) names.emplace_back(quantity.path);
  return names;
}

std::string with_unit(const std::string& path, double value) {
  const auto* found = std::ranges::find(kQuantities, path, &Quantity::path);
  switch (found->unit) {
    case Quantity::Unit::kPerSecond:
      return format_si(value) + "/s";
    case Quantity::Unit::kMicroseconds:
      return format_us(value) + " us";
    case Quantity::Unit::kShare:
      break;
  }
  return format_percent(value);
}

/// What a bound may look like.
const char* example_of(const std::string& path) {
  switch (std::ranges::find(kQuantities, path, &Quantity::path)->unit) {
    case Quantity::Unit::kPerSecond:
      return "as 100e6";
    case Quantity::Unit::kMicroseconds:
      return "microseconds without a unit, as 60";
    case Quantity::Unit::kShare:
      break;
  }
  return "as 0.02";
}

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw UserError("", fmt::format("--goal {}: {}", scenarios::one_line(text), why));
}

/// "protocol=farm, coroutines=4"; a run's windows say nothing of a cluster.
std::string describe_settings(const Alternative& alternative) {
  std::vector<std::string> words;
  for (const auto& [path, value] : alternative.settings) {
    if (path.starts_with("run.") && path != "run.offered_per_s") continue;
    words.push_back(fmt::format("{}={}", short_name(path), setting_text(path, value)));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

bool offers_load(const json& result) {
  const json& offered_per_s = value_at(result, "scenario.run.offered_per_s");
  return offered_per_s.is_number() && offered_per_s > 0;
}

/// How much of run.offered_per_s came to its end; nothing where the load is done, or none is offered. Whose
/// backlog grows has latencies that say how long the run was.
std::optional<double> behind_with(const json& result) {
  if (!offers_load(result) || does_offered_load(result)) return std::nullopt;
  return ended_of(result) / offered_to(result);
}

/// What share of those that end commits.
double committed_share(const json& result) {
  const double ended = ended_of(result);
  return ended > 0 ? result.at("committed").get<double>() / ended : 0;
}

/// How many run.offered_per_s lets expect in the window.
double expected_of(const json& result) {
  return value_at(result, "scenario.run.offered_per_s").get<double>() *
         value_at(result, "window_us").get<double>() / 1e6;
}

/// The rate of a cluster that does its load, had as many come as are to be expected.
double asked_per_s(const json& result) {
  return value_at(result, "scenario.run.offered_per_s").get<double>() * committed_share(result);
}

/// The rate that a cluster reaches: one that does its load does it however many came by chance, which is the
/// more the fewer they are.
double reached_per_s(const Goal& goal, const json& result) {
  constexpr double kDeviations = 3, kLeast = 0.02;
  const double measured = goal.of(result);
  if (!does_offered_load(result)) return measured;
  const double chance = std::max(kLeast, kDeviations / std::sqrt(expected_of(result)));
  return std::max(measured, std::min(asked_per_s(result), (1 + chance) * measured));
}

/// A larger cluster would reach no more.
bool is_out_of_reach(const std::vector<Goal>& rates, const json& result) {
  return does_offered_load(result) && std::ranges::any_of(rates, [&](const Goal& goal) {
           return reached_per_s(goal, result) < goal.bound;
         });
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
    std::string is = with_unit(goal.path, value);
    if (is == with_unit(goal.path, goal.bound)) {  // 199.8 M/s is 200 M/s to three digits
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
    words.push_back(fmt::format("{} {}", goal.path, with_unit(goal.path, goal.of(result))));
    if (goal.at_least && goal.of(result) < goal.bound) words.back() += " (all that came)";
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

bool is_partial(const std::vector<Alternative>& alternatives) {
  return std::ranges::any_of(
      alternatives, [](const Alternative& alternative) { return alternative.search.next().has_value(); });
}

struct Outcome {
  bool meets;
  std::string words;
};

Outcome outcome_of(const Alternative& alternative, const std::vector<Goal>& goals) {
  if (alternative.search.next()) return {false, "the search had not come to its end"};
  const json* answer = alternative.answer();
  if (answer == nullptr) {
    const auto& [nodes, result] = *alternative.results.rbegin();
    return {false, fmt::format("at {} machines {}", nodes, describe_missed(goals, result))};
  }
  const int nodes = *alternative.search.found();
  if (!missed(goals, *answer).empty()) {
    const bool has_rate = std::ranges::any_of(goals, &Goal::at_least) || offers_load(*answer);
    std::string words = fmt::format("{} {} {}", has_rate ? format_counted(nodes, "machine") : "with",
                                    has_rate ? "reach the rate, and" : format_counted(nodes, "machine"),
                                    describe_missed(goals, *answer));
    // The search steps over sizes: of those that it ran.
    if (const auto& [most, result] = *alternative.results.rbegin(); most != nodes)
      words += fmt::format("; with {}, the most tried, {}", most, describe_missed(goals, result));
    return {false, words};
  }
  std::string words =
      fmt::format("{}: {}, limited by {}", format_counted(nodes, "machine"), describe_met(goals, *answer),
                  text_of(value_at(*answer, "bottleneck.resource")));
  const auto below = alternative.results.find(nodes - 1);
  if (below != alternative.results.end()) {
    words += fmt::format("; with {}, {}", nodes - 1, describe_missed(goals, below->second));
  }
  return {true, words};
}

}  // namespace

double Goal::of(const json& result) const {
  const json& value = value_at(result, path);
  return value.is_number() ? value.get<double>() : 0.0;
}

bool Goal::met_by(const json& result) const {
  if (at_least) return reached_per_s(*this, result) >= bound;
  return rate_per_s(result) > 0 && of(result) <= bound && !behind_with(result);
}

Goal parse_goal(const std::string& text) {
  const std::size_t at = text.find_first_of("<>");
  if (at == std::string::npos || at + 1 >= text.size() || text[at + 1] != '=') {
    refuse(text, "a goal is NAME>=VALUE or NAME<=VALUE, as committed_per_s>=100e6");
  }
  // Spaces read well inside a shell's quotes.
  Goal goal{text.substr(0, at), text[at] == '>', 0};
  goal.path.erase(goal.path.find_last_not_of(' ') + 1);
  if (goal.path.empty()) {
    refuse(text,
           fmt::format("no quantity in front of {}; allowed: as latency_us.p99<=60", text.substr(at, 2)));
  }
  const std::vector<std::string> names = quantity_names();
  if (std::ranges::find(names, goal.path) == names.end()) {
    refuse(text, fmt::format("unknown quantity \"{}\"; allowed: {}{}", scenarios::one_line(goal.path),
                             fmt::join(names, ", "), scenarios::did_you_mean(goal.path, names)));
  }
  const char* begin = text.data() + std::min(text.find_first_not_of(' ', at + 2), text.size());
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, goal.bound);
  if (error != std::errc() || stop != end || !std::isfinite(goal.bound) || goal.bound < 0) {
    refuse(text, fmt::format("the value is no number of 0 or more; allowed: {}", example_of(goal.path)));
  }
  const auto* quantity = std::ranges::find(kQuantities, goal.path, &Quantity::path);
  if (quantity->unit == Quantity::Unit::kShare && goal.bound > 1)
    refuse(text, "a share is 1 at most; allowed: as 0.02 for two percent");
  const bool rate = goal.path == "committed_per_s";
  if (rate != goal.at_least) {
    refuse(text, rate ? "a rate is wanted at least: >= is allowed"
                      : fmt::format("{} is allowed at most: <= is allowed", goal.path));
  }
  return goal;
}

std::string describe(const Goal& goal) {
  return fmt::format("{} {} {}", goal.path, goal.at_least ? ">=" : "<=", with_unit(goal.path, goal.bound));
}

std::vector<Goal> missed(const std::vector<Goal>& goals, const json& result) {
  std::vector<Goal> all;
  std::ranges::copy_if(goals, std::back_inserter(all),
                       [&](const Goal& goal) { return !goal.met_by(result); });
  return all;
}

SizeSearch::SizeSearch(const std::vector<Goal>& goals, int low, int high) : low_(low), high_(high) {
  for (const Goal& goal : goals) (goal.at_least ? rates_ : limits_).push_back(goal);
}

int SizeSearch::guess(int nodes) const {
  const double size = std::ceil(nodes * std::min(growth_.at(nodes), kStepMost));
  return static_cast<int>(std::min<double>(size, high_));
}

std::optional<int> SizeSearch::next() const {
  const std::optional<int> for_rates = next_for_rates();
  return for_rates || !enough_ ? for_rates : next_for_limits();
}

std::optional<int> SizeSearch::next_for_rates() const {
  if (low_ > high_ || low_ == enough_) return std::nullopt;
  if (growth_.empty()) return low_;
  if (!enough_) return std::max(low_, guess(low_ - 1));
  if (between_ % 2 == 1) return low_ + (*enough_ - low_) / 2;
  const bool tells_growth = growth_.at(*enough_) > 0;  // a load that is done does not say how easily
  return std::clamp(guess(tells_growth ? *enough_ : low_ - 1), low_, *enough_ - 1);
}

std::optional<int> SizeSearch::next_for_limits() const {
  int below = *enough_, tried = 0;
  double least = excess_.at(below), before = least;  // of all, and of all but the last two
  for (auto at = excess_.find(below); at != excess_.end(); ++at, ++tried) {
    if (at->second <= 1)
      return at->first - below <= 1 ? std::nullopt : std::optional((below + at->first) / 2);
    below = at->first;
    if (std::distance(at, excess_.end()) > kHardlyBetterRuns) before = std::min(before, at->second);
    least = std::min(least, at->second);
  }
  const bool hopeless = tried > kHardlyBetterRuns && least > kHardlyBetter * before;
  if (below == high_ || hopeless) return std::nullopt;
  return static_cast<int>(std::min<double>(high_, std::ceil(below * kStepForLimits)));
}

std::optional<int> SizeSearch::found() const {
  if (!enough_) return std::nullopt;
  const auto meets =
      std::find_if(excess_.find(*enough_), excess_.end(), [](const auto& size) { return size.second <= 1; });
  return meets == excess_.end() ? *enough_ : meets->first;
}

void SizeSearch::add(int nodes, const json& result) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  double growth = 0, excess = 0;
  for (const Goal& goal : rates_) {
    const double rate = reached_per_s(goal, result);
    growth = std::max(growth, rate > 0 ? goal.bound / rate : kNone);
  }
  const std::optional<double> done = limits_.empty() ? std::nullopt : behind_with(result);
  if (done) growth = std::max(growth, *done > 0 ? 1 / *done : kNone);
  for (const Goal& goal : limits_) {
    const bool met = goal.met_by(result);
    excess =
        std::max(excess, met                                                 ? 1
                         : rate_per_s(result) > 0 && goal.bound > 0 && !done ? goal.of(result) / goal.bound
                                                                             : kNone);
  }
  growth_[nodes] = growth;
  excess_[nodes] = excess;
  const bool for_rates = !enough_ || nodes < *enough_;
  if (!for_rates) return;
  if (enough_) ++between_;
  if (!done && std::ranges::all_of(rates_, [&](const Goal& goal) { return goal.met_by(result); })) {
    enough_ = nodes;
  } else {
    low_ = is_out_of_reach(rates_, result) ? high_ + 1 : nodes + 1;
  }
}

const json* Alternative::answer() const {
  const std::optional<int> nodes = search.found();
  return nodes && !search.next() ? &results.at(*nodes) : nullptr;
}

std::optional<std::size_t> best_of(const std::vector<Alternative>& alternatives,
                                   const std::vector<Goal>& goals) {
  std::optional<std::size_t> best;
  std::pair<int, double> least;  // machines, and the rate with its sign turned
  for (std::size_t i = 0; i < alternatives.size(); ++i) {
    const json* answer = alternatives[i].answer();
    if (answer == nullptr || !missed(goals, *answer).empty()) continue;
    const std::pair machines(*alternatives[i].search.found(), -rate_per_s(*answer));
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
    for (const auto& [path, value] : alternative.settings) one["settings"][path] = value;
    one["runs"] = json::array();
    for (const auto& [nodes, result] : alternative.results) one["runs"].push_back(result);
    one["nodes"] = nullptr;
    one["missed"] = json::array();
    const json* answer = alternative.answer();
    if (answer == nullptr) continue;
    one["nodes"] = *alternative.search.found();
    for (const Goal& goal : missed(goals, *answer)) one["missed"].push_back(goal.path);
  }
  const std::optional<std::size_t> best = best_of(alternatives, goals);
  plan["partial"] = is_partial(alternatives);
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
    const char* verdict = alternatives[i].search.next() ? "cut off" : outcome.meets ? "or" : "not";
    if (best == i) verdict = "smallest";
    text += labelled(verdict, line);
    const json* answer = alternatives[i].answer();
    if (answer != nullptr) text += render_warnings(sweep_warnings({{{}, *answer}}));
  }
  if (is_partial(alternatives)) {
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
