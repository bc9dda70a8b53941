// Actor: a worker that does once what a test says, when it begins, and notes what completes from then on.
//
// Owned by a test; one thread. Times in picoseconds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "models/profiles_for_test.hpp"
#include "sim/cluster.hpp"

namespace verbtwin::sim {

/// With 1 B/ns everywhere, and calls that cost no CPU time.
inline ClusterParameters round_cluster(int nodes, int threads = 1) {
  ClusterParameters p;
  p.shape.nodes = nodes;
  p.shape.threads = threads;
  p.nic = models::round_nic();
  p.host = models::free_host();
  return p;
}

class Actor final : public Steppable {
 public:
  Actor(Cluster& its_cluster, int node, QpInitAttributes attributes = {}, int thread = 0)
      : cluster(its_cluster), port(cluster.port(node, thread)), cq(port.device().create_cq(8192)) {
    attributes.send_cq = attributes.recv_cq = cq.get();
    port.use_queue_pairs(attributes);
    cluster.drive(node, thread, *this);
  }
  bool step() override {
    if (begin) std::exchange(begin, {})(*this);
    if (on_step) on_step();
    for (WorkCompletion wc; cq->poll({&wc, 1}) == 1;) {
      done.push_back(wc);
      done_ps.push_back(port.cpu().now_ps());
      if (on_completion) on_completion(wc);
    }
    return false;
  }

  /// From the beginning of this node's memory to that of node `to`, or back.
  SendWr request(Opcode opcode, std::uint32_t bytes, int to, unsigned flags = kSignaled) {
    SendWr wr;
    wr.opcode = opcode;
    wr.flags = static_cast<std::uint8_t>(flags);
    wr.sge = {memory().data(), bytes, port.memory().lkey()};
    wr.remote_addr = port.memory().remote(to, 0).addr;
    wr.rkey = port.memory().remote(to, 0).rkey;
    return wr;
  }
  /// Their numbers go on from those before.
  void post(QueuePair& to, SendWr wr, int times = 1) {
    std::vector<SendWr> list(static_cast<std::size_t>(times), wr);
    for (SendWr& each : list) each.wr_id = posted_++;
    to.post_send(list);
  }
  void post(Opcode opcode, std::uint32_t bytes, int to, int times = 1, unsigned flags = kSignaled) {
    post(queue_pair(to), request(opcode, bytes, to, flags), times);
  }
  void post_recvs(QueuePair& at, int times) {
    const RecvWr recv{0, {memory().data(), 4096, port.memory().lkey()}};
    at.post_recv(std::vector<RecvWr>(static_cast<std::size_t>(times), recv));
  }
  QueuePair& queue_pair(int node) { return port.connected_queue_pair(node, 0, 0); }
  std::span<std::byte> memory() { return port.memory().local(); }
  void charge_us(std::uint64_t us) { port.cpu().charge_cycles(us * 1000); }

  Cluster& cluster;
  WorkerPort& port;
  std::unique_ptr<CompletionQueue> cq;
  std::function<void(Actor&)> begin;
  std::function<void()> on_step;
  std::function<void(const WorkCompletion&)> on_completion;
  std::vector<WorkCompletion> done;
  std::vector<std::int64_t> done_ps;

 private:
  std::uint64_t posted_ = 0;
};

/// A datagram queue pair of an actor's, and a way to another one.
struct Datagrams {
  explicit Datagrams(Actor& its_owner, std::uint32_t recvs = 1) : owner(its_owner) {
    QpInitAttributes attributes;
    attributes.type = QpType::kUd;
    attributes.send_cq = attributes.recv_cq = owner.cq.get();
    attributes.max_send_wr = 4096;
    attributes.max_recv_wr = recvs;
    attributes.max_inline_data = owner.port.device().attributes().max_inline_data;
    queue_pair = owner.port.device().create_qp(attributes);
    queue_pair->connect({});
  }
  SendWr to(const Datagrams& other, std::uint32_t bytes, unsigned flags = kSignaled) {
    address = owner.port.device().create_ah(other.queue_pair->address());
    SendWr wr = owner.request(Opcode::kSend, bytes, 0, flags);
    wr.ah = address.get();
    wr.remote_qpn = other.queue_pair->address().qp_num;
    wr.remote_qkey = other.queue_pair->address().qkey;
    return wr;
  }
  Actor& owner;
  std::unique_ptr<QueuePair> queue_pair;
  std::unique_ptr<AddressHandle> address;
};

inline void run_until_us(Cluster& cluster, std::int64_t us) {
  cluster.clock().run_until(us * 1'000'000, [] { return true; });
}

}  // namespace verbtwin::sim
