// Fabric: messages between NIC ports over SimGrid's links, each link a FIFO server with its bandwidth and
// latency.
//
// Cut-through: a message's head goes on as soon as a link takes it, so its bytes count once on an idle path.
// Queues at a link's entrance are where incast shows. Nothing is dropped and nothing holds back the sender
// (queues are endless): lossless fabrics push back instead, which shifts where a message waits, not how long.
//
// Owned by the Cluster; one thread. Times in picoseconds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/server.hpp"
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
  explicit Fabric(Platform& platform);

  Path path(int from_endpoint, int to_endpoint);

  struct Crossing {
    models::Moment left;   // when the last byte has left the sender's port
    models::Moment there;  // when it is at the far end
  };

  /// Sends `bytes` along a path from its entrance.
  Crossing cross(Path path, std::uint32_t bytes, models::Moment head) {
    models::Moment tail = head, left = head;
    for (std::uint32_t hop = 0; hop < path.count; ++hop) {
      Link& l = links_[path_links_[path.first + hop]];
      const std::int64_t service_ps = l.service_ps(bytes);
      // Cut-through: the head goes on before the tail is there, and a faster link still waits for the tail.
      const std::int64_t entered_ps = tail.at();
      tail = l.serve(head, service_ps);
      if (hop == 0) left = tail;
      tail = tail.plus_delay(l.latency_ps);
      if (hop > 0) tail = tail.not_before(entered_ps + l.latency_ps);
      head = {tail.queue_ps - service_ps, tail.delay_ps, tail.held_ps};
    }
    return {left, tail};
  }
  /// The same for a message that nobody waits for.
  void cross_quietly(Path path, std::uint32_t bytes) {
    for (std::uint32_t hop = 0; hop < path.count; ++hop) {
      Link& l = links_[path_links_[path.first + hop]];
      l.server.owe(l.service_ps(bytes));
    }
  }

  std::size_t links() const { return links_.size(); }
  std::int64_t link_busy_ps(std::size_t link) const { return links_[link].server.busy_ps(); }

 private:
  struct Link {
    models::Server server;
    double ps_per_byte;
    std::int64_t latency_ps;
    bool is_shared;

    /// Messages do not wait for each other on a link that is not shared (SimGrid's FATPIPE).
    models::Moment serve(models::Moment head, std::int64_t service_ps) {
      if (is_shared) return server.serve(head, service_ps);
      server.owe(service_ps);
      return {head.queue_ps + service_ps, head.delay_ps, head.held_ps};
    }
    std::int64_t service_ps(std::uint32_t bytes) const {
      return static_cast<std::int64_t>(static_cast<double>(bytes) * ps_per_byte);
    }
  };
  void update(std::uint32_t link);

  Platform& platform_;
  std::vector<Link> links_;
  std::vector<std::uint32_t> path_links_;
  std::vector<std::vector<Path>> paths_;  // by from, then to; a row is made when its port first sends
};

}  // namespace verbtwin::sim
