#include "protocols/micro/ping_pong.hpp"

#include <span>
#include <string>

#include "backend/user_error.hpp"
#include "protocols/runtime/post.hpp"
#include "protocols/store/record.hpp"
#include "protocols/whole_lines.hpp"

namespace verbtwin::protocols {

PingPongLayout::PingPongLayout(const PrimitiveOptions& options, const ClusterShape& shape)
    : stride_b(whole_lines(options.payload_b)),
      total_b(2 * static_cast<std::size_t>(shape.threads) * stride_b) {}

PingPongThread::PingPongThread(const PrimitiveOptions& options, const PingPongLayout& layout,
                               WorkerPort& port)
    : options_(options),
      port_(port),
      cpu_(port.cpu()),
      peer_(port.node() ^ 1),
      begins_(port.node() % 2 == 0),
      source_end_(port.memory().local().data() + layout.source_end(port.thread())),
      landing_end_(port.memory().local().data() + layout.landing_end(port.thread())),
      landing_offset_(layout.landing_end(port.thread()) - options.payload_b),
      cq_(port.device().create_cq(kQueueDepth)) {
  if (peer_ >= port.shape().nodes || port.thread() >= options.issuing_threads) peer_ = -1;
  QpInitAttributes attributes = queue_pair(options);
  attributes.send_cq = attributes.recv_cq = cq_.get();
  port.use_queue_pairs(attributes);
}

PingPongThread::~PingPongThread() = default;

QpInitAttributes PingPongThread::queue_pair(const PrimitiveOptions& options) {
  QpInitAttributes attributes;
  attributes.type = options.transport;
  attributes.max_send_wr = kQueueDepth;
  attributes.max_recv_wr = 0;
  return attributes;
}

void PingPongThread::check_device(const PrimitiveOptions& options, const DeviceAttributes& device) {
  check_completion_queue(device, kQueueDepth);
  check_queue_pair(device, connected_queue_pairs(queue_pair(options), device));
}

void PingPongThread::start(const Window& window, const std::atomic<bool>& stop) {
  window_ = &window;
  stop_ = &stop;
  if (peer_ < 0) return;
  const int nic = port_.shape().nic_of_thread(port_.thread());
  queue_pair_ = &port_.connected_queue_pair(peer_, nic, 0);
  remote_ = port_.memory().remote(peer_, nic);
  port_.watch({landing_end_ - options_.payload_b, options_.payload_b});
}

bool PingPongThread::step() {
  if (peer_ < 0 || failed_) {
    poll();  // what the end of a run waits for completes here too
    return false;
  }
  if (!begins_) {
    if (arrived(number_ + 1)) send(number_ + 1);
    return false;
  }
  if (waiting_ && !arrived(number_)) return false;
  const std::int64_t now_ps = cpu_.now_ps();
  if (waiting_) end(now_ps);
  begin(now_ps);
  return false;
}

bool PingPongThread::arrived(std::uint64_t number) {
  cpu_.charge(Cost::kPollSlot);
  if (atomic_word(landing_end_ - 8).load(std::memory_order_acquire) == number) return true;
  if (++looks_ % kLooksPerPoll == 0) poll();
  return false;
}

void PingPongThread::begin(std::int64_t now_ps) {
  start_ps_ = now_ps;
  if (now_ps >= window_->end_ps || stop_->load(std::memory_order_relaxed)) {
    poll();
    return;
  }
  waiting_ = true;
  send(number_ + 1);
}

void PingPongThread::end(std::int64_t now_ps) {
  waiting_ = false;
  ++statistics_.operations_ever;
  if (!window_->contains(now_ps)) return;
  ++statistics_.operations;
  statistics_.latency_ps.push_back((now_ps - start_ps_) / 2);
}

void PingPongThread::send(std::uint64_t number) {
  number_ = number;
  // The message before has been seen at the other end, so its source is free.
  store_word(source_end_ - 8, number);
  SendWr wr;
  wr.opcode = Opcode::kRdmaWrite;
  wr.sge = {source_end_ - options_.payload_b, options_.payload_b, port_.memory().lkey()};
  if (options_.inline_payload) wr.flags |= kInline;
  wr.remote_addr = remote_.addr + landing_offset_;
  wr.rkey = remote_.rkey;
  if (number % kSignalInterval == 0) {
    wr.flags |= kSignaled;
    poll();  // retires those of the intervals before: never more than a few are outstanding
  }
  post_all(*queue_pair_, std::span<const SendWr>(&wr, 1));
}

void PingPongThread::poll() {
  const std::size_t count = cq_->poll(polled_);
  for (const WorkCompletion& wc : std::span(polled_).first(count)) {
    if (wc.status == WcStatus::kSuccess) continue;
    ++statistics_.failed;
    failed_ = true;
  }
}

}  // namespace verbtwin::protocols
