#include "tools/compare/result_comparison.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "scenarios/text.hpp"
#include "tools/compare/checked_result.hpp"
#include "tools/console/text.hpp"

namespace verbtwin::tools {

namespace {

using nlohmann::json;
using scenarios::Document;

constexpr std::size_t kValueColumns = 11;
constexpr std::size_t kRatioColumns = 9;

using Path = std::vector<std::string>;

std::string name_of(const Path& path) {
  return fmt::format("{}", fmt::join(path, "."));
}

std::string pointer_of(const Path& path) {
  std::string pointer;
  for (const std::string& key : path) pointer = scenarios::child_pointer(pointer, key);
  return pointer;
}

Path operator+(Path path, const std::string& key) {
  path.push_back(key);
  return path;
}

/// Gathers the quantities in the order in which a summary has them.
class Gatherer {
 public:
  Gatherer(const CheckedResult& a, const CheckedResult& b)
      : a_(a), b_(b), operations_(a.has("/operations")) {}

  std::vector<ComparedQuantity> gather() {
    add_members({}, {"operations_per_s", "committed_per_s", "abort_ratio"});
    for (const char* latency : {"latency_us", "latency_uncorrected_us"})
      add_members({latency}, {"mean", "p50", "p90", "p99", "p999", "max"});
    for (const Path& phase : children({"phases"})) add_members(phase, {"mean_us"});
    for (const Path& kind : children({"transactions"})) add_members(kind + "latency_us", {"p50", "p99"});
    for (const Path& reason : children({"aborts"})) add_per_unit(reason, reason);
    for (const Path& verb : children({"verbs"})) add_per_unit(verb, verb + "count");
    add_resources();
    add_members({"location_cache"}, {"hit_ratio"});
    add_members({}, {"datagrams_dropped", "packets_lost", "ack_timeouts"});
    return std::move(quantities_);
  }

 private:
  /// Not what neither result has, nor what never happened in either.
  void add(std::string name, std::optional<double> a, std::optional<double> b) {
    if (a.value_or(0) != 0 || b.value_or(0) != 0) quantities_.push_back({std::move(name), a, b});
  }

  void add_members(const Path& of, std::initializer_list<const char*> keys) {
    for (const char* key : keys) {
      const Path path = of + key;
      add(name_of(path), a_.number(pointer_of(path)), b_.number(pointer_of(path)));
    }
  }

  /// Windows differ, and so do rates: counts are told of one transaction or operation.
  void add_per_unit(const Path& named, const Path& counted) {
    const auto per_unit = [&](const CheckedResult& result) -> std::optional<double> {
      const std::optional<double> count = result.number(pointer_of(counted));
      const double work = result.number(operations_ ? "/operations" : "/committed").value_or(0);
      if (!count || work == 0) return std::nullopt;
      return *count / work;
    };
    add(name_of(named + (operations_ ? "per_operation" : "per_commit")), per_unit(a_), per_unit(b_));
  }

  /// The members of an object in either result.
  std::vector<Path> children(const Path& of) const {
    std::set<std::string> keys;
    for (const CheckedResult* result : {&a_, &b_})
      for (const auto& [key, value] : result->object(pointer_of(of)).items()) keys.insert(key);
    std::vector<Path> paths;
    for (const std::string& key : keys) paths.push_back(of + key);
    return paths;
  }

