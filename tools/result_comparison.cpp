#include "tools/result_comparison.hpp"

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
#include "tools/text.hpp"

namespace verbtwin::tools {

namespace {

using nlohmann::json;
using scenarios::Document;

constexpr std::size_t kDifferencesToldMax = 12;
constexpr std::size_t kLabelColumns = 13;
constexpr std::size_t kValueColumns = 11;
constexpr std::size_t kRatioColumns = 9;

/// A result as a user's file has it: every look says where it is wrong.
class Result {
 public:
  explicit Result(const Document& document) : document_(document) {
    if (text("/format") != "verbtwin-result")
      scenarios::refuse(document_, "", "no result; allowed: a result.json of `verbtwin run` or `launch`");
    if (number("/version") != 1)
      scenarios::refuse(document_, "/version", "a result of another version; allowed: 1");
  }

  bool has(const std::string& pointer) const { return find(pointer) != nullptr; }

  std::optional<double> number(const std::string& pointer) const {
    const json* value = find(pointer);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number()) scenarios::refuse(document_, pointer, "wrong type; allowed: a number");
    return value->get<double>();
  }

  /// As the document has it: a seed has more digits than a double.
  json number_as_given(const std::string& pointer) const {
    return number(pointer) ? *find(pointer) : json(0);
  }

  std::string text(const std::string& pointer) const {
    const json* value = find(pointer);
    if (value == nullptr) return "";
    if (!value->is_string()) scenarios::refuse(document_, pointer, "wrong type; allowed: a string");
    return value->get<std::string>();
  }

  bool flag(const std::string& pointer) const {
    const json* value = find(pointer);
    if (value != nullptr && !value->is_boolean())
      scenarios::refuse(document_, pointer, "wrong type; allowed: true, false");
    return value != nullptr && value->get<bool>();
  }

  const json& object(const std::string& pointer) const {
    static const json kNothing = json::object();
    return container(pointer, kNothing, "an object");
  }

  const json& list(const std::string& pointer) const {
    static const json kNothing = json::array();
    return container(pointer, kNothing, "a list");
  }

 private:
  /// A member that is null is as one that is not there: `hit_ratio` of no look-up.
  const json* find(const std::string& pointer) const {
    const json::json_pointer at(pointer);
    if (!document_.root().contains(at)) return nullptr;
    const json& value = document_.root().at(at);
    return value.is_null() ? nullptr : &value;
  }

  const json& container(const std::string& pointer, const json& nothing, const char* what) const {
    const json* value = find(pointer);
    if (value == nullptr) return nothing;
    if (value->type() != nothing.type())
      scenarios::refuse(document_, pointer, fmt::format("wrong type; allowed: {}", what));
    return *value;
  }

  const Document& document_;
};

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
  Gatherer(const Result& a, const Result& b) : a_(a), b_(b), operations_(a.has("/operations")) {}

