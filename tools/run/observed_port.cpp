#include "tools/run/observed_port.hpp"

#include <utility>

namespace verbtwin::tools {

class ObservedQueuePair final : public QueuePair {
 public:
  ObservedQueuePair(QueuePair& below, const ObservedPort::Observer& observer, const Cpu& cpu, int peer,
                    int nic)
      : below_(below), observer_(observer), cpu_(cpu), peer_(peer), nic_(nic) {}
  ObservedQueuePair(std::unique_ptr<QueuePair> below, const ObservedPort::Observer& observer, const Cpu& cpu)
      : owned_(std::move(below)), below_(*owned_), observer_(observer), cpu_(cpu) {}

  PostResult post_send(std::span<const SendWr> list) override {
    const std::int64_t begin_ps = cpu_.now_ps();
    const PostResult result = below_.post_send(list);
    if (result.posted > 0 && observer_.posted)
      observer_.posted({list.first(result.posted), below_, peer_, nic_, begin_ps});
    return result;
  }
  PostResult post_recv(std::span<const RecvWr> list) override { return below_.post_recv(list); }
  QpAddress address() const override { return below_.address(); }
  QpType type() const override { return below_.type(); }
  QpState state() const override { return below_.state(); }
  void connect(const QpAddress& peer) override { below_.connect(peer); }
  void reset() override { below_.reset(); }

 private:
  std::unique_ptr<QueuePair> owned_;  // or null: the port's below
  QueuePair& below_;
  const ObservedPort::Observer& observer_;
  const Cpu& cpu_;
  int peer_ = -1, nic_ = -1;
};

class ObservedCompletionQueue final : public CompletionQueue {
 public:
  ObservedCompletionQueue(std::unique_ptr<CompletionQueue> below, const ObservedPort::Observer& observer,
                          const Cpu& cpu)
      : below_(std::move(below)), observer_(observer), cpu_(cpu) {}

  std::size_t poll(std::span<WorkCompletion> wc) override {
    const std::int64_t begin_ps = cpu_.now_ps();
    const std::size_t taken = below_->poll(wc);
    if (taken > 0) observer_.taken(wc.first(taken), begin_ps);
    return taken;
  }
  CompletionQueue* below() { return below_.get(); }

 private:
  std::unique_ptr<CompletionQueue> below_;
  const ObservedPort::Observer& observer_;
  const Cpu& cpu_;
};

ObservedPort::ObservedPort(WorkerPort& below, Observer observer)
    : below_(below), observer_(std::move(observer)) {}

ObservedPort::~ObservedPort() = default;

QueuePair& ObservedPort::connected_queue_pair(int node, int nic, int index) {
  auto& observed = connected_[{node, nic, index}];
  if (!observed) {
    QueuePair& below = below_.connected_queue_pair(node, nic, index);
    observed = std::make_unique<ObservedQueuePair>(below, observer_, below_.cpu(), node, nic);
  }
  return *observed;
}

std::unique_ptr<CompletionQueue> ObservedPort::create_cq(std::uint32_t cqe) {
  auto below = below_.device().create_cq(cqe);
  if (!observer_.taken) return below;
  return std::make_unique<ObservedCompletionQueue>(std::move(below), observer_, below_.cpu());
}

CompletionQueue* ObservedPort::below(CompletionQueue* queue) const {
  const bool is_observed = observer_.taken && queue != nullptr;
  return is_observed ? static_cast<ObservedCompletionQueue*>(queue)->below() : queue;
}

QpInitAttributes ObservedPort::with_below(QpInitAttributes attributes) const {
  attributes.send_cq = below(attributes.send_cq);
  attributes.recv_cq = below(attributes.recv_cq);
  return attributes;
}

void ObservedPort::use_queue_pairs(const QpInitAttributes& wanted, SendCqOf send_cq_of) {
  SendCqOf below_of;
  if (send_cq_of) {
    below_of = [this, of = std::move(send_cq_of)](int node, int nic, int index) {
      return below(of(node, nic, index));
    };
  }
  below_.use_queue_pairs(with_below(wanted), std::move(below_of));
}

std::unique_ptr<QueuePair> ObservedPort::create_qp(const QpInitAttributes& attributes) {
  return std::make_unique<ObservedQueuePair>(below_.device().create_qp(with_below(attributes)), observer_,
                                             below_.cpu());
}

std::unique_ptr<AddressHandle> ObservedPort::create_ah(const QpAddress& peer) {
  return below_.device().create_ah(peer);
}

std::unique_ptr<MemoryRegion> ObservedPort::register_memory(std::span<std::byte> memory, unsigned access) {
  return below_.device().register_memory(memory, access);
}

}  // namespace verbtwin::tools
