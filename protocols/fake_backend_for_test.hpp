// FakeCluster: the verbs-shaped interface in memory, for the tests of protocols/. A request executes when it
// is posted, in order, on the target's bytes; its completion waits in the completion queue until it is
// polled.
//
// Owns every node's memory and every worker's port; outlives the workers. One thread. Limits are libibverbs':
// a send queue slot is free again when a completion of its request, or of one behind it, has been polled; a
// datagram that finds no RECV is dropped and counted. What a real device would refuse is counted in
// `refused`.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "backend/cluster.hpp"

namespace verbtwin::protocols {

/// Every cost is one picosecond: a clock that ticks with each thing done. A real one also ticks while nothing
/// is: by `per_look_ps` whenever it is looked at.
class FakeCpu final : public Cpu {
 public:
  FakeCpu() : Cpu(prices_) { prices_.cost_ps.fill(1); }
  std::int64_t now_ps() const override { return const_cast<FakeCpu*>(this)->look_ps(); }
  void charge_ps(std::int64_t ps) override { charged_ps_ += ps; }
  /// What anybody does then takes everybody's time. The clock outlives this.
  void share_clock(std::int64_t& clock_ps) { shared_ps_ = &clock_ps; }
  /// Other prices: to count one kind of work, for instance.
  CpuPrices& prices() { return prices_; }
  std::int64_t per_look_ps = 0;

 private:
  std::int64_t look_ps() {
    std::int64_t& clock_ps = shared_ps_ == nullptr ? own_ps_ : *shared_ps_;
    return clock_ps += std::exchange(charged_ps_, 0) + per_look_ps;
  }

  CpuPrices prices_;
  std::int64_t own_ps_ = 0;
  std::int64_t* shared_ps_ = nullptr;
};

class FakeQueuePair;

class FakeCompletionQueue final : public CompletionQueue {
 public:
  explicit FakeCompletionQueue(std::uint32_t cqe) : cqe_(cqe) {}
  std::size_t poll(std::span<WorkCompletion> wc) override;

  void push(const WorkCompletion& wc, std::function<void()> on_polled) {
    overrun = overrun || waiting_.size() >= cqe_;
    waiting_.push_back({wc, std::move(on_polled)});
  }
  std::size_t size() const { return waiting_.size(); }
  bool overrun = false;
  std::uint64_t polls = 0;

 private:
  std::size_t cqe_;
  std::deque<std::pair<WorkCompletion, std::function<void()>>> waiting_;
};

inline std::size_t FakeCompletionQueue::poll(std::span<WorkCompletion> wc) {
  ++polls;
  std::size_t taken = 0;
  for (; taken < wc.size() && !waiting_.empty(); ++taken) {
    wc[taken] = waiting_.front().first;
    if (waiting_.front().second) waiting_.front().second();
    waiting_.pop_front();
  }
  return taken;
}

/// What the tests may look at, and break.
struct FakeFabric {
  std::function<void(const SendWr&)> on_post{};      // hears of every request
  std::vector<FakeQueuePair*> datagram_queue_pairs;  // by qp_num - 1
  std::vector<FakeQueuePair*> connected_queue_pairs;
  std::uint64_t packets = 0;                  // datagrams
  std::uint64_t dropped = 0;                  // datagrams that found no RECV
  std::uint64_t refused = 0;                  // requests that a device would not have taken
  std::uint64_t wakes = 0;                    // of workers, by those that have put something in their memory
  WcStatus next_status = WcStatus::kSuccess;  // how the next one-sided request ends
  PostError refuses = PostError::kNone;       // of every post, if anything
};

struct FakeAddressHandle final : AddressHandle {};

class FakeQueuePair final : public QueuePair {
 public:
  FakeQueuePair(FakeFabric& fabric, const QpInitAttributes& attributes, std::span<std::byte> target)
      : fabric_(fabric),
        attributes_(attributes),
        send_cq_(static_cast<FakeCompletionQueue*>(attributes.send_cq)),
        recv_cq_(static_cast<FakeCompletionQueue*>(attributes.recv_cq)),
        target_(target) {
    if (attributes.type != QpType::kUd) return;
    fabric_.datagram_queue_pairs.push_back(this);
    number_ = static_cast<std::uint32_t>(fabric_.datagram_queue_pairs.size());
  }

  PostResult post_send(std::span<const SendWr> list) override {
    if (fabric_.refuses != PostError::kNone) return {0, fabric_.refuses};
    ++doorbells;
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (in_queue_ == attributes_.max_send_wr) return {i, PostError::kQueueFull};
      ++in_queue_;
      posted.push_back(list[i]);
      if (fabric_.on_post) fabric_.on_post(list[i]);
      if ((list[i].flags & kInline) != 0 && list[i].sge.length > attributes_.max_inline_data)
        ++fabric_.refused;
      complete(list[i], attributes_.type == QpType::kUd ? send_datagram(list[i]) : execute(list[i]));
    }
    return {list.size(), PostError::kNone};
  }

