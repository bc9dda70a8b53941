// ObservedPort: a worker's port that tells of every list of requests that is posted through it and, to who
// wants to know, of the completions that are taken.
//
// Stands in front of another port, which outlives it; the worker's thread. What it hands out (queue pairs,
// the device) belongs to it or to who asked, as with the other.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <tuple>

#include "backend/cluster.hpp"

namespace verbtwin::tools {

class ObservedQueuePair;

class ObservedPort final : public WorkerPort, private Device {
 public:
  /// What one doorbell is rung for.
  struct Posted {
    std::span<const SendWr> list;  // what was taken of it
    const QueuePair& queue_pair;
    int peer, nic;          // node and its NIC that a connected queue pair leads to; of others -1
    std::int64_t begin_ps;  // by the worker's clock: when the core began with it; it is done now
  };
  /// Called on the worker's thread, right after it happened. What is empty is not told.
  struct Observer {
    std::function<void(const Posted&)> posted;
    /// `begin_ps`: as above, of the look at the completion queue.
    std::function<void(std::span<const WorkCompletion>, std::int64_t begin_ps)> taken;
    std::function<void(const QpAddress&)> published;  // the worker's datagrams come there
  };

  ObservedPort(WorkerPort& below, Observer observer);
  ~ObservedPort() override;

  const ClusterShape& shape() const override { return below_.shape(); }
  int node() const override { return below_.node(); }
  int thread() const override { return below_.thread(); }
  Cpu& cpu() override { return below_.cpu(); }
  Device& device() override { return *this; }
  NodeMemory& memory() override { return below_.memory(); }
  QueuePair& connected_queue_pair(int node, int nic, int index) override;
  using WorkerPort::use_queue_pairs;
  void use_queue_pairs(const QpInitAttributes& wanted, SendCqOf send_cq_of) override;
  void watch(std::span<const std::byte> memory) override { below_.watch(memory); }
  void wake(int thread) override { below_.wake(thread); }
  Sockets& sockets() override { return below_.sockets(); }
  void publish_ud(const QpAddress& address) override {
    below_.publish_ud(address);
    if (observer_.published) observer_.published(address);
  }
  QpAddress ud_address(int node, int thread) override { return below_.ud_address(node, thread); }

 private:
  const DeviceAttributes& attributes() const override { return below_.device().attributes(); }
  std::unique_ptr<CompletionQueue> create_cq(std::uint32_t cqe) override;
  std::unique_ptr<QueuePair> create_qp(const QpInitAttributes& attributes) override;
  std::unique_ptr<AddressHandle> create_ah(const QpAddress& peer) override;
  std::unique_ptr<MemoryRegion> register_memory(std::span<std::byte> memory, unsigned access) override;

  /// The completion queue that a device below knows.
  CompletionQueue* below(CompletionQueue* queue) const;
  QpInitAttributes with_below(QpInitAttributes attributes) const;

  WorkerPort& below_;
  Observer observer_;
  std::map<std::tuple<int, int, int>, std::unique_ptr<ObservedQueuePair>> connected_;
};

}  // namespace verbtwin::tools
