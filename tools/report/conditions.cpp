#include "tools/report/conditions.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "scenarios/schema.hpp"
#include "scenarios/text.hpp"
#include "tools/console/text.hpp"
#include "tools/report/member.hpp"

namespace verbtwin::tools {

namespace {

using nlohmann::json;

/// One field of cluster.network.
std::string words_of(const std::string& field, const json& value) {
  if (field == "platform") return "platform " + scenarios::one_line(value.get<std::string>());
  if (field == "topology") return value.get<std::string>() + " network";
  if (field == "model") return value.get<std::string>() + " model";
  if (field == "link_gbps") return fmt::format("links of {:g} Gb/s", value.get<double>());
  // Not to one digit, as shares elsewhere: 0.0001 % is a loss too.
  if (field == "loss_ratio") return fmt::format("{:g} % of packets lost", value.get<double>() * 100);
  if (field == "background_gbps") return fmt::format("{:g} Gb/s of others on each port", value.get<double>());
  if (field == "cable_ns") return fmt::format("cables of {:g} ns", value.get<double>());
  if (field == "switch_ns") return fmt::format("switches of {:g} ns", value.get<double>());
  return fmt::format("{} {}", field, value.dump());
}

/// The fields that are not the default, but for those that `told` has; the shape first.
std::vector<std::string> changed(const json& network, const std::vector<std::string>& told = {}) {
  const json& fields = scenarios::scenario_schema()
                           .at("properties")
                           .at("cluster")
                           .at("properties")
                           .at("network")
                           .at("properties");
  std::vector<std::string> words;
  const auto add = [&](const std::string& field) {
    if (!network.contains(field) || network.at(field) == fields.at(field).at("default")) return;
    if (std::ranges::find(told, field) == told.end()) words.push_back(words_of(field, network.at(field)));
  };
  const std::vector<std::string> first = {"platform", "topology", "model", "link_gbps"};
  for (const std::string& field : first) add(field);
  for (const auto& [field, schema] : fields.items())
    if (std::ranges::find(first, field) == first.end()) add(field);
  return words;
}

const json& network_of(const json& scenario) {
  return member(member(scenario, "cluster"), "network");
}

}  // namespace

std::string describe_network(const json& scenario) {
  const json& network = network_of(scenario);
  const std::string platform = network.value("platform", "");
  const std::string shape = platform.empty() ? fmt::format("a {} network", network.value("topology", ""))
                                             : "the platform " + scenarios::one_line(platform);
  std::vector<std::string> words = changed(network, {"platform", "topology", "model"});
  words.insert(words.begin(), network.value("model", "") + " model");
  return fmt::format("{} ({})", shape, fmt::join(words, ", "));
}

std::string describe_conditions(const json& scenario) {
  std::string text;
  if (scenario.value("backend", "sim") == "sim")  // a real network is what it is
    for (const std::string& words : changed(network_of(scenario))) text += ", " + words;
  const std::string offered = describe_offered(scenario);
  return offered.empty() ? text : text + "; " + offered + " offered";
}

std::string describe_offered(const json& scenario) {
  const double per_s = number(member(scenario, "run"), "offered_per_s");
  if (per_s == 0) return "";
  return fmt::format("{} {}/s", format_si(per_s),
                     scenario.contains("protocol") ? "transactions" : "operations");
}

}  // namespace verbtwin::tools