  PostResult post_recv(std::span<const RecvWr> list) override {
    if (fabric_.refuses != PostError::kNone) return {0, fabric_.refuses};
    recvs_.insert(recvs_.end(), list.begin(), list.end());
    if (recvs_.size() > attributes_.max_recv_wr) ++fabric_.refused;
    return {list.size(), PostError::kNone};
  }

  QpAddress address() const override {
    QpAddress address;
    address.qp_num = number_;
    return address;
  }
  QpType type() const override { return attributes_.type; }
  QpState state() const override { return QpState::kRts; }
  void connect(const QpAddress&) override {}
  void reset() override {}

  std::size_t recvs() const { return recvs_.size(); }
  /// Requests whose completions have not been polled.
  std::uint32_t in_queue() const { return in_queue_; }

  /// A peer that is slow: requests execute, completions come when it is released.
  void hold() { held_ = true; }
  void release() {
    held_ = false;
    for (const WorkCompletion& wc : withheld_) push(wc);
    withheld_.clear();
  }

  std::uint64_t doorbells = 0;
  std::vector<SendWr> posted;

 private:
  /// The send queue's slots are freed by completions that are polled, not by execution.
  void complete(const SendWr& wr, WcStatus status) {
    ++since_signal_;
    if ((wr.flags & kSignaled) == 0 && status == WcStatus::kSuccess) return;
    WorkCompletion wc;
    wc.wr_id = wr.wr_id;
    wc.status = status;
    covers_.push_back(std::exchange(since_signal_, 0));
    if (held_) {
      withheld_.push_back(wc);
    } else {
      push(wc);
    }
  }

  void push(const WorkCompletion& wc) {
    send_cq_->push(wc, [this] {
      in_queue_ -= covers_.front();
      covers_.pop_front();
    });
  }

  WcStatus execute(const SendWr& wr) {
    if (fabric_.next_status != WcStatus::kSuccess)
      return std::exchange(fabric_.next_status, WcStatus::kSuccess);
    const bool atomic = wr.opcode == Opcode::kAtomicCmpAndSwp || wr.opcode == Opcode::kAtomicFetchAndAdd;
    if (wr.remote_addr + wr.sge.length > target_.size() || (atomic && wr.remote_addr % 8 != 0)) {
      return WcStatus::kRemAccessErr;
    }
    std::byte* remote = target_.data() + wr.remote_addr;
    std::uint64_t word = 0;
    switch (wr.opcode) {
      case Opcode::kRdmaRead:
        std::memcpy(wr.sge.addr, remote, wr.sge.length);
        break;
      case Opcode::kRdmaWrite:
        std::memcpy(remote, wr.sge.addr, wr.sge.length);
        break;
      case Opcode::kAtomicCmpAndSwp:
      case Opcode::kAtomicFetchAndAdd: {
        std::memcpy(&word, remote, sizeof word);
        std::memcpy(wr.sge.addr, &word, sizeof word);
        const bool swap = wr.opcode == Opcode::kAtomicCmpAndSwp;
        const std::uint64_t after = !swap ? word + wr.compare_add : word == wr.compare_add ? wr.swap : word;
        std::memcpy(remote, &after, sizeof after);
        break;
      }
      default:
        return WcStatus::kRemInvReqErr;
    }
    return WcStatus::kSuccess;
  }

  WcStatus send_datagram(const SendWr& wr) {
    ++fabric_.packets;
    FakeQueuePair& to = *fabric_.datagram_queue_pairs[wr.remote_qpn - 1];
    if (to.recvs_.empty()) {
      ++fabric_.dropped;
      return WcStatus::kSuccess;
    }
    const RecvWr recv = to.recvs_.front();
    to.recvs_.pop_front();
    std::memcpy(recv.sge.addr + kGrhBytes, wr.sge.addr, wr.sge.length);
    WorkCompletion wc;
    wc.wr_id = recv.wr_id;
    wc.opcode = WcOpcode::kRecv;
    wc.byte_len = kGrhBytes + wr.sge.length;
    wc.imm_data = wr.imm_data;
    to.recv_cq_->push(wc, {});
    return WcStatus::kSuccess;
  }

  FakeFabric& fabric_;
  QpInitAttributes attributes_;
  FakeCompletionQueue* send_cq_;
  FakeCompletionQueue* recv_cq_;
  std::span<std::byte> target_;  // RC: the peer's memory
  std::uint32_t number_ = 0;
  std::uint32_t in_queue_ = 0;
  std::uint32_t since_signal_ = 0;
  std::deque<std::uint32_t> covers_;  // per completion to be polled: how many slots it frees
  bool held_ = false;
  std::vector<WorkCompletion> withheld_;
  std::deque<RecvWr> recvs_;
};

struct FakeRegion final : MemoryRegion {
  std::uint32_t lkey() const override { return 1; }
  std::uint32_t rkey() const override { return 1; }
};

