// LocalRpc: Rpc to the caller's own node, which no NIC carries: a call runs its handler in the same worker,
// at the end of its round.
//
// Belongs to one Worker and its thread. Costs nothing but what the handlers charge.
#pragma once

#include <vector>

#include "protocols/rpc/call_slots.hpp"

namespace verbtwin::protocols {

class LocalRpc final : public Rpc {
 public:
  explicit LocalRpc(int node) : node_(node) {}

  std::span<std::byte> call(int node, std::uint8_t handler, std::size_t bytes, ReplyTarget& reply) override;
  std::span<std::byte> reply(const RpcOrigin& origin, std::size_t bytes) override;

  /// Delivers what was waiting when it was called. True: there is more by now.
  bool deliver();

 private:
  struct Message {
    std::vector<std::byte> bytes;
    std::uint16_t slot = 0;
    std::uint8_t handler = 0;
    bool is_reply = false;
  };
  std::span<std::byte> add(std::uint16_t slot, std::uint8_t handler, bool is_reply, std::size_t bytes);
  void deliver(const Message& message);

  int node_;
  CallSlots calls_;
  std::vector<Message> queue_, delivering_;
  std::vector<std::vector<std::byte>> free_bytes_;
};

}  // namespace verbtwin::protocols