  std::vector<ComparedQuantity> gather() {
    add_members({}, {"operations_per_s", "committed_per_s", "abort_ratio"});
    add_members({"latency_us"}, {"mean", "p50", "p90", "p99", "p999", "max"});
    for (const Path& phase : children({"phases"})) add_members(phase, {"mean_us"});
    for (const Path& kind : children({"transactions"})) add_members(kind + "latency_us", {"p50", "p99"});
    for (const Path& reason : children({"aborts"})) add_per_unit(reason, reason);
    for (const Path& verb : children({"verbs"})) add_per_unit(verb, verb + "count");
    add_resources();
    add_members({"location_cache"}, {"hit_ratio"});
    add_members({}, {"datagrams_dropped"});
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
    const auto per_unit = [&](const Result& result) -> std::optional<double> {
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
    for (const Result* result : {&a_, &b_})
      for (const auto& [key, value] : result->object(pointer_of(of)).items()) keys.insert(key);
    std::vector<Path> paths;
    for (const std::string& key : keys) paths.push_back(of + key);
    return paths;
  }

  /// By name: the other list may have others, in another order.
  void add_resources() {
    using Places = std::vector<std::pair<std::string, std::string>>;  // a resource, and where it stands
    const auto places_in = [](const Result& result) {
      Places places;
      for (std::size_t at = 0; at < result.list("/resources").size(); ++at) {
        const std::string place = fmt::format("/resources/{}", at);
        result.object(place);
        places.emplace_back(result.text(place + "/name"), place);
      }
      return places;
    };
    const auto value = [](const Result& result, const Places& places, const std::string& name,
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
      for (const char* key : {"utilization_mean", "hit_ratio"})
        add(name_of({"resources", name, key}), value(a_, of_a, name, key), value(b_, of_b, name, key));
    }
  }

  const Result& a_;
  const Result& b_;
  bool operations_;
  std::vector<ComparedQuantity> quantities_;
};

/// What a result is, for the head of the page and for programs.
json describe(const Document& document, const Result& result) {
  json described = {{"file", document.label()},
                    {"name", result.text("/scenario/name")},
                    {"backend", result.text("/backend")},
                    {"seed", result.number_as_given("/seed")},
                    {"window_us", result.number("/window_us").value_or(0)},
                    {"partial", result.flag("/partial")}};
  for (const char* done : {"operations", "committed"}) {
    const std::string pointer = std::string("/") + done;
    if (result.has(pointer)) described[done] = result.number_as_given(pointer);
  }
  double violations = 0;
  for (std::size_t at = 0; at < result.list("/checks").size(); ++at)
    violations += result.number(fmt::format("/checks/{}/violations", at)).value_or(0);
  described["violations"] = violations;
  if (const std::string failure = result.text("/failure"); !failure.empty()) described["failure"] = failure;
  if (const json& root = document.root(); root.contains("warning") && root.at("warning").is_string()) {
    described["warning"] = json::array({root.at("warning")});  // as results of earlier commits have it
  } else {
    for (std::size_t at = 0; at < result.list("/warning").size(); ++at)
      described["warning"].push_back(result.text(fmt::format("/warning/{}", at)));
  }
  const bool device = result.has("/measured_on/0/devices/0");
  described["devices"] =
      device ? result.text("/measured_on/0/devices/0/device") : result.text("/scenario/cluster/nic");
  described["bottleneck"] = result.text("/bottleneck/resource");
  return described;
}

/// What a run does depends on all of a scenario but its words.
std::vector<ScenarioDifference> differences_of(const json& a, const json& b) {
  std::map<std::string, ScenarioDifference> by_path;
  const auto add = [&](const json& scenario, json ScenarioDifference::*side) {
    if (scenario.empty()) return;
    const json flat = scenario.flatten();
    for (const auto& [pointer, value] : flat.items()) by_path[pointer].*side = value;
  };
  add(a, &ScenarioDifference::a);
  add(b, &ScenarioDifference::b);
  std::vector<ScenarioDifference> differences;
  for (auto& [pointer, difference] : by_path) {
    const bool words = pointer == "/description" || pointer == "/$schema" || pointer == "/name";
    if (words || difference.a == difference.b) continue;
    difference.path = pointer.substr(1);
    std::ranges::replace(difference.path, '/', '.');
    differences.push_back(std::move(difference));
  }
  return differences;
}

/// Something thousands of times as slow is not 0.
std::string two_digits(double value) {
  return std::abs(value) < 0.1 ? fmt::format("{:.2g}", value) : fmt::format("{:.2f}", value);
}

std::string in_unit(const std::string& name, std::optional<double> value) {
  if (!value) return "-";
  if (name.ends_with("_per_s")) return format_si(*value);
  if (name.ends_with("ratio") || name.ends_with("utilization_mean")) return format_percent(*value);
  if (name.find("_us") != std::string::npos) return format_us(*value);
  return two_digits(*value);
}

std::optional<double> ratio_of(const ComparedQuantity& quantity) {
  if (!quantity.a || !quantity.b || *quantity.a == 0) return std::nullopt;
  return *quantity.b / *quantity.a;
}

std::string title(const json& of) {
  std::string text =
      fmt::format("{}: {}, {} on {}, seed {}", of.at("file").get<std::string>(),
                  of.at("name").get<std::string>(), of.at("backend") == "sim" ? "simulated" : "measured",
                  of.at("devices").get<std::string>(), of.at("seed").dump());
  for (const char* done : {"committed", "operations"}) {
    if (!of.contains(done)) continue;
    text += fmt::format(", {} {} in {} us", format_si(of.at(done).get<double>()), done,
                        format_us(of.at("window_us").get<double>()));
  }
  if (const std::string limit = of.at("bottleneck"); !limit.empty() && limit != "none")
    text += ", limited by " + limit;
  if (of.contains("failure")) return text + "; FAILED: " + of.at("failure").get<std::string>();
  if (of.at("partial") == true) text += "; PARTIAL";
  if (const double violations = of.at("violations"); violations > 0)
    text += fmt::format("; CHECKS FAILED: {:.0f} violations", violations);
  for (const json& warning : of.value("warning", json::array()))
    text += "; WARNING: " + warning.get<std::string>();
  return text;
}

std::string words_of(const std::vector<ScenarioDifference>& differences) {
  if (differences.empty()) return "the same in both";
  std::string text;
  const char* separator = "";
  for (std::size_t at = 0; at < std::min(differences.size(), kDifferencesToldMax); ++at) {
    const ScenarioDifference& one = differences[at];
    text += fmt::format("{}{} {}, {}", std::exchange(separator, "; "), one.path, one.a.dump(), one.b.dump());
  }
  if (differences.size() > kDifferencesToldMax)
    text += fmt::format("; {} more: --json has them", differences.size() - kDifferencesToldMax);
  return text;
}

}  // namespace