class FakeDevice final : public Device {
 public:
  explicit FakeDevice(FakeFabric& fabric) : fabric_(fabric) {
    attributes_.max_inline_data = 60;
    attributes_.max_qp_wr = 8192;
    attributes_.max_cqe = 1 << 20;
    attributes_.max_qp_rd_atom = 16;
  }
  const DeviceAttributes& attributes() const override { return attributes_; }
  std::unique_ptr<CompletionQueue> create_cq(std::uint32_t cqe) override {
    return std::make_unique<FakeCompletionQueue>(cqe);
  }
  std::unique_ptr<QueuePair> create_qp(const QpInitAttributes& attributes) override {
    return std::make_unique<FakeQueuePair>(fabric_, attributes, std::span<std::byte>{});
  }
  std::unique_ptr<AddressHandle> create_ah(const QpAddress&) override {
    return std::make_unique<FakeAddressHandle>();
  }
  std::unique_ptr<MemoryRegion> register_memory(std::span<std::byte>, unsigned) override {
    return std::make_unique<FakeRegion>();
  }

 private:
  FakeFabric& fabric_;
  DeviceAttributes attributes_;
};

/// Remote addresses are offsets into the area. What nobody touches of a large one takes no time.
class FakeMemory final : public NodeMemory {
 public:
  explicit FakeMemory(std::size_t bytes)
      : all_(static_cast<std::byte*>(std::calloc(bytes + kLineB, 1)), &std::free), bytes_(bytes) {}
  std::span<std::byte> local() override {
    const auto past = reinterpret_cast<std::uintptr_t>(all_.get()) % kLineB;
    return {all_.get() + (kLineB - past), bytes_};
  }
  std::uint32_t lkey() const override { return 1; }
  RemoteMemory remote(int, int) const override { return {0, 1}; }

 private:
  static constexpr std::size_t kLineB = 64;
  std::unique_ptr<std::byte, decltype(&std::free)> all_;
  std::size_t bytes_;
};

class FakeCluster {
 public:
  explicit FakeCluster(const ClusterShape& shape, std::size_t node_memory_b = 0) : shape_(shape) {
    for (int node = 0; node < shape.nodes; ++node)
      memories_.push_back(std::make_unique<FakeMemory>(node_memory_b));
    for (int node = 0; node < shape.nodes; ++node) {
      for (int thread = 0; thread < shape.threads; ++thread) {
        ports_.push_back(std::make_unique<Port>(*this, node, thread));
      }
    }
  }

  WorkerPort& port(int node = 0, int thread = 0) { return *ports_[index(node, thread)]; }
  NodeMemory& memory(int node = 0) { return *memories_[static_cast<std::size_t>(node)]; }
  FakeFabric& fabric() { return fabric_; }
  /// For one worker; all or none have them. Not owned.
  void give_sockets(int node, int thread, Sockets& sockets) {
    sockets_.resize(ports_.size());
    sockets_[index(node, thread)] = &sockets;
  }

 private:
  class Port final : public WorkerPort {
   public:
    Port(FakeCluster& cluster, int node, int thread)
        : cluster_(cluster), node_(node), thread_(thread), device_(cluster.fabric_) {}
    const ClusterShape& shape() const override { return cluster_.shape_; }
    int node() const override { return node_; }
    int thread() const override { return thread_; }
    Cpu& cpu() override { return cpu_; }
    Device& device() override { return device_; }
    NodeMemory& memory() override { return cluster_.memory(node_); }
    QueuePair& connected_queue_pair(int node, int nic, int index) override {
      QpInitAttributes attributes = connected_;
      if (send_cq_of_) attributes.send_cq = send_cq_of_(node, nic, index);
      queue_pairs_.push_back(
          std::make_unique<FakeQueuePair>(cluster_.fabric_, attributes, cluster_.memory(node).local()));
      cluster_.fabric_.connected_queue_pairs.push_back(queue_pairs_.back().get());
      return *queue_pairs_.back();
    }
    using WorkerPort::use_queue_pairs;
    void use_queue_pairs(const QpInitAttributes& wanted, SendCqOf send_cq_of) override {
      connected_ = wanted;
      send_cq_of_ = std::move(send_cq_of);
    }
    Sockets& sockets() override {
      const bool given = !cluster_.sockets_.empty();
      return given ? *cluster_.sockets_[cluster_.index(node_, thread_)] : WorkerPort::sockets();
    }
    void wake(int) override { ++cluster_.fabric_.wakes; }
    void publish_ud(const QpAddress& address) override { ud_ = address; }
    QpAddress ud_address(int node, int thread) override {
      return static_cast<Port&>(cluster_.port(node, thread)).ud_;
    }

   private:
    FakeCluster& cluster_;
    int node_, thread_;
    FakeCpu cpu_;
    FakeDevice device_;
    QpInitAttributes connected_;
    SendCqOf send_cq_of_;
    QpAddress ud_;
    std::vector<std::unique_ptr<FakeQueuePair>> queue_pairs_;
  };

  std::size_t index(int node, int thread) const {
    return static_cast<std::size_t>(node * shape_.threads + thread);
  }

  ClusterShape shape_;
  FakeFabric fabric_;
  std::vector<std::unique_ptr<FakeMemory>> memories_;
  std::vector<std::unique_ptr<Port>> ports_;
  std::vector<Sockets*> sockets_;
};

}  // namespace verbtwin::protocols
