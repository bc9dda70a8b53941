#include "protocols/runtime/worker.hpp"

#include <algorithm>
#include <cassert>
#include <span>

namespace verbtwin::protocols {

Worker::Worker(WorkerPort& port, std::uint32_t cqe)
    : port_(port), cpu_(port.cpu()), nic_(port.shape().nic_of_thread(port.thread())), cq_(port.device().create_cq(cqe)) {
  port_.use_cq(*cq_);
}

Worker::~Worker() = default;

void Worker::spawn(Task<void> root) {
  make_ready(root.handle());
  roots_.push_back(std::move(root));
}

std::size_t Worker::unfinished() const {
  return static_cast<std::size_t>(std::ranges::count_if(roots_, [](const Task<void>& root) { return !root.done(); }));
}

bool Worker::step() {
  if (polled_at_ == polled_end_ && round_ == 0) {
    polled_at_ = 0;
    polled_end_ = cq_->poll(polled_);
    round_ = ready_.size();
  }
  if (polled_at_ < polled_end_) {
    handle(polled_[polled_at_++]);
  } else if (round_ > 0) {
    --round_;
    const std::coroutine_handle<> next = ready_.front();
    ready_.pop_front();
    resume(next);
  }
  if (polled_at_ < polled_end_ || round_ > 0) return true;
  if (messages_ != nullptr) messages_->flush();
  return !ready_.empty();
}

void Worker::handle(const WorkCompletion& wc) {
  switch (static_cast<WrKind>(wc.wr_id & 7)) {
    case WrKind::kRecv: messages_->on_recv(wc); break;
    case WrKind::kDatagram: messages_->on_sent(wc); break;
    case WrKind::kOneSided: retire(wc); break;
  }
}

void Worker::retire(const WorkCompletion& wc) {
  Channel& channel = *made_channels_[wc.wr_id >> 48];
  auto* group = reinterpret_cast<WaitGroup*>(wc.wr_id & 0x0000FFFFFFFFFFF8);
  const bool failed = wc.status != WcStatus::kSuccess;
  if (failed && group == nullptr) failures_.push_back({channel.node, wc.status});
  if (!channel.covers.empty() && (!failed || group != nullptr)) {
    channel.in_queue = static_cast<std::uint16_t>(channel.in_queue - channel.covers.front());
    channel.covers.pop_front();
  }
  if (!full_channels_.empty()) {
    std::vector<Channel*> retry;
    retry.swap(full_channels_);
    for (Channel* full : retry) post_staged(*full, true);
  }
  if (group != nullptr) group->complete(wc.status);
}

Channel& Worker::channel(int node, int nic, int index) {
  const ClusterShape& shape = port_.shape();
  const auto slot =
      static_cast<std::size_t>((node * shape.nics_per_node + nic) * shape.qps_per_peer + index);
  if (channels_.size() <= slot) channels_.resize(slot + 1);
  if (!channels_[slot]) {
    auto made = std::make_unique<Channel>();
    made->queue_pair = &port_.rc_queue_pair(node, nic, index);
    made->remote = port_.memory().remote(node, nic);
    made->node = node;
    made->index = static_cast<std::uint16_t>(made_channels_.size());
    made_channels_.push_back(made.get());
    channels_[slot] = std::move(made);
  }
  return *channels_[slot];
}

void Worker::stage(Channel& channel, SendWr wr, WaitGroup* group) {
  const bool signal = group != nullptr || channel.since_signal + 1 >= kSignalInterval;
  wr.wr_id = static_cast<std::uint64_t>(channel.index) << 48 | reinterpret_cast<std::uint64_t>(group);
  ++channel.since_signal;
  if (signal) {
    wr.flags |= kSignaled;
    channel.covers.push_back(channel.since_signal);
    channel.since_signal = 0;
  }
  if (group != nullptr) group->add();
  if (channel.staged.empty()) staged_channels_.push_back(&channel);
  channel.staged.push_back(wr);
}

void Worker::ring(bool doorbell_batching) {
  for (Channel* channel : staged_channels_) post_staged(*channel, doorbell_batching);
  staged_channels_.clear();
}

void Worker::post_staged(Channel& channel, bool doorbell_batching) {
  const std::size_t room = kSendQueueDepth - channel.in_queue;
  const std::size_t posting = std::min(room, channel.staged.size());
  const std::span<const SendWr> list(channel.staged.data(), posting);
  channel.in_queue = static_cast<std::uint16_t>(channel.in_queue + posting);
  if (doorbell_batching) {
    if (posting > 0) channel.queue_pair->post_send(list);
  } else {
    for (std::size_t i = 0; i < posting; ++i) channel.queue_pair->post_send(list.subspan(i, 1));
  }
  channel.staged.erase(channel.staged.begin(), channel.staged.begin() + static_cast<std::ptrdiff_t>(posting));
  if (!channel.staged.empty()) full_channels_.push_back(&channel);
}

}  // namespace verbtwin::protocols
