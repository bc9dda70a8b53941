#include "calibration/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <stdexcept>
#include <utility>

#include "scenarios/json_schema.hpp"
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

/// What a machine says of a parameter: as a profile does, and the range of its fit.
json parameters_schema(ProfileKind kind) {
  using namespace scenarios::json_schema;
  json parameters = profile_schema(kind).at("properties").at("parameters");
  parameters["required"] = json::array();  // the others are as in the machine that it is "from"
  for (json& parameter : parameters.at("properties")) {
    parameter.at("properties")["fit"] = list_of(positive(), 2, 2);
  }
  return parameters;
}

json factor_schema(ProfileKind kind) {
  using namespace scenarios::json_schema;
  std::set<std::string> scaled;  // by their names, or all of a unit
  for (const auto& [name, bounds] : table_of(kind)) scaled.insert({name, bounds.unit});
  return object({{"name", text()},
                 {"parameters", list_of(one_of(scaled))},
                 {"value", positive()},
                 {"source", text()},
                 {"fit", list_of(positive(), 2, 2)}},
                {"name", "parameters", "value", "source"});
}

/// What tells the kind, and so which parameters there are.
json header_properties() {
  using namespace scenarios::json_schema;
  return {
      {"format", exactly("verbtwin-machine")}, {"version", exactly(1)}, {"kind", one_of({"nic", "host"})}};
}

json machine_schema(ProfileKind kind) {
  using namespace scenarios::json_schema;
  json properties = header_properties();
  properties["name"] = text();
  properties["description"] = text(0);
  properties["from"] = text();
  properties["parameters"] = parameters_schema(kind);
  properties["factors"] = list_of(factor_schema(kind));
  return object(std::move(properties), {"format", "version", "kind", "name", "description"});
}

/// Range of a fit, around its start and, of a parameter, inside what the table allows.
void check_range(const Document& document, const std::string& pointer, const json& item,
                 const Bounds* bounds = nullptr) {
  if (!item.contains("fit")) return;
  const double low = item.at("fit")[0], high = item.at("fit")[1], value = item.at("value");
  const bool outside = bounds != nullptr && (low < bounds->min || high > bounds->max);
  if (low < high && value >= low && value <= high && !outside) return;
  const std::string inside =
      bounds == nullptr ? "" : fmt::format(", inside {} to {}", bounds->min, bounds->max);
  refuse(document, pointer + "/fit",
         fmt::format("a range above 0 around the value {}{} is allowed", value, inside));
}

ProfileKind kind_of(const json& machine) {
  return machine.at("kind") == "host" ? ProfileKind::kHost : ProfileKind::kNic;
}

/// A machine's file, of which nothing is wrong.
Document read_machine(const fs::path& file) {
  using namespace scenarios::json_schema;
  Document document = Document::read(file);
  const json header =
      scenarios::require(document, open(object(header_properties())));  // another kind has other parameters
  const ProfileKind kind = kind_of(header);
  const json root = scenarios::require(document, machine_schema(kind));
  const auto table = table_of(kind);
  for (const auto& [name, item] : member(root, "parameters").items()) {
    check_range(document, "/parameters/" + name, item, &table.at(name));
  }
  for (std::size_t i = 0; i < member(root, "factors").size(); ++i) {
    check_range(document, fmt::format("/factors/{}", i), root.at("factors")[i]);
  }
  return document;
}

json groups_schema() {
  using namespace scenarios::json_schema;
  return list_of(object(
      {{"name", text()},
       {"machines", list_of(text())},
       {"rounds", whole(0, 1000)},
       {"also_from", list_of(object({{"machine", text()}, {"parameter", text()}, {"value", positive()}}))}},
      {"name", "machines", "rounds"}));
}

std::vector<MachineGroup> read_groups(const Document& document, const std::vector<std::string>& known) {
  const json groups = scenarios::require(document, groups_schema());
  std::vector<MachineGroup> all;
  std::set<std::string> grouped;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    all.push_back({.name = groups[g].at("name"),
                   .machines = groups[g].at("machines"),
                   .rounds = groups[g].at("rounds")});
    for (const json& other : member(groups[g], "also_from"))
      all.back().also_from.push_back({other.at("machine"), other.at("parameter"), other.at("value")});
    for (std::size_t m = 0; m < all.back().machines.size(); ++m) {
      const std::string& name = all.back().machines[m];
      if (!grouped.insert(name).second) {
        refuse(document, fmt::format("/{}/machines/{}", g, m),
               fmt::format("{} stands twice; allowed: in one group, once", scenarios::in_quotes(name)));
      }
      if (std::ranges::find(known, name) != known.end()) continue;
      refuse(document, fmt::format("/{}/machines/{}", g, m),
             fmt::format("no machine {}; allowed: {}{}", scenarios::in_quotes(name), scenarios::listed(known),
                         scenarios::did_you_mean(name, known)));
    }
  }
  for (const std::string& name : known) {
    if (!grouped.contains(name)) {
      refuse(document, "",
             "no group has the machine " + scenarios::in_quotes(name) + "; allowed: each in one");
    }
  }
  return all;
}

