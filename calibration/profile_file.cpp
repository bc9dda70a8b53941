#include "calibration/profile_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "backend/user_error.hpp"
#include "scenarios/document.hpp"
#include "scenarios/json_schema.hpp"
#include "scenarios/text.hpp"
#include "scenarios/validate.hpp"

namespace verbtwin::calibration {

namespace {

using nlohmann::json;
using scenarios::Document;
namespace fs = std::filesystem;

struct KindNames {
  ProfileKind kind;
  const char* format;
  const char* name;
};
constexpr KindNames kKinds[] = {{ProfileKind::kNic, "verbtwin-nic-profile", "NIC"},
                                {ProfileKind::kHost, "verbtwin-host-profile", "host"},
                                {ProfileKind::kSocket, "verbtwin-socket-profile", "socket"}};

const KindNames& names_of(ProfileKind kind) {
  return kKinds[static_cast<std::size_t>(kind)];
}

/// A whole number stands without a fraction, so that messages say 0 and not 0.0.
json bound(double value) {
  const auto whole = static_cast<std::int64_t>(value);
  return static_cast<double>(whole) == value ? json(whole) : json(value);
}

template <typename Profile>
json parameters_schema(std::span<const models::Parameter<Profile>> table) {
  using namespace scenarios::json_schema;
  json properties = json::object();
  for (const auto& p : table) {
    const char* type = std::string_view(p.unit) == "count" ? "integer" : "number";
    const json value = {{"type", type}, {"minimum", bound(p.min)}, {"maximum", bound(p.max)}};
    const json uncertainty = {{"type", "number"}, {"minimum", 0}, {"maximum", bound(kUncertaintyMax)}};
    properties[p.name] = object(
        {{"value", value}, {"unit", exactly(p.unit)}, {"source", text()}, {"uncertainty", uncertainty}});
  }
  return object(std::move(properties));
}

/// What stands in front of the parameters.
json header_properties(ProfileKind kind) {
  using namespace scenarios::json_schema;
  return {{"format", exactly(format_of(kind))},
          {"version", exactly(1)},
          {"name", text()},
          {"description", text(0)}};
}

/// Each wrong member of the header is told before anything that stands behind it.
void check_header(const Document& document, ProfileKind kind) {
  using namespace scenarios::json_schema;
  scenarios::require(document, open(object(header_properties(kind), {"format", "version"})));
}

/// Costs hold for the clock with all cores busy, and are divided by few over all: the other way round, few
/// busy cores would be slower than many.
void check_turbo(const Document& document, const json& root) {
  const auto ghz = [&](const char* name) { return root.at("parameters").at(name).at("value").get<double>(); };
  if (ghz("turbo_few_ghz") >= ghz("turbo_all_ghz")) return;
  const auto parameters = models::host_parameters();
  const auto few = std::ranges::find(parameters, std::string_view("turbo_few_ghz"),
                                     [](const auto& p) { return std::string_view(p.name); });
  refuse(document, "/parameters/turbo_few_ghz/value",
         fmt::format("out of range: {:g}; allowed: number, {:g} (turbo_all_ghz) to {:g}",
                     ghz("turbo_few_ghz"), ghz("turbo_all_ghz"), few->max));
}

template <typename Profile>
Profile profile_of(const json& document, std::span<const models::Parameter<Profile>> table) {
  Profile profile;
  profile.name = document.at("name").get<std::string>();
  for (const auto& parameter : table) {
    profile.*parameter.value =
        document.at("parameters").at(parameter.name).at("value").template get<double>();
  }
  return profile;
}

/// Where a profile's values come from, in a few words. Parameters are not checked here.
std::string provenance_of(const json& root) {
  std::size_t fitted = 0, all = 0;
  const auto parameters = root.find("parameters");
  if (parameters == root.end() || !parameters->is_object()) return "no parameters";
  for (const json& item : *parameters) {
    const json source = item.is_object() ? item.value("source", json()) : json();
    ++all;
    if (!source.is_string()) continue;
    const std::string_view from = source.get_ref<const std::string&>();
    if (from.starts_with("fitted") && from.find(kNotDetermined) == from.npos) ++fitted;
  }
  if (fitted == 0) return "not fitted";
  return std::to_string(fitted) + " of " + std::to_string(all) + " parameters fitted";
}

ProfileInfo info_of(const fs::path& file) {
  const Document document = Document::read(file);
  const json& root = document.root();
  const json format = root.is_object() ? root.value("format", json()) : json();
  const auto* found =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const auto& k) { return format == k.format; });
  if (found == std::end(kKinds)) {
    refuse(document, "/format",
           "no profile; allowed: verbtwin-nic-profile, verbtwin-host-profile, verbtwin-socket-profile");
  }
  const ProfileKind kind = found->kind;
  check_header(document, kind);
  return {file.stem().string(), kind, root.value("description", ""), provenance_of(root)};
}

}  // namespace

