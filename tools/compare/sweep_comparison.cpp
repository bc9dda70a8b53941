#include "tools/compare/sweep_comparison.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "backend/user_error.hpp"
#include "scenarios/text.hpp"
#include "tools/compare/checked_result.hpp"
#include "tools/console/text.hpp"
#include "tools/report/sweep_table.hpp"

namespace verbtwin::tools {

namespace {

using nlohmann::json;
using Values = std::vector<json>;

std::vector<std::string> paths_of(const std::vector<std::string>& pointers) {
  std::vector<std::string> paths;
  for (const std::string& pointer : pointers) paths.push_back(path_of(pointer));
  return paths;
}

/// What is `key` of the points' descriptions.
std::vector<std::string> different(const SavedSweep& sweep, const char* key) {
  std::set<std::string> all;
  for (const SavedPoint& point : sweep.points) all.insert(point.described.at(key).get<std::string>());
  return {all.begin(), all.end()};
}

json describe(const SavedSweep& sweep) {
  return {{"file", sweep.label},
          {"points", sweep.points.size()},
          {"varied", paths_of(sweep.varied)},
          {"names", different(sweep, "name")},
          {"backends", different(sweep, "backend")},
          {"devices", different(sweep, "devices")}};
}

Settings settings_of(const SavedPoint& point, const std::vector<std::string>& pointers) {
  const Values values = values_of(point, pointers);
  Settings settings;
  for (std::size_t at = 0; at < pointers.size(); ++at)
    settings.emplace_back(path_of(pointers[at]), values[at]);
  return settings;
}

void check_one_kind(const SavedSweep& a, const SavedPoint& of_a, const SavedSweep& b,
                    const SavedPoint& of_b) {
  const bool operations = of_a.described.contains("operations");
  if (operations == of_b.described.contains("operations")) return;
  const auto kind = [](bool counts) { return counts ? "operations" : "transactions"; };
  throw UserError("", fmt::format("{}: point {} is of {}, point {} of {} is of {}; allowed: two of one kind",
                                  scenarios::one_line(b.label), of_b.number, kind(!operations), of_a.number,
                                  scenarios::one_line(a.label), kind(operations)));
}

[[noreturn]] void refuse_strangers(const SavedSweep& a, const SavedSweep& b) {
  const auto varied = [](const SavedSweep& sweep) {
    return sweep.varied.empty() ? "nothing" : scenarios::listed(paths_of(sweep.varied));
  };
  throw UserError(
      "", fmt::format("{}: varies {} and shares no point with {}, which varies {}; allowed: sweeps with "
                      "points of the same settings",
                      scenarios::one_line(b.label), varied(b), scenarios::one_line(a.label), varied(a)));
}

bool is_compared(const PointComparison& point) {
  return trouble_of(point.a).empty() && trouble_of(point.b).empty();
}

const ComparedQuantity& rate_of(const PointComparison& point) {
  return point.quantities.front();
}

std::vector<SharedDifference> shared_differences(
    const std::vector<std::pair<const SavedPoint*, const SavedPoint*>>& pairs) {
  std::map<std::tuple<std::string, json, json>, std::size_t> counts;
  for (const auto& [a, b] : pairs) {
    const auto all = differences_of({a->scenario, a->described}, {b->scenario, b->described});
    for (const ScenarioDifference& one : all) ++counts[{one.path, one.a, one.b}];
  }
  std::vector<SharedDifference> differences;
  for (const auto& [values, count] : counts)
    differences.push_back({{std::get<0>(values), std::get<1>(values), std::get<2>(values)}, count});
  return differences;
}

std::vector<RatioSummary> ratios_of(const std::vector<PointComparison>& points) {
  std::vector<RatioSummary> summaries;
  for (std::size_t quantity = 0; quantity < points.front().quantities.size(); ++quantity) {
    std::vector<std::pair<double, std::size_t>> ratios;
    for (std::size_t at = 0; at < points.size(); ++at) {
      const std::optional<double> ratio = ratio_of(points[at].quantities[quantity]);
      if (ratio && *ratio >= 0 && is_compared(points[at])) ratios.emplace_back(*ratio, at);
    }
    const std::string& name = points.front().quantities[quantity].name;
    if (ratios.empty() || name == "abort_ratio") continue;  // twice next to nothing is next to nothing
    std::ranges::sort(ratios);
    const double median = (ratios[(ratios.size() - 1) / 2].first + ratios[ratios.size() / 2].first) / 2;
    const auto furthest =
        std::ranges::max_element(ratios, {}, [](const auto& one) { return std::abs(std::log(one.first)); });
    summaries.push_back({name, median, furthest->first, furthest->second});
  }
  return summaries;
}

/// More than 0: the first is ahead; 0: neither, by no more than 1 %.
int ahead(std::optional<double> first, std::optional<double> second) {
  constexpr double kApart = 0.01;
  if (!first || !second || std::abs(*first - *second) <= kApart * std::max(*first, *second)) return 0;
  return *first > *second ? 1 : -1;
}

RateOrder order_of(const std::vector<PointComparison>& points) {
  constexpr std::size_t kExamplesMax = 100;
  const std::size_t settings = points.front().settings.size();
  std::vector<std::size_t> numbers;
  for (std::size_t k = 0; k < settings; ++k) {
    const bool number = std::ranges::all_of(points, [&](const PointComparison& point) {
      return point.settings[k].second.is_number() || point.settings[k].second.is_null();
    });
    if (number) numbers.push_back(k);
  }
  RateOrder order;
  if (numbers.size() == settings) numbers.clear();
  for (const std::size_t k : numbers) order.same.push_back(points.front().settings[k].first);
  std::map<Values, std::vector<std::size_t>> groups;
  for (std::size_t at = 0; at < points.size(); ++at) {
    Values same;
    for (const std::size_t k : numbers) same.push_back(points[at].settings[k].second);
    if (is_compared(points[at])) groups[same].push_back(at);
  }
  const auto count = [&](std::size_t first, std::size_t second) {
    const ComparedQuantity& one = rate_of(points[first]);
    const ComparedQuantity& other = rate_of(points[second]);
    const int in_a = ahead(one.a, other.a);
    const int in_b = ahead(one.b, other.b);
    if (in_a == 0 || in_b == 0) return;
    ++order.pairs;
    if (in_a == in_b) return;
    ++order.swapped;
    if (order.examples.size() == kExamplesMax) return;
    if (in_a < 0) std::swap(first, second);
    order.examples.emplace_back(first, second);
  };
  for (const auto& [same, group] : groups) {
    for (std::size_t i = 0; i < group.size(); ++i)
      for (std::size_t j = i + 1; j < group.size(); ++j) count(group[i], group[j]);
  }
  return order;
}

// --- on a terminal ---

std::string column_of(const std::string& path) {
  return scenarios::one_line(short_name(path));
}

/// What is not there (a protocol's own parameter at another's point) is "-".
std::string cell_of(const std::string& path, const json& value) {
  const std::string text = setting_text(path, value);
  return text.empty() ? "-" : text;
}

std::string words_of(const Settings& settings) {
  std::string text;
  for (const auto& [path, value] : settings)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", column_of(path), cell_of(path, value));
  return text.empty() ? "the only point" : text;
}

std::string title(const json& of) {
  std::vector<std::string> backends = of.at("backends");
  for (std::string& backend : backends) backend = backend == "sim" ? "simulated" : "measured";
  const std::vector<std::string> names = of.at("names"), devices = of.at("devices");
  return fmt::format("{}: {}, {} on {}, {}", of.at("file").get<std::string>(), scenarios::listed(names),
                     fmt::join(backends, " and "), scenarios::listed(devices),
                     format_counted(of.at("points").get<std::size_t>(), "point"));
}

std::string words_of(const RateOrder& order, const std::vector<PointComparison>& points) {
  std::vector<std::string> short_names;
  for (const std::string& path : order.same) short_names.push_back(column_of(path));
  std::string text =
      fmt::format("by rate the same in {} of {} of points{} (those over 1 % apart)",
                  format_count(order.pairs - order.swapped), format_counted(order.pairs, "pair"),
                  short_names.empty() ? "" : fmt::format(" with the same {}", fmt::join(short_names, ", ")));
  std::vector<std::string> examples;
  for (const auto& [in_a, in_b] : order.examples) {
    Settings same, first, second;
    for (std::size_t k = 0; k < points[in_a].settings.size(); ++k) {
      const auto& setting = points[in_a].settings[k];
      const bool shared = std::ranges::find(order.same, setting.first) != order.same.end();
      (shared ? same : first).push_back(setting);
      if (!shared) second.push_back(points[in_b].settings[k]);
    }
    examples.push_back(fmt::format("{}{} is ahead in A, {} in B", same.empty() ? "" : words_of(same) + ": ",
                                   words_of(first), words_of(second)));
  }
  return examples.empty() ? text : text + "; not " + first_of(examples);
}

/// What points warn of, one to a line: as with a sweep's run the first few of many.
std::vector<std::string> warnings_of(const std::vector<PointComparison>& points,
                                     json PointComparison::*side) {
  constexpr std::size_t kShown = 4;
  std::vector<std::string> warnings;
  std::size_t others = 0;
  for (const PointComparison& point : points) {
    const json sentences = (point.*side).value("warning", json::array());
    if (sentences.empty()) continue;
    if (warnings.size() == kShown) {
      ++others;
      continue;
    }
    const std::vector<std::string> all = sentences;
    warnings.push_back(fmt::format("{}: {}", words_of(point.settings), fmt::join(all, "; ")));
  }
  if (others > 0)
    warnings.push_back(fmt::format("and of {} more: --json has them", format_counted(others, "point")));
  return warnings;
}

/// The columns of the table, the settings first. Where these leave no room, a point is two lines.
class Table {
 public:
  Table(const SweepComparison& comparison, const SummaryStyle& style) : style_(style) {
    for (const auto& [path, value] : comparison.points.front().settings)
      columns_.push_back(column_of(path).size());
    for (const PointComparison& point : comparison.points) {
      for (std::size_t k = 0; k < columns_.size(); ++k)
        columns_[k] =
            std::max(columns_[k], cell_of(point.settings[k].first, point.settings[k].second).size());
    }
    for (const std::size_t columns : columns_) label_columns_ += columns + 1;
    two_lines_ = label_columns_ + kNumberColumns > style.width_columns;
    if (two_lines_) label_columns_ = kIndentColumns;
  }

