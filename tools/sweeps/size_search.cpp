#include "tools/sweeps/size_search.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "tools/report/sweep_table.hpp"

namespace verbtwin::tools {

namespace {

using nlohmann::json;

constexpr double kStepMost = 4;  // times as many machines: a small cluster may say little about a large one
constexpr double kStepForLimits = 1.5;
constexpr int kHardlyBetterRuns = 2;    // so many in a row that are
constexpr double kHardlyBetter = 0.97;  // times what the smaller ones had
constexpr double kNarrowly = 1.05;      // times what is allowed
constexpr int kLooksInVain = 8;         // are enough

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kJustTooMuch = 1 + std::numeric_limits<double>::epsilon();

/// The least that sizes between two may have, 1 or less where they are worth a look: a little less than
/// either, or, where it fell from the smaller to the larger, once more as much less.
double hoped_for(double excess_below, double excess_above) {
  const double narrowly = std::min(excess_below, excess_above) / kNarrowly;
  if (excess_above >= excess_below) return narrowly;
  return std::min(narrowly, excess_above * excess_above / excess_below);
}

}  // namespace

SizeSearch::SizeSearch(const std::vector<Goal>& goals, int low, int high) : low_(low), high_(high) {
  for (const Goal& goal : goals) (goal.at_least ? rates_ : limits_).push_back(goal);
}

SizeSearch::Sizes::const_iterator SizeSearch::enough() const {
  return std::ranges::find_if(sizes_, [](const auto& size) { return size.second.growth <= 1; });
}

SizeSearch::Sizes::const_iterator SizeSearch::meets_all() const {
  return std::ranges::find_if(sizes_, [](const auto& size) { return size.second.excess <= 1; });
}

int SizeSearch::guess(Sizes::const_iterator size) const {
  const double nodes = std::ceil(size->first * std::min(size->second.growth, kStepMost));
  return static_cast<int>(std::min<double>(nodes, high_));
}

std::optional<int> SizeSearch::next() const {
  const std::optional<int> for_rates = next_for_rates();
  if (for_rates || enough() == sizes_.end()) return for_rates;
  const std::optional<int> for_limits = next_for_limits();
  return for_limits ? for_limits : next_between();
}

std::optional<int> SizeSearch::next_for_rates() const {
  if (sizes_.empty()) return low_ <= high_ ? std::optional(low_) : std::nullopt;
  const auto enough_at = enough();
  if (enough_at == sizes_.begin()) return std::nullopt;
  const auto too_small = std::prev(enough_at);
  const int low = too_small->first + 1;
  const bool in_vain =
      std::any_of(sizes_.begin(), enough_at, [](const auto& size) { return size.second.is_out_of_reach; });
  if (low > high_ || in_vain) return std::nullopt;
  if (enough_at == sizes_.end()) return std::max(low, guess(too_small));
  const int nodes = enough_at->first;
  if (low == nodes) return std::nullopt;
  if (below_enough_ % 2 == 1) return low + (nodes - low) / 2;
  const bool tells_growth = enough_at->second.growth > 0;  // a load that is done does not say how easily
  return std::clamp(guess(tells_growth ? enough_at : too_small), low, nodes - 1);
}

std::optional<int> SizeSearch::next_for_limits() const {
  const auto enough_at = enough(), meets = meets_all();
  if (meets == enough_at) return std::nullopt;
  if (meets != sizes_.end()) {
    const int below = std::prev(meets)->first;
    return meets->first - below <= 1 ? std::nullopt : std::optional((below + meets->first) / 2);
  }
  int tried = 0;
  double least = enough_at->second.excess, before = least;  // of all, and of all but the last two
  for (auto at = enough_at; at != sizes_.end(); ++at, ++tried) {
    if (std::distance(at, sizes_.end()) > kHardlyBetterRuns) before = std::min(before, at->second.excess);
    least = std::min(least, at->second.excess);
  }
  const bool hopeless = tried > kHardlyBetterRuns && least > kHardlyBetter * before;
  const int most = sizes_.rbegin()->first;
  if (most == high_ || hopeless) return std::nullopt;
  return static_cast<int>(std::min<double>(high_, std::ceil(most * kStepForLimits)));
}

std::optional<int> SizeSearch::next_between() const {
  if (looked_in_vain_ >= kLooksInVain) return std::nullopt;
  std::optional<int> best;
  double least = 1;
  const auto end = meets_all();
  for (auto at = enough(); at != end && std::next(at) != end; ++at) {
    const auto [below, above] = std::pair(at->first, std::next(at)->first);
    const double hope = hoped_for(at->second.excess, std::next(at)->second.excess);
    if (above - below <= 1 || hope > least || (best && hope == least)) continue;
    best = (below + above) / 2;
    least = hope;
  }
  return best;
}

std::optional<int> SizeSearch::found() const {
  const auto at = meets_all() != sizes_.end() ? meets_all() : enough();
  return at == sizes_.end() ? std::nullopt : std::optional(at->first);
}

bool SizeSearch::met_by(const json& result) const {
  return missed(rates_, result).empty() && missed(limits_, result).empty();
}

std::vector<SizeSearch::Range> SizeSearch::not_tried() const {
  std::vector<Range> ranges;
  const auto end = meets_all();
  if (end == sizes_.end()) return ranges;
  for (auto at = enough(); at != end; ++at) {
    const auto [below, above] = std::pair(at->first, std::next(at)->first);
    if (above - below > 1) ranges.emplace_back(below + 1, above - 1);
  }
  return ranges;
}

SizeSearch::Size SizeSearch::judged(const json& result) const {
  double growth = 0, excess = 1;
  for (const Goal& goal : rates_) {
    const double rate = reached_per_s(goal, result);
    if (goal.met_by(result)) {
      growth = std::max(growth, goal.bound > 0 ? std::min(goal.bound / rate, 1.0) : 0);
    } else {
      growth = std::max({growth, kJustTooMuch, rate > 0 ? goal.bound / rate : kInfinite});
    }
  }
  const std::optional<double> done = limits_.empty() ? std::nullopt : behind_with(result);
  if (done) growth = std::max({growth, kJustTooMuch, *done > 0 ? 1 / *done : kInfinite});
  for (const Goal& goal : limits_) {
    if (goal.met_by(result)) continue;
    const bool tells = rate_per_s(result) > 0 && goal.bound > 0 && !done;
    excess = std::max(excess, tells ? goal.of(result) / goal.bound : kInfinite);
  }
  return {growth, std::max(growth, excess), is_out_of_reach(rates_, result)};
}

void SizeSearch::add(int nodes, const json& result) {
  const Size size = judged(result);
  if (!sizes_.contains(nodes)) {
    const auto enough_at = enough();
    if (enough_at != sizes_.end() && nodes < enough_at->first) ++below_enough_;
    const bool searched = next_for_rates() || (enough_at != sizes_.end() && next_for_limits());
    if (enough_at != sizes_.end() && !searched && size.excess > 1) ++looked_in_vain_;
  }
  sizes_.insert_or_assign(nodes, size);
}

}  // namespace verbtwin::tools
