#include "calibration/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "backend/user_error.hpp"
#include "scenarios/document.hpp"
#include "scenarios/text.hpp"
#include "scenarios/validate.hpp"

namespace verbtwin::calibration {

namespace {

using nlohmann::json;
using scenarios::Document;
namespace fs = std::filesystem;

constexpr const char* kGroupsFile = "groups.json";

/// A member that may be left out: then empty.
const json& member(const json& object, const char* name) {
  static const json none;
  const auto found = object.find(name);
  return found == object.end() ? none : *found;
}

[[noreturn]] void refuse(const Document& document, const std::string& pointer, const std::string& what) {
  throw UserError("", scenarios::format_error(document.place(pointer), UserError(pointer, what)));
}

/// What the table of its kind says of a parameter; null where it has none of that name.
template <typename Profile>
const models::Parameter<Profile>* find_parameter(std::span<const models::Parameter<Profile>> table,
                                                 const std::string& name) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const auto& p) { return name == p.name; });
  return found == table.end() ? nullptr : &*found;
}

struct Bounds {
  std::string unit;
  double min = 0, max = 0;
};

std::map<std::string, Bounds> table_of(ProfileKind kind) {
  std::map<std::string, Bounds> all;
  const auto add = [&](const auto& table) {
    for (const auto& p : table) all[p.name] = {p.unit, p.min, p.max};
  };
  if (kind == ProfileKind::kNic) {
    add(models::nic_parameters());
  } else {
    add(models::host_parameters());
  }
  return all;
}

/// Range of a fit, inside what the table allows and around its start.
void check_range(const Document& document, const std::string& pointer, const json& item,
                 const Bounds& bounds) {
  if (!item.contains("fit")) return;
  const json& fit = item.at("fit");
  const bool two = fit.is_array() && fit.size() == 2 && fit[0].is_number() && fit[1].is_number();
  if (!two) refuse(document, pointer + "/fit", "a range is two numbers: [lowest, highest]");
  const double low = fit[0], high = fit[1], value = item.at("value");
  if (low <= 0 || low >= high || low < bounds.min || high > bounds.max || value < low || value > high) {
    refuse(document, pointer + "/fit",
           fmt::format("a range above 0 around the value {}, inside {} to {} is allowed", value, bounds.min,
                       bounds.max));
  }
}

void check_machine(const Document& document, ProfileKind kind) {
  const auto table = table_of(kind);
  std::vector<std::string> names;
  for (const auto& entry : table) names.push_back(entry.first);
  const json& root = document.root();
  for (const auto& [name, item] : member(root, "parameters").items()) {
    const std::string pointer = "/parameters/" + name;
    if (!table.contains(name)) {
      refuse(document, pointer, "no such parameter" + scenarios::did_you_mean(name, names));
    }
    for (const char* key : {"value", "unit", "source", "uncertainty"}) {
      if (!item.is_object() || !item.contains(key))
        refuse(document, pointer, fmt::format("\"{}\" is missing", key));
    }
    const Bounds& bounds = table.at(name);
    if (!item.at("value").is_number()) refuse(document, pointer + "/value", "a number is allowed");
    if (item.at("unit") != bounds.unit)
      refuse(document, pointer + "/unit", "allowed: \"" + bounds.unit + "\"");
    check_range(document, pointer, item, bounds);
  }
}

ProfileKind kind_of(const json& machine) {
  return machine.at("kind") == "host" ? ProfileKind::kHost : ProfileKind::kNic;
}

json read_groups(const fs::path& file) {
  const Document document = Document::read(file);
  if (!document.root().is_array()) refuse(document, "", "a list of groups is allowed");
  for (const json& group : document.root()) {
    if (!group.is_object() || !group.contains("name") || !group.contains("machines") ||
        !group.contains("rounds")) {
      refuse(document, "", "each group has name, machines and rounds");
    }
  }
  return document.root();
}

}  // namespace