ResultComparison compare_results(const Document& a, const Document& b) {
  const Result first(a);
  const Result second(b);
  const bool operations = first.has("/operations");
  if (operations != second.has("/operations")) {
    const auto kind = [](bool counts) { return counts ? "operations" : "transactions"; };
    scenarios::refuse(b, "",
                      fmt::format("a result of {}, the other is of {}; allowed: two of one kind",
                                  kind(!operations), kind(operations)));
  }
  return {describe(a, first), describe(b, second),
          differences_of(first.object("/scenario"), second.object("/scenario")),
          Gatherer(first, second).gather()};
}

std::string render_comparison(const ResultComparison& comparison, const SummaryStyle& style) {
  constexpr std::size_t kLineBytesMax = 4000;
  std::string text;
  const auto labelled = [&](std::string_view label, const std::string& words) {
    text += fmt::format("{:<{}}{}\n", label, kLabelColumns,
                        wrap(scenarios::one_line(words, kLineBytesMax), kLabelColumns, style.width_columns));
  };
  labelled("A", title(comparison.a));
  labelled("B", title(comparison.b));
  labelled("scenario", words_of(comparison.differences));
  const std::size_t name_columns = style.width_columns - 2 * kValueColumns - kRatioColumns;
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
         ratio ? two_digits(*ratio) : "-");
  }
  return text;
}

json comparison_json(const ResultComparison& comparison) {
  json differences = json::array();
  for (const ScenarioDifference& one : comparison.differences)
    differences.push_back({{"path", one.path}, {"a", one.a}, {"b", one.b}});
  const auto or_null = [](std::optional<double> value) { return value ? json(*value) : json(nullptr); };
  json quantities = json::array();
  for (const ComparedQuantity& one : comparison.quantities) {
    quantities.push_back({{"name", one.name},
                          {"a", or_null(one.a)},
                          {"b", or_null(one.b)},
                          {"ratio", or_null(ratio_of(one))}});
  }
  return {{"format", "verbtwin-comparison"},
          {"version", 1},
          {"a", comparison.a},
          {"b", comparison.b},
          {"scenario_differences", differences},
          {"quantities", quantities}};
}

}  // namespace verbtwin::tools
