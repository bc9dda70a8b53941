#include "protocols/rpc/ud_rpc.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <stdexcept>
#include <string>

#include "backend/prefetch.hpp"
#include "backend/user_error.hpp"
#include "protocols/runtime/post.hpp"
#include "protocols/whole_lines.hpp"

namespace verbtwin::protocols {

namespace {

constexpr std::uint8_t kHandlerMask = 0x0F;
constexpr std::uint8_t kResponseFlag = 0x10;
constexpr std::uint8_t kPassiveFlag = 0x20;
constexpr std::uint8_t kNothingFlag = 0x40;  // no message: the packet only acknowledges

/// In front of each message of a packet. A word: what is sent is paid for on PCIe at both ends.
struct MessageHeader {
  std::uint16_t source_node;  // of the packet, in its first header
  std::uint8_t served;        // likewise: passive calls of the receiver served since the packet before
  std::uint8_t kind;          // handler and flags
  std::uint16_t slot;
  std::uint16_t bytes;  // of the body
};

/// Calls what(header, body) for each message of a packet, as far as what has come makes sense.
template <typename What>
void for_each_message(std::span<const std::byte> packet, const What& what) {
  while (packet.size() >= sizeof(MessageHeader)) {
    MessageHeader header;
    std::memcpy(&header, packet.data(), sizeof header);
    packet = packet.subspan(sizeof header);
    const std::size_t body_b = whole_words(header.bytes);
    if (body_b > packet.size()) return;
    if ((header.kind & kNothingFlag) == 0) what(header, packet.first(header.bytes));
    packet = packet.subspan(body_b);
  }
}

/// Peers that may have something on its way to a worker.
std::uint32_t peers_of(const ClusterShape& shape) {
  return static_cast<std::uint32_t>(shape.nodes * shape.stands_for);
}

/// A device has some ten thousand RECVs to a queue: peers of a large cluster share them.
std::uint32_t passive_credit(const ClusterShape& shape, const RpcOptions& options) {
  constexpr std::uint32_t kCredits = 8192;
  if (!options.passive_calls) return 0;
  return std::clamp(kCredits / peers_of(shape), 1U, UdRpc::kPassiveCredit);
}

/// RECVs that a worker can have messages for at one time. Of each peer: requests of every coroutine, in as
/// many packets as they take, or one each where nothing has them share; and passive calls. At least four
/// more: packets that only acknowledge such, each at least half of the credit; a request and an answer about
/// logs. Of its own calls, wherever they went: an answer each. And those consumed that are not posted again
/// yet.
std::uint64_t recvs_needed(const ClusterShape& shape, int coroutines, const RpcOptions& options) {
  const bool shared = options.coalescing != Shared::kByNone && options.request_batching != Shared::kByNone;
  const auto callers = static_cast<std::uint64_t>(coroutines);
  const std::uint64_t requests = callers * (shared ? options.packets_per_call : options.calls_max);
  const std::uint64_t others = 4ULL * peers_of(shape) + callers * options.calls_max + 16;
  return peers_of(shape) * (requests + passive_credit(shape, options)) + std::max(4 * requests, others);
}

/// With packets that the device can send.
RpcOptions fitted(RpcOptions options, const DeviceAttributes& device) {
  options.packet_b = std::min(options.packet_b, device.mtu);
  return options;
}

/// Packets of a worker's own calls: one each, and a request about the log at every node.
std::size_t own_slots(const ClusterShape& shape, int coroutines, const RpcOptions& options) {
  return static_cast<std::size_t>(coroutines) * options.calls_max + static_cast<std::size_t>(shape.nodes);
}

/// Packets that can be written at one time: those on the send queue, and as many as can be on their way here,
/// among them own calls and what answers one packet at the least.
std::size_t send_slots(const ClusterShape& shape, int coroutines, const RpcOptions& options,
                       std::size_t send_queue) {
  const std::size_t answers_of_a_packet = options.packet_b / sizeof(MessageHeader) + 1;
  return send_queue + std::max<std::size_t>(recvs_needed(shape, coroutines, options),
                                            own_slots(shape, coroutines, options) + answers_of_a_packet);
}

}  // namespace

std::size_t UdRpc::memory_bytes(const ClusterShape& shape, int coroutines, const RpcOptions& options) {
  const std::size_t recv_b = kGrhBytes + options.packet_b;
  return send_slots(shape, coroutines, options, kSendQueueDepth) * options.packet_b +
         recvs_needed(shape, coroutines, options) * recv_b;
}

std::uint32_t UdRpc::packet_bytes(std::size_t bytes) {
  return static_cast<std::uint32_t>(sizeof(MessageHeader) + whole_words(bytes));
}

std::uint32_t UdRpc::packets_for(std::size_t packet_b, std::size_t messages, std::size_t longest_b,
                                 std::size_t all_b) {
  // Each but the last holds as many of the longest as fit, and any two in a row more than one would.
  const std::size_t each = packet_b / (sizeof(MessageHeader) + whole_words(longest_b));
  const std::size_t by_number = (messages + each - 1) / each;
  const std::size_t by_bytes = 2 * (all_b + messages * (sizeof(MessageHeader) + 7)) / packet_b + 1;
  return static_cast<std::uint32_t>(std::min(by_number, by_bytes));
}

std::uint32_t UdRpc::completions(const ClusterShape& shape, int coroutines, const RpcOptions& options) {
  return static_cast<std::uint32_t>(recvs_needed(shape, coroutines, options)) + kSendQueueDepth;
}

std::uint32_t UdRpc::message_max_b(std::uint32_t packet_b) {
  return (packet_b - packet_bytes(0)) & ~std::uint32_t{7};
}

void UdRpc::check_device(const ClusterShape& shape, int coroutines, const RpcOptions& options,
                         const DeviceAttributes& device) {
  const std::uint64_t recvs = recvs_needed(shape, coroutines, options);
  if (recvs > device.max_qp_wr) {
    int most = coroutines;
    while (most > 0 && recvs_needed(shape, most, options) > device.max_qp_wr) --most;
    const bool fewer = most > 0;
    throw UserError(fewer ? "/cluster/coroutines" : "/cluster/nodes",
                    std::to_string(peers_of(shape)) + " nodes with " + std::to_string(coroutines) +
                        " coroutines may send one worker " + std::to_string(recvs) +
                        " datagrams at a time, and a queue of this device has " +
                        std::to_string(device.max_qp_wr) + " RECVs: allowed are " +
                        (fewer ? "1 to " + std::to_string(most) + " coroutines, or " : "") + "fewer nodes");
  }
  check_queue_pair(device, queue_pair_attributes(static_cast<std::uint32_t>(recvs), device));
}

QpInitAttributes UdRpc::queue_pair_attributes(std::uint32_t recvs, const DeviceAttributes& device) {
  QpInitAttributes attributes;
  attributes.type = QpType::kUd;
  attributes.max_send_wr = kSendQueueDepth;
  attributes.max_recv_wr = recvs;
  attributes.max_inline_data = device.max_inline_data;
  return attributes;
}

UdRpc::UdRpc(Worker& worker, int coroutines, const RpcOptions& options, std::span<std::byte> memory,
             std::uint32_t lkey)
    : worker_(worker),
      cpu_(worker.cpu()),
      options_(fitted(options, worker.port().device().attributes())),
      lkey_(lkey),
      nodes_(static_cast<std::uint32_t>(worker.port().shape().nodes)),
      recv_depth_(static_cast<std::uint32_t>(recvs_needed(worker.port().shape(), coroutines, options_))),
      passive_credit_(passive_credit(worker.port().shape(), options_)),
      own_slots_(own_slots(worker.port().shape(), coroutines, options_)),
      slots_max_(send_slots(worker.port().shape(), coroutines, options_, kSendQueueDepth)),
      send_memory_(memory.data()),
      recv_memory_(memory.data() + slots_max_ * options_.packet_b) {
  assert(memory.size() >= memory_bytes(worker.port().shape(), coroutines, options_));
  Device& device = worker_.port().device();
  QpInitAttributes attributes = queue_pair_attributes(recv_depth_, device.attributes());
  attributes.send_cq = &worker_.cq();
  attributes.recv_cq = &worker_.cq();
  request_inline_max_b_ = std::min(attributes.max_inline_data, options_.request_inline_max_b);
  reply_inline_max_b_ = std::min(attributes.max_inline_data, options_.reply_inline_max_b);
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

std::int32_t UdRpc::open_packet(int node, std::uint64_t batch) {
  if (free_slots_.empty()) {
    if (slots_.size() == slots_max_)
      throw std::logic_error("more answers and calls than an RPC layer has room for");
    free_slots_.push_back(static_cast<std::int32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::int32_t slot = free_slots_.back();
  free_slots_.pop_back();
  slots_[static_cast<std::size_t>(slot)] = {0, node, false, batch};
  open_.push_back(slot);
  peer(node).open_slot = slot;
  return slot;
}

bool UdRpc::may_join(const Slot& packet, std::uint64_t batch, std::size_t bytes) const {
  if (options_.coalescing == Shared::kByNone || packet.used_b + bytes > options_.packet_b) return false;
  if (is_request(batch) && options_.request_batching == Shared::kByNone) return false;
  return options_.coalescing == Shared::kByRound || packet.batch == batch;
}

std::span<std::byte> UdRpc::append(int node, std::uint8_t kind, std::uint16_t call, std::size_t bytes) {
  const std::size_t need = sizeof(MessageHeader) + whole_words(bytes);
  assert(bytes <= payload_max_b());
  const std::uint64_t batch = (kind & kResponseFlag) != 0 ? response_batch() : request_batch();
  std::int32_t slot = peer(node).open_slot;
  if (slot < 0 || !may_join(slots_[static_cast<std::size_t>(slot)], batch, need)) {
    slot = open_packet(node, batch);
  }
  Slot& packet = slots_[static_cast<std::size_t>(slot)];
  std::byte* at = slot_at(slot) + packet.used_b;
  new (at) MessageHeader{0, 0, kind, call, static_cast<std::uint16_t>(bytes)};
  packet.used_b += static_cast<std::uint32_t>(need);
  packet.has_reply = packet.has_reply || (kind & kResponseFlag) != 0;
  cpu_.charge(Cost::kRpcSend);
  cpu_.charge(Cost::kCopyBlock, bytes / kCacheLineBytes);
  return {at + sizeof(MessageHeader), bytes};
}

std::span<std::byte> UdRpc::call(int node, std::uint8_t handler, std::size_t bytes, ReplyTarget& reply) {
  const std::uint16_t slot = calls_.add(node, reply);
  return append(node, handler, slot, bytes);
}

std::span<std::byte> UdRpc::call_passive(int node, std::uint8_t handler, std::size_t bytes) {
  assert(has_credit(node));
  ++peer(node).unacknowledged;
  return append(node, handler | kPassiveFlag, 0, bytes);
}

std::span<std::byte> UdRpc::reply(const RpcOrigin& origin, std::size_t bytes) {
  return append(origin.node, kResponseFlag, origin.slot, bytes);
}

bool UdRpc::flush() {
  post_open();
  return take_waiting();
}

void UdRpc::post_open() {
  const std::size_t room = kSendQueueDepth - posted_.size();
  const std::size_t count = std::min(room, open_.size());
  if (count > 0) post_packets(count);
}

void UdRpc::post_packets(std::size_t count) {
  sending_.assign(open_.begin(), open_.begin() + static_cast<std::ptrdiff_t>(count));
  open_.erase(open_.begin(), open_.begin() + static_cast<std::ptrdiff_t>(count));
  if (options_.request_batching != Shared::kByRound) {  // answers first: their callers wait
    // Not std::ranges::stable_partition: Clang 14 does not compile the subrange of GCC 12's library.
    std::stable_partition(sending_.begin(), sending_.end(), [this](std::int32_t slot) {
      return !is_request(slots_[static_cast<std::size_t>(slot)].batch);
    });
  }
  for (std::size_t first = 0; first < count;) {
    const std::size_t together = doorbell(sending_, first);
    send_list_.clear();
    for (const std::int32_t slot : std::span(sending_).subspan(first, together)) {
      send_list_.push_back(to_send(slot));
    }
    post_all(*queue_pair_, std::span<const SendWr>(send_list_));
    first += together;
  }
}

std::size_t UdRpc::doorbell(std::span<const std::int32_t> slots, std::size_t first) const {
  if (options_.request_batching == Shared::kByRound) return slots.size();
  const auto batch_of = [this](std::int32_t slot) { return slots_[static_cast<std::size_t>(slot)].batch; };
  const std::uint64_t batch = batch_of(slots[first]);
  const bool request = is_request(batch);
  if (request ? options_.request_batching == Shared::kByNone : !options_.response_batching) return 1;
  const auto together = [&](std::int32_t slot) {
    return request ? batch_of(slot) == batch : !is_request(batch_of(slot));
  };
  std::size_t end = first + 1;
  while (end < slots.size() && together(slots[end])) ++end;
  return end - first;
}

SendWr UdRpc::to_send(std::int32_t slot) {
  posted_.push_back(slot);
  Slot& packet = slots_[static_cast<std::size_t>(slot)];
  Peer& to = peer(packet.node);
  if (to.open_slot == slot) to.open_slot = -1;
  if (packet.used_b == 0) {
    new (slot_at(slot)) MessageHeader{0, 0, kNothingFlag, 0, 0};
    packet.used_b = sizeof(MessageHeader);
  }
  auto* header = reinterpret_cast<MessageHeader*>(slot_at(slot));
  header->source_node = static_cast<std::uint16_t>(worker_.port().node());
  header->served = static_cast<std::uint8_t>(std::min<std::uint32_t>(to.owed, UINT8_MAX));
  to.owed -= header->served;
  if (!to.ah) meet(packet.node, to);

  SendWr wr;
  wr.wr_id = static_cast<std::uint64_t>(Worker::WrKind::kDatagram);
  wr.sge = {slot_at(slot), packet.used_b, lkey_};
  wr.ah = to.ah.get();
  wr.remote_qpn = to.address.qp_num;
  wr.remote_qkey = to.address.qkey;
  if (packet.used_b <= (packet.has_reply ? reply_inline_max_b_ : request_inline_max_b_)) wr.flags |= kInline;
  if (++since_signal_ == kSignalInterval) {
    wr.flags |= kSignaled;
    since_signal_ = 0;
  }
  return wr;
}

void UdRpc::meet(int node, Peer& peer) {
  WorkerPort& port = worker_.port();
  peer.address = port.ud_address(node, port.thread());
  peer.ah = port.device().create_ah(peer.address);
}

void UdRpc::prefetch_recv(std::uint64_t wr_id) const {
  prefetch_lines(received(static_cast<std::uint32_t>(wr_id >> 3)), 256 - kGrhBytes);
}

void UdRpc::on_sent(const WorkCompletion&) {
  for (std::uint32_t i = 0; i < kSignalInterval; ++i) {
    free_slots_.push_back(posted_.front());
    posted_.pop_front();
  }
}

void UdRpc::on_recv(const WorkCompletion& wc) {
  const auto recv = static_cast<std::uint32_t>(wc.wr_id >> 3);
  const Packet packet{recv, wc.byte_len > kGrhBytes ? wc.byte_len - kGrhBytes : 0};
  if (!is_packet(packet)) {
    consume(recv);
  } else if (waiting_.empty() && has_room_to_answer(packet)) {
    take_packet(packet);
  } else {
    waiting_.push_back(packet);
  }
}

/// Not what somebody else has sent to this queue pair. What it says is bounded by what has come.
bool UdRpc::is_packet(const Packet& packet) const {
  MessageHeader header;
  if (packet.bytes < sizeof header) return false;
  std::memcpy(&header, received(packet.recv), sizeof header);
  return header.source_node < nodes_;
}

void UdRpc::consume(std::uint32_t recv) {
  consumed_recvs_.push_back(recv);
  if (consumed_recvs_.size() >= kRecvBatch) post_recvs();
}

/// Each message may be answered in a packet of its own, and an acknowledgement may take one. Slots become
/// free as the NIC sends, which needs nobody else: what waits is taken in the end.
bool UdRpc::has_room_to_answer(const Packet& packet) const {
  std::size_t messages = 0;
  for_each_message({received(packet.recv), packet.bytes},
                   [&](const MessageHeader&, std::span<const std::byte>) { ++messages; });
  return free_slots() >= own_slots_ + messages + 1;
}

/// True if it took any.
bool UdRpc::take_waiting() {
  bool any = false;
  for (; !waiting_.empty() && has_room_to_answer(waiting_.front()); any = true) {
    const Packet packet = waiting_.front();
    waiting_.pop_front();
    take_packet(packet);
  }
  return any;
}

void UdRpc::take_packet(const Packet& packet) {
  ++packets_taken_;
  MessageHeader first;
  std::memcpy(&first, received(packet.recv), sizeof first);
  Peer& from = peer(first.source_node);
  from.unacknowledged -= std::min<std::uint32_t>(from.unacknowledged, first.served);
  for_each_message({received(packet.recv), packet.bytes},
                   [&](const MessageHeader& header, std::span<const std::byte> body) {
                     serve(first.source_node, header.kind, header.slot, body);
                   });
  consume(packet.recv);
  // A peer that only ever sends passive calls must still learn that they were served.
  if (from.owed >= (passive_credit_ + 1) / 2 && from.owed > 0 && from.open_slot < 0)
    open_packet(first.source_node, response_batch());
}

void UdRpc::serve(int source, std::uint8_t kind, std::uint16_t slot, std::span<const std::byte> body) {
  const bool is_reply = (kind & kResponseFlag) != 0;
  const std::uint8_t handler = kind & kHandlerMask;
  if (is_reply ? !calls_.awaits(slot, source) : !has_handler(handler)) return;
  cpu_.charge(Cost::kRpcReceive);
  cpu_.charge(Cost::kCopyBlock, body.size() / kCacheLineBytes);
  if (is_reply) {
    calls_.take(slot).on_reply(body);
    return;
  }
  const bool passive = (kind & kPassiveFlag) != 0;
  if (passive) ++peer(source).owed;
  handlers_[handler](RpcCall({source, slot}, body, passive));
  if (!options_.response_batching) post_open();
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
    post_all(*queue_pair_, std::span<const RecvWr>(list).first(count));
    done += count;
  }
  consumed_recvs_.clear();
}

}  // namespace verbtwin::protocols