const char* format_of(ProfileKind kind) {
  return names_of(kind).format;
}

const char* to_string(ProfileKind kind) {
  return names_of(kind).name;
}

json profile_schema(ProfileKind kind) {
  json properties = header_properties(kind);
  properties["parameters"] = kind == ProfileKind::kNic    ? parameters_schema(models::nic_parameters())
                             : kind == ProfileKind::kHost ? parameters_schema(models::host_parameters())
                                                          : parameters_schema(models::socket_parameters());
  return scenarios::json_schema::object(std::move(properties));
}

fs::path find_profile(const std::string& name, ProfileKind kind, const fs::path& directory) {
  if (name.ends_with(".json")) return name;
  const fs::path file = directory / (name + ".json");
  std::error_code error;
  const bool is_plain_name = file.stem() == name;
  if (is_plain_name && fs::is_regular_file(file, error) && info_of(file).kind == kind) return file;
  std::vector<std::string> known;
  std::string wrong = "no " + std::string(to_string(kind)) + " profile " + scenarios::in_quotes(name) +
                      " in " + scenarios::one_line(directory.string());
  for (const ProfileInfo& info : list_profiles(directory)) {
    if (info.kind == kind) {
      known.push_back(info.name);
    } else if (info.name == name) {
      wrong = scenarios::in_quotes(name) + " is a " + to_string(info.kind) + " profile, not a " +
              to_string(kind) + " profile";
    }
  }
  throw UserError("", wrong + "; allowed: " + scenarios::listed(known) + (known.empty() ? "" : ", or ") +
                          "a path ending in .json" + scenarios::did_you_mean(name, known));
}

json load_profile(const std::string& name_or_path, ProfileKind kind, const fs::path& directory) {
  const Document document = Document::read(find_profile(name_or_path, kind, directory));
  check_header(document, kind);  // another kind or version: its parameters are no errors of their own
  json root = scenarios::require(document, profile_schema(kind));
  if (kind == ProfileKind::kHost) check_turbo(document, root);
  return root;
}

models::NicProfile nic_profile_of(const json& document) {
  return profile_of(document, models::nic_parameters());
}

models::HostProfile host_profile_of(const json& document) {
  return profile_of(document, models::host_parameters());
}

models::NicProfile load_nic_profile(const std::string& name_or_path, const fs::path& directory) {
  return nic_profile_of(load_profile(name_or_path, ProfileKind::kNic, directory));
}

models::HostProfile load_host_profile(const std::string& name_or_path, const fs::path& directory) {
  return host_profile_of(load_profile(name_or_path, ProfileKind::kHost, directory));
}

models::SocketProfile load_socket_profile(const std::string& name_or_path, const fs::path& directory) {
  return profile_of(load_profile(name_or_path, ProfileKind::kSocket, directory), models::socket_parameters());
}

std::vector<ProfileInfo> list_profiles(const fs::path& directory) {
  std::vector<ProfileInfo> profiles;
  for (const fs::path& file : scenarios::files_in(directory, ".json")) profiles.push_back(info_of(file));
  return profiles;
}

fs::path profile_directory(const fs::path& data_dir, const fs::path& executable) {
  const fs::path beside = executable.parent_path();
  const std::vector<fs::path> places = data_dir.empty()
                                           ? std::vector<fs::path>{beside / "../../calibration/profiles",
                                                                   beside / "../share/verbtwin/profiles"}
                                           : std::vector<fs::path>{data_dir / "profiles"};
  for (const fs::path& place : places) {
    std::error_code error;
    const fs::path plain = place.lexically_normal();
    if (fs::is_directory(plain, error)) return plain;
  }
  throw UserError(
      "", data_dir.empty()
              ? "the profiles that come with verbtwin are not beside the program; set "
                "VERBTWIN_DATA_DIR to the directory that holds profiles/ (in the source tree calibration/)"
              : "VERBTWIN_DATA_DIR: no directory " + places[0].string());
}

fs::path profile_directory() {
  const char* data_dir = std::getenv("VERBTWIN_DATA_DIR");
  std::error_code error;
  return profile_directory(data_dir ? data_dir : "", fs::read_symlink("/proc/self/exe", error));
}

}  // namespace verbtwin::calibration
