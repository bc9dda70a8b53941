// What a binding gives a protocol of the cluster: its node's registered memory, its workers' devices and the
// way to connected queue pairs. The binding makes these objects and owns them for the whole run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "backend/cpu.hpp"
#include "backend/sockets.hpp"
#include "backend/user_error.hpp"
#include "backend/verbs.hpp"

namespace verbtwin {

/// The shape that every node knows before the run.
struct ClusterShape {
  int nodes = 1;
  int threads = 1;        // worker threads per node
  int nics_per_node = 1;  // workers are dealt to NICs in equal blocks: threads 0..T/nics-1 on NIC 0, ...
  int qps_per_peer = 1;
  int stands_for = 1;  // nodes of an emulated cluster in place of each; qps_per_peer counts all of theirs
  bool own_send_cqs = false;  // each connected queue pair's sends complete at a queue of its own
  int ack_timeout = 14;       // of connected queue pairs: QpInitAttributes::timeout

  int threads_per_nic() const { return threads / nics_per_node; }
  int nic_of_thread(int thread) const { return thread / threads_per_nic(); }
  /// The far end of a connected queue pair from `thread` to another node's NIC `nic`: the thread with the
  /// same place on that NIC, whose queue pair towards this thread's NIC it is.
  int far_thread(int thread, int nic) const { return nic * threads_per_nic() + thread % threads_per_nic(); }
  /// Of a thread's connected queue pairs, that towards `node`'s `nic` with this index among qps_per_peer.
  std::uint32_t queue_pair_number(int node, int nic, int index) const {
    return static_cast<std::uint32_t>((node * nics_per_node + nic) * qps_per_peer + index);
  }
};

/// Registered memory of a node as others name it.
struct RemoteMemory {
  std::uint64_t addr = 0;
  std::uint32_t rkey = 0;
};

/// A node's registered memory. Every node registers one area of the same size and layout; it starts as zeros,
/// and no page of it exists before it is touched.
class NodeMemory {
 public:
  virtual ~NodeMemory() = default;
  virtual std::span<std::byte> local() = 0;
  virtual std::uint32_t lkey() const = 0;
  virtual RemoteMemory remote(int node, int nic) const = 0;

  /// This part will hold records, the first at `offset`, the next ones `stride_b` behind each other, few of
  /// them in use at first. Their owner reaches them through record_at() only, one at a time; by requests they
  /// are reached like any memory. Set up in ascending order.
  virtual void keep_records(std::size_t offset, std::size_t length, std::size_t stride_b) {
    static_cast<void>(offset);
    static_cast<void>(length);
    static_cast<void>(stride_b);
  }
  /// The record at `offset`, for this node's CPUs: as many bytes as the stride said. It stays where it is.
  virtual std::byte* record_at(std::size_t offset) { return local().data() + offset; }
  /// record_at() will be asked for it.
  virtual void prefetch_record(std::size_t offset) { static_cast<void>(offset); }

  /// A hint: most of this part of the local memory will be used (huge pages pay there).
  virtual void expect_use(std::size_t offset, std::size_t length) {
    static_cast<void>(offset);
    static_cast<void>(length);
  }
  /// A hint: this part is read, and hardly ever written.
  virtual void expect_reads(std::size_t offset, std::size_t length) {
    static_cast<void>(offset);
    static_cast<void>(length);
  }
};

/// One worker thread's door to the cluster. Used by that thread only.
class WorkerPort {
 public:
  virtual ~WorkerPort() = default;
  virtual const ClusterShape& shape() const = 0;
  virtual int node() const = 0;
  virtual int thread() const = 0;
  virtual Cpu& cpu() = 0;
  virtual Device& device() = 0;
  virtual NodeMemory& memory() = 0;

  /// The connected queue pair (RC unless use_queue_pairs() says UC) number `index` (< qps_per_peer) from this
  /// worker to NIC `nic` of `node` (which may be this worker's own: loopback). Made as use_queue_pairs()
  /// said, on first use where the binding can; owned by the binding.
  virtual QueuePair& connected_queue_pair(int node, int nic, int index) = 0;

  /// What this worker's connected queue pairs are made with: type (RC or UC), completion queues, depths; the
  /// other attributes are the binding's. Called once, before the first connected_queue_pair(). A binding
  /// without UC refuses it (UserError). `send_cq_of`, if there is one, is asked for each queue pair's own
  /// send completion queue (of this worker's device, not owned) when it is made, and gives the same one
  /// again.
  using SendCqOf = std::function<CompletionQueue*(int node, int nic, int index)>;
  virtual void use_queue_pairs(const QpInitAttributes& wanted, SendCqOf send_cq_of) = 0;
  void use_queue_pairs(const QpInitAttributes& wanted) { use_queue_pairs(wanted, {}); }

  /// This worker polls this part of its node's memory for what NICs write there. Only a binding that lets
  /// idle workers sleep needs to know.
  virtual void watch(std::span<const std::byte> memory) { static_cast<void>(memory); }

  /// Another worker of this node has something in memory for its thread `thread`. Only a binding that lets
  /// idle workers sleep needs to know.
  virtual void wake(int thread) { static_cast<void>(thread); }

  /// This worker's TCP connections. A worker that uses them asks for them while it is made, so that a binding
  /// can connect them before the run. UserError where the cluster was made without sockets.
  virtual Sockets& sockets() { throw UserError("/protocol/transport", "this cluster has no sockets"); }

  /// Publishes this worker's UD queue pair, so that peers can find it; called once.
  virtual void publish_ud(const QpAddress& address) = 0;

  /// The UD queue pair that thread `thread` of `node` published. Valid once every worker has been set up.
  virtual QpAddress ud_address(int node, int thread) = 0;
};

}  // namespace verbtwin