Machines Machines::read(const fs::path& directory) {
  Machines all;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() != ".json" || entry->path().filename() == kGroupsFile) continue;
    const Document document = Document::read(entry->path());
    const json& root = document.root();
    if (!root.is_object() || root.value("format", "") != "verbtwin-machine" ||
        root.value("version", 0) != 1) {
      refuse(document, "/format", "no machine; allowed: verbtwin-machine, version 1");
    }
    for (const char* key : {"name", "description", "kind"}) {
      if (!root.contains(key) || !root.at(key).is_string())
        refuse(document, "", fmt::format("\"{}\" is missing", key));
    }
    check_machine(document, kind_of(root));
    all.add(root, entry->path().string());
  }
  if (error) throw UserError("", directory.string() + ": cannot be read: " + error.message());
  for (const json& group : read_groups(directory / kGroupsFile)) {
    all.groups_.push_back({group.at("name"), group.at("machines"), group.at("rounds")});
    for (const std::string& name : all.groups_.back().machines) {
      if (all.machines_.contains(name)) continue;
      throw UserError("", (directory / kGroupsFile).string() + ": no machine " + scenarios::in_quotes(name));
    }
  }
  return all;
}

void Machines::add(const json& wanted, const std::string& label) {
  Machine machine;
  machine.file = label;
  machine.wanted = wanted;
  machine.kind = kind_of(wanted);
  machines_[wanted.at("name")] = std::move(machine);
}

void Machines::add_profile(ProfileKind kind, const json& profile) {
  Machine machine;
  machine.kind = kind;
  machine.document = profile;
  for (const auto& [name, item] : profile.at("parameters").items()) {
    set_parameter(machine, name, item.at("value"));
  }
  machines_[profile.at("name")] = std::move(machine);
}

std::vector<std::string> Machines::names(ProfileKind kind) const {
  std::vector<std::string> names;
  for (const auto& [name, machine] : machines_) {
    if (machine.kind == kind) names.push_back(name);
  }
  return names;
}

void Machines::build(const std::string& name) {
  Machine& machine = machines_.at(name);
  const bool nic = machine.kind == ProfileKind::kNic;
  machine.document = {{"format", nic ? "verbtwin-nic-profile" : "verbtwin-host-profile"},
                      {"version", 1},
                      {"name", name},
                      {"description", machine.wanted.at("description")}};
  machine.nic.name = machine.host.name = name;
  build_parameters(machine);
  apply_factors(machine);
}

void Machines::adopt(const std::string& name, const json& profile) {
  build(name);
  Machine& machine = machines_.at(name);
  for (const auto& [parameter, item] : profile.at("parameters").items()) {
    machine.document.at("parameters").at(parameter) = item;
    set_parameter(machine, parameter, item.at("value"));
  }
}

void Machines::build_parameters(Machine& machine) {
  json parameters = json::object();
  const std::string from = machine.wanted.value("from", "");
  if (!from.empty()) {
    const auto base = machines_.find(from);
    if (base == machines_.end() || base->second.document.is_null()) {
      throw UserError("", machine.file.string() + ": /from: " + scenarios::in_quotes(from) +
                              " is no machine of an earlier group");
    }
    parameters = base->second.document.at("parameters");
    for (auto& item : parameters) {
      item["source"] = fmt::format("as {}: {}", from, item.at("source").get<std::string>());
    }
  }
  for (const auto& [name, item] : member(machine.wanted, "parameters").items()) {
    parameters[name] = item;
    parameters[name].erase("fit");
  }
  machine.document["parameters"] = std::move(parameters);
  for (const auto& [name, bounds] : table_of(machine.kind)) {
    if (!machine.document.at("parameters").contains(name)) {
      throw UserError("", machine.file.string() + ": /parameters: \"" + name + "\" is missing");
    }
    set_parameter(machine, name, machine.document.at("parameters").at(name).at("value"));
  }
}

std::vector<std::string> Machines::parameters_of(const Machine& machine, const json& named) const {
  std::set<std::string> taken;  // said by the file, or by name in a factor: a unit does not mean them
  for (const auto& item : member(machine.wanted, "parameters").items()) taken.insert(item.key());
  for (const json& factor : member(machine.wanted, "factors")) {
    for (const std::string parameter : factor.at("parameters")) taken.insert(parameter);
  }
  std::vector<std::string> all;
  for (const std::string one : named) {
    for (const auto& [name, bounds] : table_of(machine.kind)) {
      if (name == one || (bounds.unit == one && !taken.contains(name))) all.push_back(name);
    }
  }
  return all;
}

