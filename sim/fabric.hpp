// Fabric: messages between NIC ports over SimGrid's links, each link a FIFO server with its bandwidth and
// latency.
//
// Cut-through: a message's head goes on as soon as a link takes it, so its bytes count once on an idle path.
// Queues at a link's entrance are where incast shows. Nothing is dropped. Queues are endless, and lossless
// fabrics push back instead: that shifts where a message waits, not how long, except for who takes a message
// for sent when it has left the port (UC, UD). So it leaves no earlier than a switch has room for it.
//
// Owned by the Cluster; one thread. Times in picoseconds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "models/server.hpp"
#include "models/wqe.hpp"
#include "sim/platform.hpp"

namespace verbtwin::sim {

/// A cached route: `count` links from `first` in the fabric's list. No links: loopback inside one port.
struct Path {
  static constexpr std::uint16_t kUnknown = 0xFFFF;
  std::uint32_t first = 0;
  std::uint16_t count = kUnknown;
  std::uint16_t from = 0, to = 0;  // endpoints
};

class Fabric {
 public:
  /// A message goes on to the next link at once while it stands in front of that no further ahead than this:
  /// servers behind a long queue, if told of all that is in it, took what comes before it for what comes
  /// behind (models/server.hpp). Not much shorter than what a NIC holds between its stages (some 100 kB at
  /// 100 Gb/s): with 2 us a PCIe slot idled a twentieth of its time beside a link that was full for moments.
  static constexpr std::int64_t kAheadOfQueuesMaxPs = 8'000'000;

  explicit Fabric(Platform& platform);

  Path path(int from_endpoint, int to_endpoint);

  struct Crossing {
    models::Moment left;   // when the last byte has left the sender's port
    models::Moment there;  // when it is at the far end, or in front of the next link
    std::uint32_t links;   // that it has crossed
  };
  static constexpr std::int64_t kWholeWay = std::numeric_limits<std::int64_t>::max();

  /// Sends `bytes`, cut as its payload is, along a path from its link `first`, each packet when it is `ready`
  /// there. It gets as far as can be told at `now_ps`: up to a link that it comes to later, or before which
  /// others wait to be told of (put_off). The first two are always crossed: what ports send is not told
  /// far ahead.
  Crossing cross(Path path, std::uint32_t bytes, models::Moment ready, models::Packets packets = {},
                 std::int64_t now_ps = kWholeWay, std::uint32_t first = 0) {
    models::Moment head = ready.first(), tail = ready, left = first == 0 ? ready : models::Moment{now_ps};
    std::int64_t latency_ps = first == 0 ? 0 : latency_before_ps(path, first), packet_ps = 0;
    double ps_per_byte = 0;
    std::uint32_t hop = first;
    for (; hop < path.count; ++hop) {
      if (hop >= 2 && hop > first && is_later(path, hop, head, now_ps)) break;
      Link& l = links_[path_links_[path.first + hop]];
      const std::int64_t service_ps = l.service_ps(bytes);
      // Cut-through: the head goes on before the tail is there, and a faster link still waits for the tail. A
      // NIC hands on whole packets.
      packet_ps = packets.each_ps(service_ps);
      l.packet_ps = std::max<std::int64_t>(1, packet_ps);
      const std::int64_t entered_ps = tail.at() + (hop == 0 ? packet_ps : 0);
      tail = l.serve(head, service_ps);
      head = models::Moment{tail.queue_ps - service_ps, tail.delay_ps, tail.held_ps}.plus_delay(l.latency_ps);
      tail = tail.not_before(entered_ps);
      if (hop == 0) left = tail;
      latency_ps += l.latency_ps;
      ps_per_byte = l.ps_per_byte;
      tail = tail.plus_delay(l.latency_ps);
    }
    const auto room_ps =
        static_cast<std::int64_t>(models::kCreditBlocks * models::kCreditBlockBytes * ps_per_byte);
    left = left.not_before(tail.at() - latency_ps - room_ps);
    if (hop < path.count) {
      const std::int64_t spread_ps = std::max<std::int64_t>(0, tail.at() - head.at());
      return {left, {head.queue_ps + spread_ps, head.delay_ps, head.held_ps, spread_ps}, hop};
    }
    tail.spread_ps = packets.is_one() ? 0 : std::max<std::int64_t>(0, tail.at() - head.at() - packet_ps);
    return {left, tail, hop};
  }
  /// What carries no payload (an ACK, the request of a READ) takes its time from the links and waits there
  /// for others of its kind and for the rest of one packet: packets take turns, so that it does not wait for
  /// all the messages in front of it. (Behind those it also met some that come after it: they are told of up
  /// to a microsecond before they stand there.) But of a link that is full it gets half and no more: else
  /// requests of small READs held up the answers, and of machines that READ each other who asked most was
  /// asked least.
  Crossing slip_through(Path path, std::uint32_t bytes, models::Moment ready) {
    std::int64_t latency_ps = 0, slowest_ps = 0;
    models::Moment left = ready;
    for (std::uint32_t hop = 0; hop < path.count; ++hop) {
      Link& l = links_[path_links_[path.first + hop]];
      const std::int64_t service_ps = l.service_ps(bytes);
      if (l.is_shared) ready.queue_ps = l.place_of_slip_ps(ready, service_ps);
      l.server.owe(service_ps);
      if (hop == 0) left = ready.plus_delay(service_ps);
      slowest_ps = std::max(slowest_ps, service_ps);
      latency_ps += l.latency_ps;
    }
    return {left, ready.plus_delay(latency_ps + slowest_ps), path.count};
  }
  /// When a message that stopped behind `crossed` links goes on: in the order in which they left the last.
  std::int64_t put_off(Path path, std::uint32_t crossed, models::Moment there, std::int64_t now_ps) {
    Link& l = links_[path_links_[path.first + crossed - 1]];
    l.put_off_ps = std::max({now_ps, l.put_off_ps, there.first().queue_ps - kAheadOfQueuesMaxPs});
    return l.put_off_ps;
  }
  /// The first link alone: when the last byte has left the sender's port.
  models::Moment leave(Path path, std::uint32_t bytes, models::Moment ready, models::Packets packets) {
    if (path.count == 0) return ready;
    Link& l = links_[path_links_[path.first]];
    const std::int64_t service_ps = l.service_ps(bytes);
    return l.serve(ready.first(), service_ps).not_before(ready.at() + packets.each_ps(service_ps));
  }
  /// All links, or those behind the first ones, for a message that nobody waits for.
  void cross_quietly(Path path, std::uint32_t bytes, std::uint32_t behind = 0) {
    for (std::uint32_t hop = behind; hop < path.count; ++hop) {
      Link& l = links_[path_links_[path.first + hop]];
      l.server.owe(l.service_ps(bytes));
    }
  }