/// What the fit of a profile that was there said of its value would read as said by the one that begins
/// there.
std::string without_remarks_of_fit(std::string source) {
  for (const char* remark : {kNotDetermined, kLeftWhereItBegan, kAtLowerEnd, kAtUpperEnd}) {
    const std::string text = std::string("; ") + remark;
    for (std::size_t at = source.find(text); at != source.npos; at = source.find(text))
      source.replace(at, text.size(), remark == kNotDetermined ? "; which did not determine it" : "");
  }
  return source;
}

}  // namespace

Machines Machines::read(const fs::path& directory) {
  Machines all;
  std::vector<std::string> names;
  for (const fs::path& file : scenarios::files_in(directory, ".json")) {
    if (file.filename() == kGroupsFile) continue;
    Document document = read_machine(file);
    const std::string name = scenarios::require_file_name(document, "/name");
    if (all.machines_.contains(name))
      refuse(document, "/name",
             scenarios::in_quotes(name) + " is another file's; allowed: a name of its own");
    names.push_back(name);
    all.add(std::move(document));
  }
  const Document groups = Document::read(directory / kGroupsFile);
  all.groups_ = read_groups(groups, names);
  for (std::size_t g = 0; g < all.groups_.size(); ++g) {
    all.check_bases(all.groups_[g]);
    for (std::size_t i = 0; i < all.groups_[g].also_from.size(); ++i)
      all.check_start(groups, fmt::format("/{}/also_from/{}", g, i), all.groups_[g],
                      all.groups_[g].also_from[i]);
  }
  return all;
}

/// A machine is made when its group's fit begins, of what its base is then: a base that is fitted beside it
/// would leave it behind.
void Machines::check_bases(const MachineGroup& group) const {
  if (group.rounds == 0) return;
  const auto is_fitted = [](const json& wanted) {
    const auto has_range = [](const json& item) { return item.contains("fit"); };
    return std::ranges::any_of(member(wanted, "parameters"), has_range) ||
           std::ranges::any_of(member(wanted, "factors"), has_range);
  };
  for (const std::string& name : group.machines) {
    const Machine& machine = machines_.at(name);
    const std::string from = machine.wanted().value("from", "");
    const bool is_beside = from != name && std::ranges::find(group.machines, from) != group.machines.end();
    if (is_beside && is_fitted(machines_.at(from).wanted())) {
      refuse(*machine.file, "/from",
             fmt::format("{} is fitted in the same group; allowed: a machine of an earlier group",
                         scenarios::in_quotes(from)));
    }
  }
}

/// Another start is of what its group fits, inside its range.
void Machines::check_start(const Document& document, const std::string& pointer, const MachineGroup& group,
                           const OtherStart& start) const {
  if (std::ranges::find(group.machines, start.machine) == group.machines.end()) {
    refuse(document, pointer + "/machine",
           fmt::format("{} is not in this group; allowed: {}", scenarios::in_quotes(start.machine),
                       scenarios::listed(group.machines)));
  }
  std::vector<std::string> fitted;
  for (const auto& [name, item] : member(machines_.at(start.machine).wanted(), "parameters").items()) {
    if (item.contains("fit")) fitted.push_back(name);
  }
  if (std::ranges::find(fitted, start.parameter) == fitted.end()) {
    refuse(document, pointer + "/parameter",
           fmt::format("{} is no fitted parameter of that machine; allowed: {}{}",
                       scenarios::in_quotes(start.parameter), scenarios::listed(fitted),
                       scenarios::did_you_mean(start.parameter, fitted)));
  }
  const json& range = machines_.at(start.machine).wanted().at("parameters").at(start.parameter).at("fit");
  if (start.value < range[0] || start.value > range[1]) {
    refuse(document, pointer + "/value",
           fmt::format("{} is out of range; allowed: {} to {}", start.value, range[0].get<double>(),
                       range[1].get<double>()));
  }
}

void Machines::add(const json& wanted, const std::string& label) {
  add(Document::parse(label, wanted.dump()));
}

