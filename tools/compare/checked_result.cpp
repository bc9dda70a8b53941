#include "tools/compare/checked_result.hpp"

#include <fmt/format.h>

#include <charconv>
#include <system_error>
#include <utility>
#include <vector>

namespace verbtwin::tools {

using nlohmann::json;

namespace {

/// The place in a list that a part of a pointer names; none: a key.
std::optional<std::size_t> index_of(const std::string& key) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  return error == std::errc() && end == key.data() + key.size() ? std::optional(index) : std::nullopt;
}

}  // namespace

CheckedResult::CheckedResult(const scenarios::Document& document, std::string at)
    : document_(document), at_(std::move(at)) {
  if (text("/format") != "verbtwin-result")
    refuse("", "no result; allowed: a result.json of `verbtwin run` or `launch`, or a sweep of these");
  if (!has("/version")) refuse("", "missing key \"version\"; allowed: 1");
  if (number("/version") != 1) refuse("/version", "a result of another version; allowed: 1");
  if (!has("/scenario"))
    refuse("", "missing key \"scenario\"; allowed: a result with the scenario that it is of");
}

std::optional<double> CheckedResult::number(const std::string& pointer) const {
  constexpr double kMost = 1e15;  // microseconds are 30 years of them
  return number_up_to(pointer.find("_ratio") != std::string::npos ? 1 : kMost, pointer);
}

std::optional<double> CheckedResult::number_up_to(double most, const std::string& pointer) const {
  const json* value = find(pointer);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) refuse(pointer, "wrong type; allowed: a number");
  const auto number = value->get<double>();
  if (number < 0 || number > most)
    refuse(pointer, fmt::format("out of range: {}; allowed: a number, 0 to {:g}", value->dump(), most));
  return number;
}

json CheckedResult::seed() const {
  constexpr double kMost = 18446744073709551615.0;
  return number_up_to(kMost, "/seed") ? *find("/seed") : json(0);
}

json CheckedResult::number_as_given(const std::string& pointer) const {
  return number(pointer) ? *find(pointer) : json(0);
}

std::string CheckedResult::text(const std::string& pointer) const {
  const json* value = find(pointer);
  if (value == nullptr) return "";
  if (!value->is_string()) refuse(pointer, "wrong type; allowed: a string");
  return value->get<std::string>();
}

bool CheckedResult::flag(const std::string& pointer) const {
  const json* value = find(pointer);
  if (value != nullptr && !value->is_boolean()) refuse(pointer, "wrong type; allowed: true, false");
  return value != nullptr && value->get<bool>();
}

const json& CheckedResult::object(const std::string& pointer) const {
  static const json kNothing = json::object();
  return container(pointer, kNothing, "an object");
}

const json& CheckedResult::list(const std::string& pointer) const {
  static const json kNothing = json::array();
  return container(pointer, kNothing, "a list");
}

void CheckedResult::refuse(const std::string& pointer, const std::string& what) const {
  scenarios::refuse(document_, at_ + pointer, what);
}

const json* CheckedResult::find(const std::string& pointer) const {
  std::vector<std::string> keys;
  for (json::json_pointer rest(pointer); !rest.empty(); rest.pop_back())
    keys.insert(keys.begin(), rest.back());
  const json* value = &document_.root().at(json::json_pointer(at_));
  std::string place;
  for (const std::string& key : keys) {
    const json* member = nullptr;
    if (value->is_object()) {
      const auto found = value->find(key);
      if (found != value->end()) member = &*found;
    } else if (const std::optional<std::size_t> index = index_of(key); index && value->is_array()) {
      if (*index < value->size()) member = &value->at(*index);
    } else if (!place.empty()) {  // what is no object itself is no result
      refuse(place, "wrong type; allowed: an object");
    }
    if (member == nullptr || member->is_null()) return nullptr;
    value = member;
    place = scenarios::child_pointer(place, key);
  }
  return value;
}

const json& CheckedResult::container(const std::string& pointer, const json& nothing,
                                     const char* what) const {
  const json* value = find(pointer);
  if (value == nullptr) return nothing;
  if (value->type() != nothing.type()) refuse(pointer, fmt::format("wrong type; allowed: {}", what));
  return *value;
}

json describe(const CheckedResult& result) {
  json described = {{"file", result.document().label()},
                    {"name", result.text("/scenario/name")},
                    {"backend", result.text("/backend")},
                    {"seed", result.seed()},
                    {"window_us", result.number("/window_us").value_or(0)},
                    {"partial", result.flag("/partial")}};
  if (result.has("/run_index")) described["run_index"] = result.number_as_given("/run_index");
  for (const char* done : {"operations", "committed"}) {
    const std::string pointer = std::string("/") + done;
    if (result.has(pointer)) described[done] = result.number_as_given(pointer);
  }
  double violations = 0;
  for (std::size_t at = 0; at < result.list("/checks").size(); ++at)
    violations += result.number(fmt::format("/checks/{}/violations", at)).value_or(0);
  described["violations"] = violations;
  if (const std::string failure = result.text("/failure"); !failure.empty()) described["failure"] = failure;
  for (std::size_t at = 0; at < result.list("/warning").size(); ++at)
    described["warning"].push_back(result.text(fmt::format("/warning/{}", at)));
  described["files"] = result.has("/simulator/files") ? result.object("/simulator/files") : json::object();
  for (std::size_t at = 0; at < result.list("/simulator/simgrid_cfg").size(); ++at)
    described["simgrid_cfg"].push_back(result.text(fmt::format("/simulator/simgrid_cfg/{}", at)));
  const bool device = result.has("/measured_on/0/devices/0");
  described["devices"] =
      device ? result.text("/measured_on/0/devices/0/device") : result.text("/scenario/cluster/nic");
  described["bottleneck"] = result.text("/bottleneck/resource");
  return described;
}

std::string trouble_of(const json& described) {
  if (described.contains("failure")) return "FAILED: " + described.at("failure").get<std::string>();
  if (described.at("partial") == true) return "PARTIAL";
  const double violations = described.at("violations");
  return violations > 0 ? fmt::format("CHECKS FAILED: {:.0f} violations", violations) : "";
}

}  // namespace verbtwin::tools
