#include "protocols/runtime/worker.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "backend/prefetch.hpp"
#include "protocols/runtime/post.hpp"

namespace verbtwin::protocols {

Worker::Worker(WorkerPort& port, std::uint32_t cqe, QpInitAttributes queue_pairs)
    : port_(port),
      cpu_(port.cpu()),
      nic_(port.shape().nic_of_thread(port.thread())),
      cq_(port.device().create_cq(cqe)) {
  queue_pairs.send_cq = queue_pairs.recv_cq = cq_.get();
  WorkerPort::SendCqOf send_cq_of;
  if (port_.shape().own_send_cqs) {
    send_cq_of = [this, entries = queue_pairs.max_send_wr](int node, int nic, int index) {
      Channel& channel = channel_of(port_.shape().queue_pair_number(node, nic, index));
      if (!channel.own_send_cq) channel.own_send_cq = port_.device().create_cq(entries);
      return channel.own_send_cq.get();
    };
  }
  port_.use_queue_pairs(queue_pairs, std::move(send_cq_of));
}

Worker::~Worker() = default;

void Worker::spawn(Task<void> root) {
  make_ready(root.handle());
  roots_.push_back(std::move(root));
}

std::size_t Worker::unfinished() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(roots_, [](const Task<void>& root) { return !root.done(); }));
}

bool Worker::step() {
  if (looks_next()) {
    poll();
    memory_has_more_ = polled_memory_ != nullptr && polled_memory_->poll_memory();
    while (!sleepers_.empty() && sleepers_.begin()->first <= cpu_.now_ps()) {
      make_ready(sleepers_.extract(sleepers_.begin()).mapped());
    }
    round_ = ready_.size();
  }
  if (!catching_up_.empty()) {
    const std::coroutine_handle<> next = catching_up_.front();
    catching_up_.pop_front();
    next.resume();
  } else if (polled_at_ < polled_end_) {
    handle(polled_[polled_at_++]);
    if (polled_at_ == polled_end_ && !backlogs_.empty()) post_backlogs();
  } else if (round_ > 0) {
    --round_;
    const std::coroutine_handle<> next = ready_.front();
    ready_.pop_front();
    resume(next);
  }
  if (!looks_next()) return true;
  const bool messages_left = messages_ != nullptr && messages_->flush();
  return messages_left || !ready_.empty() || memory_has_more_ || wakes_at_ps() <= cpu_.now_ps();
}

void Worker::poll() {
  polled_at_ = 0;
  polled_end_ = cq_->poll(std::span(polled_).first(kPollBatch));
  if (!awaited_.empty()) poll_awaited();
}

void Worker::poll_awaited() {
  for (std::size_t left = awaited_.size(); left > 0 && polled_end_ < polled_.size(); --left) {
    if (next_awaited_ >= awaited_.size()) next_awaited_ = 0;
    const std::span<WorkCompletion> room = std::span(polled_).subspan(polled_end_);
    const std::size_t taken = awaited_[next_awaited_].queue->poll(room);
    if (taken == 0) {
      ++next_awaited_;
      continue;
    }
    Channel& channel = *awaited_[next_awaited_].channel;
    polled_end_ += taken;
    // A queue pair that has failed completes what was not signalled, too: nobody knows how much is to come.
    const bool failed = std::ranges::any_of(
        room.first(taken), [](const WorkCompletion& wc) { return wc.status != WcStatus::kSuccess; });
    if (failed) channel.signalled = Channel::kFailed;
    if (channel.signalled != Channel::kFailed) channel.signalled -= static_cast<std::uint32_t>(taken);
    if (channel.signalled > 0) {
      ++next_awaited_;
    } else {
      awaited_.erase(awaited_.begin() + static_cast<std::ptrdiff_t>(next_awaited_));
    }
  }
}

void Worker::prefetch(std::uint64_t wr_id, int steps) const {
  if (steps == 1) prefetch_line(awaited_.data());
  if (steps == 0) {
    for (const Awaited& awaited : awaited_) {
      prefetch_line(awaited.queue);
      prefetch_line(awaited.channel);
    }
  }
  if (static_cast<WrKind>(wr_id & 7) == WrKind::kRecv && steps == 1) messages_->prefetch_recv(wr_id);
  if (static_cast<WrKind>(wr_id & 7) != WrKind::kOneSided) return;
  const auto* group = reinterpret_cast<const WaitGroup*>(wr_id);
  if (group == nullptr) return;
  if (steps == 1) group->prefetch_owner();
  if (steps == 0) group->prefetch_rest_of_owner();
  if (steps != 2) return;
  // A group lies in the frame of the coroutine that waits.
  prefetch_lines(reinterpret_cast<const std::byte*>(group) - 128, 320);
}

void Worker::handle(const WorkCompletion& wc) {
  const auto kind = static_cast<WrKind>(wc.wr_id & 7);
  // A datagram queue pair that failed carries nothing any more: its RECVs are empty, and each of its sends
  // completes, signalled or not.
  if (wc.status != WcStatus::kSuccess && kind != WrKind::kOneSided) return;
  switch (kind) {
    case WrKind::kRecv:
      messages_->on_recv(wc);
      break;
    case WrKind::kDatagram:
      messages_->on_sent(wc);
      break;
    case WrKind::kOneSided:
      retire(wc);
      break;
  }
}

