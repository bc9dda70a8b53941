// Cluster: this process's node of a real cluster: a device and a door (WorkerPort) for each worker thread,
// the node's registered memory, and the connected queue pairs to every other node.
//
// The program that runs a rank owns it; it owns everything below. One thread makes it, connects it and reads
// it out; in between each WorkerPort belongs to its thread. Errors throw UserError; a peer that a queue pair
// does not reach, std::runtime_error.
//
// The order: construct; agree_on_ports(); make the workers (they call use_queue_pairs() and publish_ud());
// connect() with a rendezvous; start the clock; run. Every queue pair is made before the run: its number has
// to be known to the peer.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "backend/cluster.hpp"
#include "backend/ibverbs/device.hpp"
#include "backend/ibverbs/memory.hpp"
#include "backend/ibverbs/queue_pair.hpp"
#include "backend/ibverbs/rendezvous.hpp"
#include "backend/ibverbs/sockets.hpp"

namespace verbtwin::ibverbs {

struct ClusterParameters {
  ClusterShape shape;
  int node = 0;                  // this process's
  std::vector<PortChoice> nics;  // one for each NIC of the node, or one that plays all of them
  std::size_t node_memory_b = 1 << 20;
  std::string sockets_host;  // where this node's workers have TCP connections, in numbers; empty: none
};

/// A core of a real machine: the work itself takes the time.
class RealCpu final : public Cpu {
 public:
  RealCpu() : Cpu(kFree) {}
  std::int64_t now_ps() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - origin_).count() * 1000;
  }
  void charge_ps(std::int64_t ps) override {
    const std::int64_t end_ps = now_ps() + ps;
    while (now_ps() < end_ps) continue;
  }
  void start_clock(std::chrono::steady_clock::time_point origin) { origin_ = origin; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr CpuPrices kFree{};
  Clock::time_point origin_ = Clock::now();
};

/// A worker's door, and what the run that drives the worker asks of it: by the worker's thread, or when that
/// has stopped.
class NodePort : public WorkerPort {
 public:
  /// When nobody posts any more: a fence on each of its queue pairs; all it wrote has landed when fenced()
  /// holds (polling is the caller's). Throws where a device takes no fence.
  virtual void post_fences() = 0;
  virtual bool fenced() const = 0;
  /// Signalled requests towards a node that have not completed.
  virtual std::size_t awaited(int node) const = 0;

  /// Sent and received by TCP.
  virtual std::uint64_t socket_bytes() const = 0;
  virtual const VerbCounts& counts() const = 0;
  /// The first completion that failed and was no flush, or the device's refusal to take requests.
  virtual const Failure& first_failure() const = 0;

  /// The CPUs beside its device (Context::near_cpus).
  virtual std::string near_cpus() const = 0;
};

class Cluster {
 public:
  explicit Cluster(const ClusterParameters& parameters);
  ~Cluster();

  NodePort& port(int thread);
  NodeMemory& memory();

  /// Looks for a partition that all ports of all ranks are in, and for an IPv4 network where GIDs are in
  /// several, before queue pairs are made. Where there is none, connect() says so if it matters.
  void agree_on_ports(Rendezvous& rendezvous, std::chrono::milliseconds timeout);

  /// Exchanges addresses and keys with every rank, connects all queue pairs and tries each of them.
  void connect(Rendezvous& rendezvous, std::chrono::milliseconds timeout);

  /// Destroys the queue pairs; called before the workers go, whose completion queues they use.
  void disconnect();

  /// All workers' clocks are 0 now.
  void start_clock();

  /// What a device has reported that ends a run (Context::failed_event); empty: nothing.
  std::string failed_event();

  std::vector<PortDescription> descriptions() const;
  const std::string& warning() const { return area_.warning(); }
  /// Where this node's workers have TCP connections; empty: they have none.
  std::string sockets_host() const { return sockets_ ? sockets_->address().host : ""; }

 private:
  class Worker;
  void connect_sockets(Rendezvous& rendezvous, std::chrono::milliseconds timeout);
  void try_queue_pairs(Rendezvous& rendezvous, std::chrono::milliseconds timeout);

  ClusterShape shape_;
  int node_;
  NodeArea area_;
  std::unique_ptr<NodeSockets> sockets_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace verbtwin::ibverbs
