#include "sim/platform_clusters.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/platform_words.hpp"

namespace verbtwin::sim {

namespace {

// As many ports and cables as the scenario's own topologies may have.
constexpr std::int64_t kHostsMax = 65'536;
constexpr double kCablesMost = 131'072;

/// Of "0-3,8" 5; none: it is no list of hosts.
std::optional<std::int64_t> hosts_in(std::string_view radical) {
  std::int64_t hosts = 0;
  for (;;) {
    const std::optional<int> first = take_number(radical);
    std::optional<int> last = first;
    if (radical.starts_with('-')) {
      radical.remove_prefix(1);
      last = take_number(radical);
    }
    if (!first || !last || *last < *first) return std::nullopt;
    hosts += std::int64_t{*last} - *first + 1;
    if (radical.empty()) return hosts;
    if (radical[0] != ',') return std::nullopt;
    radical.remove_prefix(1);
  }
}

using Lists = std::vector<std::vector<double>>;  // whole numbers, whose products may be large

/// Of "2;4,4" {{2}, {4, 4}}; empty: these are no lists of numbers from 1.
Lists lists_in(std::string_view parameters) {
  Lists lists(1);
  for (;;) {
    const std::optional<int> number = take_number(parameters);
    if (!number || *number == 0) return {};
    lists.back().push_back(*number);
    parameters.remove_prefix(std::min(parameters.find_first_not_of(' '), parameters.size()));
    if (parameters.empty()) return lists;
    if (parameters[0] != ',' && parameters[0] != ';') return {};
    if (parameters[0] == ';') lists.emplace_back();
    parameters.remove_prefix(1);
  }
}

double product(const std::vector<double>& numbers) {
  double all = 1;
  for (const double number : numbers) all *= number;
  return all;
}

/// Levels; and for each level children, parents, and cables to each.
bool is_fat_tree(const Lists& lists) {
  if (lists.size() != 4 || lists[0].size() != 1) return false;
  return std::all_of(lists.begin() + 1, lists.end(), [&](const std::vector<double>& of_levels) {
    return static_cast<double>(of_levels.size()) == lists[0][0];
  });
}

/// Groups, chassis in each, routers in each, with the cables between two of them; ports of a router.
bool is_dragonfly(const Lists& lists) {
  return lists.size() == 4 && lists[0].size() == 2 && lists[1].size() == 2 && lists[2].size() == 2 &&
         lists[3].size() == 1;
}

double cables_of_fat_tree(const Lists& lists) {
  const std::vector<double>&children = lists[1], &parents = lists[2], &cables_each = lists[3];
  double below = product(children), cables = 0;  // switches of the level below, or hosts
  for (std::size_t level = 0; level < children.size(); ++level) {
    cables += below * parents[level] * cables_each[level];
    below = below / children[level] * parents[level];
  }
  return cables;
}

struct Kind {
  const char* topology;
  bool (*is_right)(const Lists&);
  const char* what;
  const char* allowed;
};

constexpr Kind kKinds[] = {
    {"TORUS", [](const Lists& lists) { return lists.size() == 1; }, "no dimensions of a torus",
     "whole numbers from 1 with commas between them, as in \"4,4\""},
    {"FAT_TREE", is_fat_tree, "no fat tree",
     "levels; for each level children; parents; cables to each of them: whole numbers from 1, as in "
     "\"2;4,4;1,2;1,1\""},
    {"DRAGONFLY", is_dragonfly, "no dragonfly",
     "groups,cables;chassis,cables;routers,cables;ports: whole numbers from 1, as in \"4,1;1,1;8,1;4\""}};

void check_places(const PlatformText& xml, const Tag& tag, std::string_view parameters, double places) {
  const auto hosts = hosts_in(tag["radical"].value_or(""));
  if (!hosts || places <= static_cast<double>(*hosts)) return;
  xml.refuse(parameters, fmt::format("topo_parameters=\"{:.60}\": {} places for the {} hosts of radical; "
                                     "allowed: at most as many as there are hosts",
                                     parameters, places, *hosts));
}

/// SimGrid's own dragonfly goes on in chassis 0 once a message has changed its place in a chassis, and reads
/// past the cables of a chassis to find a group that has a higher number than its routers.
void check_ways(const PlatformText& xml, std::string_view parameters, const Lists& lists) {
  const double groups = lists[0][0], chassis = lists[1][0], routers = lists[2][0];
  if (chassis == 1 && groups <= routers) return;
  xml.refuse(
      parameters,
      fmt::format("SimGrid finds wrong ways through a dragonfly of {} groups, {} chassis and {} routers; "
                  "allowed: 1 chassis and at least as many routers as groups, or \"topology\": "
                  "\"dragonfly\" of cluster.network, without a platform",
                  groups, chassis, routers));
}

}  // namespace

std::optional<int> take_number(std::string_view& text) {
  constexpr int kMost = std::numeric_limits<int>::max() - 1;  // SimGrid counts one further
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number > kMost) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

/// SimGrid says only "stoi" of what it cannot read, and makes a host of each number before it looks further.
void check_radical(const PlatformText& xml, std::string_view radical) {
  const std::optional<std::int64_t> hosts = hosts_in(radical);
  if (hosts && *hosts <= kHostsMax) return;
  xml.refuse(radical,
             fmt::format("radical=\"{:.60}\": {}; allowed: numbers and ranges of 0 to 2147483646, as in "
                         "\"0-15,20\", {} hosts in all",
                         radical, hosts ? fmt::format("{} hosts", *hosts) : "no list of numbers", kHostsMax));
}

/// SimGrid says only "stoi" of what it cannot read, takes "4;4" for 4, and makes what there is no memory for.
void check_topology(const PlatformText& xml, const Tag& tag) {
  const std::string_view topology = tag["topology"].value_or("FLAT");
  if (topology == "FLAT") return;
  const auto* kind = std::ranges::find(kKinds, topology, &Kind::topology);
  if (kind == std::end(kKinds)) {
    const std::vector<std::string> known = {"FLAT", "TORUS", "FAT_TREE", "DRAGONFLY"};
    xml.refuse(topology, fmt::format("topology=\"{:.60}\": unknown; allowed: {}{}", topology,
                                     fmt::join(known, ", "), did_you_mean(topology, known)));
  }
  const std::optional<std::string_view> given = tag["topo_parameters"];
  const std::string_view parameters = given.value_or(""), place = given.value_or(tag.name);
  const Lists lists = lists_in(parameters);
  if (lists.empty() || !kind->is_right(lists)) {
    xml.refuse(place, fmt::format("topo_parameters=\"{:.60}\": {}; allowed: {}", parameters, kind->what,
                                  kind->allowed));
  }
  if (topology == "TORUS") check_places(xml, tag, place, product(lists[0]));
  if (topology == "DRAGONFLY") {
    check_ways(xml, place, lists);
    check_places(xml, tag, place, lists[0][0] * lists[1][0] * lists[2][0] * lists[3][0]);
  }
  if (topology == "FAT_TREE") {
    check_places(xml, tag, place, product(lists[1]));
    if (cables_of_fat_tree(lists) > kCablesMost) {
      xml.refuse(place, fmt::format("topo_parameters=\"{:.60}\": more than {} cables; allowed: up to {}",
                                    parameters, kCablesMost, kCablesMost));
    }
  }
}

}  // namespace verbtwin::sim
