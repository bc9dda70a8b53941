#include "scenarios/network_size.hpp"

#include <algorithm>

namespace verbtwin::scenarios {

NetworkSize size_of(const Network& n, std::int64_t ports) {
  if (!n.platform.empty()) return {};
  const auto pairs = [](std::int64_t of) { return of * (of - 1) / 2; };
  if (n.topology == "fat_tree") {
    const std::int64_t leaves = (ports + n.leaf_ports - 1) / n.leaf_ports;
    return {leaves * n.leaf_ports, leaves * n.spines};
  }
  if (n.topology == "torus") {
    constexpr std::int64_t kFar = 1 << 20;  // beyond any that is allowed, and products of it fit
    std::int64_t places = 1, ways = 0;
    for (const int size : n.dimensions) {
      places = std::min<std::int64_t>(places * size, kFar);
      ways += size > 1 ? 1 : 0;
    }
    return {places, places * ways};
  }
  if (n.topology == "dragonfly") {
    const std::int64_t routers = std::int64_t{n.chassis} * n.routers;
    const std::int64_t of_group = n.chassis * pairs(n.routers) + n.routers * pairs(n.chassis);
    return {n.groups * routers * n.router_ports, n.groups * of_group + pairs(n.groups)};
  }
  return {ports, 0};
}

const char* field_of_cables(const Network& n) {
  if (n.topology == "fat_tree") return "/cluster/network/spines";
  if (n.topology == "torus") return "/cluster/network/dimensions";
  return n.chassis > n.routers ? "/cluster/network/chassis" : "/cluster/network/routers";
}

}  // namespace verbtwin::scenarios
