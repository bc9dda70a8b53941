#include "protocols/micro/primitive_thread.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "protocols/micro/coroutine_thread.hpp"
#include "protocols/runtime/post.hpp"
#include "protocols/whole_lines.hpp"

namespace verbtwin::protocols {

namespace {

constexpr std::uint64_t kUnsignalled = ~std::uint64_t{0} >> 1;  // wr_id: comes back only if it fails
constexpr std::uint64_t kRecvBit = std::uint64_t{1} << 63;      // wr_id: a RECV; its queue pair above bit 32

}  // namespace

PrimitiveLayout::PrimitiveLayout(const PrimitiveOptions& options, const ClusterShape& shape)
    : stride_b(whole_lines(options.payload_b)), recv_stride_b(whole_lines(kGrhBytes + options.payload_b)) {
  const auto threads = static_cast<std::size_t>(shape.threads);
  thread_b = options.outstanding * stride_b + PrimitiveThread::kRecvBuffers * recv_stride_b;
  target_offset = threads * thread_b;
  const std::size_t words_b = static_cast<std::size_t>(shape.nodes) * threads * options.outstanding * 8;
  target_b = std::max({options.target_b, stride_b, options.is_atomic() ? words_b : 0});
}

PrimitiveThread::PrimitiveThread(const PrimitiveOptions& options, const PrimitiveLayout& layout,
                                 std::uint64_t seed, WorkerPort& port)
    : options_(options),
      layout_(layout),
      port_(port),
      cpu_(port.cpu()),
      issues_(options.issues(port.node(), port.thread())),
      buffers_(port.memory().local().data() + layout.thread_offset(port.thread())),
      recv_buffers_(buffers_ + options.outstanding * layout.stride_b),
      lkey_(port.memory().lkey()),
      random_(seed,
              static_cast<std::uint64_t>(port.node()) << 16 | static_cast<std::uint64_t>(port.thread())),
      slots_(options.outstanding),
      list_(options.doorbell_batch),
      uncovered_max_(options.mode == PrimitiveOptions::Mode::kSynchronous
                         ? 0
                         : std::min(options.outstanding / 2, options.outstanding - options.doorbell_batch)) {
  const Queues queues(options, port.shape());
  lines_.resize(queues.pairs);
  cq_ = port.device().create_cq(queues.completions);
  QpInitAttributes attributes = queues.attributes(port.device().attributes());
  attributes.send_cq = attributes.recv_cq = cq_.get();
  if (is_datagram()) {
    datagrams_ = port.device().create_qp(attributes);
    datagrams_->connect({});
    port.publish_ud(datagrams_->address());
    destinations_.resize(static_cast<std::size_t>(port.shape().nodes));
  } else {
    port.use_queue_pairs(attributes);
  }
  for (std::uint32_t slot = options.outstanding; slot-- > 0;) free_slots_.push_back(slot);
}

PrimitiveThread::~PrimitiveThread() = default;

void PrimitiveThread::check_device(const PrimitiveOptions& options, const ClusterShape& shape,
                                   const DeviceAttributes& device) {
  const Queues queues(options, shape);
  check_completion_queue(device, queues.completions);
  check_queue_pair(device, queues.attributes(device));
}

PrimitiveThread::Queues::Queues(const PrimitiveOptions& options, const ClusterShape& shape)
    : type(options.transport),
      sends(options.outstanding),
      inline_b(options.inline_payload ? options.payload_b : 0) {
  // Over UC and UD a window is its sender's: more are on their way, and what finds no RECV is dropped, as on
  // a real NIC. Over RC it acknowledges what its CPU has not seen, which may be held up for longer than a
  // window lasts, and senders then wait. As perftest's --rx-depth at the least, where there are not many.
  constexpr std::uint32_t kUnseenMin = 512, kUnseenMax = 8192;
  const bool datagrams = type == QpType::kUd;
  pairs = datagrams ? 1 : static_cast<std::uint32_t>(shape.nodes * shape.qps_per_peer);
  const auto senders = datagrams ? static_cast<std::uint32_t>(shape.nodes - 1) : 1;
  const std::uint32_t inbound = type == QpType::kRc
                                    ? std::max(options.outstanding, std::min(kUnseenMin, kUnseenMax / pairs))
                                    : std::clamp(senders * options.outstanding, kUnseenMin, kUnseenMax);
  // A batch more than can be on their way: consumed ones are posted again a batch at a time.
  recvs = options.verb == Opcode::kSend ? inbound + kRecvBatch : 0;
  completions = sends + pairs * recvs;
}

QpInitAttributes PrimitiveThread::Queues::attributes(const DeviceAttributes& device) const {
  QpInitAttributes attributes;
  attributes.type = type;
  attributes.max_send_wr = sends;
  attributes.max_recv_wr = recvs;
  attributes.max_inline_data = inline_b;
  return connected_queue_pairs(attributes, device);
}

void PrimitiveThread::start(const Window& window, const std::atomic<bool>& stop) {
  window_ = &window;
  stop_ = &stop;
  connect();
  if (options_.verb == Opcode::kSend) post_first_recvs();
}

/// All queue pairs at once: how many contexts the NICs hold is part of what is measured.
void PrimitiveThread::connect() {
  if (is_datagram()) return;
  for (int node = 0; node < port_.shape().nodes; ++node) {
    const bool wanted = options_.pattern != PrimitiveOptions::Pattern::kManyToOne || node == 0;
    if (!issues_ || !wanted || node == port_.node()) continue;
    for (int index = 0; index < port_.shape().qps_per_peer; ++index) line(node, index);
  }
}

void PrimitiveThread::post_first_recvs() {
  const std::uint32_t recvs = Queues(options_, port_.shape()).recvs;
  if (is_datagram()) {
    post_recvs(line(0, 0), recvs);
    return;
  }
  for (int node = 0; node < port_.shape().nodes; ++node) {
    if (node == port_.node() || !options_.issues(node, port_.thread())) continue;
    for (int index = 0; index < port_.shape().qps_per_peer; ++index) {
      post_recvs(line(node, index), recvs);
    }
  }
}

/// A doorbell's worth of requests while the window has room; a poll when it is full.
bool PrimitiveThread::step() {
  bool more = false;
  bool posts = ready_ || may_post();
  if (!posts) {
    const std::size_t count = cq_->poll(polled_);
    if (count > 0) {
      now_ps_ = cpu_.now_ps();
      for (const WorkCompletion& wc : std::span(polled_).first(count)) take(wc);
      posts = has_room() && has_time();
    }
    more = count == polled_.size();
  }
  if (posts) post();
  ready_ = posts && may_post();
  return more || ready_;
}

bool PrimitiveThread::may_post() {
  return has_room() && has_time();
}

bool PrimitiveThread::has_room() {
  if (!issues_ || in_flight_ + options_.doorbell_batch > options_.outstanding) {
    filling_ = in_flight_ == 0;
    return false;
  }
  if (options_.mode == PrimitiveOptions::Mode::kSynchronous && !filling_ && in_flight_ > 0) return false;
  filling_ = true;
  return true;
}

bool PrimitiveThread::has_time() const {
  return now_ps_ < window_->end_ps && !stop_->load(std::memory_order_relaxed);
}

void PrimitiveThread::post() {
  const int index = port_.shape().qps_per_peer == 1
                        ? 0
                        : static_cast<int>(random_(static_cast<std::uint32_t>(port_.shape().qps_per_peer)));
  Line& to = is_datagram() ? line(0, 0) : line(pick_node(), index);
  for (SendWr& wr : list_) {
    request(to, wr);
    ++to.uncovered;
    ++uncovered_;
    const bool last = &wr == &list_.back();
    if (to.uncovered >= options_.signal_interval || (last && uncovered_ > uncovered_max_)) {
      signal(to, wr);
      now_ps_ = cpu_.now_ps();
      slots_[wr.wr_id].posted_ps = now_ps_;
    }
  }
  in_flight_ += options_.doorbell_batch;
  if (!options_.counts_receives() && window_->contains(now_ps_)) statistics_.begun += options_.doorbell_batch;
  post_all(*to.queue_pair, std::span<const SendWr>(list_));
}

int PrimitiveThread::pick_node() {
  if (options_.pattern == PrimitiveOptions::Pattern::kManyToOne) return 0;
  return pick_other_node(random_, port_.node(), port_.shape().nodes);
}

PrimitiveThread::Line& PrimitiveThread::line(int node, int index) {
  const auto slot =
      is_datagram() ? 0U : static_cast<std::uint32_t>(node * port_.shape().qps_per_peer + index);
  Line& line = lines_[slot];
  if (line.queue_pair != nullptr) return line;
  line.node = node;
  line.index = slot;
  if (is_datagram()) {
    line.queue_pair = datagrams_.get();
  } else {
    const int nic = port_.shape().nic_of_thread(port_.thread());
    line.queue_pair = &port_.connected_queue_pair(node, nic, index);
    line.remote = port_.memory().remote(node, nic);
  }
  return line;
}

void PrimitiveThread::request(const Line& line, SendWr& wr) {
  const std::uint64_t place = place_;
  if (++place_ == options_.outstanding) place_ = 0;
  wr.opcode = options_.verb;
  wr.wr_id = kUnsignalled;
  wr.flags = options_.inline_payload ? kInline : 0;
  wr.sge = {buffers_ + place * layout_.stride_b, options_.payload_b, lkey_};
  if (is_datagram()) {
    address(wr);
    return;
  }
  if (options_.verb == Opcode::kSend) return;
  std::uint64_t offset = 0;
  if (!options_.is_atomic()) {
    offset = random_(static_cast<std::uint32_t>(layout_.target_b / layout_.stride_b)) * layout_.stride_b;
  } else if (options_.words == PrimitiveOptions::Words::kRandom) {
    offset = random_(static_cast<std::uint32_t>(options_.target_b / 8)) * std::uint64_t{8};
  } else if (options_.words == PrimitiveOptions::Words::kDistinct) {
    const auto worker = static_cast<std::uint64_t>(port_.node() * port_.shape().threads + port_.thread());
    offset = (worker * options_.outstanding + place) * 8;
  }
  wr.remote_addr = line.remote.addr + layout_.target_offset + offset;
  wr.rkey = line.remote.rkey;
  // A compare-and-swap that always finds what it expects; what fetch-and-adds count, tests can check.
  wr.compare_add = options_.verb == Opcode::kAtomicFetchAndAdd ? 1 : 0;
}

void PrimitiveThread::address(SendWr& wr) {
  const int node = pick_node();
  Destination& to = destinations_[static_cast<std::size_t>(node)];
  if (!to.ah) {
    to.address = port_.ud_address(node, port_.thread());
    to.ah = port_.device().create_ah(to.address);
  }
  wr.ah = to.ah.get();
  wr.remote_qpn = to.address.qp_num;
  wr.remote_qkey = to.address.qkey;
}

void PrimitiveThread::signal(Line& line, SendWr& wr) {
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  slots_[slot].retires = line.uncovered;
  uncovered_ -= line.uncovered;
  line.uncovered = 0;
  wr.flags |= kSignaled;
  wr.wr_id = slot;
}

void PrimitiveThread::take(const WorkCompletion& wc) {
  if ((wc.wr_id & kRecvBit) == 0) {
    retire(wc);
    return;
  }
  Line& from = lines_[(wc.wr_id & ~kRecvBit) >> 32];
  if (wc.status != WcStatus::kSuccess) return;
  if (options_.counts_receives()) {
    ++statistics_.operations_ever;
    if (window_->contains(now_ps_)) ++statistics_.operations;
  }
  if (++from.consumed_recvs == kRecvBatch) {
    post_recvs(from, kRecvBatch);
    now_ps_ = cpu_.now_ps();
    from.consumed_recvs = 0;
  }
}

void PrimitiveThread::retire(const WorkCompletion& wc) {
  if (wc.status != WcStatus::kSuccess) {  // the queue pair is gone; each of its requests completes
    ++statistics_.failed;
    issues_ = false;
  }
  if (wc.wr_id == kUnsignalled) return;
  const auto index = static_cast<std::uint32_t>(wc.wr_id);
  const Slot& slot = slots_[index];
  free_slots_.push_back(index);
  in_flight_ -= slot.retires;
  if (wc.status != WcStatus::kSuccess) return;
  if (!options_.counts_receives()) statistics_.operations_ever += slot.retires;
  if (!window_->contains(now_ps_)) return;
  if (!options_.counts_receives()) statistics_.operations += slot.retires;
  statistics_.latency_ps.push_back(now_ps_ - slot.posted_ps);
}

void PrimitiveThread::post_recvs(Line& line, std::uint32_t count) {
  std::array<RecvWr, 64> list;
  while (count > 0) {
    const std::uint32_t some = std::min<std::uint32_t>(count, list.size());
    for (std::uint32_t i = 0; i < some; ++i) {
      list[i].wr_id = kRecvBit | static_cast<std::uint64_t>(line.index) << 32;
      list[i].sge = {recv_buffers_ + i % kRecvBuffers * layout_.recv_stride_b,
                     static_cast<std::uint32_t>(layout_.recv_stride_b), lkey_};
    }
    post_all(*line.queue_pair, std::span<const RecvWr>(list).first(some));
    count -= some;
  }
}

}  // namespace verbtwin::protocols
