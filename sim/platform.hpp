// Platform: the cluster's network as SimGrid knows it: hosts, links and routes, and links that change while
// it runs.
//
// SimGrid owns the network; a Platform is our numbered view of it. SimGrid's engine is one per process, so at
// most one Platform exists at a time, but any number may follow one another: each starts with SimGrid's clock
// at 0 and nothing left over. The exception: SimGrid 3.32 cannot forget the events of a profile, so nothing
// may follow a platform that has profiles (UserError). Created and used by the one thread of its simulation.
//
// An endpoint is a port that messages leave and enter by: in a star every NIC of every node, in a user's
// SimGrid XML every host (the NICs of a node share its host's links). Bandwidths are in bytes/s, latencies in
// integer picoseconds.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include <simgrid/forward.h>

namespace verbtwin::sim {

struct LinkInfo {
  std::string name;
  double bandwidth_bytes_per_s = 0;
  std::int64_t latency_ps = 0;
  bool on = true;
  bool is_shared = true;     // false: messages do not share its bandwidth (FATPIPE)
  bool is_loopback = false;  // SimGrid's own, from each host to itself
};

struct StarParameters {
  int nodes = 1;
  int nics_per_node = 1;
  double link_gbps = 100;
  std::int64_t cable_ps = 0;
  std::int64_t switch_ps = 0;
};

/// Two levels: leaf switches with `leaf_ports` NIC ports each, and one cable from every leaf to every spine.
struct FatTree {
  int leaf_ports = 32;
  int spines = 16;
};

/// A port at each place of a grid that closes on itself, with a router of its own and a cable to either
/// neighbour in each dimension; ports fill the first dimension first.
struct Torus {
  std::vector<int> dimensions;
};

/// Cray's Cascade (Faanes et al., SC 2012): in a chassis every router has a cable to every other, in a group
/// to the routers in its place in the other chassis; groups are joined pair by pair, by `group_cables` that
/// one router of each holds, the n-th of a group those to group n: at most as many groups as a group has
/// routers.
struct Dragonfly {
  int groups = 1, chassis = 1, routers = 1;  // in all, in a group, in a chassis
  int router_ports = 1;
  int group_cables = 1;
};

/// What stands between the ports; none: one switch.
using Topology = std::variant<std::monostate, FatTree, Torus, Dragonfly>;

class Platform {
 public:
  /// One switch. A NIC's up-link has the cable's latency, its down-link the switch's and the cable's.
  static std::unique_ptr<Platform> star(const StarParameters& parameters);

  /// D-mod-k routing: the target decides which spine. From leaf to leaf in four links, within a leaf in two.
  /// Every link out of a switch has that switch's latency and the cable's.
  static std::unique_ptr<Platform> fat_tree(const StarParameters& ports, const FatTree& tree);

  /// SimGrid's torus with its routing, one dimension after the other. Every hop takes the cable's latency and
  /// that of the router behind it. What a port sends and what passes by share its router's links; between
  /// port and router there is a link without latency, of the port's rate, each way, which SimGrid does not
  /// know (scenarios refuse network.model = simgrid there: a port would send as fast as all of its router's
  /// cables).
  static std::unique_ptr<Platform> torus(const StarParameters& ports, const Torus& torus);

  /// A dragonfly with minimal routing: at most one cable between groups on the way, and two in
  /// each. Latencies are a fat tree's.
  static std::unique_ptr<Platform> dragonfly(const StarParameters& ports, const Dragonfly& shape);

  /// A user's SimGrid platform: its hosts, in file order, become the nodes. Throws UserError, on one line,
  /// for anything SimGrid cannot load, for too few hosts, for nodes that no route connects, and for links and
  /// profiles that are none (platform_file.hpp). So does a profile, later, when it turns a node's host off or
  /// gives a link such a bandwidth: while SimGrid runs.
  static std::unique_ptr<Platform> from_xml(const std::filesystem::path& file, int nodes);

  ~Platform();
  Platform(const Platform&) = delete;
  Platform& operator=(const Platform&) = delete;

  int endpoints() const { return static_cast<int>(hosts_.size()); }
  int endpoint(int node, int nic) const;
  simgrid::s4u::Host* host(int endpoint) const { return hosts_[static_cast<std::size_t>(endpoint)]; }

  /// Whether SimGrid may have events of its own.
  bool has_profiles() const { return has_profiles_; }

  std::size_t links() const { return links_.size(); }
  const LinkInfo& link(std::uint32_t index) const { return links_[index]; }

  /// Indices of links, in the order a message crosses them. Empty from an endpoint to itself. Asks SimGrid
  /// (under a microsecond in a star): look a pair up once, keep it.
  std::vector<std::uint32_t> route(int from_endpoint, int to_endpoint) const;

  /// `changed` is called after link(index) has changed its bandwidth or its state, by a profile in the XML
  /// (or by SimGrid's own calls). SimGrid announces no change of latency: from_xml() refuses profiles of it.
  void on_link_change(std::function<void(std::uint32_t link)> changed) { changed_ = std::move(changed); }

  /// For the Clock. SimGrid announces a change when its own clock passes it; `announced` is called then, and
  /// apply_next_change() once the simulation gets there. Without it a change applies at once.
  void on_change_announced(std::function<void()> announced) { announced_ = std::move(announced); }
  void apply_next_change();

 private:
  struct LinkChange {
    std::uint32_t link;
    double bandwidth_bytes_per_s;
    bool on;
  };
  class EngineScope;

  Platform();
  template <typename MakeZone>
  static std::unique_ptr<Platform> of_switches(const StarParameters& ports, const MakeZone& make_zone);
  void finish(std::vector<simgrid::s4u::Host*> hosts, int endpoints_per_node);
  void add_ports(double bandwidth_bytes_per_s);
  void announce(const simgrid::s4u::Link& link);
  void check(const simgrid::s4u::Host& host) const;
  static void connect_signals();

  std::unique_ptr<EngineScope> engine_;
  std::vector<simgrid::s4u::Host*> hosts_;  // by endpoint
  int endpoints_per_node_ = 1;
  std::uint32_t first_port_ = 0;  // the link out of endpoint 0, behind it the one in; 0: hosts have their own
  bool has_profiles_ = false;
  std::vector<LinkInfo> links_;
  std::unordered_map<const simgrid::s4u::Link*, std::uint32_t> link_index_;  // looked up, never iterated
  std::deque<LinkChange> changes_;  // announced, not yet applied; in order of time
  std::function<void(std::uint32_t)> changed_;
  std::function<void()> announced_;
};

}  // namespace verbtwin::sim
