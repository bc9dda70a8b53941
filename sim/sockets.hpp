// SocketNetwork: the kernels of a simulated cluster's nodes, as far as TCP goes: a byte stream between every
// two workers of one index, over the RDMA NICs' links (IPoIB) or over a network of its own (Ethernet: a star
// with a store-and-forward switch).
//
// Owned by the Cluster, which gives each worker its end (Sockets); one thread. Times in picoseconds.
//
// Who pays: the calls and the way out to the NIC (TCP, IP, driver) run on the caller's core. What is received
// is taken by the core of the interrupt vector that the connection is dealt to: from the node's last core
// downwards, so that vectors meet cores without a worker first; a worker's core loses that time, but only
// half of it once interrupts have had it for long (Core). A core whose worker finds nothing to do sleeps, and
// data wakes it as the scheduler would. Streams neither lose nor reorder anything, connections are warm (no
// slow start), and back-pressure is the window: bytes sent and not yet read, with what the reader frees
// reaching the sender one way later.
//
// A packet is two events: it is in memory (interrupt), and it is in the socket's queue.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "backend/cluster.hpp"
#include "backend/sockets.hpp"
#include "models/server.hpp"
#include "models/socket.hpp"
#include "sim/calendar.hpp"
#include "sim/core.hpp"
#include "sim/fabric.hpp"

namespace verbtwin::sim {

class SocketNetwork final : private EventHandler {
 public:
  /// `clock_ghz` and `cores` of each node; `endpoints`: the fabric's, by node, for IPoIB.
  struct Parameters {
    models::SocketProfile profile;
    double clock_ghz = 1;
    int cores = 1;
    std::vector<int> endpoints;
  };
  SocketNetwork(const Parameters& parameters, const ClusterShape& shape, Calendar& calendar, Fabric& fabric,
                const std::vector<std::unique_ptr<Core>>& cores);
  ~SocketNetwork();

  Sockets& of(int node, int thread);

  // Usage: core time by node and vector; the own links by node, out and in (empty for IPoIB).
  std::vector<std::int64_t> interrupts_busy_ps() const;
  std::vector<std::int64_t> links_done_ps(std::int64_t at_ps) const;

 private:
  class End;
  struct Stream;
  enum class Stage : std::uint8_t { kInMemory, kInQueue, kWake, kRoom };
  struct Event {
    Stage stage = Stage::kInMemory;
    End* end = nullptr;  // whom it concerns
    std::int32_t node = 0;
    std::uint32_t bytes = 0;
    std::int64_t cpu_ps = 0;
  };
  struct OwnLink {
    models::Server out, in;
  };

  void handle(std::uint32_t index) override;
  void schedule(std::int64_t at_ps, const Event& event);
  std::int64_t cross(int from, int to, std::uint32_t wire_b, std::int64_t at_ps);
  std::size_t vector_of(int node, int thread, int peer) const;
  Core* worker_core(int node, std::size_t vector) const;
  void interrupt(int node, std::size_t vector, std::int64_t cpu_ps);
  void acknowledge(End& receiver, int peer);

  models::SocketProfile profile_;
  models::SocketCosts costs_;
  models::Segments segments_;
  ClusterShape shape_;
  int cores_per_node_;
  std::vector<int> endpoints_;
  Calendar& calendar_;
  Calendar::HandlerId handler_;
  Fabric& fabric_;
  const std::vector<std::unique_ptr<Core>>& cores_;  // by node, thread
  std::size_t vectors_;                              // of a node
  double ps_per_byte_;
  std::int64_t switch_ps_, nic_ps_;
  std::vector<models::InterruptQueue> queues_;  // by node, vector
  std::vector<OwnLink> links_;                  // by node
  std::vector<std::unique_ptr<End>> ends_;      // by node, thread
  std::vector<Event> events_;
  std::vector<std::uint32_t> free_events_;
};

}  // namespace verbtwin::sim