  /// Of a small message that meets no other, without what its bytes take.
  std::int64_t latency_ps(Path path) const { return latency_before_ps(path, path.count); }
  /// Of the slowest link; of no link: no bound.
  double slowest_gbps(Path path) const;

  std::size_t links() const { return links_.size(); }
  std::span<const std::uint32_t> links_of(Path path) const {
    return std::span(path_links_).subspan(path.first, path.count);
  }
  /// As they are now; of a link that its users do not share: what each of them has.
  double gbps(std::size_t link) const { return 8000 / links_[link].ps_per_byte; }
  bool is_shared(std::size_t link) const { return links_[link].is_shared; }
  std::int64_t link_done_ps(std::size_t link, std::int64_t at_ps) const {
    return links_[link].server.done_ps(at_ps);
  }

 private:
  struct Link {
    // All that crosses it; of that, what slips through; and that at half of the link.
    models::Server server, slips, slips_in_turn;
    double ps_per_byte;
    std::int64_t latency_ps;
    std::int64_t packet_ps = 1;  // of the last message with payload
    bool is_shared;
    std::int64_t put_off_ps = -1;  // when the last that was put off behind it goes on

    /// Messages do not wait for each other on a link that is not shared (SimGrid's FATPIPE).
    models::Moment serve(models::Moment head, std::int64_t service_ps) {
      if (is_shared) return server.serve(head, service_ps);
      server.owe(service_ps);
      return {head.queue_ps + service_ps, head.delay_ps, head.held_ps};
    }
    /// When its first byte goes.
    std::int64_t place_of_slip_ps(models::Moment ready, std::int64_t service_ps) {
      const std::int64_t wait_ps = server.wait_ps(ready);
      const std::int64_t in_turn_ps = slips_in_turn.serve(ready, 2 * service_ps).queue_ps - service_ps;
      const std::int64_t latest_ps = std::min(ready.queue_ps + wait_ps, in_turn_ps - kAheadOfQueuesMaxPs);
      // As if all in front of it were of that length.
      ready.queue_ps += wait_ps < packet_ps ? wait_ps : wait_ps % packet_ps;
      return std::max(slips.serve(ready.whole(), service_ps).queue_ps - service_ps, latest_ps);
    }
    std::int64_t service_ps(std::uint32_t bytes) const {
      return static_cast<std::int64_t>(static_cast<double>(bytes) * ps_per_byte);
    }
  };
  bool is_later(Path path, std::uint32_t hop, const models::Moment& head, std::int64_t now_ps) const {
    const Link& before = links_[path_links_[path.first + hop - 1]];
    return head.queue_ps - kAheadOfQueuesMaxPs > now_ps || before.put_off_ps >= now_ps;
  }
  std::int64_t latency_before_ps(Path path, std::uint32_t hop) const;
  void update(std::uint32_t link);

  Platform& platform_;
  std::vector<Link> links_;
  std::vector<std::uint32_t> path_links_;
  std::vector<std::vector<Path>> paths_;  // by from, then to; a row is made when its port first sends
};

}  // namespace verbtwin::sim