void Worker::retire(const WorkCompletion& wc) {
  auto* group = reinterpret_cast<WaitGroup*>(wc.wr_id);
  if (group != nullptr) group->complete(wc.status);
}

Channel& Worker::channel_of(std::uint32_t number) {
  std::unique_ptr<Channel>& channel = channels_[number];
  if (!channel) channel = std::make_unique<Channel>();
  return *channel;
}

Channel& Worker::channel(int node, int nic, int index) {
  const std::uint32_t number = port_.shape().queue_pair_number(node, nic, index);
  const std::unique_ptr<Channel>* found = channels_.find(number);
  if (found != nullptr && (*found)->queue_pair != nullptr) return **found;
  QueuePair& queue_pair = port_.connected_queue_pair(node, nic, index);  // and its completion queue
  Channel& channel = channel_of(number);
  channel.queue_pair = &queue_pair;
  channel.remote = port_.memory().remote(node, nic);
  channel.node = node;
  return channel;
}

void Worker::stage(Channel& channel, SendWr wr, WaitGroup* group) {
  wr.wr_id = reinterpret_cast<std::uint64_t>(group);
  if (group != nullptr) group->add();
  if (group != nullptr || ++channel.since_signal == kSignalInterval) {
    wr.flags |= kSignaled;
    channel.since_signal = 0;
    if (channel.own_send_cq != nullptr && channel.signalled != Channel::kFailed && channel.signalled++ == 0)
      awaited_.push_back({channel.own_send_cq.get(), &channel});
  }
  prefetch_lines(channel.queue_pair, 192);  // for ring()
  staged_.push_back(wr);
  staged_for_.push_back(&channel);
  ++channel.staged;
}

void Worker::ring(bool doorbell_batching) {
  const std::span<const SendWr> staged(staged_);
  for (std::size_t i = 0; i < staged.size(); ++i) {
    Channel* channel = staged_for_[i];
    if (channel == nullptr) continue;  // went out with an earlier one
    const std::size_t count = std::exchange(channel->staged, std::uint16_t{0});
    if (!doorbell_batching) {
      post(*channel, staged.subspan(i, 1), false);
      continue;
    }
    std::size_t end = i + 1;
    while (end < staged.size() && staged_for_[end] == channel) ++end;
    if (end - i == count) {
      post(*channel, staged.subspan(i, end - i), true);
      i = end - 1;
      continue;
    }
    gathered_.clear();
    for (std::size_t other = i; gathered_.size() < count; ++other) {
      if (staged_for_[other] != channel) continue;
      gathered_.push_back(staged[other]);
      staged_for_[other] = nullptr;
    }
    post(*channel, gathered_, true);
  }
  staged_.clear();
  staged_for_.clear();
}

void Worker::post(Channel& channel, std::span<const SendWr> list, bool doorbell_batching) {
  auto backlog = std::ranges::find(backlogs_, &channel, &Backlog::channel);
  const std::size_t posted = backlog == backlogs_.end() ? try_post(channel, list) : 0;
  if (posted == list.size()) return;
  if (backlog == backlogs_.end()) backlog = backlogs_.insert(backlog, {&channel, {}});
  for (const SendWr& wr : list.subspan(posted)) {
    Waiting& waiting = backlog->requests.emplace_back(Waiting{wr, doorbell_batching, {}});
    if ((wr.flags & kInline) == 0) continue;
    waiting.inline_bytes.assign(wr.sge.addr, wr.sge.addr + wr.sge.length);
  }
}

std::size_t Worker::try_post(Channel& channel, std::span<const SendWr> list) {
  const PostResult result = channel.queue_pair->post_send(list);
  if (result.error != PostError::kQueueFull) check_posted(result, list.size());
  return result.posted;
}

void Worker::post_backlogs() {
  constexpr std::size_t kListMax = 32;
  for (Backlog& backlog : backlogs_) {
    std::size_t wanted = 0, posted = 0;
    while (posted == wanted && !backlog.requests.empty()) {
      gathered_.clear();
      do {
        Waiting& waiting = backlog.requests[gathered_.size()];
        gathered_.push_back(waiting.wr);
        if ((waiting.wr.flags & kInline) != 0) gathered_.back().sge.addr = waiting.inline_bytes.data();
      } while (gathered_.size() < std::min(kListMax, backlog.requests.size()) &&
               backlog.requests[gathered_.size()].doorbell_batching);
      wanted = gathered_.size();
      posted = try_post(*backlog.channel, gathered_);
      backlog.requests.erase(backlog.requests.begin(),
                             backlog.requests.begin() + static_cast<std::ptrdiff_t>(posted));
    }
  }
  std::erase_if(backlogs_, [](const Backlog& backlog) { return backlog.requests.empty(); });
}

}  // namespace verbtwin::protocols
