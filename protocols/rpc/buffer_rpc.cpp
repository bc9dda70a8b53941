#include "protocols/rpc/buffer_rpc.hpp"

#include <atomic>
#include <bit>
#include <cassert>
#include <cstring>
#include <utility>

#include "protocols/checks/history.hpp"
#include "protocols/store/record.hpp"
#include "protocols/whole_lines.hpp"

namespace verbtwin::protocols {

namespace {

constexpr std::uint8_t kReplyFlag = 1;

/// What tells message number `number` from those a ring earlier; never 0, as memory without a message is.
constexpr std::uint64_t mark(std::uint32_t number) {
  return number | 1U << 31;
}

/// Head and tail of a message.
constexpr std::uint64_t indicator(std::uint32_t number, std::uint32_t bytes) {
  return mark(number) << 32 | bytes;
}

}  // namespace

/// In a place: this, the body padded to whole words, the indicator once more.
struct BufferRpc::Message {
  std::uint64_t indicator;  // bytes: of the body
  std::uint64_t digest;     // of the body and the next three
  std::uint8_t handler;
  std::uint8_t flags;
  std::uint16_t slot;
  std::uint32_t padding;

  std::uint64_t digest_of(std::span<const std::byte> body) const {
    return value_digest(body) ^
           (static_cast<std::uint64_t>(slot) << 16 | static_cast<std::uint64_t>(flags) << 8 | handler);
  }
};

std::uint32_t BufferRpc::Shape::ring() const {
  return std::bit_ceil(2 * calls_per_peer);
}
std::uint32_t BufferRpc::Shape::place_b() const {
  return static_cast<std::uint32_t>(
      whole_lines(sizeof(Message) + whole_words(payload_max_b) + sizeof(std::uint64_t)));
}

std::size_t BufferRpc::memory_bytes(const ClusterShape& cluster, const Shape& shape) {
  return 2 * static_cast<std::size_t>(cluster.nodes) * shape.ring() * shape.place_b();
}

BufferRpc::BufferRpc(Worker& worker, const Shape& shape, std::vector<int> peers, std::span<std::byte> memory)
    : worker_(worker),
      cpu_(worker.cpu()),
      shape_(shape),
      ring_(shape.ring()),
      place_b_(shape.place_b()),
      speakers_(std::move(peers)),
      sources_(memory.data()),
      landings_(memory.data() + memory.size() / 2),
      landings_offset_(static_cast<std::size_t>(landings_ - worker.port().memory().local().data())),
      lkey_(worker.port().memory().lkey()),
      inline_max_b_(worker.port().device().attributes().max_inline_data),
      peers_(static_cast<std::size_t>(worker.port().shape().nodes)) {
  assert(memory.size() == memory_bytes(worker.port().shape(), shape));
  worker_.port().watch(memory.subspan(memory.size() / 2));
}

std::span<std::byte> BufferRpc::append(int node, std::uint8_t handler, std::uint8_t flags, std::uint16_t slot,
                                       std::size_t bytes) {
  assert(bytes <= shape_.payload_max_b);
  Peer& to = peer(node);
  if (to.sent == to.flushed) written_to_.push_back(node);
  const std::uint32_t number = to.sent++;
  std::byte* at = sources_ + place(node, number);
  new (at) Message{indicator(number, static_cast<std::uint32_t>(bytes)), 0, handler, flags, slot, 0};
  cpu_.charge(Cost::kRpcSend);
  cpu_.charge(Cost::kCopyBlock, 2 * (bytes / kCacheLineBytes));  // the body; its digest
  return {at + sizeof(Message), bytes};
}

std::span<std::byte> BufferRpc::call(int node, std::uint8_t handler, std::size_t bytes, ReplyTarget& reply) {
  return append(node, handler, 0, calls_.add(node, reply), bytes);
}

std::span<std::byte> BufferRpc::reply(const RpcOrigin& origin, std::size_t bytes) {
  return append(origin.node, 0, kReplyFlag, origin.slot, bytes);
}

void BufferRpc::flush() {
  for (const int node : written_to_) {
    Peer& to = peer(node);
    if (to.channel == nullptr) to.channel = &worker_.channel(node, worker_.nic());
    while (to.flushed != to.sent) send(node, to.flushed++);
  }
  if (!written_to_.empty()) worker_.ring(true);
  written_to_.clear();
}

void BufferRpc::send(int node, std::uint32_t number) {
  std::byte* at = sources_ + place(node, number);
  auto& message = *reinterpret_cast<Message*>(at);
  const auto bytes = static_cast<std::uint32_t>(message.indicator);
  message.digest = message.digest_of({at + sizeof(Message), bytes});
  store_word(at + sizeof(Message) + whole_words(bytes), message.indicator);
  const Channel& channel = *peer(node).channel;
  SendWr write;
  write.opcode = Opcode::kRdmaWrite;
  write.sge = {at, static_cast<std::uint32_t>(sizeof(Message) + whole_words(bytes) + 8), lkey_};
  if (write.sge.length <= inline_max_b_) write.flags = kInline;
  write.remote_addr = channel.remote.addr + landings_offset_ + place(worker_.port().node(), number);
  write.rkey = channel.remote.rkey;
  worker_.stage(*peer(node).channel, write, nullptr);
}

// As many of one peer as of a completion queue, so that what shares a round shares the doorbells of its
// answers.
bool BufferRpc::poll() {
  bool any = false;
  for (const int node : speakers_) {
    for (std::size_t messages = 0; messages < Worker::kPollBatch && take(node); ++messages) any = true;
  }
  return any;
}

bool BufferRpc::take(int node) {
  cpu_.charge(Cost::kPollSlot);
  Peer& from = peer(node);
  std::byte* at = landings_ + place(node, from.received);
  const std::uint64_t head = atomic_word(at).load(std::memory_order_acquire);
  const auto bytes = static_cast<std::uint32_t>(head);
  if (head >> 32 != mark(from.received) || bytes > shape_.payload_max_b) return false;
  std::byte* tail = at + sizeof(Message) + whole_words(bytes);
  if (atomic_word(tail).load(std::memory_order_acquire) != head) return false;
  Message message;
  std::memcpy(&message, at, sizeof message);
  const std::span<const std::byte> body(at + sizeof message, bytes);
  cpu_.charge(Cost::kCopyBlock, bytes / kCacheLineBytes);
  if (message.digest_of(body) != message.digest && !accept_torn_) return false;
  ++from.received;
  serve(node, message, body);
  atomic_word(at).store(0, std::memory_order_relaxed);
  atomic_word(tail).store(0, std::memory_order_relaxed);
  return true;
}

void BufferRpc::serve(int node, const Message& message, std::span<const std::byte> body) {
  cpu_.charge(Cost::kRpcReceive);
  cpu_.charge(Cost::kCopyBlock, body.size() / kCacheLineBytes);
  if ((message.flags & kReplyFlag) != 0) {
    calls_.take(message.slot).on_reply(body);
  } else {
    handlers_[message.handler](RpcCall({node, message.slot}, body));
  }
}

}  // namespace verbtwin::protocols
