#include "protocols/micro/connected_echo.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <string>
#include <utility>

#include "backend/user_error.hpp"
#include "protocols/runtime/post.hpp"
#include "protocols/store/record.hpp"
#include "protocols/whole_lines.hpp"

namespace verbtwin::protocols {

namespace {

constexpr std::uint32_t kSignalInterval = 32;

/// What tells polled message number `number` from the one a ring earlier; never 0, as memory without one is.
std::uint64_t mark(std::uint32_t number) {
  return number | 1U << 31;
}

/// HERD: a reply to every call of every peer may wait to be sent.
std::uint32_t replies_max(const ClusterShape& shape, std::uint32_t ring) {
  return static_cast<std::uint32_t>(shape.nodes) * ring + kSignalInterval;
}

/// Its last word.
std::uint64_t final_word(std::uint32_t number, std::uint32_t what) {
  return mark(number) << 32 | what;
}

}  // namespace

ConnectedEchoLayout::ConnectedEchoLayout(const EchoOptions& options, const ClusterShape& shape,
                                         int coroutines) {
  using Transport = EchoOptions::Transport;
  polled = options.transport != Transport::kRcSend && options.transport != Transport::kRcWriteImm;
  const auto on_the_wire = [&](std::uint32_t bytes) {
    return polled ? static_cast<std::uint32_t>(whole_words(bytes)) + 8 : bytes;
  };
  request_b = on_the_wire(options.payload_b);
  // A datagram is found by its completion: nobody looks for its last word.
  reply_b = options.transport == Transport::kHerd ? options.reply_b : on_the_wire(options.reply_b);
  stride_b = whole_lines(std::max(request_b, reply_b));
  ring = std::bit_ceil(2 * static_cast<std::uint32_t>(coroutines));
  const std::size_t rings_b = static_cast<std::size_t>(shape.nodes) * ring * stride_b;
  source_offset = 0;
  landing_offset = rings_b;
  recv_offset = 2 * rings_b;
  recv_b = whole_lines(kGrhBytes + std::max(request_b, reply_b));
  total_b = recv_offset + ConnectedEcho::kRecvBuffers * recv_b;
}

ConnectedEcho::ConnectedEcho(const EchoOptions& options, int coroutines, Worker& worker,
                             std::span<std::byte> memory)
    : options_(options),
      worker_(worker),
      cpu_(worker.cpu()),
      memory_(memory),
      memory_offset_(static_cast<std::size_t>(memory.data() - worker.port().memory().local().data())),
      lkey_(worker.port().memory().lkey()),
      layout_(options, worker.port().shape(), coroutines),
      inline_max_b_(worker.port().device().attributes().max_inline_data),
      recvs_(layout_.ring + kRecvBatch),
      peers_(static_cast<std::size_t>(worker.port().shape().nodes)),
      waiting_(static_cast<std::size_t>(coroutines)),
      server_time_us_(static_cast<std::size_t>(coroutines)) {
  assert(memory.size() >= layout_.total_b);
  const WorkerPort& port = worker.port();
  for (int node = 0; node < port.shape().nodes; ++node) {
    if (options.calls(port.node(), node, port.thread(), port.shape()) ||
        options.calls(node, port.node(), port.thread(), port.shape()))
      partners_.push_back(node);
  }
  worker_.set_messages(*this);
  if (layout_.polled) worker_.set_polled_memory(*this);
  if (replies_by_datagram()) make_datagram_queue_pair();
}

ConnectedEcho::~ConnectedEcho() = default;

void ConnectedEcho::check_datagrams(const EchoOptions& options, const ClusterShape& shape, int coroutines,
                                    const DeviceAttributes& device) {
  const ConnectedEchoLayout layout(options, shape, coroutines);
  if (layout.reply_b > device.mtu) {
    throw UserError(options.pointer_to(options.reply_b),
                    "a reply of herd is one datagram, and this device's hold " + std::to_string(device.mtu) +
                        " B: up to " + std::to_string(device.mtu) + " B are allowed, not " +
                        std::to_string(layout.reply_b));
  }
  const std::uint32_t replies = replies_max(shape, layout.ring);
  if (replies > device.max_qp_wr) {
    throw UserError("/cluster/coroutines", "a worker of herd may have " + std::to_string(replies) +
                                               " replies to send at a time, and a queue of this device has " +
                                               std::to_string(device.max_qp_wr) +
                                               " requests: fewer coroutines or nodes are allowed");
  }
}

void ConnectedEcho::make_datagram_queue_pair() {
  WorkerPort& port = worker_.port();
  QpInitAttributes attributes;
  attributes.type = QpType::kUd;
  attributes.send_cq = attributes.recv_cq = &worker_.cq();
  attributes.max_send_wr = replies_max(port.shape(), layout_.ring);
  attributes.max_recv_wr = recvs_;
  attributes.max_inline_data = inline_max_b_;
  datagrams_ = port.device().create_qp(attributes);
  datagrams_->connect({});
  port.publish_ud(datagrams_->address());
}

void ConnectedEcho::connect() {
  WorkerPort& port = worker_.port();
  for (const int node : partners_) {
    peer(node).channel = &worker_.channel(node, worker_.nic());
    if (replies_by_datagram()) {
      peer(node).address = port.ud_address(node, port.thread());
      peer(node).ah = port.device().create_ah(peer(node).address);
    } else if (takes_recvs()) {
      post_recvs(node, recvs_);
    }
  }
  if (replies_by_datagram()) post_recvs(port.node(), recvs_);
  if (layout_.polled) {
    port.watch(memory_.subspan(layout_.landing_offset, layout_.recv_offset - layout_.landing_offset));
  }
}

Task<WcStatus> ConnectedEcho::call(int node, int coroutine) {
  request(node, static_cast<std::uint32_t>(coroutine), nullptr);
  return reply_to(coroutine);
}

Task<WcStatus> ConnectedEcho::reply_to(int coroutine) {
  WaitGroup replied(worker_);
  replied.add();
  waiting_[static_cast<std::size_t>(coroutine)] = &replied;
  co_await replied;
  co_return replied.status();
}

std::uint32_t ConnectedEcho::request(int node, std::uint32_t what, WaitGroup* sent) {
  return send(node, message(what, layout_.request_b), sent);
}

void ConnectedEcho::answer(int node, std::uint32_t, std::uint32_t what, std::uint16_t took_us) {
  const SendWr wr = message(kReplyBit | took_us * kServerTime_us | what % kCoroutines, layout_.reply_b);
  if (replies_by_datagram()) {
    send_datagram(node, wr);
  } else {
    send(node, wr, nullptr);
  }
}

SendWr ConnectedEcho::message(std::uint32_t what, std::uint32_t bytes) {
  cpu_.charge(Cost::kRpcSend);
  cpu_.charge(Cost::kCopyBlock, bytes / kCacheLineBytes);
  SendWr wr;
  wr.sge = {nullptr, bytes, lkey_};
  if (bytes <= inline_max_b_) wr.flags = kInline;
  wr.imm_data = what;
  return wr;
}

std::uint32_t ConnectedEcho::send(int node, SendWr wr, WaitGroup* sent) {
  const std::uint32_t number = peer(node).sent++;
  Channel& channel = *peer(node).channel;
  wr.sge.addr = &memory_[layout_.source_offset + place(node, number, wr.sge.length)];
  wr.opcode = Opcode::kSendWithImm;
  if (options_.transport != EchoOptions::Transport::kRcSend) {
    wr.opcode = layout_.polled ? Opcode::kRdmaWrite : Opcode::kRdmaWriteWithImm;
    wr.remote_addr = channel.remote.addr + memory_offset_ + layout_.landing_offset +
                     place(worker_.port().node(), number, wr.sge.length);
    wr.rkey = channel.remote.rkey;
  }
  if (layout_.polled) store_word(wr.sge.addr + wr.sge.length - 8, final_word(number, wr.imm_data));
  worker_.stage(channel, wr, sent);
  if (!options_.doorbell_batching) worker_.ring(false);
  return number;
}

/// Its source is a place in this worker's own ring, which no other message of its takes.
void ConnectedEcho::send_datagram(int node, SendWr wr) {
  wr.sge.addr =
      &memory_[layout_.source_offset + place(worker_.port().node(), datagrams_sent_++, wr.sge.length)];
  wr.opcode = Opcode::kSendWithImm;
  wr.wr_id = static_cast<std::uint64_t>(Worker::WrKind::kDatagram);
  wr.ah = peer(node).ah.get();
  wr.remote_qpn = peer(node).address.qp_num;
  wr.remote_qkey = peer(node).address.qkey;
  if (datagrams_sent_ % kSignalInterval == 0) wr.flags |= kSignaled;
  datagram_list_.push_back(wr);
  if (!options_.doorbell_batching) flush();
}

bool ConnectedEcho::flush() {
  worker_.ring(true);
  if (datagram_list_.empty()) return false;
  post_all(*datagrams_, std::span<const SendWr>(datagram_list_));
  datagram_list_.clear();
  return false;
}

void ConnectedEcho::on_recv(const WorkCompletion& wc) {
  if (wc.status != WcStatus::kSuccess) return;
  const auto node = static_cast<int>(wc.wr_id >> 3);
  if (++peer(node).consumed_recvs == kRecvBatch) {
    post_recvs(node, kRecvBatch);
    peer(node).consumed_recvs = 0;
  }
  // Whoever knows the queue pair's number and key can send it datagrams.
  if (replies_by_datagram() && !is_awaited(wc.imm_data)) return;
  deliver(node, 0, wc.imm_data);
}

bool ConnectedEcho::is_awaited(std::uint32_t what) const {
  const std::uint32_t coroutine = what % kCoroutines;
  return (what & kReplyBit) != 0 && coroutine < waiting_.size() && waiting_[coroutine] != nullptr;
}

/// All that has come: who took one message of each peer a round would answer the last of many one by one.
bool ConnectedEcho::poll_memory() {
  bool any = false;
  for (const int node : partners_) {
    while (take_message(node)) any = true;
  }
  return any;
}

bool ConnectedEcho::take_message(int node) {
  cpu_.charge(Cost::kPollSlot);
  const std::uint32_t number = peer(node).received;
  std::byte* last = &memory_[layout_.landing_offset + place(node, number, 8)];
  const std::uint64_t word = atomic_word(last).load(std::memory_order_acquire);
  if (word >> 32 != mark(number)) return false;
  ++peer(node).received;
  deliver(node, number, static_cast<std::uint32_t>(word));
  return true;
}

void ConnectedEcho::deliver(int node, std::uint32_t number, std::uint32_t what) {
  const bool is_reply = (what & kReplyBit) != 0;
  const std::int64_t taken_ps = cpu_.now_ps();
  cpu_.charge(Cost::kRpcReceive);
  cpu_.charge(Cost::kCopyBlock, (is_reply ? options_.reply_b : options_.payload_b) / kCacheLineBytes);
  if (is_reply) {
    const std::uint32_t coroutine = what % kCoroutines;
    server_time_us_[coroutine] = static_cast<std::uint16_t>((what & ~kReplyBit) / kServerTime_us);
    std::exchange(waiting_[coroutine], nullptr)->complete(WcStatus::kSuccess);
    return;
  }
  if (options_.process_ps > 0) cpu_.charge_ps(options_.process_ps);
  const std::int64_t took_us = (cpu_.now_ps() - taken_ps) / 1'000'000;
  answer(node, number, what, static_cast<std::uint16_t>(std::min<std::int64_t>(took_us, kServerTimeMax_us)));
}

void ConnectedEcho::post_recvs(int node, std::uint32_t count) {
  QueuePair& queue_pair = replies_by_datagram() ? *datagrams_ : *peer(node).channel->queue_pair;
  std::array<RecvWr, 64> list;
  while (count > 0) {
    const std::uint32_t some = std::min<std::uint32_t>(count, list.size());
    for (std::uint32_t i = 0; i < some; ++i) {
      list[i].wr_id =
          static_cast<std::uint64_t>(node) << 3 | static_cast<std::uint64_t>(Worker::WrKind::kRecv);
      list[i].sge = {&memory_[layout_.recv_offset + i % kRecvBuffers * layout_.recv_b],
                     static_cast<std::uint32_t>(layout_.recv_b), lkey_};
    }
    post_all(queue_pair, std::span<const RecvWr>(list).first(some));
    count -= some;
  }
}

}  // namespace verbtwin::protocols
