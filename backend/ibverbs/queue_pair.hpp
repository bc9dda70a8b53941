// IbvQueuePair: a queue pair of a real device, with its own account of what is on its queues.
//
// Belongs to one worker thread; made by IbvDevice. Its completion queues outlive it. Every request sits in a
// Slot until it is retired, and the device's wr_id points there: so a completion finds its queue pair, the
// caller's wr_id and the place it frees the queue up to, without a look-up.
#pragma once

#include <vector>

#include "backend/ibverbs/device.hpp"

namespace verbtwin::ibverbs {

class IbvQueuePair final : public QueuePair {
 public:
  /// Room on the send queue for a fence beside what the caller may post.
  static constexpr std::uint32_t kExtraSlots = 1;

  IbvQueuePair(IbvDevice& device, const QpInitAttributes& attributes);
  ~IbvQueuePair() override;
  IbvQueuePair(const IbvQueuePair&) = delete;
  IbvQueuePair& operator=(const IbvQueuePair&) = delete;

  PostResult post_send(std::span<const SendWr> list) override;
  PostResult post_recv(std::span<const RecvWr> list) override;
  QpAddress address() const override;
  QpType type() const override { return attributes_.type; }
  QpState state() const override;
  void connect(const QpAddress& peer) override;
  void reset() override;

  /// Connected: posts an empty WRITE whose completion nobody sees; when idle() holds, all before it has been
  /// acknowledged (RC) or sent (UC). Once at a time. Throws std::runtime_error where the device refuses it:
  /// idle() would hold without it.
  void post_fence();
  bool idle() const { return posted_ == retired_; }
  /// Signalled requests that have not completed.
  std::size_t awaited() const;

  /// The node at the other end, for reports; -1: not known.
  void set_peer_node(int node) { peer_node_ = node; }
  int peer_node() const { return peer_node_; }

  /// `slot`, one of this queue pair's, has completed (IbvCompletionQueue).
  void retire(const Slot& slot) {
    (slot.kind == Slot::Kind::kRecv ? recv_retired_ : retired_) = slot.position + 1;
  }

 private:
  void to_init();
  void to_ready_to_receive(const QpAddress& peer);
  void to_ready_to_send(const QpAddress& peer);
  /// `way`: what else to say where that is refused.
  void modify(ibv_qp_attr& attributes, int mask, const char* state, const std::string& way = "");
  /// The caller's view of the errno that a post came back with; `one_request`: it named the one that it
  /// refused.
  PostError refused_with(int error, bool one_request);
  void fill(const SendWr& from, ibv_send_wr& to, ibv_sge& sge);
  template <typename Slots>
  static auto& slot_of(Slots& slots, std::uint64_t position) {
    return slots[position & (slots.size() - 1)];
  }
  void new_life();
  void purge();

  IbvDevice& device_;
  QpInitAttributes attributes_;
  IbvCompletionQueue& send_cq_;
  IbvCompletionQueue& recv_cq_;
  CompletionRoom send_room_, recv_room_;
  /// UD: whoever does not know it sends nothing here; peers learn it with the address. The top bit would make
  /// senders put their own in its place.
  const std::uint32_t qkey_;
  std::unique_ptr<ibv_qp, Freer<ibv_destroy_qp>> qp_;
  bool connected_ = false;  // not in RESET
  std::uint32_t psn_ = 0;
  int peer_node_ = -1;
  // Positions: 64 bits, because a long run posts more than 2^32 and slots are taken by their remainder.
  std::uint64_t posted_ = 0, retired_ = 0;            // send queue
  std::uint64_t recv_posted_ = 0, recv_retired_ = 0;  // receive queue
  std::vector<Slot> send_slots_, recv_slots_;         // by position; as many as a power of two
  std::vector<ibv_send_wr> send_wrs_;                 // of the list that is being posted
  std::vector<ibv_recv_wr> recv_wrs_;
  std::vector<ibv_sge> sges_;
};

}  // namespace verbtwin::ibverbs
