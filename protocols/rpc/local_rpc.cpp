#include "protocols/rpc/local_rpc.hpp"

#include <utility>

namespace verbtwin::protocols {

std::span<std::byte> LocalRpc::add(std::uint16_t slot, std::uint8_t handler, bool is_reply,
                                   std::size_t bytes) {
  Message& message = queue_.emplace_back();
  if (!free_bytes_.empty()) {
    message.bytes = std::move(free_bytes_.back());
    free_bytes_.pop_back();
  }
  message.bytes.resize(bytes);
  message.slot = slot;
  message.handler = handler;
  message.is_reply = is_reply;
  return message.bytes;
}

std::span<std::byte> LocalRpc::call(int node, std::uint8_t handler, std::size_t bytes, ReplyTarget& reply) {
  return add(calls_.add(node, reply), handler, false, bytes);
}

std::span<std::byte> LocalRpc::reply(const RpcOrigin& origin, std::size_t bytes) {
  return add(origin.slot, 0, true, bytes);
}

bool LocalRpc::deliver() {
  std::swap(queue_, delivering_);
  for (Message& message : delivering_) {
    deliver(message);
    free_bytes_.push_back(std::move(message.bytes));
  }
  delivering_.clear();
  return !queue_.empty();
}

void LocalRpc::deliver(const Message& message) {
  if (message.is_reply) {
    calls_.take(message.slot).on_reply(message.bytes);
  } else {
    handlers_[message.handler](RpcCall({node_, message.slot}, message.bytes));
  }
}

}  // namespace verbtwin::protocols
