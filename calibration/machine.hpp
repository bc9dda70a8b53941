// Machines: what is known of a NIC or a host before the fit: values of data sheets and specifications, and
// for what is fitted a start and the range that physics allows. calibration/machines/*.json; `calibrate`
// makes calibration/profiles/ of them.
//
// {"format": "verbtwin-machine", "version": 1, "kind": "nic" | "host", "name": "...", "description": "...",
//  "from": "NAME",
//  "parameters": {"send_wqe_ns":
//    {"value": 6, "unit": "ns", "source": "...", "uncertainty": 0.3, "fit": [2, 20]}},
//  "factors": [
//    {"name": "cpu time", "parameters": ["ns"], "value": 1.0, "fit": [0.5, 2], "source": "..."}]}
//
// "from": what is not said here is as in that machine, as fitted. A factor scales what is taken from there:
// the parameters it names, or all of a unit. groups.json beside them lists what is fitted together, in order:
// [{"name": "...", "machines": ["connectx-4", "xeon-e5-2650v4"], "rounds": 8,
//   "also_from": [{"machine": "connectx-4", "parameter": "send_wqe_ns", "value": 12}]}].
// "also_from": where else the search begins, each time with one parameter's start replaced; the values of the
// least misfit are kept.
//
// One thread. Errors are UserErrors of one line with their place.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "calibration/profile_file.hpp"
#include "models/profile.hpp"
#include "scenarios/document.hpp"

namespace verbtwin::calibration {

/// What a simulation needs of the machines, by name.
struct ProfileSet {
  std::map<std::string, models::NicProfile> nics;
  std::map<std::string, models::HostProfile> hosts;
};

/// One number that the fit may change: a parameter, or a factor on several.
struct FitVariable {
  std::string machine;
  std::string name;
  std::vector<std::string> parameters;  // of that machine
  std::vector<double> start;            // of each
  bool factor = false;                  // its value multiplies `start`; else it is the parameter's value
  double first = 1, lower = 1, upper = 1;
};

/// Another start of a fitted parameter.
struct OtherStart {
  std::string machine, parameter;
  double value = 0;
};

struct MachineGroup {
  std::string name;
  std::vector<std::string> machines;
  int rounds = 0;  // of a search at most; 0: nothing is fitted
  /// Few variables that each set a limit, at one of which a fit may begin: derivatives are taken to both
  /// sides of a value, as they differ there.
  bool both_sides = false;
  /// What the data do not determine goes back to where it began, where they are explained as well like that.
  bool puts_back = false;
  std::vector<OtherStart> also_from = {};
};

class Machines {
 public:
  static Machines read(const std::filesystem::path& directory);

  /// A machine without a file of its own, in the same format; errors name `label`.
  void add(const nlohmann::json& wanted, const std::string& label);
  /// A profile that is there, for others to be "from"; it has been read without an error.
  void add_profile(ProfileKind kind, const nlohmann::json& profile);

  const std::vector<MachineGroup>& groups() const { return groups_; }
  std::vector<std::string> names(ProfileKind kind) const;

  /// The profile document of a machine with its start values; those before it in the groups are built.
  void build(const std::string& machine);
  /// Takes a machine as an earlier fit has left it.
  void adopt(const std::string& machine, const nlohmann::json& profile);
  std::vector<FitVariable> variables(const std::string& machine) const;

  void set(const FitVariable& variable, double value);
  /// Says where a fitted value comes from and how sure it is. What a factor multiplies keeps its own source
  /// behind the factor's, and its own uncertainty beside it.
  void annotate(const FitVariable& variable, const std::string& source, double uncertainty);

  const nlohmann::json& document(const std::string& machine) const { return machines_.at(machine).document; }
  ProfileSet profiles() const;

 private:
  struct Machine {
    const nlohmann::json& wanted() const { return file->root(); }

    std::optional<scenarios::Document> file;  // none: a profile that was there
    ProfileKind kind{};
    nlohmann::json document;  // the profile, once built
  };
  void add(scenarios::Document document);
  void check_bases(const MachineGroup& group) const;
  void check_start(const scenarios::Document& document, const std::string& pointer, const MachineGroup& group,
                   const OtherStart& start) const;
  void set_parameter(Machine& machine, const std::string& parameter, double value);
  void build_parameters(Machine& machine);
  void apply_factors(Machine& machine);
  std::vector<std::string> parameters_of(const Machine& machine, const nlohmann::json& named) const;

  std::map<std::string, Machine> machines_;
  std::vector<MachineGroup> groups_;
};

/// Four significant digits, whole for counts: what a profile holds of a fitted value.
double rounded(double value, const std::string& unit);

/// A profile file's text: one parameter a line.
std::string profile_text(const nlohmann::json& document);

}  // namespace verbtwin::calibration
