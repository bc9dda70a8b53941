#include "calibration/profile_file.hpp"

#include <algorithm>
#include <cstdlib>
#include <system_error>
#include <tuple>

#include "backend/user_error.hpp"
#include "scenarios/document.hpp"
#include "scenarios/text.hpp"
#include "scenarios/validate.hpp"

namespace verbtwin::calibration {

namespace {

using nlohmann::json;
using scenarios::Document;
using scenarios::Finding;
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
const char* format_of(ProfileKind kind) {
  return names_of(kind).format;
}

json text_schema(const char* description, std::size_t length_min) {
  return {{"description", description}, {"type", "string"}, {"minLength", length_min}, {"maxLength", 10000}};
}

json object_schema(const char* description, json properties) {
  json required = json::array();
  for (const auto& item : properties.items()) required.push_back(item.key());
  return {{"description", description},
          {"type", "object"},
          {"additionalProperties", false},
          {"required", std::move(required)},
          {"properties", std::move(properties)}};
}

/// A whole number stands without a fraction, so that messages say 0 and not 0.0.
json bound(double value) {
  const auto whole = static_cast<std::int64_t>(value);
  return static_cast<double>(whole) == value ? json(whole) : json(value);
}

template <typename Profile>
json parameters_schema(std::span<const models::Parameter<Profile>> table) {
  json properties = json::object();
  for (const auto& parameter : table) {
    const json value = {{"description", parameter.meaning},
                        {"type", "number"},
                        {"minimum", bound(parameter.min)},
                        {"maximum", bound(parameter.max)}};
    const json unit = {{"description", "unit of the value"}, {"type", "string"}, {"const", parameter.unit}};
    const json uncertainty = {{"description", "relative: 0.2 is plus or minus 20 %"},
                              {"type", "number"},
                              {"minimum", 0},
                              {"maximum", bound(kUncertaintyMax)}};
    const json source = text_schema("where the value comes from", 1);
    properties[parameter.name] =
        object_schema(parameter.meaning,
                      {{"value", value}, {"unit", unit}, {"source", source}, {"uncertainty", uncertainty}});
  }
  return object_schema("every parameter of this kind of profile", std::move(properties));
}

[[noreturn]] void refuse(const Document& document, const Finding& finding) {
  const UserError error(finding.pointer, finding.message);
  throw UserError("", scenarios::format_error(document.place(finding.pointer, finding.anchor), error));
}

/// Tells the finding that comes first in the file, what is missing last.
[[noreturn]] void refuse(const Document& document, const std::vector<Finding>& findings) {
  using Rank = std::tuple<bool, scenarios::Position>;
  std::vector<Rank> ranks;
  for (const Finding& f : findings) ranks.emplace_back(f.missing, document.position(f.pointer, f.anchor));
  refuse(document,
         findings[static_cast<std::size_t>(std::min_element(ranks.begin(), ranks.end()) - ranks.begin())]);
}

/// What stands in front of the parameters.
json header_properties(ProfileKind kind) {
  const json format = {{"description", "what the file is"}, {"type", "string"}, {"const", format_of(kind)}};
  const json version = {{"description", "of the format"}, {"type", "integer"}, {"const", 1}};
  return {{"format", format},
          {"version", version},
          {"name", text_schema("what reports call it", 1)},
          {"description", text_schema("what it describes", 0)}};
}

/// Each wrong member of the header is told before anything that stands behind it.
void check_header(const Document& document, ProfileKind kind) {
  const json& root = document.root();
  json header = root.is_object() ? json::object() : root;
  if (root.is_object()) {
    for (const auto& [name, member] : root.items()) {
      if (name != "parameters") header[name] = member;
    }
  }
  const json schema = {
      {"type", "object"}, {"required", {"format", "version"}}, {"properties", header_properties(kind)}};
  if (const auto findings = scenarios::check(header, schema); !findings.empty()) refuse(document, findings);
}

template <typename Profile>
Profile read_profile(const fs::path& file, ProfileKind kind,
                     std::span<const models::Parameter<Profile>> table) {
  const Document document = Document::read(file);
  check_header(document, kind);  // another kind or version: its parameters are no errors of their own
  json root = document.root();
  if (const auto findings = scenarios::check(root, profile_schema(kind)); !findings.empty()) {
    refuse(document, findings);
  }
  Profile profile;
  profile.name = root.at("name").get<std::string>();
  for (const auto& parameter : table) {
    profile.*parameter.value = root.at("parameters").at(parameter.name).at("value").template get<double>();
  }
  return profile;
}

std::string described(const std::vector<fs::path>& search) {
  std::vector<std::string> names;
  for (const fs::path& directory : search) names.push_back(directory.string());
  return scenarios::listed(names);
}

/// Where a profile's values come from, in a few words. Parameters are not checked here.
std::string provenance_of(const json& root) {
  std::size_t fitted = 0, all = 0;
  const auto parameters = root.find("parameters");
  if (parameters == root.end() || !parameters->is_object()) return "no parameters";
  for (const json& item : *parameters) {
    const json source = item.is_object() ? item.value("source", json()) : json();
    ++all;
    if (source.is_string() && source.get<std::string>().starts_with("fitted")) ++fitted;
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
    refuse(document, Finding{"/format",
                             "no profile; allowed: verbtwin-nic-profile, verbtwin-host-profile, "
                             "verbtwin-socket-profile"});
  }
  const ProfileKind kind = found->kind;
  check_header(document, kind);
  return {file.stem().string(), kind, root.value("description", ""), provenance_of(root), file};
}

}  // namespace

const char* to_string(ProfileKind kind) {
  return names_of(kind).name;
}

json profile_schema(ProfileKind kind) {
  json properties = header_properties(kind);
  properties["parameters"] = kind == ProfileKind::kNic    ? parameters_schema(models::nic_parameters())
                             : kind == ProfileKind::kHost ? parameters_schema(models::host_parameters())
                                                          : parameters_schema(models::socket_parameters());
  json schema = object_schema("A verbtwin profile", std::move(properties));
  schema["$schema"] = "http://json-schema.org/draft-07/schema#";
  return schema;
}

fs::path find_profile(const std::string& name, ProfileKind kind, const std::vector<fs::path>& search) {
  if (name.ends_with(".json")) return name;
  for (const fs::path& directory : search) {
    const fs::path file = directory / (name + ".json");
    std::error_code error;
    const bool is_plain_name = file.stem() == name;
    if (is_plain_name && fs::is_regular_file(file, error) && info_of(file).kind == kind) return file;
  }
  std::vector<std::string> known;
  for (const fs::path& directory : search) {
    for (const ProfileInfo& info : list_profiles(directory)) {
      if (info.kind == kind) known.push_back(info.name);
    }
  }
  throw UserError("", "no " + std::string(to_string(kind)) + " profile " + scenarios::in_quotes(name) +
                          " in " + described(search) + "; allowed: " + scenarios::listed(known) +
                          (known.empty() ? "" : ", or ") + "a path ending in .json" +
                          scenarios::did_you_mean(name, known));
}

models::NicProfile load_nic_profile(const std::string& name_or_path, const std::vector<fs::path>& search) {
  return read_profile(find_profile(name_or_path, ProfileKind::kNic, search), ProfileKind::kNic,
                      models::nic_parameters());
}

models::HostProfile load_host_profile(const std::string& name_or_path, const std::vector<fs::path>& search) {
  return read_profile(find_profile(name_or_path, ProfileKind::kHost, search), ProfileKind::kHost,
                      models::host_parameters());
}

models::SocketProfile load_socket_profile(const std::string& name_or_path,
                                          const std::vector<fs::path>& search) {
  return read_profile(find_profile(name_or_path, ProfileKind::kSocket, search), ProfileKind::kSocket,
                      models::socket_parameters());
}

std::vector<ProfileInfo> list_profiles(const fs::path& directory) {
  std::error_code error;
  std::vector<ProfileInfo> profiles;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == ".json") profiles.push_back(info_of(entry->path()));
  }
  if (error)
    throw UserError("", scenarios::one_line(directory.string()) + ": cannot be read: " + error.message());
  std::sort(profiles.begin(), profiles.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
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
  throw UserError("", data_dir.empty()
                          ? "the profiles that come with verbtwin are not beside the program; set "
                            "VERBTWIN_DATA_DIR to the directory that holds profiles/"
                          : "VERBTWIN_DATA_DIR: no directory " + places[0].string());
}

fs::path profile_directory() {
  const char* data_dir = std::getenv("VERBTWIN_DATA_DIR");
  std::error_code error;
  return profile_directory(data_dir ? data_dir : "", fs::read_symlink("/proc/self/exe", error));
}

}  // namespace verbtwin::calibration
