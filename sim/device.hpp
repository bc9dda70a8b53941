// The simulated device: backend/verbs.hpp over models of a NIC, with the worker's core paying for every call.
//
// Objects here belong to one worker each, as the interface says; all of them run in the simulation's one
// thread. What happens to a request after it is posted is in sim/transport.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "backend/prefetch.hpp"
#include "backend/verbs.hpp"
#include "models/doorbell.hpp"
#include "models/nic.hpp"
#include "sim/core.hpp"
#include "sim/fabric.hpp"
#include "sim/memory.hpp"
#include "sim/slab.hpp"

namespace verbtwin::sim {

class SharedQueuePair;
class Transport;

inline constexpr std::uint32_t kNoFlight = ~0U;
/// Flights in order, chained by their `next`: Transport::append(), take().
struct FlightList {
  bool empty() const { return first == kNoFlight; }

  std::uint32_t first = kNoFlight, last = 0;
};

/// The requests that a port sends, or its answers with data: in the order in which it was told to, as far as
/// their way out is not taken yet. Either has its own, as requests may stand in front of an engine that
/// answers have passed.
struct OutboundQueue {
  /// The next message is on its way: when it will have left the port, those before it done with.
  void sent(const models::Moment& left) {
    left_ps[next] = std::max(left_ps[(next + left_ps.size() - 1) % left_ps.size()], left.queue_ps);
    next = static_cast<std::uint8_t>((next + 1U) % left_ps.size());
  }
  /// When all but the last few will have left. Of long messages some are on their way side by side.
  std::int64_t few_left_ps() const { return left_ps[next]; }

  FlightList waiting;
  std::array<std::int64_t, 4> left_ps{};  // of the last ones sent, in a ring
  std::uint8_t next = 0;                  // the oldest of them
  bool is_scheduled = false;              // an event will look at those that wait
};

struct Outbound {
  static constexpr std::uint32_t kNeverWaited = ~0U;

  OutboundQueue requests, answers;
  std::uint32_t number = kNeverWaited;  // among the ports where anything ever waited
  std::int64_t answers_ahead_b = 0;     // what answers were sent more than requests while both could go
};

/// One NIC port of one node: what its devices share.
struct Port {
  models::Nic nic;
  Memory* memory;  // the node's; not owned
  int endpoint;
  std::optional<models::DoorbellRegisters> doorbells = {};  // where the node's threads share a context
  std::uint32_t threads = 1;                                // of the node
  Outbound outbound = {};
  std::int64_t atomics_ps = 0;  // that its queue pairs, as requesters, were taken by atomics: one at a time
  std::int64_t atomics_before_ps = 0;  // of that, before the window
  std::int64_t queue_pairs_with_atomics = 0;
};

/// As many as threads, or as queue pairs: what one of few completions touches are its first two lines.
class alignas(64) SimCompletionQueue final : public CompletionQueue {
 public:
  SimCompletionQueue(Core& core, Transport& transport, std::uint32_t cqe);
  ~SimCompletionQueue() override;
  static void* operator new(std::size_t) { return Slab<SimCompletionQueue>::take(); }
  static void operator delete(void* object) { Slab<SimCompletionQueue>::give(object); }

  std::size_t poll(std::span<WorkCompletion> wc) override;

  /// Nobody's send queue.
  static constexpr std::uint32_t kNoSender = 0;
  /// A queue pair whose sends complete here: its number among them.
  std::uint32_t add_sender() {
    if (senders_ >= first_retired_.size()) make_room_for_sender();
    return senders_++;
  }
  /// Up to where its send queue is free again: kept here, where a poll need not touch the queue pair.
  std::uint32_t& retired(std::uint32_t sender) {
    return sender < first_retired_.size() ? first_retired_[sender] : retired_[sender - first_retired_.size()];
  }

  /// A completion that can be seen from `visible_ps` on; they are told of in any order. `retires` is the send
  /// queue position of `sender` that it frees up to.
  void push(const WorkCompletion& wc, std::int64_t visible_ps, std::uint32_t sender, std::uint32_t retires);

  std::int64_t first_visible_ps() const {
    return count_ == 0 ? std::numeric_limits<std::int64_t>::max() : ring_[head_].visible_ps;
  }
  /// A poll is near.
  void prefetch() const {
    const auto* entry = reinterpret_cast<const std::byte*>(&ring_[head_]);
    prefetch_line(entry);
    prefetch_line(entry + sizeof(Entry) - 1);
    constexpr std::size_t kFew = 48;  // three lines
    for (std::size_t at = 0; at < std::min(senders_ - first_retired_.size(), kFew) && retired_; at += 16)
      prefetch_line(&retired_[at]);
  }
  const WorkCompletion* first() const { return count_ == 0 ? nullptr : &ring_[head_].wc; }

