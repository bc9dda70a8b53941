// Cluster: a whole simulated cluster: platform and clock, NICs, cores, registered memory, and a door
// (WorkerPort) for every worker.
//
// The program that runs a simulation owns the Cluster; it owns everything below. One thread. Workers are not
// owned and must outlive the last clock().run_until().
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/cluster.hpp"
#include "models/profile.hpp"
#include "models/socket.hpp"
#include "models/spin_lock.hpp"
#include "sim/background.hpp"
#include "sim/calendar.hpp"
#include "sim/clock.hpp"
#include "sim/core.hpp"
#include "sim/device.hpp"
#include "sim/fabric.hpp"
#include "sim/memory.hpp"
#include "sim/platform.hpp"
#include "sim/record_memory.hpp"
#include "sim/sockets.hpp"
#include "sim/transport.hpp"

namespace verbtwin::sim {

/// Of its two sockets. (With more threads than that, a simulated machine has as many sockets as they fill.)
int cores_of_host(const models::HostProfile& host);

struct ClusterParameters {
  ClusterShape shape;
  models::NicProfile nic;
  models::HostProfile host;
  std::optional<models::SocketProfile> sockets;  // none: workers have no TCP
  std::filesystem::path platform_xml;            // empty: a star
  std::int64_t cable_ps = 25'000;
  std::int64_t switch_ps = 130'000;
  double link_gbps = 0;                    // 0: the NIC's
  Topology topology;                       // where no file says it
  bool message_per_communication = false;  // network.model = simgrid
  bool shared_contexts = false;            // a device context per NIC and not per thread
  int threads_per_queue_pair = 1;          // threads that share their connected queue pairs
  int busy_threads = 0;                    // of each machine, the first ones, as turbo counts them; 0: all
  std::size_t node_memory_b = 1 << 20;
  Transport::Tear tear;
  double loss_ratio = 0;       // of packets
  double background_gbps = 0;  // of each NIC port, by others than the workers
  std::uint64_t seed = 0;      // of what is random beside the workers
};

/// What the parts of the cluster have done since the start.
struct Usage {
  struct Resource {
    std::string name;
    std::vector<std::int64_t> busy_ps;  // one per instance
  };
  /// The share of a resource's work that one cause of it makes up.
  struct Part {
    std::string name, of;
    std::vector<std::int64_t> busy_ps;  // one per instance of the resource
  };
  std::vector<Resource> resources;
  std::vector<Part> parts;
  std::vector<std::int64_t> lock_wait_ps;  // of each core, for locks of doorbell registers and queue pairs
  struct LookUps {
    std::uint64_t hits = 0, misses = 0;
    LookUps operator-(const LookUps& before) const { return {hits - before.hits, misses - before.misses}; }
  };
  std::vector<LookUps> qp_cache;  // of each NIC
  VerbCounts verbs;
};

class Cluster final : private EventHandler {
 public:
  explicit Cluster(const ClusterParameters& parameters);
  ~Cluster();

  WorkerPort& port(int node, int thread);
  NodeMemory& memory(int node);
  void drive(int node, int thread, Steppable& worker);

  Clock& clock() { return *clock_; }
  Calendar& calendar() { return calendar_; }
  Transport& transport() { return *transport_; }
  Usage usage() const;
  /// What usage() says is the most of several counts from here on.
  void begin_window();

  /// Others send no more; what they have sent goes its way.
  void stop_background();

  /// Of a small message that meets no other, there and back, over the slowest link alone.
  std::int64_t round_trip_ps() const;

 private:
  class Node;
  class Worker;
  void handle(std::uint32_t index) override { cores_[index]->run(); }
  void prefetch(std::uint32_t index, int steps) const override { cores_[index]->prefetch(steps); }

  std::size_t index_of(int node, int thread) const {
    return static_cast<std::size_t>(node * shape_.threads + thread);
  }
  Port& nic_port(int node, int nic) {
    return *ports_[static_cast<std::size_t>(node * shape_.nics_per_node + nic)];
  }
  SimQueuePair& connect(Worker& from, int node, int nic, int index);
  QueuePair& share(Worker& of, int node, int nic, int index);

  ClusterShape shape_;
  models::NicProfile nic_profile_;
  int threads_per_queue_pair_;
  models::SpinLock::Prices lock_prices_;
  std::vector<CpuPrices> socket_prices_;  // of a node's cores, by socket
  Calendar calendar_;
  Calendar::HandlerId core_handler_;
  std::unique_ptr<RecordPool> record_pool_;
  std::unique_ptr<Platform> platform_;
  std::unique_ptr<Clock> clock_;
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<Transport> transport_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<Port>> ports_;
  std::vector<std::unique_ptr<Core>> cores_;
  std::unique_ptr<SocketNetwork> sockets_;
  std::unique_ptr<Background> background_;  // null: none
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace verbtwin::sim