  /// By name: the other list may have others, in another order.
  void add_resources() {
    using Places = std::vector<std::pair<std::string, std::string>>;  // a resource, and where it stands
    const auto places_in = [](const CheckedResult& result) {
      Places places;
      for (std::size_t at = 0; at < result.list("/resources").size(); ++at) {
        const std::string place = fmt::format("/resources/{}", at);
        result.object(place);
        places.emplace_back(result.text(place + "/name"), place);
      }
      return places;
    };
    const auto value = [](const CheckedResult& result, const Places& places, const std::string& name,
                          const char* key) -> std::optional<double> {
      const auto found = std::ranges::find(places, name, &Places::value_type::first);
      return found == places.end() ? std::nullopt : result.number(found->second + "/" + key);
    };
    const Places of_a = places_in(a_);
    const Places of_b = places_in(b_);
    Places all = of_a;
    std::ranges::copy_if(of_b, std::back_inserter(all), [&](const auto& resource) {
      return std::ranges::find(of_a, resource.first, &Places::value_type::first) == of_a.end();
    });
    for (const auto& [name, place] : all) {
      for (const char* key : {"utilization_mean", "hit_ratio", "hit_ratio_min"})
        add(name_of({"resources", name, key}), value(a_, of_a, name, key), value(b_, of_b, name, key));
    }
  }