 private:
  struct Entry {
    WorkCompletion wc;
    std::uint32_t sender, retires;
    std::int64_t visible_ps;
  };
  void grow();
  void make_room_for_sender();

  Core& core_;
  Transport& transport_;
  Entry* ring_ = &one_;     // in order of visible_ps; grown up to the queue's depth as it is used
  std::uint32_t mask_ = 0;  // its length, a power of two, less one
  std::uint32_t head_ = 0, count_ = 0;
  std::uint32_t depth_;
  std::uint32_t senders_ = 1;                        // with nobody
  std::array<std::uint32_t, 2> first_retired_ = {};  // by sender: send queue positions
  // Here the first line ends.

  Entry one_;
  std::unique_ptr<Entry[]> grown_;
  std::unique_ptr<std::uint32_t[]> retired_;  // of the other senders; room for a power of two of them
};

class SimAddressHandle final : public AddressHandle {
 public:
  Path path;
};

class alignas(64) SimQueuePair final : public QueuePair {
 public:
  static constexpr std::size_t kReadsMax = 16;  // READs and ATOMICs in flight, as requester

  SimQueuePair(Transport& transport, Core& core, Port& port, const QpInitAttributes& attributes);
  ~SimQueuePair() override;
  static void* operator new(std::size_t) { return Slab<SimQueuePair>::take(); }
  static void operator delete(void* object) { Slab<SimQueuePair>::give(object); }

  PostResult post_send(std::span<const SendWr> list) override;
  PostResult post_recv(std::span<const RecvWr> list) override;
  /// From now on its sends, of which there has been none, complete there.
  void complete_at(CompletionQueue& queue);

  QpAddress address() const override;
  QpType type() const override { return type_; }
  QpState state() const override { return state_; }
  void connect(const QpAddress& peer) override;
  void reset() override;

 private:
  friend class Transport;
  friend class SimCompletionQueue;
  friend class SharedQueuePair;
  friend class QueuePairShare;

  /// RECVs in order. Buffers are mostly posted, and posted again, in the order in which they lie in memory,
  /// so they are kept as runs of equal steps: thousands of RECVs take a few lines, not a line for every two.
  class ReceiveRing {
   public:
    void push(const RecvWr& wr);
    RecvWr pop();
    std::uint32_t size() const { return count_; }
    void prefetch() const {
      if (count_ > 0) prefetch_line(&runs_[first_]);
    }

   private:
    struct Run {
      RecvWr next;
      std::uint32_t count = 0;
      std::uint64_t id_step = 0;
      std::ptrdiff_t address_step = 0;
    };
    std::vector<Run> runs_;  // those before first_ are used up
    std::uint32_t first_ = 0, count_ = 0;
  };

  void ring(std::size_t requests, std::uint32_t blocks, bool points);
  std::uint32_t& retired() { return send_cq_->retired(sender_); }
  /// How many requests may be posted.
  std::uint32_t room();
  /// How many lines of it are fetched ahead: what a request needs of who answers it, of who hears of the
  /// answer, and of who posts it.
  enum class Lines : std::uint8_t { kAnswers = 1, kCompletes = 2, kPosts = 3 };
  void prefetch(Lines wanted) const { prefetch_lines(this, static_cast<std::size_t>(wanted) * 64); }

  /// What few queue pairs ever have.
  struct Rare {
    FlightList held;                 // as responder: behind a SEND that waits for a RECV
    FlightList behind_held_back;     // as requester: at its target's NIC, with what comes before them
    FlightList unanswered;           // as requester: that found nobody
    std::uint32_t lost = kNoFlight;  // as responder: a request that did not come whole, those behind it held,
    bool refused = false;            // its sender told of that,
    std::uint32_t lost_round = 0;    // the number of the next such request
    FlightList unheard;              // as requester: whose answers did not come whole, and those behind them,
    bool went_back = false;          // which it has seen and is about to ask for,
    std::uint32_t unheard_round = 0;     // the number of the next such list;
    std::vector<std::uint32_t> awaited;  // on lossy fabrics: all that answers are to come for, by position
    std::int64_t last_flush_ps = 0;      // as requester: when the last request known to be flushed will be
    /// As responder over UC: when the last SEND's wait for the engine ends.
    std::int64_t last_in_engine_ps = 0;
  };
  Rare& rare() {
    if (!rare_) rare_ = std::make_unique<Rare>();
    return *rare_;
  }
  bool has_held() const { return rare_ && !rare_->held.empty(); }
  bool has_unheard() const { return rare_ && !rare_->unheard.empty(); }
  bool has_unanswered() const { return rare_ && !rare_->unanswered.empty(); }

