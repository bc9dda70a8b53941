// IbvDevice: backend/verbs.hpp on libibverbs: one context, its protection domain, its completion queues and
// memory regions. Queue pairs are in queue_pair.hpp.
//
// Everything here belongs to one worker thread. What the interface promises and devices do differently is
// made good here, so that the conformance suite holds:
//  * a completion queue never overflows: it is as deep as all that its queue pairs may have outstanding
//    (ibv_resize_cq(3) when one is added), because an overrun loses completions on soft-RoCE without a word
//    and kills the queue on others;
//  * a full send queue is counted here: soft-RoCE takes requests beyond its depth and loses them;
//  * a queue pair that is reset or destroyed leaves no completion behind.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "backend/ibverbs/port.hpp"
#include "backend/verbs.hpp"

namespace verbtwin::ibverbs {

class IbvQueuePair;

/// Stands for the node's registered memory in an Sge: every queue pair puts its own device's key in its
/// place. One memory is registered once per context, with a key each, while protocols know one.
inline constexpr std::uint32_t kNodeMemoryKey = 0xFFFFFFFE;

/// One request on a queue pair's send or receive queue: what the device's wr_id points to.
struct Slot {
  enum class Kind : std::uint8_t { kSend, kRecv, kFence };
  IbvQueuePair* owner = nullptr;
  std::uint64_t wr_id = 0;  // the caller's
  std::uint64_t position = 0;
  Kind kind = Kind::kSend;
  bool signalled = true;
};

/// A completion that failed or a device that takes no requests, for whoever watches over the run.
struct Failure {
  int peer = -1;     // node, -1: not known
  std::string what;  // empty: nothing has failed
};

class IbvDevice final : public Device {
 public:
  explicit IbvDevice(const PortChoice& choice);

  const DeviceAttributes& attributes() const override { return attributes_; }
  std::unique_ptr<CompletionQueue> create_cq(std::uint32_t cqe) override;
  std::unique_ptr<QueuePair> create_qp(const QpInitAttributes& attributes) override;
  std::unique_ptr<AddressHandle> create_ah(const QpAddress& peer) override;
  std::unique_ptr<MemoryRegion> register_memory(std::span<std::byte> memory, unsigned access) override;

  /// Makes the address handle that create_ah(peer) gives later: before a run, for which the kernel may have
  /// to ask the network. What fails names the node.
  void introduce(int node, const QpAddress& peer);

  /// What kNodeMemoryKey stands for from now on.
  void set_node_memory_key(std::uint32_t lkey) { node_memory_key_ = lkey; }
  std::uint32_t key_of(std::uint32_t lkey) const { return lkey == kNodeMemoryKey ? node_memory_key_ : lkey; }

  const Context& context() const { return context_; }
  Context& context() { return context_; }
  VerbCounts& counts() { return counts_; }
  const VerbCounts& counts() const { return counts_; }
  const Failure& first_failure() const { return first_failure_; }
  void note_failure(const Failure& failure) {
    if (first_failure_.what.empty()) first_failure_ = failure;
  }

 private:
  using PeerKey = std::tuple<decltype(QpAddress::gid), std::uint16_t, std::uint32_t>;  // with LID and number
  static PeerKey key_of_peer(const QpAddress& peer) { return {peer.gid, peer.lid, peer.qp_num}; }
  std::shared_ptr<ibv_ah> make_ah(int node, const QpAddress& peer);

  Context context_;
  DeviceAttributes attributes_;
  std::uint32_t node_memory_key_ = 0;
  std::map<PeerKey, std::shared_ptr<ibv_ah>> introduced_;
  std::uint32_t ud_qp_num_ = 0;  // whose datagrams address handles are for: the last one made
  VerbCounts counts_;
  Failure first_failure_;
};

class IbvCompletionQueue final : public CompletionQueue {
 public:
  IbvCompletionQueue(IbvDevice& device, std::uint32_t cqe);
  std::size_t poll(std::span<WorkCompletion> wc) override;

  ibv_cq* get() const { return cq_.get(); }
  /// Before any queue pair uses it: is made anew for so many more requests. Not every device lets one grow.
  void reserve_more(std::uint64_t requests);
  /// Makes room for all that a queue pair may have outstanding; throws UserError where the device has none.
  void add_room(std::uint32_t requests);
  void give_back_room(std::uint32_t requests) { promised_ -= requests; }
  /// Takes all that the device has written, but for what is of a queue pair that posts no more, and keeps it
  /// until it is asked for.
  void take_in(const IbvQueuePair* gone = nullptr);

 private:
  struct Held {
    const IbvQueuePair* owner;
    WorkCompletion wc;
  };
  static constexpr int kBatch = 32;

  /// The caller's view of a device's completion; false: it is nobody's business.
  bool translate(const ibv_wc& from, WorkCompletion& to);

  IbvDevice& device_;
  std::unique_ptr<ibv_cq, Freer<ibv_destroy_cq>> cq_;
  std::uint32_t promised_ = 0;
  std::deque<Held> held_;  // taken in, not asked for yet
  std::array<ibv_wc, kBatch> batch_{};
};

/// A queue pair's share of a completion queue, for as long as this lives.
class CompletionRoom {
 public:
  CompletionRoom(IbvCompletionQueue& cq, std::uint32_t requests) : cq_(cq), requests_(requests) {
    cq.add_room(requests);
  }
  ~CompletionRoom() { cq_.give_back_room(requests_); }
  CompletionRoom(const CompletionRoom&) = delete;
  CompletionRoom& operator=(const CompletionRoom&) = delete;

 private:
  IbvCompletionQueue& cq_;
  std::uint32_t requests_;
};

class IbvAddressHandle final : public AddressHandle {
 public:
  explicit IbvAddressHandle(std::shared_ptr<ibv_ah> ah) : ah_(std::move(ah)) {}
  ibv_ah* get() const { return ah_.get(); }

 private:
  std::shared_ptr<ibv_ah> ah_;
};

/// The path from a queue pair of this number to `peer`, for it or for an address handle.
ibv_ah_attr path_to(const Context& context, std::uint32_t qp_num, const QpAddress& peer);

}  // namespace verbtwin::ibverbs
