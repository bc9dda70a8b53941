// SwitchZone: ports, switches and the cables between them as a zone of SimGrid's, with routes of our own.
//
// Both network models ask it for routes: SimGrid's communications as well as Platform::route().
//
// Not chosen: SimGrid 3.32's own fat tree and dragonfly. A message of its dragonfly goes on in chassis 0 once
// it has changed its place in a chassis: it leaves out a hop, or takes another chassis' cables; and there
// cannot be more groups than a chassis has routers. Which spine of its fat tree a message takes depends on
// the platforms that the process had before, and so do the names of its links.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include <simgrid/forward.h>
#include <simgrid/kernel/routing/NetZoneImpl.hpp>

#include "sim/platform.hpp"

namespace verbtwin::sim {

class SwitchZone final : public simgrid::kernel::routing::NetZoneImpl {
 public:
  /// The switches that a message passes from one place to another, in order.
  using Way = std::function<std::vector<int>(int from_place, int to_place)>;

  /// Every place has its links, whether or not a port is there. SimGrid's engine owns it, as its root.
  SwitchZone(const StarParameters& ports, int places, Way way);

  /// Cables of a port's rate between two switches, each way.
  void join(int a, int b, int cables = 1);

  /// Hosts at the first `endpoints` places.
  std::vector<simgrid::s4u::Host*> create_hosts(int endpoints, double flops);

 private:
  void get_local_route(const simgrid::kernel::routing::NetPoint* from,
                       const simgrid::kernel::routing::NetPoint* to, simgrid::kernel::routing::Route* into,
                       double* latency_s) override;
  simgrid::s4u::Link* create(const std::string& name, double bandwidth_bytes_per_s, double latency_s);
  static std::uint64_t cable_key(int from, int to);

  double bandwidth_bytes_per_s_, hop_s_;
  Way way_;
  std::vector<simgrid::s4u::Link*> up_, down_;                     // by place
  std::unordered_map<std::uint64_t, simgrid::s4u::Link*> cables_;  // looked up, never iterated
};

/// Both return SimGrid's root, with hosts at none of its places.
SwitchZone* create_fat_tree(const StarParameters& ports, const FatTree& tree);
SwitchZone* create_dragonfly(const StarParameters& ports, const Dragonfly& shape);

}  // namespace verbtwin::sim
