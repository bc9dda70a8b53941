// PortChoice and Context: which port of which device a run uses, and one opened context with its protection
// domain.
//
// A Context belongs to one worker thread, as everything made from it: fast systems open the device once per
// thread, so that each has doorbell registers and locks of its own (reference: ibv_open_device(3); FaSST,
// OSDI 2016, section 4). What cannot be opened throws UserError, naming what there is.
#pragma once

#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/ibverbs/fabric.hpp"
#include "backend/verbs.hpp"

namespace verbtwin::ibverbs {

/// What the user asked for; what is left open is chosen: the device with the fastest active port, that port,
/// and a GID that routes (RoCE v2 over IPv4 before other RoCE v2 before the rest), of several over IPv4 one
/// in a network that the other ranks are in too.
struct PortChoice {
  std::string device;  // empty: chosen
  int port = 0;        // 0: chosen
  int gid_index = -1;  // -1: chosen
  std::uint8_t sl = 0, traffic_class = 0;
};

/// Frees what a call of libibverbs gave, by its counterpart.
template <auto kFree>
struct Freer {
  void operator()(auto* object) const { kFree(object); }
};

/// For reports.
struct PortDescription {
  std::string device;
  std::string firmware;
  std::string link_layer;  // "Ethernet" or "InfiniBand"
  std::string gid;         // as an IPv6 address
  int port = 0;
  int gid_index = 0;
  int sl = 0, traffic_class = 0;
  Fabric fabric;
  double link_gbps = 0;  // of data; 0: not known
  double pcie_gbps = 0;  // of its slot, raw; likewise
  std::uint32_t mtu = 0;
  std::uint32_t inline_b = 0;  // Cluster::descriptions(): what a request carries inline, as was tried out
  bool atomics = false;        // CAS and FAA
};

/// What a link carries of data; 0: of a kind that is not known here. `rate`: what the kernel says of it in
/// words ("400 Gb/sec (4X NDR)"), which goes further than the numbers of libibverbs.
double data_gbps(const ibv_port_attr& port, const std::string& rate = "");

/// What a PCIe slot carries each way once it is taken from its lines' code, by what the kernel says of it
/// ("8.0 GT/s PCIe", "16"); 0: it does not say.
double slot_gbps(const std::string& speed, const std::string& width);

class Context {
 public:
  explicit Context(const PortChoice& choice);

  ibv_context* context() const { return context_.get(); }
  ibv_pd* pd() const { return pd_.get(); }
  const ibv_device_attr& device_attributes() const { return device_attributes_; }
  const ibv_port_attr& port_attributes() const { return port_attributes_; }
  const ibv_gid& gid() const { return gid_; }
  std::uint8_t port() const { return port_; }
  std::uint8_t gid_index() const { return gid_index_; }
  std::uint16_t pkey_index() const { return pkey_index_; }
  /// The port's, as far as they are there; one of them is in use: at first the first with full membership.
  const PKeyTable& pkeys() const { return pkeys_; }
  /// One that the port is in. Queue pairs that are connected keep theirs.
  void use_partition(std::uint16_t partition);
  /// Where several GIDs are as good as the one in use, and none was asked for: the networks that they are in.
  const std::vector<Subnet>& subnets() const { return subnets_; }
  /// The GID in one of them.
  void use_subnet(Subnet subnet);
  /// What the other end's port must have in common with this one.
  const Fabric& fabric() const { return fabric_; }
  std::uint8_t sl() const { return sl_; }
  std::uint8_t traffic_class() const { return traffic_class_; }
  bool is_roce() const { return port_attributes_.link_layer == IBV_LINK_LAYER_ETHERNET; }
  /// RoCE does always, InfiniBand where the port says so or the user has chosen a GID or a traffic class,
  /// which has its place in that header.
  bool routes_by_gid() const { return routes_by_gid_; }
  std::uint32_t mtu_b() const { return 128U << port_attributes_.active_mtu; }
  /// What this port and one of `peer_mtu_b` (0: the same) both carry.
  ibv_mtu mtu_with(std::uint32_t peer_mtu_b) const;

  bool has_atomics() const { return device_attributes_.atomic_cap != IBV_ATOMIC_NONE; }

  /// All access (verbs.hpp) that there can be: drivers refuse atomics on devices that have none.
  unsigned access_all() const { return has_atomics() ? kAccessAll : kAccessAll & ~kAccessRemoteAtomic; }

  /// " from GID ... to GID ... of rank 7", for messages; -1: of which is not known.
  std::string way_to(const QpAddress& peer, int node) const;

  PortDescription description() const;
  /// An event (ibv_get_async_event(3)) after which completions may stay away or be flushed without a cause,
  /// or that the port has been down for a while: datagrams to it vanish. In words with the device's name;
  /// empty: none has come. By one thread, any.
  std::string failed_event(std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now());
  /// The CPUs beside the device, as the kernel lists them; empty: it does not say (soft-RoCE is nowhere).
  std::string near_cpus() const;

 private:
  void choose_port(int wanted);
  void choose_gid(int wanted);
  void choose_pkey();
  void use_pkey(std::size_t index);
  void use_gid(std::size_t index, const ibv_gid& gid);

  std::unique_ptr<ibv_context, Freer<ibv_close_device>> context_;
  std::unique_ptr<ibv_pd, Freer<ibv_dealloc_pd>> pd_;
  ibv_device_attr device_attributes_{};
  ibv_port_attr port_attributes_{};
  ibv_gid gid_{};
  std::uint8_t port_ = 1;
  std::uint8_t gid_index_ = 0;
  std::uint8_t sl_, traffic_class_;
  std::uint16_t pkey_index_ = 0;
  PKeyTable pkeys_;
  std::vector<Subnet> subnets_;
  std::vector<std::pair<std::size_t, ibv_gid>> subnet_gids_;  // by subnet: index and GID
  Fabric fabric_;
  bool routes_by_gid_ = false;
  std::optional<std::chrono::steady_clock::time_point> down_since_;
};

}  // namespace verbtwin::ibverbs