  std::string head(const Settings& settings) const {
    std::string names;
    for (std::size_t k = 0; k < settings.size() && !two_lines_; ++k)
      names += fmt::format("{:<{}} ", column_of(settings[k].first), columns_[k]);
    return fmt::format("{:{}}{:>13}{:>13}{:>13}{:>14}\n", "", label_columns_, "per s", "p50 us", "p99 us",
                       "aborts") +
           fmt::format("{:<{}}", names, label_columns_) +
           numbers({"A", "B/A", "A", "B/A", "A", "B/A", "A", "B"});
  }

  std::string line(const PointComparison& point) const {
    std::string label;
    for (std::size_t k = 0; k < columns_.size() && !two_lines_; ++k)
      label +=
          fmt::format("{:<{}} ", cell_of(point.settings[k].first, point.settings[k].second), columns_[k]);
    if (two_lines_) label = wrap(words_of(point.settings), 0, style_.width_columns) + "\n    ";
    return label + (is_compared(point) ? numbers_of(point) : trouble(point));
  }

 private:
  static constexpr std::size_t kNumberColumns = 53;
  static constexpr std::size_t kIndentColumns = 4;

  static std::string numbers(const std::vector<std::string>& cells) {
    constexpr std::size_t kColumns[] = {7, 6, 7, 6, 7, 6, 7, 7};
    std::string line;
    for (std::size_t at = 0; at < cells.size(); ++at)  // what is too wide still stands apart
      line += fmt::format(" {:>{}}", cells[at], kColumns[at] - 1);
    return line + '\n';
  }

