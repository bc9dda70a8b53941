#include "protocols/rpc/ud_rpc.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

namespace verbtwin::protocols {

namespace {

constexpr std::uint8_t kResponseFlag = 1;
constexpr std::uint8_t kPassiveFlag = 2;

struct PacketHeader {
  std::uint16_t source_node;
  std::uint16_t messages;
  std::uint16_t served;  // passive calls of the receiver that the sender has served since its last packet
  std::uint16_t bytes;   // header included
};

struct MessageHeader {
  std::uint8_t handler;
  std::uint8_t flags;
  std::uint16_t slot;
  std::uint16_t bytes;  // of the body
  std::uint16_t padding;
};

/// A message costs more for every further cache line that it is written to or read from.
constexpr std::size_t kLineBytes = 64;

constexpr std::size_t padded(std::size_t bytes) {
  return (bytes + 7) & ~std::size_t{7};
}

/// RECVs that a worker can have messages for at one time. A coroutine has at most a few packets on their way
/// to one peer (what did not fit in the first), each peer a bounded number of passive calls, and every own
/// call one reply.
std::uint32_t recvs_needed(const ClusterShape& shape, int coroutines, const RpcOptions& options) {
  const std::uint32_t packets_per_call = options.packets_per_call * (options.coalescing ? 1 : 8);
  const auto calls = static_cast<std::uint32_t>(coroutines) * packets_per_call;
  const std::uint32_t inbound =
      static_cast<std::uint32_t>(shape.nodes * shape.stands_for) * (calls + UdRpc::kPassiveCredit) +
      4 * calls;
  return std::min(inbound, 8192U);
}

}  // namespace

std::span<std::byte> RpcRequest::reply(std::size_t bytes) {
  return rpc_->append(source_node_, 0, kResponseFlag, slot_, bytes);
}

std::size_t UdRpc::memory_bytes(const ClusterShape& shape, int coroutines, const RpcOptions& options) {
  const std::size_t recv_b = kGrhBytes + options.packet_b;
  const std::uint32_t recvs = recvs_needed(shape, coroutines, options);
  // Packets that can be written at one time: those on the send queue, and an answer to every message
  // received.
  return (kSendQueueDepth + recvs) * std::size_t{options.packet_b} + recvs * recv_b;
}

std::uint32_t UdRpc::completions(const ClusterShape& shape, int coroutines, const RpcOptions& options) {
  return recvs_needed(shape, coroutines, options) + kSendQueueDepth;
}

UdRpc::UdRpc(Worker& worker, int coroutines, const RpcOptions& options, std::span<std::byte> memory,
             std::uint32_t lkey)
    : worker_(worker),
      cpu_(worker.cpu()),
      options_(options),
      lkey_(lkey),
      recv_depth_(recvs_needed(worker.port().shape(), coroutines, options)),
      send_memory_(memory.data()),
      recv_memory_(memory.data() + (kSendQueueDepth + recv_depth_) * std::size_t{options.packet_b}) {
  assert(memory.size() >= memory_bytes(worker.port().shape(), coroutines, options));
  Device& device = worker_.port().device();
  QpInitAttributes attributes;
  attributes.type = QpType::kUd;
  attributes.send_cq = &worker_.cq();
  attributes.recv_cq = &worker_.cq();
  attributes.max_send_wr = kSendQueueDepth;
  attributes.max_recv_wr = recv_depth_;
  attributes.max_inline_data = device.attributes().max_inline_data;
  request_inline_max_b_ = std::min(attributes.max_inline_data, options.request_inline_max_b);
  reply_inline_max_b_ = std::min(attributes.max_inline_data, options.reply_inline_max_b);
  queue_pair_ = device.create_qp(attributes);
  queue_pair_->connect({});
  worker_.port().publish_ud(queue_pair_->address());
  worker_.set_messages(*this);

  for (std::uint32_t i = 0; i < recv_depth_; ++i) {
    consumed_recvs_.push_back(i);
    if (consumed_recvs_.size() == kPostBatch || i + 1 == recv_depth_) post_recvs();
  }
}

UdRpc::~UdRpc() = default;

std::uint32_t UdRpc::payload_max_b() const {
  return options_.packet_b - static_cast<std::uint32_t>(sizeof(PacketHeader) + sizeof(MessageHeader));
}

std::int32_t UdRpc::open_packet(int node) {
  const std::size_t slots_max = kSendQueueDepth + recv_depth_;
  if (free_slots_.empty() && slots_.size() == slots_max) flush();
  if (free_slots_.empty()) {
    assert(slots_.size() < slots_max && "more packets than messages to answer and places on the send queue");
    free_slots_.push_back(static_cast<std::int32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::int32_t slot = free_slots_.back();
  free_slots_.pop_back();
  slots_[static_cast<std::size_t>(slot)] = {sizeof(PacketHeader), node, false};
  new (slot_at(slot)) PacketHeader{static_cast<std::uint16_t>(worker_.port().node()), 0, 0, 0};
  open_.push_back(slot);
  peer(node).open_slot = slot;
  return slot;
}

std::span<std::byte> UdRpc::append(int node, std::uint8_t kind, std::uint8_t flags, std::uint16_t call,
                                   std::size_t bytes) {
  const std::size_t need = sizeof(MessageHeader) + padded(bytes);
  assert(bytes <= payload_max_b());
  std::int32_t slot = peer(node).open_slot;
  if (slot < 0 || !options_.coalescing ||
      slots_[static_cast<std::size_t>(slot)].used_b + need > options_.packet_b) {
    slot = open_packet(node);
  }
  Slot& packet = slots_[static_cast<std::size_t>(slot)];
  std::byte* at = slot_at(slot) + packet.used_b;
  new (at) MessageHeader{kind, flags, call, static_cast<std::uint16_t>(bytes), 0};
  packet.used_b += static_cast<std::uint32_t>(need);
  packet.has_reply = packet.has_reply || (flags & kResponseFlag) != 0;
  ++reinterpret_cast<PacketHeader*>(slot_at(slot))->messages;
  cpu_.charge(Cost::kRpcSend);
  cpu_.charge(Cost::kCopyBlock, bytes / kLineBytes);
  return {at + sizeof(MessageHeader), bytes};
}

std::span<std::byte> UdRpc::call(int node, std::uint8_t handler, std::size_t bytes, ReplyTarget& reply) {
  const std::uint16_t slot = calls_.add(node, reply);
  if (!options_.request_batching) flush();
  return append(node, handler, 0, slot, bytes);
}

std::span<std::byte> UdRpc::call_passive(int node, std::uint8_t handler, std::size_t bytes) {
  assert(has_credit(node));
  ++peer(node).unacknowledged;
  if (!options_.request_batching) flush();
  return append(node, handler, kPassiveFlag, 0, bytes);
}

std::span<std::byte> UdRpc::reply(const RpcOrigin& origin, std::size_t bytes) {
  return append(origin.node, 0, kResponseFlag, origin.slot, bytes);
}

bool UdRpc::flush() {
  const std::size_t room = kSendQueueDepth - posted_.size();
  const std::size_t count = std::min(room, open_.size());
  if (count > 0) post_packets(count);
  return false;
}

void UdRpc::post_packets(std::size_t count) {
  send_list_.clear();
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t slot = open_.front();
    open_.pop_front();
    posted_.push_back(slot);
    const Slot& packet = slots_[static_cast<std::size_t>(slot)];
    Peer& to = peer(packet.node);
    if (to.open_slot == slot) to.open_slot = -1;
    auto* header = reinterpret_cast<PacketHeader*>(slot_at(slot));
    header->bytes = static_cast<std::uint16_t>(packet.used_b);
    header->served = static_cast<std::uint16_t>(to.owed);
    to.owed = 0;
    if (!to.ah) meet(packet.node, to);

    SendWr wr;
    wr.wr_id = static_cast<std::uint64_t>(Worker::WrKind::kDatagram);
    wr.sge = {slot_at(slot), packet.used_b, lkey_};
    wr.ah = to.ah.get();
    wr.remote_qpn = to.address.qp_num;
    wr.remote_qkey = to.address.qkey;
    if (packet.used_b <= (packet.has_reply ? reply_inline_max_b_ : request_inline_max_b_))
      wr.flags |= kInline;
    if (++since_signal_ == kSignalInterval) {
      wr.flags |= kSignaled;
      since_signal_ = 0;
    }
    send_list_.push_back(wr);
  }
  const bool one_by_one = !options_.request_batching && !options_.response_batching;
  const std::span<const SendWr> list(send_list_);
  if (!one_by_one) {
    queue_pair_->post_send(list);
  } else {
    for (std::size_t i = 0; i < list.size(); ++i) queue_pair_->post_send(list.subspan(i, 1));
  }
}

void UdRpc::meet(int node, Peer& peer) {
  WorkerPort& port = worker_.port();
  peer.address = port.ud_address(node, port.thread());
  peer.ah = port.device().create_ah(peer.address);
}

void UdRpc::prefetch_recv(std::uint64_t wr_id) const {
  const std::byte* packet = recv_memory_ + (wr_id >> 3) * (kGrhBytes + options_.packet_b);
  for (std::size_t at = kGrhBytes; at < 256; at += 64) __builtin_prefetch(packet + at);
}

void UdRpc::on_sent(const WorkCompletion&) {
  for (std::uint32_t i = 0; i < kSignalInterval; ++i) {
    free_slots_.push_back(posted_.front());
    posted_.pop_front();
  }
}

void UdRpc::on_recv(const WorkCompletion& wc) {
  const auto index = static_cast<std::uint32_t>(wc.wr_id >> 3);
  const std::size_t recv_b = kGrhBytes + options_.packet_b;
  const std::byte* packet = recv_memory_ + index * recv_b + kGrhBytes;
  PacketHeader header;
  std::memcpy(&header, packet, sizeof header);
  Peer& from = peer(header.source_node);
  from.unacknowledged -= std::min<std::uint32_t>(from.unacknowledged, header.served);

  const std::byte* at = packet + sizeof header;
  for (std::uint16_t i = 0; i < header.messages; ++i) {
    MessageHeader message;
    std::memcpy(&message, at, sizeof message);
    at += sizeof message;
    serve(header.source_node, message.handler, message.flags, message.slot, {at, message.bytes});
    at += padded(message.bytes);
  }
  consumed_recvs_.push_back(index);
  if (consumed_recvs_.size() >= kRecvBatch) post_recvs();
  // A peer that only ever sends passive calls must still learn that they were served.
  if (from.owed >= kPassiveCredit / 2 && from.open_slot < 0) open_packet(header.source_node);
}

void UdRpc::serve(int source, std::uint8_t kind, std::uint8_t flags, std::uint16_t slot,
                  std::span<const std::byte> body) {
  cpu_.charge(Cost::kRpcReceive);
  cpu_.charge(Cost::kCopyBlock, body.size() / kLineBytes);
  if ((flags & kResponseFlag) != 0) {
    calls_.take(slot).on_reply(body);
    return;
  }
  RpcRequest request;
  request.rpc_ = this;
  request.source_node_ = source;
  request.slot_ = slot;
  request.arguments_ = body;
  request.passive_ = (flags & kPassiveFlag) != 0;
  if (request.passive_) ++peer(source).owed;
  handlers_[kind](request);
  if (!options_.response_batching) flush();
}

void UdRpc::post_recvs() {
  const std::size_t recv_b = kGrhBytes + options_.packet_b;
  std::array<RecvWr, kPostBatch> list;
  std::size_t done = 0;
  while (done < consumed_recvs_.size()) {
    const std::size_t count = std::min(list.size(), consumed_recvs_.size() - done);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t index = consumed_recvs_[done + i];
      list[i].wr_id =
          static_cast<std::uint64_t>(index) << 3 | static_cast<std::uint64_t>(Worker::WrKind::kRecv);
      list[i].sge = {recv_memory_ + index * recv_b, static_cast<std::uint32_t>(recv_b), lkey_};
    }
    queue_pair_->post_recv(std::span(list).first(count));
    done += count;
  }
  consumed_recvs_.clear();
}

}  // namespace verbtwin::protocols
