#include "tools/compare/checked_result.hpp"

#include <fmt/format.h>

#include <utility>

namespace verbtwin::tools {

using nlohmann::json;

CheckedResult::CheckedResult(const scenarios::Document& document, std::string at)
    : document_(document), at_(std::move(at)) {
  if (text("/format") != "verbtwin-result")
    refuse("", "no result; allowed: a result.json of `verbtwin run` or `launch`, or a sweep of these");
  if (number("/version") != 1) refuse("/version", "a result of another version; allowed: 1");
}

std::optional<double> CheckedResult::number(const std::string& pointer) const {
  const json* value = find(pointer);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) refuse(pointer, "wrong type; allowed: a number");
  return value->get<double>();
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
  const json::json_pointer at(at_ + pointer);
  if (!document_.root().contains(at)) return nullptr;
  const json& value = document_.root().at(at);
  return value.is_null() ? nullptr : &value;
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
  for (std::size_t at = 0; at < result.list("/warning").size(); ++at)
    described["warning"].push_back(result.text(fmt::format("/warning/{}", at)));
  described["files"] = result.has("/simulator/files") ? result.object("/simulator/files") : json::object();
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