  const CheckedResult& a_;
  const CheckedResult& b_;
  bool operations_;
  std::vector<ComparedQuantity> quantities_;
};

std::string in_unit(const std::string& name, std::optional<double> value) {
  if (!value) return "-";
  if (name.ends_with("_per_s")) return format_si(*value);
  if (name.ends_with("ratio") || name.ends_with("utilization_mean")) return format_percent(*value);
  if (name.find("_us") != std::string::npos) return format_us(*value);
  return format_ratio(*value);
}

std::string title(const json& of) {
  std::string text = fmt::format(
      "{}: {}, {} on {}, seed {}{}", of.at("file").get<std::string>(), of.at("name").get<std::string>(),
      of.at("backend") == "sim" ? "simulated" : "measured", of.at("devices").get<std::string>(),
      of.at("seed").dump(), of.contains("run_index") ? ", run " + of.at("run_index").dump() : "");
  for (const char* done : {"committed", "operations"}) {
    if (!of.contains(done)) continue;
    text += fmt::format(", {} {} in {} us", format_si(of.at(done).get<double>()), done,
                        format_us(of.at("window_us").get<double>()));
  }
  if (const std::string limit = of.at("bottleneck"); !limit.empty() && limit != "none")
    text += ", limited by " + limit;
  if (const std::string trouble = trouble_of(of); !trouble.empty()) text += "; " + trouble;
  for (const json& warning : of.value("warning", json::array()))
    text += "; WARNING: " + warning.get<std::string>();
  return text;
}

}  // namespace

bool is_words(const std::string& pointer) {
  return pointer == "/description" || pointer == "/$schema" || pointer == "/name";
}

std::string path_of(const std::string& pointer) {
  std::string path = pointer.substr(1);
  std::ranges::replace(path, '/', '.');
  return path;
}

std::vector<ScenarioDifference> differences_of(const ComparedScenario& a, const ComparedScenario& b) {
  std::map<std::string, ScenarioDifference> by_path;
  const auto add = [&](const json& scenario, json ScenarioDifference::*side) {
    if (scenario.empty()) return;
    const json flat = scenario.flatten();
    for (const auto& [pointer, value] : flat.items()) by_path[pointer].*side = value;
  };
  add(a.scenario, &ScenarioDifference::a);
  add(b.scenario, &ScenarioDifference::b);
  std::vector<ScenarioDifference> differences;
  for (auto& [pointer, difference] : by_path) {
    if (is_words(pointer) || difference.a == difference.b) continue;
    difference.path = path_of(pointer);
    differences.push_back(std::move(difference));
  }
  const json& files = b.described.at("files");
  for (const auto& [field, digest] : a.described.at("files").items()) {
    const auto other = files.find(field);
    const bool one_name =
        std::ranges::find(differences, field, &ScenarioDifference::path) == differences.end();
    if (other != files.end() && *other != digest && one_name)
      differences.push_back({field + " (what is in it)", digest, *other});
  }
  const auto cfg_of = [](const ComparedScenario& one) { return one.described.value("simgrid_cfg", json()); };
  if (cfg_of(a) != cfg_of(b)) differences.push_back({"--cfg", cfg_of(a), cfg_of(b)});
  return differences;
}

std::string words_of(const ScenarioDifference& difference) {
  return fmt::format("{} {}, {}", difference.path, difference.a.dump(), difference.b.dump());
}

std::string first_of(const std::vector<std::string>& parts) {
  constexpr std::size_t kToldMax = 12;
  std::string text =
      fmt::format("{}", fmt::join(parts.begin(), parts.begin() + std::min(parts.size(), kToldMax), "; "));
  if (parts.size() > kToldMax) text += fmt::format("; {} more: --json has them", parts.size() - kToldMax);
  return text;
}

std::string labelled(std::string_view label, const std::string& words, const SummaryStyle& style) {
  constexpr std::size_t kLineBytesMax = 4000;
  return labelled(label, scenarios::one_line(words, kLineBytesMax), style.width_columns);
}

std::optional<double> ratio_of(const ComparedQuantity& quantity) {
  if (!quantity.a || !quantity.b || *quantity.a == 0) return std::nullopt;
  const double ratio = *quantity.b / *quantity.a;
  return std::isfinite(ratio) ? std::optional(ratio) : std::nullopt;
}

ResultComparison compare_results(const Document& a, const Document& b) {
  const CheckedResult first(a);
  const CheckedResult second(b);
  const bool operations = first.has("/operations");
  if (operations != second.has("/operations")) {
    const auto kind = [](bool counts) { return counts ? "operations" : "transactions"; };
    second.refuse("", fmt::format("a result of {}, the other is of {}; allowed: two of one kind",
                                  kind(!operations), kind(operations)));
  }
  json of_a = describe(first), of_b = describe(second);
  auto differences = differences_of({first.object("/scenario"), of_a}, {second.object("/scenario"), of_b});
  return {std::move(of_a), std::move(of_b), std::move(differences), Gatherer(first, second).gather()};
}

std::string render_comparison(const ResultComparison& comparison, const SummaryStyle& style) {
  std::vector<std::string> differences;
  for (const ScenarioDifference& one : comparison.differences) differences.push_back(words_of(one));
  std::string text =
      labelled("A", title(comparison.a), style) + labelled("B", title(comparison.b), style) +
      labelled("scenario", differences.empty() ? "the same in both" : first_of(differences), style);
  constexpr std::size_t kColumnsMin = 60;
  const std::size_t name_columns =
      std::max(style.width_columns, kColumnsMin) - 2 * kValueColumns - kRatioColumns;
  const auto line = [&](const std::string& name, const std::string& a, const std::string& b,
                        const std::string& ratio) {
    text += fmt::format("{:<{}}{:>{}}{:>{}}{:>{}}\n", scenarios::one_line(name), name_columns, a,
                        kValueColumns, b, kValueColumns, ratio, kRatioColumns);
  };
  text += '\n';
  line("quantity", "A", "B", "B / A");
  for (const ComparedQuantity& quantity : comparison.quantities) {
    const std::optional<double> ratio = ratio_of(quantity);
    line(quantity.name, in_unit(quantity.name, quantity.a), in_unit(quantity.name, quantity.b),
         ratio ? format_ratio(*ratio) : "-");
  }
  return text;
}

json quantities_json(const std::vector<ComparedQuantity>& quantities) {
  const auto or_null = [](std::optional<double> value) { return value ? json(*value) : json(nullptr); };
  json list = json::array();
  for (const ComparedQuantity& one : quantities) {
    list.push_back({{"name", one.name},
                    {"a", or_null(one.a)},
                    {"b", or_null(one.b)},
                    {"ratio", or_null(ratio_of(one))}});
  }
  return list;
}

json comparison_json(const ResultComparison& comparison) {
  json differences = json::array();
  for (const ScenarioDifference& one : comparison.differences)
    differences.push_back({{"path", one.path}, {"a", one.a}, {"b", one.b}});
  return {{"format", "verbtwin-comparison"},
          {"version", 1},
          {"a", comparison.a},
          {"b", comparison.b},
          {"scenario_differences", differences},
          {"quantities", quantities_json(comparison.quantities)}};
}

}  // namespace verbtwin::tools
