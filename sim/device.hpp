// The simulated device: backend/verbs.hpp over models of a NIC, with the worker's core paying for every call.
//
// Objects here belong to one worker each, as the interface says; all of them run in the simulation's one thread.
// What happens to a request after it is posted is in sim/transport.hpp.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "backend/verbs.hpp"
#include "models/nic.hpp"
#include "sim/core.hpp"
#include "sim/fabric.hpp"
#include "sim/memory.hpp"

namespace verbtwin::sim {

class Transport;

/// One NIC port of one node: what its devices share.
struct Port {
  models::Nic nic;
  Memory* memory;  // the node's; not owned
  int endpoint;
};

class SimCompletionQueue final : public CompletionQueue {
 public:
  SimCompletionQueue(Core& core, Transport& transport, std::uint32_t cqe);
  ~SimCompletionQueue() override;

  std::size_t poll(std::span<WorkCompletion> wc) override;

  /// A completion that can be seen from `visible_ps` on. `retires` is the send queue position it frees up to.
  void push(const WorkCompletion& wc, std::int64_t visible_ps, std::uint32_t retires);

  std::int64_t first_visible_ps() const {
    return count_ == 0 ? std::numeric_limits<std::int64_t>::max() : ring_[head_].visible_ps;
  }
  bool overrun() const { return overrun_; }

 private:
  struct Entry {
    WorkCompletion wc;
    std::uint32_t retires;
    std::int64_t visible_ps;
  };
  void grow();

  Core& core_;
  Transport& transport_;
  std::vector<Entry> ring_;  // a power of two, grown up to the queue's depth as it is used
  std::uint32_t head_ = 0, count_ = 0;
  std::uint32_t depth_;
  std::int64_t last_visible_ps_ = 0;
  bool overrun_ = false;
};

class SimAddressHandle final : public AddressHandle {
 public:
  Path path;
};

class SimQueuePair final : public QueuePair {
 public:
  SimQueuePair(Transport& transport, Core& core, Port& port, const QpInitAttributes& attributes);
  ~SimQueuePair() override;

  PostResult post_send(std::span<const SendWr> list) override;
  PostResult post_recv(std::span<const RecvWr> list) override;
  QpAddress address() const override;
  QpType type() const override { return attributes_.type; }
  QpState state() const override { return state_; }
  void connect(const QpAddress& peer) override;
  void reset() override;

 private:
  friend class Transport;
  friend class SimCompletionQueue;

  struct ReceiveRing {
    std::vector<RecvWr> slots;  // a power of two
    std::uint32_t head = 0, count = 0;
    void push(const RecvWr& wr);
    RecvWr pop() {
      const RecvWr wr = slots[head];
      head = (head + 1) & (static_cast<std::uint32_t>(slots.size()) - 1);
      --count;
      return wr;
    }
  };

  bool acceptable(const SendWr& wr) const;
  SimCompletionQueue& send_cq() { return *static_cast<SimCompletionQueue*>(attributes_.send_cq); }
  SimCompletionQueue& recv_cq() { return *static_cast<SimCompletionQueue*>(attributes_.recv_cq); }

  // What a request touches first, together.
  Transport& transport_;
  Core& core_;
  Port& port_;
  std::uint32_t number_ = 0;
  std::uint32_t peer_number_ = 0;
  std::uint32_t context_ = 0;
  std::uint32_t epoch_ = 0;  // requests of an earlier epoch were reset away
  QpState state_ = QpState::kReset;
  std::uint8_t reads_in_flight_ = 0;
  std::uint32_t posted_ = 0, retired_ = 0;  // send queue positions
  models::Nic::SendOrder order_;
  std::int64_t last_touch_ps_ = 0;     // as responder: memory is touched in order
  std::int64_t last_response_ps_ = 0;  // as responder: so are responses sent
  Path to_peer_;
  QpInitAttributes attributes_;
  std::deque<std::uint32_t> waiting_;  // requests behind a full READ window or a fence, in order
  ReceiveRing receives_;
};

class SimDevice final : public Device {
 public:
  SimDevice(Transport& transport, Core& core, Port& port, const models::NicProfile& profile);

  const DeviceAttributes& attributes() const override { return attributes_; }
  std::unique_ptr<CompletionQueue> create_cq(std::uint32_t cqe) override;
  std::unique_ptr<QueuePair> create_qp(const QpInitAttributes& attributes) override;
  std::unique_ptr<AddressHandle> create_ah(const QpAddress& peer) override;
  std::unique_ptr<MemoryRegion> register_memory(std::span<std::byte> memory, unsigned access) override;

 private:
  Transport& transport_;
  Core& core_;
  Port& port_;
  DeviceAttributes attributes_;
};

}  // namespace verbtwin::sim
