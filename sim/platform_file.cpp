#include "sim/platform_file.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "backend/user_error.hpp"
#include "sim/platform_clusters.hpp"
#include "sim/platform_names.hpp"
#include "sim/platform_tags.hpp"
#include "sim/platform_words.hpp"

namespace verbtwin::sim {

namespace {

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& why) {
  throw UserError(kPlatformPointer, fmt::format("platform {}: {}", file.string(), why));
}

std::string text_of(const std::filesystem::path& file) {
  constexpr std::uintmax_t kBytesMax = 64 << 20;
  std::error_code error;
  if (std::filesystem::file_size(file, error) > kBytesMax && !error)
    refuse(file, fmt::format("the file is too large; allowed: {} MiB", kBytesMax >> 20));
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// SimGrid passes over events with these values, at time 0 at least.
void refuse_values(const PlatformText& text, std::string_view events) {
  while (!events.empty()) {
    const std::string_view line = events.substr(0, events.find('\n'));
    events.remove_prefix(std::min(line.size() + 1, events.size()));
    const std::string event(line);
    char *after_date = nullptr, *after_value = nullptr;
    std::strtod(event.c_str(), &after_date);
    const double value = std::strtod(after_date, &after_value);
    if (after_date == event.c_str() || after_value == after_date || value >= 0) continue;
    text.refuse(line, fmt::format("a profile's value of {:g}; allowed: 0 and more", value));
  }
}

/// SimGrid looks where the program runs, and beside the XML: what stands in the one place may change.
void check_profile(const PlatformText& xml, std::string_view name,
                   std::set<std::filesystem::path>& profiles) {
  if (name.find('&') != name.npos)
    xml.refuse(name, fmt::format("'{}': allowed: a file's name without &", name));
  for (const std::filesystem::path& file : {xml.file.parent_path() / name, std::filesystem::path(name)}) {
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored)) continue;  // SimGrid's to refuse, where neither does
    if (!std::filesystem::is_regular_file(file, ignored))
      xml.refuse(name, fmt::format("{}: not a file", name));
    const PlatformText profile{file, text_of(file)};
    refuse_values(profile, profile.text);
    profiles.insert(file);
  }
}

/// SimGrid's own words for both name neither the value nor what is allowed.
void check_zone(const PlatformText& xml, const Tag& tag) {
  static const std::vector<std::string> kinds = {"Cluster", "Dijkstra", "DijkstraCache", "Floyd",
                                                 "Full",    "None",     "Vivaldi",       "Wifi"};
  const std::optional<std::string_view> routing = tag["routing"];
  if (!routing) return;
  const auto is_routing = [&](const std::string& kind) {
    return std::ranges::equal(kind, *routing,
                              [](char a, char b) { return std::tolower(a) == std::tolower(b); });
  };
  if (std::ranges::any_of(kinds, is_routing)) return;
  xml.refuse(*routing, fmt::format("routing=\"{:.60}\": unknown; allowed: {}{}", *routing,
                                   fmt::join(kinds, ", "), did_you_mean(*routing, kinds)));
}

/// "1Gf", or one for each state: "1Gf,0.5Gf". What unit it is in SimGrid says.
void check_speed(const PlatformText& xml, std::string_view speed) {
  std::istringstream states{std::string(speed)};
  for (std::string state; std::getline(states, state, ',');) {
    char* end = nullptr;
    const double number = std::strtod(state.c_str(), &end);
    if (end == state.c_str() || (number > 0 && std::isfinite(number))) continue;
    xml.refuse(speed, fmt::format("speed=\"{:.60}\": allowed: above 0, as in \"1Gf\"", speed));
  }
}

/// Of cores, or of a state.
void check_count(const PlatformText& xml, std::string_view name, std::string_view value) {
  const int least = name == "core" ? 1 : 0;
  std::string_view rest = value;
  const std::optional<int> number = take_number(rest);
  if (number && *number >= least) return;
  xml.refuse(value, fmt::format("{}=\"{:.60}\": allowed: whole numbers from {}", name, value, least));
}

void check_version(const PlatformText& xml, const Tag& tag) {
  const std::optional<std::string_view> version = tag["version"];
  double number = 0;
  if (version) std::from_chars(version->data(), version->data() + version->size(), number);
  if (number >= 4 && number <= 4.1) return;
  xml.refuse(version.value_or(tag.name),
             fmt::format("<platform>: {}; allowed: version=\"4\" or \"4.1\"",
                         version ? fmt::format("version=\"{:.60}\"", *version) : "no version"));
}

/// Adds its profiles to those of `file`. SimGrid refuses the other elements that would do more than say what
/// is there: <include>, <actor>, a DOCTYPE that is not its own, or one with entities.
void check_tag(const PlatformText& xml, const Tag& tag, PlatformNames& names, PlatformFile& file) {
  // It could write to any file, stop the program, and change the one network model and not the other.
  if (tag.name == "config") {
    xml.refuse(tag.name,
               "<config>: SimGrid's configuration is not the platform's; allowed: a platform without it");
  }
  // SimGrid writes past its 1,000 places for the attributes of open elements; a zone takes two.
  constexpr int kDepthMax = 100;
  if (tag.depth > kDepthMax) {
    xml.refuse(tag.name, fmt::format("<{:.100}> is {} elements deep; allowed: up to {}", tag.name, tag.depth,
                                     kDepthMax));
  }
  names.check(tag);
  if (tag.name == "platform") check_version(xml, tag);
  if (tag.name == "zone" || tag.name == "AS") check_zone(xml, tag);
  if (tag.name == "cluster") check_topology(xml, tag);
  const auto is_of_latencies = [](const Tag::Attribute& attribute) {
    return attribute.name == "latency_file" || (attribute.name == "kind" && attribute.value == "LATENCY");
  };
  // SimGrid tells nobody of their events, and aborts on one that is no number.
  const auto latencies = std::ranges::find_if(tag.attributes, is_of_latencies);
  if (latencies != tag.attributes.end()) {
    xml.refuse(latencies->value,
               "it has a profile of latencies: not simulated; allowed: profiles of bandwidths");
  }
  if (tag.name == "trace") {
    refuse_values(xml, tag.content);
    file.has_profiles = true;
  }
  for (const auto& [name, value] : tag.attributes) {
    if (name == "radical") check_radical(xml, value);
    if (name == "speed") check_speed(xml, value);
    if (name == "core" || name == "pstate") check_count(xml, name, value);
    if (!name.ends_with("file")) continue;  // bandwidth_file=, state_file=, a trace's file=
    check_profile(xml, value, file.profiles);
    file.has_profiles = true;
  }
}

}  // namespace

PlatformFile read_platform_file(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) refuse(file, "no such file");
  if (!std::filesystem::is_regular_file(file, ignored)) refuse(file, "not a file");
  if (access(file.c_str(), R_OK) != 0) refuse(file, "cannot be read");
  // SimGrid would execute a .so
  if (file.extension() != ".xml") refuse(file, "not a SimGrid platform (.xml)");

  const PlatformText xml{file, text_of(file)};
  PlatformFile platform;
  PlatformNames names(xml);
  for_each_tag(xml.text, [&](const Tag& tag) { check_tag(xml, tag, names, platform); });
  return platform;
}

}  // namespace verbtwin::sim
