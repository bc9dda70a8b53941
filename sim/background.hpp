// Background: what others send through the cluster's NIC ports, at a given rate and whatever the workers do.
//
// It stands for what shares machines and links with them (storage, replication, another job). Every port
// sends packets of the MTU to ports of other machines at random, so that as much comes to each. A packet
// takes its time from PCIe at both ends and from every link between, where it queues among those of the
// workers. It takes nothing of the NICs' engines and caches: long packets are few.
//
// Owned by the Cluster; one thread. Times in picoseconds.
//
// Chosen: a packet at a time in our calendar, an event each. Not taken: flows of SimGrid's, whose share would
// be taken from the rates of links (a fluid: nobody waits behind a packet, which is what small requests do),
// and WRITEs over queue pairs of their own (cores to post them, contexts that others then miss).
#pragma once

#include <cstdint>
#include <vector>

#include <pcg_random.hpp>

#include "sim/calendar.hpp"
#include "sim/device.hpp"
#include "sim/fabric.hpp"

namespace verbtwin::sim {

class Background final : private EventHandler {
 public:
  /// `ports` of two machines or more, by machine, then by NIC; not owned. `gbps`: of each port, headers
  /// included. Throws UserError where a link or a slot cannot carry that.
  Background(Calendar& calendar, Fabric& fabric, std::vector<Port*> ports, std::uint32_t nics_per_node,
             const models::NicProfile& profile, double gbps, std::uint64_t seed);

  /// From now on no packet begins: a calendar that it fills would never be empty.
  void stop() { stopped_ = true; }
  std::uint64_t packets_sent() const { return packets_sent_; }

 private:
  /// Ready for a link of its path.
  struct Packet {
    Path path;
    models::Moment at;
    std::uint32_t links_crossed;
    std::uint32_t to;  // a port's number
  };

  double slots_carry_gbps(const models::NicProfile& profile) const;
  double links_carry_gbps() const;
  void handle(std::uint32_t index) override;
  void send(std::uint32_t from);
  void cross(Packet packet);
  void cross_later(const Packet& packet, std::int64_t at_ps);
  void schedule_next(std::uint32_t port);
  std::uint32_t pick_other(std::uint32_t port);

  Calendar& calendar_;
  Calendar::HandlerId handler_;
  Fabric& fabric_;
  std::vector<Port*> ports_;
  std::uint32_t nics_per_node_, mtu_b_, wire_b_;
  double mean_gap_ps_;
  pcg32 random_;
  std::vector<Packet> packets_;  // that stand in front of a link, told of later (Fabric::cross)
  std::vector<std::uint32_t> free_places_;
  std::uint64_t packets_sent_ = 0;
  bool stopped_ = false;
};

}  // namespace verbtwin::sim
