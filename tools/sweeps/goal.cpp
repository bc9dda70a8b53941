#include "tools/sweeps/goal.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>

#include "backend/user_error.hpp"
#include "scenarios/text.hpp"
#include "tools/console/text.hpp"
#include "tools/report/sweep_table.hpp"
#include "tools/run/warnings.hpp"

namespace verbtwin::tools {

namespace {

using nlohmann::json;

struct Quantity {
  const char* path;
  enum class Unit : std::uint8_t { kPerSecond, kMicroseconds, kShare } unit;
  double beyond = 0;  // of a percentile: what share of all is longer
};
constexpr std::array<Quantity, 8> kQuantities = {{{"committed_per_s", Quantity::Unit::kPerSecond},
                                                  {"latency_us.mean", Quantity::Unit::kMicroseconds},
                                                  {"latency_us.p50", Quantity::Unit::kMicroseconds, 0.5},
                                                  {"latency_us.p90", Quantity::Unit::kMicroseconds, 0.1},
                                                  {"latency_us.p99", Quantity::Unit::kMicroseconds, 0.01},
                                                  {"latency_us.p999", Quantity::Unit::kMicroseconds, 0.001},
                                                  {"latency_us.max", Quantity::Unit::kMicroseconds},
                                                  {"abort_ratio", Quantity::Unit::kShare}}};

std::vector<std::string> quantity_names() {
  std::vector<std::string> names;
  for (const Quantity& quantity : kQuantities) names.emplace_back(quantity.path);
  return names;
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

}  // namespace

std::string with_unit(const Goal& goal, double value) {
  const auto* found = std::ranges::find(kQuantities, goal.path, &Quantity::path);
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

std::string warning_of_few(const std::vector<Goal>& goals, const json& result) {
  constexpr double kFew = 30;
  const double committed = result.value("committed", 0.0);
  const Goal* fewest = nullptr;
  double least = kFew;
  for (const Goal& goal : goals) {
    const double beyond = std::ranges::find(kQuantities, goal.path, &Quantity::path)->beyond * committed;
    if (beyond == 0 || beyond >= least) continue;
    fewest = &goal;
    least = beyond;
  }
  if (fewest == nullptr) return "";
  return fmt::format(
      "{} is of {}, of which {:.0f} took longer: much of it is chance; lengthen run.measure_us", fewest->path,
      format_counted(static_cast<std::uint64_t>(committed), "transaction"), std::floor(least));
}

bool offers_load(const json& result) {
  const json& offered_per_s = value_at(result, "scenario.run.offered_per_s");
  return offered_per_s.is_number() && offered_per_s > 0;
}

std::optional<double> behind_with(const json& result) {
  if (!offers_load(result) || does_offered_load(result)) return std::nullopt;
  return ended_of(result) / offered_to(result);
}

double committed_share(const json& result) {
  const double ended = ended_of(result);
  return ended > 0 ? result.at("committed").get<double>() / ended : 0;
}

double expected_of(const json& result) {
  return value_at(result, "scenario.run.offered_per_s").get<double>() *
         value_at(result, "window_us").get<double>() / 1e6;
}

double asked_per_s(const json& result) {
  return value_at(result, "scenario.run.offered_per_s").get<double>() * committed_share(result);
}

double reached_per_s(const Goal& goal, const json& result) {
  constexpr double kDeviations = 3, kLeast = 0.02;
  const double measured = goal.of(result);
  if (!does_offered_load(result)) return measured;
  const double chance = std::max(kLeast, kDeviations / std::sqrt(expected_of(result)));
  return std::max(measured, std::min(asked_per_s(result), (1 + chance) * measured));
}

bool is_out_of_reach(const std::vector<Goal>& rates, const json& result) {
  return does_offered_load(result) && std::ranges::any_of(rates, [&](const Goal& goal) {
           return reached_per_s(goal, result) < goal.bound;
         });
}

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
  return fmt::format("{} {} {}", goal.path, goal.at_least ? ">=" : "<=", with_unit(goal, goal.bound));
}

std::vector<Goal> missed(const std::vector<Goal>& goals, const json& result) {
  std::vector<Goal> all;
  std::ranges::copy_if(goals, std::back_inserter(all),
                       [&](const Goal& goal) { return !goal.met_by(result); });
  return all;
}

}  // namespace verbtwin::tools
