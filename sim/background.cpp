#include "sim/background.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "backend/user_error.hpp"
#include "models/wqe.hpp"

namespace verbtwin::sim {

namespace {

/// Of the stream of random numbers: no other has it.
constexpr std::uint64_t kStream = 0xBAC6'0000;

}  // namespace

Background::Background(Calendar& calendar, Fabric& fabric, std::vector<Port*> ports,
                       std::uint32_t nics_per_node, const models::NicProfile& profile, double gbps,
                       std::uint64_t seed)
    : calendar_(calendar),
      handler_(calendar.add_handler(*this)),
      fabric_(fabric),
      ports_(std::move(ports)),
      nics_per_node_(nics_per_node),
      mtu_b_(static_cast<std::uint32_t>(profile.mtu_b)),
      wire_b_(models::message_bytes(mtu_b_, models::kRethBytes, mtu_b_,
                                    static_cast<std::uint32_t>(profile.wire_header_b))),
      mean_gap_ps_(wire_b_ * 8000.0 / gbps),
      random_(seed, kStream) {
  if (const double most = std::min(slots_carry_gbps(profile), links_carry_gbps()); gbps >= most) {
    throw UserError("/cluster/network/background_gbps",
                    fmt::format("out of range: {:g}; allowed: less than {:.4g}, which is what PCIe and every "
                                "link carry of all ports",
                                gbps, most));
  }
  for (std::uint32_t port = 0; port < ports_.size(); ++port) schedule_next(port);
}

/// A port's packet goes out through its slot, and another one comes in.
double Background::slots_carry_gbps(const models::NicProfile& profile) const {
  models::Pcie slot(profile);
  slot.dma_read({}, mtu_b_);
  slot.dma_write({}, mtu_b_);
  const std::int64_t busy_ps = std::max({slot.up().busy_ps(), slot.down().busy_ps(), slot.tags().busy_ps()});
  return wire_b_ * 8000.0 / static_cast<double>(busy_ps);
}

/// Of all ports together each link carries its part.
double Background::links_carry_gbps() const {
  const auto ports = static_cast<std::uint32_t>(ports_.size());
  const std::uint32_t others = ports / nics_per_node_ - 1;
  std::vector<std::uint32_t> pairs(fabric_.links());  // of ports, whose packets cross a link
  for (std::uint32_t from = 0; from < ports; ++from) {
    for (std::uint32_t other = 1; other <= others; ++other) {
      const std::uint32_t to = (from + nics_per_node_ * other) % ports;
      for (const std::uint32_t link :
           fabric_.links_of(fabric_.path(ports_[from]->endpoint, ports_[to]->endpoint)))
        ++pairs[link];
    }
  }
  double most = std::numeric_limits<double>::infinity();
  for (std::size_t link = 0; link < pairs.size(); ++link) {
    const double of_one_port = fabric_.is_shared(link) ? static_cast<double>(pairs[link]) / others : 1;
    if (pairs[link] > 0) most = std::min(most, fabric_.gbps(link) / of_one_port);
  }
  return most;
}

/// Events of ports, and behind these of packets that have stopped.
void Background::handle(std::uint32_t index) {
  const auto ports = static_cast<std::uint32_t>(ports_.size());
  if (index >= ports) {
    const std::uint32_t place = index - ports;
    free_places_.push_back(place);
    cross(packets_[place]);
  } else if (!stopped_) {
    send(index);
    schedule_next(index);
  }
}

void Background::send(std::uint32_t from) {
  ++packets_sent_;
  Port& port = *ports_[from];
  const std::uint32_t to = pick_other(from);
  const models::Moment fetched = port.nic.pcie().dma_read({calendar_.now_ps()}, mtu_b_).done;
  const Packet packet{fabric_.path(port.endpoint, ports_[to]->endpoint), fetched, 0, to};
  // Behind a slot that is behind, a link would be told too far ahead, as of any message.
  const std::int64_t told_ps = fetched.queue_ps - Fabric::kAheadOfQueuesMaxPs;
  told_ps > calendar_.now_ps() ? cross_later(packet, told_ps) : cross(packet);
}

void Background::cross(Packet packet) {
  const std::int64_t now_ps = calendar_.now_ps();
  const Fabric::Crossing crossing =
      fabric_.cross(packet.path, wire_b_, packet.at, {}, now_ps, packet.links_crossed);
  if (crossing.links == packet.path.count) {
    ports_[packet.to]->nic.pcie().dma_write(crossing.there, mtu_b_);
    return;
  }
  const std::int64_t goes_on_ps = fabric_.put_off(packet.path, crossing.links, crossing.there, now_ps);
  const std::int64_t queue_ps = std::max(crossing.there.queue_ps, goes_on_ps);
  packet.at = {queue_ps, std::max<std::int64_t>(0, crossing.there.at() - queue_ps)};
  packet.links_crossed = crossing.links;
  cross_later(packet, goes_on_ps);
}

void Background::cross_later(const Packet& packet, std::int64_t at_ps) {
  std::uint32_t place = static_cast<std::uint32_t>(packets_.size());
  if (free_places_.empty()) {
    packets_.push_back(packet);
  } else {
    place = free_places_.back();
    free_places_.pop_back();
    packets_[place] = packet;
  }
  calendar_.schedule(at_ps, handler_, static_cast<std::uint32_t>(ports_.size()) + place);
}

/// Between half of the mean and one and a half times it: the ports keep no step.
void Background::schedule_next(std::uint32_t port) {
  const double share = 0.5 + static_cast<double>(random_()) / 4294967296.0;
  calendar_.schedule(calendar_.now_ps() + std::llround(mean_gap_ps_ * share), handler_, port);
}

/// A port of another machine: all NICs have the same number of it.
std::uint32_t Background::pick_other(std::uint32_t port) {
  const auto ports = static_cast<std::uint32_t>(ports_.size());
  const std::uint32_t others = ports / nics_per_node_ - 1;
  return (port + nics_per_node_ * (1 + random_(others))) % ports;
}

}  // namespace verbtwin::sim
