#include "sim/platform_clusters.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace verbtwin::sim {

namespace {

/// A host's number, as SimGrid reads it; `text` is without it then. None: it is no number, or too large.
std::optional<int> take_number(std::string_view& text) {
  constexpr int kMost = std::numeric_limits<int>::max() - 1;  // SimGrid counts one further
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number > kMost) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

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

}  // namespace

/// SimGrid says only "stoi" of what it cannot read, and makes a host of each number before it looks further.
void check_radical(const PlatformText& xml, std::string_view radical) {
  constexpr std::int64_t kHostsMax = 65536;  // as many ports as the scenario's own topologies may have
  const std::optional<std::int64_t> hosts = hosts_in(radical);
  if (hosts && *hosts <= kHostsMax) return;
  xml.refuse(radical,
             fmt::format("radical=\"{:.60}\": {}; allowed: numbers and ranges of 0 to 2147483646, as in "
                         "\"0-15,20\", {} hosts in all",
                         radical, hosts ? fmt::format("{} hosts", *hosts) : "no list of numbers", kHostsMax));
}

/// SimGrid's own dragonfly goes on in chassis 0 once a message has changed its place in a chassis, and reads
/// past the cables of a chassis to find a group that has a higher number than its routers.
void check_topology(const PlatformText& xml, const Tag& tag) {
  const std::string_view topology = tag["topology"].value_or("");
  const std::string_view parameters = tag["topo_parameters"].value_or("");
  int groups = 0, group_cables = 0, chassis = 0, chassis_cables = 0, routers = 0;
  const int read = std::sscanf(std::string(parameters).c_str(), "%9d , %9d ; %9d , %9d ; %9d", &groups,
                               &group_cables, &chassis, &chassis_cables, &routers);
  if (topology != "DRAGONFLY" || read != 5) return;  // what is wrong with these is SimGrid's to refuse
  if (chassis == 1 && groups <= routers) return;
  xml.refuse(
      parameters.empty() ? tag.name : parameters,
      fmt::format(
          "SimGrid finds wrong ways through a dragonfly of {} groups, {} chassis and {} routers; "
          "allowed: 1 chassis and at least as many routers as groups, or \"topology\": \"dragonfly\" of "
          "cluster.network, without a platform",
          groups, chassis, routers));
}

/// SimGrid says only "stoi" of what it cannot read, and takes "4;4" for 4.
void check_torus(const PlatformText& xml, const Tag& tag) {
  if (tag["topology"].value_or("") != "TORUS") return;
  const std::string_view parameters = tag["topo_parameters"].value_or("");
  for (std::string_view rest = parameters; take_number(rest); rest.remove_prefix(1)) {
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    if (rest.empty()) return;  // what else is wrong with them, SimGrid says
    if (rest[0] != ',') break;
  }
  xml.refuse(parameters.empty() ? tag.name : parameters,
             fmt::format("topo_parameters=\"{:.60}\": no dimensions of a torus; allowed: whole numbers with "
                         "commas between them, as in \"4,4\"",
                         parameters));
}

}  // namespace verbtwin::sim