void Machines::add(Document document) {
  const std::string name = document.root().at("name");
  const ProfileKind kind = kind_of(document.root());
  machines_.insert_or_assign(name, Machine{std::move(document), kind, {}});
}

void Machines::add_profile(ProfileKind kind, const json& profile) {
  machines_.insert_or_assign(profile.at("name"), Machine{{}, kind, profile});
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
  machine.document = {{"format", format_of(machine.kind)},
                      {"version", 1},
                      {"name", name},
                      {"description", machine.wanted().at("description")}};
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
  const std::string from = machine.wanted().value("from", "");
  if (!from.empty()) {
    const auto base = machines_.find(from);
    if (base == machines_.end() || &base->second == &machine || base->second.document.is_null()) {
      refuse(*machine.file, "/from", scenarios::in_quotes(from) + " is no machine of an earlier group");
    }
    if (base->second.kind != machine.kind) {
      refuse(*machine.file, "/from",
             fmt::format("{} is a {}; allowed: a {}", scenarios::in_quotes(from),
                         to_string(base->second.kind), to_string(machine.kind)));
    }
    parameters = base->second.document.at("parameters");
    for (auto& item : parameters) {
      const std::string source = item.at("source");
      item["source"] =
          fmt::format("as {}: {}", from, base->second.file ? source : without_remarks_of_fit(source));
    }
  }
  for (const auto& [name, item] : member(machine.wanted(), "parameters").items()) {
    parameters[name] = item;
    parameters[name].erase("fit");
  }
  machine.document["parameters"] = std::move(parameters);
  for (const auto& [name, bounds] : table_of(machine.kind)) {
    if (!machine.document.at("parameters").contains(name)) {
      refuse(*machine.file, "/parameters", scenarios::in_quotes(name) + " is missing");
    }
    set_parameter(machine, name, machine.document.at("parameters").at(name).at("value"));
  }
}

std::vector<std::string> Machines::parameters_of(const Machine& machine, const json& named) const {
  std::set<std::string> taken;  // said by the file, or by name in a factor: a unit does not mean them
  for (const auto& item : member(machine.wanted(), "parameters").items()) taken.insert(item.key());
  for (const json& factor : member(machine.wanted(), "factors")) {
    for (const std::string parameter : factor.at("parameters")) taken.insert(parameter);
  }
  std::vector<std::string> all;
  for (const std::string one : named) {
    bool known = false;
    for (const auto& [name, bounds] : table_of(machine.kind)) {
      known |= name == one || bounds.unit == one;
      if (name == one || (bounds.unit == one && !taken.contains(name))) all.push_back(name);
    }
    if (!known) throw std::logic_error("a factor on " + one + ", which is no parameter and no unit");
  }
  return all;
}

void Machines::apply_factors(Machine& machine) {
  for (const json& factor : member(machine.wanted(), "factors")) {
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
  const Machine& machine = machines_.at(name);
  std::vector<FitVariable> all;
  for (const auto& [parameter, item] : member(machine.wanted(), "parameters").items()) {
    if (!item.contains("fit")) continue;
    const double value = item.at("value");
    all.push_back(
        {name, parameter, {parameter}, {value}, false, value, item.at("fit")[0], item.at("fit")[1]});
  }
  for (const json& factor : member(machine.wanted(), "factors")) {
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
  std::set<std::string> moved;  // set() of one would undo another's
  for (const FitVariable& variable : all) {
    for (const std::string& parameter : variable.parameters) {
      if (!moved.insert(parameter).second)
        refuse(*machine.file, "/factors", scenarios::in_quotes(parameter) + " is fitted twice");
    }
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
}

void Machines::annotate(const FitVariable& variable, const std::string& source, double uncertainty) {
  for (const std::string& parameter : variable.parameters) {
    json& item = machines_.at(variable.machine).document.at("parameters").at(parameter);
    double both = uncertainty;
    if (variable.factor) {
      both = std::hypot(uncertainty, item.at("uncertainty").get<double>());
      item["source"] = fmt::format("{}; {}", source, item.at("source").get<std::string>());
    } else {
      item["source"] = source;
    }
    item["uncertainty"] = rounded(std::min(both, kUncertaintyMax), "");
  }
}

ProfileSet Machines::profiles() const {
  ProfileSet set;
  for (const auto& [name, machine] : machines_) {
    if (machine.document.is_null()) continue;
    if (machine.kind == ProfileKind::kNic) {
      set.nics[name] = nic_profile_of(machine.document);
    } else {
      set.hosts[name] = host_profile_of(machine.document);
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
