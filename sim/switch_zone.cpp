#include "sim/switch_zone.hpp"

#include <cassert>
#include <utility>

#include <fmt/format.h>
#include <simgrid/kernel/routing/NetPoint.hpp>
#include <simgrid/s4u.hpp>

namespace verbtwin::sim {

namespace s4u = simgrid::s4u;
using simgrid::kernel::routing::NetPoint;

namespace {

double seconds(std::int64_t ps) {
  return static_cast<double>(ps) / 1e12;
}

}  // namespace

SwitchZone::SwitchZone(const StarParameters& ports, int places, Way way)
    : NetZoneImpl("switches"),
      bandwidth_bytes_per_s_(ports.link_gbps * 1e9 / 8),
      hop_s_(seconds(ports.switch_ps + ports.cable_ps)),
      way_(std::move(way)) {
  for (int place = 0; place < places; ++place) {
    // No switch stands before it.
    up_.push_back(create(fmt::format("port-{}-up", place), bandwidth_bytes_per_s_, seconds(ports.cable_ps)));
    down_.push_back(create(fmt::format("port-{}-down", place), bandwidth_bytes_per_s_, hop_s_));
  }
}

void SwitchZone::join(int a, int b, int cables) {
  for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
    cables_[cable_key(from, to)] =
        create(fmt::format("switch-{}-to-{}", from, to), cables * bandwidth_bytes_per_s_, hop_s_);
  }
}

std::vector<s4u::Host*> SwitchZone::create_hosts(int endpoints, double flops) {
  assert(static_cast<std::size_t>(endpoints) <= up_.size());
  std::vector<s4u::Host*> hosts;
  for (int place = 0; place < endpoints; ++place)
    hosts.push_back(get_iface()->create_host(fmt::format("port-{}", place), flops)->seal());
  return hosts;
}

/// A host's number in the zone is its place: it has nothing but hosts.
void SwitchZone::get_local_route(const NetPoint* from, const NetPoint* to,
                                 simgrid::kernel::routing::Route* into, double* latency_s) {
  const auto take = [&](const s4u::Link* link) {
    into->link_list_.push_back(link->get_impl());
    if (latency_s != nullptr) *latency_s += link->get_latency();
  };
  const std::vector<int> way = way_(static_cast<int>(from->id()), static_cast<int>(to->id()));
  take(up_[from->id()]);
  for (std::size_t hop = 1; hop < way.size(); ++hop) take(cables_.at(cable_key(way[hop - 1], way[hop])));
  take(down_[to->id()]);
}

s4u::Link* SwitchZone::create(const std::string& name, double bandwidth_bytes_per_s, double latency_s) {
  return get_iface()->create_link(name, bandwidth_bytes_per_s)->set_latency(latency_s)->seal();
}

std::uint64_t SwitchZone::cable_key(int from, int to) {
  return std::uint64_t{static_cast<std::uint32_t>(from)} << 32 | static_cast<std::uint32_t>(to);
}

/// Leaves have the first numbers, spines those behind.
SwitchZone* create_fat_tree(const StarParameters& ports, const FatTree& tree) {
  assert(tree.leaf_ports > 0 && tree.spines > 0);
  const int leaves = (ports.nodes * ports.nics_per_node + tree.leaf_ports - 1) / tree.leaf_ports;
  const auto way = [tree, leaves](int from, int to) -> std::vector<int> {
    const int from_leaf = from / tree.leaf_ports, to_leaf = to / tree.leaf_ports;
    if (from_leaf == to_leaf) return {from_leaf};
    return {from_leaf, leaves + to % tree.spines, to_leaf};
  };
  auto* zone = new SwitchZone(ports, leaves * tree.leaf_ports, way);
  for (int leaf = 0; leaf < leaves; ++leaf)
    for (int spine = 0; spine < tree.spines; ++spine) zone->join(leaf, leaves + spine);
  return zone;
}

namespace {

/// Which router of a dragonfly stands where.
struct Routers {
  struct At {
    int group, chassis, blade;
  };
  Dragonfly shape;

  At of_place(int place) const {
    const int router = place / shape.router_ports, chassis = router / shape.routers;
    return {chassis / shape.chassis, chassis % shape.chassis, router % shape.routers};
  }
  int number(const At& at) const {
    return (at.group * shape.chassis + at.chassis) * shape.routers + at.blade;
  }
  /// The one of `group` that holds the cables to `other`.
  At gate(int group, int other) const { return {group, other / shape.routers, other % shape.routers}; }

  /// Minimal: to the gate of the group, to the other group's, and from there; in a group along the chassis
  /// first.
  std::vector<int> way(int from_place, int to_place) const {
    At at = of_place(from_place);
    std::vector<int> way{number(at)};
    const auto go_to = [&](const At& next) {
      if (number(next) != way.back()) way.push_back(number(next));
      at = next;
    };
    const auto cross_group = [&](const At& end) {
      go_to({at.group, at.chassis, end.blade});
      go_to(end);
    };
    const At end = of_place(to_place);
    if (at.group != end.group) {
      cross_group(gate(at.group, end.group));
      go_to(gate(end.group, at.group));
    }
    cross_group(end);
    return way;
  }
};

}  // namespace

SwitchZone* create_dragonfly(const StarParameters& ports, const Dragonfly& d) {
  assert(d.groups <= d.chassis * d.routers && "a router holds the cables to one other group");
  const Routers routers{d};
  const auto way = [routers](int from, int to) { return routers.way(from, to); };
  auto* zone = new SwitchZone(ports, d.groups * d.chassis * d.routers * d.router_ports, way);
  for (int group = 0; group < d.groups; ++group) {
    for (int chassis = 0; chassis < d.chassis; ++chassis) {
      for (int blade = 0; blade < d.routers; ++blade) {
        const int router = routers.number({group, chassis, blade});
        for (int next = blade + 1; next < d.routers; ++next)
          zone->join(router, routers.number({group, chassis, next}));
        for (int next = chassis + 1; next < d.chassis; ++next)
          zone->join(router, routers.number({group, next, blade}));
      }
    }
    for (int next = group + 1; next < d.groups; ++next)
      zone->join(routers.number(routers.gate(group, next)), routers.number(routers.gate(next, group)),
                 d.group_cables);
  }
  return zone;
}

}  // namespace verbtwin::sim
