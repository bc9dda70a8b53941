#include "protocols/micro/connected_echo.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <string>

#include "backend/user_error.hpp"
#include "protocols/runtime/post.hpp"
#include "protocols/store/record.hpp"
#include "protocols/whole_lines.hpp"

namespace verbtwin::protocols {

namespace {

constexpr std::uint32_t kReplyBit = 1U << 31;  // of what a message is; below it the call's coroutine
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
  polled = options.transport == Transport::kRcWritePoll || options.transport == Transport::kHerd;
  message_b = polled ? static_cast<std::uint32_t>(whole_words(options.payload_b)) + 8 : options.payload_b;
  stride_b = whole_lines(message_b);
  ring = std::bit_ceil(2 * static_cast<std::uint32_t>(coroutines));
  const std::size_t rings_b = static_cast<std::size_t>(shape.nodes) * ring * stride_b;
  source_offset = 0;
  landing_offset = rings_b;
  recv_offset = 2 * rings_b;
  total_b = recv_offset + ConnectedEcho::kRecvBuffers * whole_lines(kGrhBytes + message_b);
}

ConnectedEcho::ConnectedEcho(const EchoOptions& options, int coroutines, Worker& worker,
                             std::span<std::byte> memory)
    : options_(options),
      worker_(worker),
      cpu_(worker.cpu()),
      layout_(options, worker.port().shape(), coroutines),
      memory_(memory.data()),
      memory_offset_(static_cast<std::size_t>(memory.data() - worker.port().memory().local().data())),
      lkey_(worker.port().memory().lkey()),
      inline_max_b_(worker.port().device().attributes().max_inline_data),
      recvs_(layout_.ring + kRecvBatch),
      peers_(static_cast<std::size_t>(worker.port().shape().nodes)),
      waiting_(static_cast<std::size_t>(coroutines)) {
  assert(memory.size() >= layout_.total_b);
  worker_.set_messages(*this);
  if (layout_.polled) worker_.set_polled_memory(*this);
  if (replies_by_datagram()) make_datagram_queue_pair();
}

ConnectedEcho::~ConnectedEcho() = default;

void ConnectedEcho::check_datagrams(const EchoOptions& options, const ClusterShape& shape, int coroutines,
                                    const DeviceAttributes& device) {
  const ConnectedEchoLayout layout(options, shape, coroutines);
  if (layout.message_b > device.mtu) {
    throw UserError("/workload/payload_b", "a reply of herd is one datagram, and this device's hold " +
                                               std::to_string(device.mtu) + " B: up to " +
                                               std::to_string((device.mtu & ~7U) - 8) + " B are allowed");
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
  for (int node = 0; node < port.shape().nodes; ++node) {
    if (node == port.node()) continue;
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
    port.watch({memory_ + layout_.landing_offset, layout_.recv_offset - layout_.landing_offset});
  }
}

void ConnectedEcho::request(int node, int coroutine, WaitGroup& group) {
  group.add();
  waiting_[static_cast<std::size_t>(coroutine)] = &group;
  send(node, static_cast<std::uint32_t>(coroutine));
}

void ConnectedEcho::send(int node, std::uint32_t what) {
  cpu_.charge(Cost::kRpcSend);
  SendWr wr;
  const bool shorter = (what & kReplyBit) != 0 && options_.reply_b < options_.payload_b;
  wr.sge = {nullptr, shorter ? options_.reply_b : layout_.message_b, lkey_};
  if (wr.sge.length <= inline_max_b_) wr.flags = kInline;
  cpu_.charge(Cost::kCopyBlock, wr.sge.length / 64);
  wr.imm_data = what;
  if (replies_by_datagram() && (what & kReplyBit) != 0) {
    send_datagram(node, wr);
    return;
  }
  const std::uint32_t number = peer(node).sent++;
  Channel& channel = *peer(node).channel;
  wr.sge.addr = memory_ + layout_.source_offset + place(node, number);
  wr.opcode = Opcode::kSendWithImm;
  if (options_.transport != EchoOptions::Transport::kRcSend) {
    wr.opcode = layout_.polled ? Opcode::kRdmaWrite : Opcode::kRdmaWriteWithImm;
    wr.remote_addr =
        channel.remote.addr + memory_offset_ + layout_.landing_offset + place(worker_.port().node(), number);
    wr.rkey = channel.remote.rkey;
  }
  if (layout_.polled) store_word(wr.sge.addr + layout_.message_b - 8, final_word(number, what));
  worker_.stage(channel, wr, nullptr);
  if (!options_.doorbell_batching) worker_.ring(false);
}

/// Its source is a place in this worker's own ring, which no other message of its takes.
void ConnectedEcho::send_datagram(int node, SendWr wr) {
  wr.sge.addr = memory_ + layout_.source_offset + place(worker_.port().node(), datagrams_sent_++);
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
  deliver(node, wc.imm_data);
}

bool ConnectedEcho::poll_memory() {
  bool any = false;
  for (int node = 0; node < worker_.port().shape().nodes; ++node) {
    if (node == worker_.port().node()) continue;
    cpu_.charge(Cost::kPollSlot);
    const std::uint32_t number = peer(node).received;
    std::byte* message = memory_ + layout_.landing_offset + place(node, number);
    const std::uint64_t word = atomic_word(message + layout_.message_b - 8).load(std::memory_order_acquire);
    if (word >> 32 != mark(number)) continue;
    ++peer(node).received;
    deliver(node, static_cast<std::uint32_t>(word));
    any = true;
  }
  return any;
}

void ConnectedEcho::deliver(int node, std::uint32_t what) {
  const bool reply = (what & kReplyBit) != 0;
  cpu_.charge(Cost::kRpcReceive);
  cpu_.charge(Cost::kCopyBlock, (reply ? options_.reply_b : options_.payload_b) / 64);
  if (reply) {
    waiting_[what & ~kReplyBit]->complete(WcStatus::kSuccess);
  } else {
    send(node, what | kReplyBit);
  }
}

void ConnectedEcho::post_recvs(int node, std::uint32_t count) {
  const std::size_t recv_b = whole_lines(kGrhBytes + layout_.message_b);
  QueuePair& queue_pair = replies_by_datagram() ? *datagrams_ : *peer(node).channel->queue_pair;
  std::array<RecvWr, 64> list;
  while (count > 0) {
    const std::uint32_t some = std::min<std::uint32_t>(count, list.size());
    for (std::uint32_t i = 0; i < some; ++i) {
      list[i].wr_id =
          static_cast<std::uint64_t>(node) << 3 | static_cast<std::uint64_t>(Worker::WrKind::kRecv);
      list[i].sge = {memory_ + layout_.recv_offset + i % kRecvBuffers * recv_b,
                     static_cast<std::uint32_t>(recv_b), lkey_};
    }
    post_all(queue_pair, std::span<const RecvWr>(list).first(some));
    count -= some;
  }
}

}  // namespace verbtwin::protocols
