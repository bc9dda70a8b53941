// UdRpc: Rpc over UD SEND/RECV, in FaSST's manner (OSDI 2016): one queue pair per worker,
// workers talk to the peers of their own index, a coroutine's messages to one destination share a packet
// (coalescing), its packets share a doorbell (batching), and so do answers, a consumed RECV is posted again.
//
// Belongs to one Worker and its thread; created after it and destroyed before it. Handlers run to completion
// in the worker's step and must not call co_await.
//
// A passive call is not answered: the count of those that a peer has served rides on its next packet (passive
// acknowledgement), and a credit bounds how many may be outstanding towards one peer, so that RECVs never run
// out. Nothing is retransmitted: RECV queues are sized so that an intact network loses no packet, as in
// FaSST; a device that has no room for such queues is refused. Packets that come in wait where there is no
// room for the answers to what they hold. Whoever knows a queue pair's number and key can send it datagrams:
// what is no packet, and in a packet what is no message, nor a call or answer that there is, is passed over.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "backend/cluster.hpp"
#include "backend/number_map.hpp"
#include "protocols/rpc/call_slots.hpp"
#include "protocols/runtime/worker.hpp"

namespace verbtwin::protocols {

/// What shares a packet or a doorbell: nothing; what a coroutine writes before it waits, as in FaSST, where a
/// batch is one coroutine's (OSDI 2016); or all that is written in a worker's round.
enum class Shared : std::uint8_t { kByNone, kByCoroutine, kByRound };

struct RpcOptions {
  Shared coalescing = Shared::kByCoroutine;        // a packet: messages to one destination
  Shared request_batching = Shared::kByCoroutine;  // a doorbell: requests
  bool response_batching = true;                   // a doorbell: all responses of a round
  std::uint32_t packet_b = 512;                    // largest packet
  // Longer packets are fetched by DMA even where the NIC would take them inline.
  std::uint32_t request_inline_max_b = 4096;
  std::uint32_t reply_inline_max_b = 4096;  // of packets that hold a reply
  /// Packets of requests that a coroutine may have on their way to one peer, with coalescing.
  std::uint32_t packets_per_call = 2;
  std::uint32_t calls_max = 16;  // that it may have under way at one time, to all peers
  bool passive_calls = true;     // there may be any
};

class UdRpc final : public MessageLayer, public Rpc {
 public:
  static constexpr std::uint32_t kPassiveCredit = 32;  // at most: many peers get less each

  /// The packet that a message of `bytes` fits in.
  static std::uint32_t packet_bytes(std::size_t bytes);
  /// Packets of `packet_b` that messages in a row take at most: so many, none longer than `longest_b`, of
  /// `all_b` together.
  static std::uint32_t packets_for(std::size_t packet_b, std::size_t messages, std::size_t longest_b,
                                   std::size_t all_b);
  /// Registered memory that one worker needs, and the RECVs and completions it must have room for.
  static std::size_t memory_bytes(const ClusterShape& shape, int coroutines, const RpcOptions& options);
  static std::uint32_t completions(const ClusterShape& shape, int coroutines, const RpcOptions& options);
  /// The longest message that a packet of so many bytes holds.
  static std::uint32_t message_max_b(std::uint32_t packet_b);
  /// Throws UserError where the device's queues do not hold what a worker may be sent.
  static void check_device(const ClusterShape& shape, int coroutines, const RpcOptions& options,
                           const DeviceAttributes& device);

  /// The worker's device has passed check_device(); packets are no longer than its datagrams.
  UdRpc(Worker& worker, int coroutines, const RpcOptions& options, std::span<std::byte> memory,
        std::uint32_t lkey);
  ~UdRpc() override;

  std::span<std::byte> call(int node, std::uint8_t handler, std::size_t bytes, ReplyTarget& reply) override;
  std::span<std::byte> reply(const RpcOrigin& origin, std::size_t bytes) override;
  /// The longest message that call() and reply() take.
  std::uint32_t payload_max_b() const { return message_max_b(options_.packet_b); }

  /// A call without an answer. Needs has_credit(node).
  std::span<std::byte> call_passive(int node, std::uint8_t handler, std::size_t bytes);
  bool has_credit(int node) const {
    const auto* peer = peers_.find(static_cast<std::uint32_t>(node));
    return passive_credit_ > 0 && free_slots() > own_slots_ &&
           (peer == nullptr || (*peer)->unacknowledged < passive_credit_);
  }