  static std::string numbers_of(const PointComparison& point) {
    std::vector<std::string> cells;
    for (const ComparedQuantity& one : point.quantities) {
      const auto shown = [&](std::optional<double> value) -> std::string {
        if (!value) return "-";
        if (one.name == "abort_ratio") return format_percent(*value);
        return one.name == "rate_per_s" ? format_si(*value) : format_us(*value);
      };
      cells.push_back(shown(one.a));
      const std::optional<double> ratio = ratio_of(one);
      cells.push_back(one.name == "abort_ratio" ? shown(one.b) : ratio ? format_ratio(*ratio) : "-");
    }
    return numbers(cells);
  }

  std::string trouble(const PointComparison& point) const {
    std::string text = "not compared:";
    const char* separator = " ";
    for (const auto& [side, described] : {std::pair("A", &point.a), std::pair("B", &point.b)}) {
      if (const std::string why = trouble_of(*described); !why.empty())
        text += fmt::format("{}{} {}", std::exchange(separator, "; "), side, why);
    }
    return wrap(scenarios::one_line(text), label_columns_, style_.width_columns) + '\n';
  }

  SummaryStyle style_;
  std::vector<std::size_t> columns_;
  std::size_t label_columns_ = 0;
  bool two_lines_ = false;
};

}  // namespace

SweepComparison compare_sweeps(const SavedSweep& a, const SavedSweep& b) {
  std::vector<std::string> pointers = a.varied;
  std::ranges::copy_if(b.varied, std::back_inserter(pointers), [&](const std::string& pointer) {
    return std::ranges::find(a.varied, pointer) == a.varied.end();
  });
  SweepComparison comparison{describe(a), describe(b), {}, {}, {}, {}, {}, {}};
  std::map<Values, const SavedPoint*> in_b;
  for (const SavedPoint& point : b.points) in_b.emplace(values_of(point, pointers), &point);
  std::vector<std::pair<const SavedPoint*, const SavedPoint*>> pairs;
  std::set<const SavedPoint*> shared;
  for (const SavedPoint& point : a.points) {
    const auto found = in_b.find(values_of(point, pointers));
    if (found == in_b.end()) {
      comparison.only_a.push_back(settings_of(point, pointers));
      continue;
    }
    const SavedPoint& other = *found->second;
    check_one_kind(a, point, b, other);
    pairs.emplace_back(&point, &other);
    shared.insert(&other);
    comparison.points.push_back({settings_of(point, pointers),
                                 point.described,
                                 other.described,
                                 {{"rate_per_s", point.rate_per_s, other.rate_per_s},
                                  {"latency_us.p50", point.latency_p50_us, other.latency_p50_us},
                                  {"latency_us.p99", point.latency_p99_us, other.latency_p99_us},
                                  {"abort_ratio", point.abort_ratio, other.abort_ratio}}});
  }
  if (pairs.empty()) refuse_strangers(a, b);
  for (const SavedPoint& point : b.points) {
    if (!shared.contains(&point)) comparison.only_b.push_back(settings_of(point, pointers));
  }
  comparison.differences = shared_differences(pairs);
  comparison.ratios = ratios_of(comparison.points);
  comparison.order = order_of(comparison.points);
  return comparison;
}

std::string render_comparison(const SweepComparison& comparison, const SummaryStyle& style) {
  const std::vector<PointComparison>& points = comparison.points;
  std::vector<std::string> differences;
  for (const auto& [values, count] : comparison.differences) {
    differences.push_back(words_of(values));
    if (count < points.size()) differences.back() += fmt::format(" ({})", format_counted(count, "point"));
  }
  std::string text =
      labelled("A", title(comparison.a), style) + labelled("B", title(comparison.b), style) +
      labelled("scenario", differences.empty() ? "the same in both" : first_of(differences), style);
  const Table table(comparison, style);
  text += '\n' + table.head(points.front().settings);
  for (const PointComparison& point : points) text += table.line(point);
  text += '\n';
  for (const auto& [label, only] :
       {std::pair("only in A", &comparison.only_a), std::pair("only in B", &comparison.only_b)}) {
    if (only->empty()) continue;
    std::vector<std::string> parts;
    for (const Settings& settings : *only) parts.push_back(words_of(settings));
    text +=
        labelled(label, fmt::format("{}: {}", format_counted(parts.size(), "point"), first_of(parts)), style);
  }
  const auto compared = static_cast<std::size_t>(std::ranges::count_if(points, is_compared));
  if (compared < points.size())
    text += labelled("compared",
                     fmt::format("{} of {} that both have", compared, format_counted(points.size(), "point")),
                     style);
  for (const auto& [label, side] :
       {std::pair("A warns", &PointComparison::a), std::pair("B warns", &PointComparison::b)}) {
    for (const std::string& warning : warnings_of(points, side)) text += labelled(label, warning, style);
  }
  const std::map<std::string, const char*> labels = {
      {"rate_per_s", "rate"}, {"latency_us.p50", "p50"}, {"latency_us.p99", "p99"}};
  for (const RatioSummary& one : comparison.ratios) {
    text += labelled(labels.at(one.name),
                     fmt::format("B/A: median {}, furthest from 1: {} ({})", format_ratio(one.median),
                                 format_ratio(one.furthest), words_of(points[one.point].settings)),
                     style);
  }
  if (comparison.order.pairs > 0) text += labelled("order", words_of(comparison.order, points), style);
  return text;
}

json comparison_json(const SweepComparison& comparison) {
  const auto json_of = [](const Settings& settings) {
    json object = json::object();
    for (const auto& [path, value] : settings) object[path] = value;
    return object;
  };
  json differences = json::array(), points = json::array(), ratios = json::array();
  for (const auto& [values, count] : comparison.differences)
    differences.push_back({{"path", values.path}, {"a", values.a}, {"b", values.b}, {"points", count}});
  for (const PointComparison& point : comparison.points) {
    points.push_back({{"settings", json_of(point.settings)},
                      {"a", point.a},
                      {"b", point.b},
                      {"compared", is_compared(point)},
                      {"quantities", quantities_json(point.quantities)}});
  }
  for (const RatioSummary& one : comparison.ratios) {
    ratios.push_back(
        {{"name", one.name}, {"median", one.median}, {"furthest", one.furthest}, {"point", one.point}});
  }
  const auto list_of = [&](const std::vector<Settings>& all) {
    json list = json::array();
    for (const Settings& settings : all) list.push_back(json_of(settings));
    return list;
  };
  const RateOrder& order = comparison.order;
  return {{"format", "verbtwin-sweep-comparison"},
          {"version", 1},
          {"a", comparison.a},
          {"b", comparison.b},
          {"scenario_differences", differences},
          {"points", points},
          {"only_a", list_of(comparison.only_a)},
          {"only_b", list_of(comparison.only_b)},
          {"ratios", ratios},
          {"order",
           {{"same", order.same},
            {"pairs", order.pairs},
            {"swapped", order.swapped},
            {"examples", order.examples}}}};
}

}  // namespace verbtwin::tools