  static constexpr std::int64_t kNotDone = std::numeric_limits<std::int64_t>::max();

  // What a request needs of who answers it.
  Port& port_;
  Port* peer_port_ = nullptr;  // connected queue pairs: the other end, as it was when they were connected
  std::int64_t last_response_ps_ = -1;  // messages are heard of in order
  Path to_peer_;
  std::uint32_t peer_number_ = 0;
  std::uint32_t context_;
  std::uint32_t peer_context_ = 0;
  std::uint16_t answers_waiting_ = 0;   // for its port
  std::uint16_t answers_crossing_ = 0;  // as requester: that stand between two links
  QpType type_;
  QpState state_ = QpState::kReset;
  bool holding_ : 1 = false;      // a SEND waits for a RECV, and those behind it with it
  bool deaf_ : 1 = false;         // it has told its peer for the last time that it has no RECV
  bool had_atomics_ : 1 = false;  // as requester
  bool held_back_ : 1 = false;    // as requester: one of its requests waits for its turn at its target's NIC
  bool stalled_ = false;          // as requester: a request failed at home, those behind it do not leave
  // Second line: and of who hears of the answer.
  SimCompletionQueue* send_cq_;
  SharedQueuePair* shared_ = nullptr;  // what threads that post here share; null: only its worker does
  /// By slot: when its READ's answer was, or will be, in. None before the first READ: most queue pairs of a
  /// large cluster only respond.
  std::unique_ptr<std::array<std::int64_t, kReadsMax>> read_done_ps_;
  std::int64_t last_completion_ps_ = 0;  // requests complete in order
  std::uint32_t number_;
  std::uint32_t epoch_ = 0;   // requests of an earlier epoch were reset away
  std::uint32_t posted_ = 0;  // send queue position
  std::uint32_t sender_;      // its number at send_cq_, which knows up to where the queue is free again
  FlightList waiting_;        // behind a full READ window or a fence
  std::uint32_t doorbell_;    // its shared doorbell register, or kOwn
  std::uint16_t requests_crossing_ = 0;  // that stand between two links
  std::uint8_t max_rd_atomic_;
  std::uint8_t read_next_ = 0;  // slot of the next READ or ATOMIC
  // Third line: and of who posts it.
  Transport& transport_;
  Core* core_;                      // of who posts
  std::int64_t last_ready_ps_ = 0;  // for the wire, its last request: they leave in order
  std::int64_t last_request_ps_ = -1;
  std::int64_t last_touch_ps_ = 0;   // its requests touch memory in order,
  std::int64_t last_answer_ps_ = 0;  // the answers leave in order;
  /// What it has written, over PCIe, until then: a READ or atomic starts behind it, not beside it.
  std::int64_t last_change_ps_ = 0;
  std::uint32_t max_send_wr_;
  std::uint16_t max_inline_b_;
  std::uint16_t requests_waiting_ = 0;  // for its port
  // Fourth line: what receives.
  SimCompletionQueue* recv_cq_;
  ReceiveRing receives_;
  std::int64_t last_receive_ps_ = 0;  // RECVs complete in order
  std::unique_ptr<Rare> rare_;        // made when it is needed
  std::uint32_t max_recv_wr_;
  std::uint8_t rnr_retry_, timeout_, retry_cnt_;
};

/// What a device with this profile allows: known before there is one.
DeviceAttributes device_attributes(const models::NicProfile& profile);

class SimDevice final : public Device {
 public:
  SimDevice(Transport& transport, Core& core, Port& port, const models::NicProfile& profile);

  const DeviceAttributes& attributes() const override { return attributes_; }
  std::unique_ptr<CompletionQueue> create_cq(std::uint32_t cqe) override;
  std::unique_ptr<QueuePair> create_qp(const QpInitAttributes& attributes) override;
  std::unique_ptr<AddressHandle> create_ah(const QpAddress& peer) override;
  std::unique_ptr<MemoryRegion> register_memory(std::span<std::byte> memory, unsigned access) override;

 private:
  Transport& transport_;
  Core& core_;
  Port& port_;
  DeviceAttributes attributes_;
};

}  // namespace verbtwin::sim
