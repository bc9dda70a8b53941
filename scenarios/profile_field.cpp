#include "scenarios/profile_field.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "scenarios/text.hpp"
#include "scenarios/validate.hpp"

namespace verbtwin::scenarios {

namespace fs = std::filesystem;

namespace {

struct Kind {
  ProfileField field;
  const char* key;  // in "cluster"
  const char* words;
  const std::vector<std::string>& known;

  std::string pointer() const { return std::string("/cluster/") + key; }
};

std::vector<Kind> kinds(const Catalog& catalog) {
  return {{ProfileField::kNic, "nic", "a NIC profile", catalog.nics},
          {ProfileField::kHost, "host", "a host profile", catalog.hosts},
          {ProfileField::kSockets, "sockets", "a socket profile", catalog.sockets}};
}

bool knows(const Kind& kind, const std::string& name) {
  return std::ranges::find(kind.known, name) != kind.known.end();
}

/// The nearest name, or the profile in the directory that `calibrate --out` wrote.
std::string meant(const ScenarioSource& source, const Kind& kind, const std::string& name) {
  const std::string inside = (fs::path(name) / (std::string(kind.key) + ".json")).string();
  std::error_code none;
  if (fs::is_regular_file(source.path_at(kind.pointer(), inside), none))
    return "; did you mean \"" + one_line(inside) + "\"?";
  return did_you_mean(name, kind.known);
}

}  // namespace

void require_file(const ScenarioSource& source, const std::string& pointer, const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found)
    source.refuse(Finding{pointer, "no such file: " + in_quotes(path)});
  if (fs::is_directory(status)) source.refuse(Finding{pointer, "is a directory: " + in_quotes(path)});
  // Also a loop of links, or no right to look; what is open for nobody is not opened, for it may be a pipe.
  if (access(path.c_str(), R_OK) == 0) return;
  source.refuse(Finding{
      pointer, "cannot be read: " + in_quotes(path) + " (" + std::generic_category().message(errno) + ")"});
}

std::string profile_at(const ScenarioSource& source, ProfileField field, const std::string& name,
                       const Catalog& catalog) {
  const std::vector<Kind> all = kinds(catalog);
  const Kind& kind = *std::ranges::find(all, field, &Kind::field);
  const std::string pointer = kind.pointer();
  if (name.ends_with(".json")) {
    const std::string path = source.path_at(pointer, name);
    require_file(source, pointer, path);
    return path;
  }
  if (knows(kind, name)) return name;
  const std::string allowed =
      "; allowed: " + listed(kind.known) + (kind.known.empty() ? "" : ", or ") + "a path ending in .json";
  const auto other = std::ranges::find_if(all, [&](const Kind& one) { return knows(one, name); });
  const std::string what =
      other == all.end() ? "unknown profile " + in_quotes(name) + allowed + meant(source, kind, name)
                         : in_quotes(name) + " is " + other->words + ", for cluster." + other->key + allowed;
  source.refuse(Finding{pointer, what});
}

}  // namespace verbtwin::scenarios
