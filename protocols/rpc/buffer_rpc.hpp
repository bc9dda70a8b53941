// BufferRpc: Rpc by RDMA WRITE into message buffers that the receiver's CPU polls (FaRM, NSDI 2014, section
// 4.1; PUT+ and GET+ of RAMP over RDMA).
//
// Each worker has a ring of message places for each peer, the worker of its own index on another node, which
// alone writes there. A message goes into the next place; a word at its head and one at its tail say that it
// is there, and the receiver clears both when it has taken it. A NIC may write a message's lines in any
// order, so that a digest of its bytes must agree as well.
//
// No place is written before its last message was taken, without any account of that: a peer has at most
// `calls_per_peer` calls under way to this worker, which has as many to it, so that twice as many places hold
// every call and reply that can be untaken.
//
// Belongs to one Worker and its thread; created after it and destroyed before it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "protocols/rpc/call_slots.hpp"

namespace verbtwin::protocols {

class BufferRpc final : public Rpc {
 public:
  struct Shape {
    std::uint32_t payload_max_b = 0;
    std::uint32_t calls_per_peer = 1;  // under way at one time, from either side

    std::uint32_t ring() const;
    std::uint32_t place_b() const;
  };

  /// Registered memory that one worker needs.
  static std::size_t memory_bytes(const ClusterShape& cluster, const Shape& shape);

  /// `peers`: the nodes that this worker has messages from. `memory` lies at the same offset in every node's.
  BufferRpc(Worker& worker, const Shape& shape, std::vector<int> peers, std::span<std::byte> memory);

  std::span<std::byte> call(int node, std::uint8_t handler, std::size_t bytes, ReplyTarget& reply) override;
  std::span<std::byte> reply(const RpcOrigin& origin, std::size_t bytes) override;

  /// Once a round: takes a message of each peer that has one. True: there were any.
  bool poll();
  /// Sends what has been written.
  void flush();

  /// For tests: a message whose lines have not all landed counts.
  void accept_torn() { accept_torn_ = true; }

 private:
  struct Peer {
    Channel* channel = nullptr;  // made when first spoken to
    std::uint32_t sent = 0, received = 0;
    std::uint32_t flushed = 0;
  };
  struct Message;

  std::size_t place(int node, std::uint32_t number) const {
    return (static_cast<std::size_t>(node) * ring_ + number % ring_) * place_b_;
  }
  Peer& peer(int node) { return peers_[static_cast<std::size_t>(node)]; }
  std::span<std::byte> append(int node, std::uint8_t handler, std::uint8_t flags, std::uint16_t slot,
                              std::size_t bytes);
  bool take(int node);
  void serve(int node, const Message& message, std::span<const std::byte> body);
  void send(int node, std::uint32_t number);

  Worker& worker_;
  Cpu& cpu_;
  Shape shape_;
  std::uint32_t ring_, place_b_;
  std::vector<int> speakers_;
  std::byte* sources_;
  std::byte* landings_;
  std::size_t landings_offset_;  // in every node's memory
  std::uint32_t lkey_;
  std::uint32_t inline_max_b_;
  std::vector<Peer> peers_;      // by node
  std::vector<int> written_to_;  // since the last flush
  CallSlots calls_;
  bool accept_torn_ = false;
};

}  // namespace verbtwin::protocols