  std::size_t unanswered(int node) const { return calls_.unanswered(node); }

  void on_recv(const WorkCompletion& wc) override;
  void on_sent(const WorkCompletion& wc) override;
  bool flush() override;
  void prefetch_recv(std::uint64_t wr_id) const override;

 private:
  static constexpr std::uint32_t kSendQueueDepth = 512;
  static constexpr std::uint32_t kSignalInterval = 64;
  static constexpr std::uint32_t kRecvBatch = 8;
  static constexpr std::size_t kPostBatch = 64;

  struct Peer {
    std::unique_ptr<AddressHandle> ah;  // made when first spoken to
    QpAddress address;
    std::int32_t open_slot = -1;       // the packet that messages may still join
    std::uint32_t unacknowledged = 0;  // passive calls that it has not said it served
    std::uint32_t owed = 0;            // passive calls of its that we served and have not said so
  };
  struct Slot {
    std::uint32_t used_b = 0;
    std::int32_t node = 0;
    bool has_reply = false;
    std::uint64_t batch = 0;  // of the message that opened it
  };

  static QpInitAttributes queue_pair_attributes(std::uint32_t recvs, const DeviceAttributes& device);
  /// A datagram that has come: where, and how long without its GRH.
  struct Packet {
    std::uint32_t recv = 0;
    std::uint32_t bytes = 0;
  };

  std::span<std::byte> append(int node, std::uint8_t kind, std::uint16_t slot, std::size_t bytes);
  bool may_join(const Slot& packet, std::uint64_t batch, std::size_t bytes) const;
  std::int32_t open_packet(int node, std::uint64_t batch);
  /// What is written now belongs together: a coroutine's requests, or the answers to a packet.
  std::uint64_t request_batch() const { return worker_.resumed() << 1; }
  std::uint64_t response_batch() const { return packets_taken_ << 1 | 1; }
  static bool is_request(std::uint64_t batch) { return (batch & 1) == 0; }
  std::size_t free_slots() const { return free_slots_.size() + slots_max_ - slots_.size(); }
  const std::byte* received(std::uint32_t recv) const {
    return recv_memory_ + recv * (kGrhBytes + std::size_t{options_.packet_b}) + kGrhBytes;
  }
  bool is_packet(const Packet& packet) const;
  void consume(std::uint32_t recv);
  bool has_room_to_answer(const Packet& packet) const;
  void take_packet(const Packet& packet);
  bool take_waiting();
  std::byte* slot_at(std::int32_t slot) {
    return send_memory_ + static_cast<std::size_t>(slot) * options_.packet_b;
  }
  Peer& peer(int node) {
    std::unique_ptr<Peer>& peer = peers_[static_cast<std::uint32_t>(node)];
    if (!peer) peer = std::make_unique<Peer>();
    return *peer;
  }
  void meet(int node, Peer& peer);
  void serve(int source, std::uint8_t kind, std::uint16_t slot, std::span<const std::byte> body);
  void post_open();
  void post_packets(std::size_t count);
  SendWr to_send(std::int32_t slot);
  /// How many from `first` on share a doorbell.
  std::size_t doorbell(std::span<const std::int32_t> slots, std::size_t first) const;
  void post_recvs();

  Worker& worker_;
  Cpu& cpu_;
  RpcOptions options_;
  std::uint32_t lkey_;
  std::uint32_t nodes_;
  std::uint32_t recv_depth_;
  std::uint32_t passive_credit_;
  std::size_t own_slots_;  // kept for this worker's own calls
  std::size_t slots_max_;
  std::uint32_t request_inline_max_b_, reply_inline_max_b_;
  std::byte* send_memory_;
  std::byte* recv_memory_;
  std::unique_ptr<QueuePair> queue_pair_;
  NumberMap<std::unique_ptr<Peer>> peers_;  // made when first spoken or listened to

  std::vector<Slot> slots_;
  std::vector<std::int32_t> free_slots_;  // last in, first out: few pages are used
  std::deque<std::int32_t> open_;         // packets not posted yet, oldest first
  std::deque<std::int32_t> posted_;       // packets posted and not retired
  std::uint32_t since_signal_ = 0;

  CallSlots calls_;
  std::deque<Packet> waiting_;  // packets not taken for want of slots, oldest first
  std::vector<std::uint32_t> consumed_recvs_;
  std::uint64_t packets_taken_ = 0;
  std::vector<std::int32_t> sending_;
  std::vector<SendWr> send_list_;
};

}  // namespace verbtwin::protocols