void Machines::apply_factors(Machine& machine) {
  for (const json& factor : member(machine.wanted, "factors")) {
    for (const std::string& name : parameters_of(machine, factor.at("parameters"))) {
      json& item = machine.document.at("parameters").at(name);
      set_parameter(machine, name,
                    rounded(item.at("value").get<double>() * factor.at("value").get<double>(),
                            table_of(machine.kind).at(name).unit));
      item["source"] =
          fmt::format("{}, {}", factor.at("source").get<std::string>(), item.at("source").get<std::string>());
    }
  }
}

std::vector<FitVariable> Machines::variables(const std::string& name) const {
  const Machine& machine = built(name);
  std::vector<FitVariable> all;
  for (const auto& [parameter, item] : member(machine.wanted, "parameters").items()) {
    if (!item.contains("fit")) continue;
    const double value = item.at("value");
    all.push_back(
        {name, parameter, {parameter}, {value}, false, value, item.at("fit")[0], item.at("fit")[1]});
  }
  for (const json& factor : member(machine.wanted, "factors")) {
    if (!factor.contains("fit")) continue;
    FitVariable v{name, factor.at("name"), parameters_of(machine, factor.at("parameters")), {}, true, 1, 1,
                  1};
    const double value = factor.at("value");
    for (const std::string& parameter : v.parameters) {
      v.start.push_back(machine.document.at("parameters").at(parameter).at("value"));
    }
    v.lower = factor.at("fit")[0].get<double>() / value;
    v.upper = factor.at("fit")[1].get<double>() / value;
    all.push_back(std::move(v));
  }
  return all;
}

void Machines::set(const FitVariable& variable, double value) {
  Machine& machine = machines_.at(variable.machine);
  for (std::size_t i = 0; i < variable.parameters.size(); ++i) {
    const std::string& parameter = variable.parameters[i];
    const std::string unit = table_of(machine.kind).at(parameter).unit;
    set_parameter(machine, parameter, rounded(variable.factor ? variable.start[i] * value : value, unit));
  }
}

void Machines::set_parameter(Machine& machine, const std::string& parameter, double value) {
  const Bounds bounds = table_of(machine.kind).at(parameter);
  value = std::clamp(value, bounds.min, bounds.max);
  machine.document.at("parameters").at(parameter)["value"] = value;
  if (machine.kind == ProfileKind::kNic) {
    machine.nic.*find_parameter(models::nic_parameters(), parameter)->value = value;
  } else {
    machine.host.*find_parameter(models::host_parameters(), parameter)->value = value;
  }
}

void Machines::annotate(const FitVariable& variable, const std::string& source, double uncertainty) {
  for (const std::string& parameter : variable.parameters) {
    json& item = machines_.at(variable.machine).document.at("parameters").at(parameter);
    item["source"] = source;
    item["uncertainty"] = rounded(std::min(uncertainty, kUncertaintyMax), "");
  }
}

ProfileSet Machines::profiles() const {
  ProfileSet set;
  for (const auto& [name, machine] : machines_) {
    if (machine.document.is_null()) continue;
    if (machine.kind == ProfileKind::kNic) {
      set.nics[name] = machine.nic;
    } else {
      set.hosts[name] = machine.host;
    }
  }
  return set;
}

double rounded(double value, const std::string& unit) {
  if (unit == "count") return std::round(value);
  return std::strtod(fmt::format("{:.3e}", value).c_str(), nullptr);
}

std::string profile_text(const json& document) {
  std::string text = "{\n";
  for (const char* key : {"format", "version", "name", "description"}) {
    text += fmt::format("  \"{}\": {},\n", key, document.at(key).dump());
  }
  text += "  \"parameters\": {\n";
  const json& parameters = document.at("parameters");
  std::size_t left = parameters.size();
  for (const auto& [name, item] : parameters.items()) {
    const double value = item.at("value"), uncertainty = item.at("uncertainty");
    text += fmt::format(
        "    \"{}\": {{\"value\": {}, \"unit\": {}, \"source\": {}, \"uncertainty\": {}}}{}\n", name, value,
        item.at("unit").dump(), item.at("source").dump(), uncertainty, --left > 0 ? "," : "");
  }
  return text + "  }\n}\n";
}

}  // namespace verbtwin::calibration
