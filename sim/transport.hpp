// Transport: what becomes of a posted request. RC, UC and UD from the send queue of one NIC over the fabric
// into the memory or the receive queue of another, and back as a completion. Real bytes move, at the
// simulated instant at which the target's NIC touches them.
//
// Owned by the Cluster; one thread. A request in flight is one Flight in a pool, and has exactly one pending
// event: the instant at which it touches its target's memory, or takes its RECV. The way there, and the
// answer's way back, are worked out when they are entered (models::Moment); only what fails, waits or travels
// as a SimGrid communication has further events.
//
// Where a request's bytes are while it is in flight: inline and datagram payloads are copied when posted
// (their buffer may be reused at once, or as soon as the send completes); RC payloads are read from the
// sender's buffer when they land, and READ results are written to the requester's buffer when they are read:
// both buffers are the NIC's until the completion, so a protocol that touches them earlier is wrong, and here
// it fails.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <pcg_random.hpp>

#include "backend/verbs.hpp"
#include "sim/calendar.hpp"
#include "sim/device.hpp"
#include "sim/fabric.hpp"

namespace verbtwin::sim {

class Clock;

class Transport final : public EventHandler {
 public:
  /// NICs READ several cache lines one by one, and CPUs see what NICs write line by line, each up to so long
  /// after the touch; 0: all at once.
  ///
  /// A NIC's writes are posted on PCIe: the request is answered before the target's CPUs see its bytes. They
  /// land in order, but for the lines of one request among each other; a READ or an ATOMIC pushes those
  /// before it on its NIC, and a completion stands behind them (PCI Express Base Specification, transaction
  /// ordering).
  struct Tear {
    std::int64_t within_ps = 0;
    std::uint64_t seed = 0;
  };
  /// Packets that the fabric loses, each with this probability, whatever it is part of.
  struct Loss {
    double ratio = 0;
    std::uint64_t seed = 0;
  };
  /// `message_clock` not null: every message is a SimGrid communication of that clock (network.model =
  /// simgrid).
  Transport(Calendar& calendar, Fabric& fabric, Clock* message_clock, const models::NicProfile& profile,
            Tear tear, Loss loss);
  ~Transport();

  void handle(std::uint32_t index) override;
  void prefetch(std::uint32_t index, int steps) const override;

  std::uint32_t add(SimQueuePair& qp);
  void remove(SimQueuePair& qp) { queue_pairs_[qp.number_] = nullptr; }
  SimQueuePair* find(std::uint32_t number) {
    return number < queue_pairs_.size() ? queue_pairs_[number] : nullptr;
  }
  Fabric& fabric() { return fabric_; }
  std::uint32_t mtu_b() const { return mtu_b_; }

  /// Takes a list whose doorbell the core rings at `rung_ps`, `blocks` long in all; `position` is the first
  /// one's in the send queue.
  void post(SimQueuePair& qp, std::span<const SendWr> list, std::uint32_t position, std::uint32_t blocks,
            std::int64_t rung_ps);
  /// A request posted in the error state.
  void flush(SimQueuePair& qp, const SendWr& wr, std::uint32_t position);
  void flush_recv(SimQueuePair& qp, const RecvWr& wr, const models::Moment& at);
  /// Forgets the requests that never left.
  void abandon_waiting(SimQueuePair& qp);
  /// Forgets the requests that wait at this queue pair for a RECV.
  void abandon_held(SimQueuePair& qp);
  void abandon_held_back(SimQueuePair& qp);
  void abandon_unanswered(SimQueuePair& qp);
  /// Forgets those whose answers were lost.
  void abandon_unheard(SimQueuePair& qp);
  void count_reset() { ++resets_; }

  static std::uint32_t wqe_blocks(const SendWr& wr, QpType type);

  const VerbCounts& counts() const { return counts_; }
  std::size_t in_flight() const { return in_flight_; }
  /// Events that touched one cache line each, of accesses that are torn.
  std::uint64_t torn_lines() const { return torn_lines_; }
  /// Requests that completed with an error, flushed ones among them.
  std::uint64_t failed() const { return failed_; }

 private:
  struct Flight;
  /// Requests that a doorbell tells of, chained by their `next`.
  struct RungList {
    std::uint32_t first, requests, blocks;
    bool points;  // Nic::fetch_wqes
  };
  enum class Stage : std::uint8_t {
    kRequestOnWire,  // as a SimGrid communication
    kTouch,
    kBehindChange,  // at its target's NIC: for what its queue pair changes before it,
    kBehindLock,    // or for its lock
    kInEngine,  // an unreliable SEND that has yet to take its RECV, its way through the NIC known; what is
                // behind it
    kReceiverNotReady,
    kResponseOnWire,   // as a SimGrid communication, or a NAK
    kRequestCrosses,   // stands in front of one of the links of its path, or will soon,
    kAnswerCrosses,    // the same of an answer
    kLocalCompletion,  // done without an answer: requests that failed or were flushed at home
    kUnanswered,
    kWindow,          // not a request: a queue pair whose requests wait may send the next
    kLine,            // a cache line of a torn access
    kRung,            // a doorbell that a core rings in the middle of a long step
    kRequestWaits,    // for the way out of its port,
    kAnswerWaits,     // the same of an answer;
    kRequestsGo,      // and not a request: a port that may send the next of its requests,
    kAnswersGo,       // or of its answers;
    kResendRequests,  // nor this: a queue pair sends again what its peer has not received,
    kResendUnheard,   // or what it has not heard of
  };

  Flight& flight(std::uint32_t index) const;
  void append(std::uint32_t index, FlightList& list);
  std::uint32_t take(FlightList& list);
  SimQueuePair* origin_of(const Flight& f);
  std::uint32_t take_flight();
  void release(std::uint32_t index);
  void keep_payload(Flight& f, const SendWr& wr);
  std::uint32_t new_flight(SimQueuePair& qp, const SendWr& wr, std::uint32_t position);

  void take_list(SimQueuePair& qp, const RungList& rung, const models::Moment& at);
  void ring_later(SimQueuePair& qp, const RungList& rung, std::int64_t rung_ps);
  void rung(std::uint32_t index);
  void drop(const RungList& list, SimQueuePair* qp);
  void flush(SimQueuePair& qp, std::uint32_t index, std::int64_t at_ps);
  void flush_in_order(std::uint32_t index, SimQueuePair& qp);
  void flush_last(std::uint32_t index, SimQueuePair& qp, std::int64_t at_ps);
  bool has_untouched(const SimQueuePair& qp) const;
  bool must_wait(const SimQueuePair& qp, const Flight& f) const;
  bool has_place(const SimQueuePair& qp, const Flight& f, std::uint32_t before) const;
  void leave(std::uint32_t index, SimQueuePair& qp, const models::Moment& fetched);
  bool is_taken(const OutboundQueue& queue) const;
  bool can_go(const OutboundQueue& queue) const;
  void wait_for_port(std::uint32_t index, Outbound& out, OutboundQueue& queue);
  void schedule_outbound(const Outbound& out, OutboundQueue& queue);
  std::uint32_t take_outbound(Outbound& out);
  void send_outbound(Outbound& out);
  void send_waiting(std::uint32_t index);
  void launch(std::uint32_t index, SimQueuePair& qp, const models::Moment& fetched);
  static bool completes_at_port(const Flight& f);
  models::Moment left_port(const Flight& f, const SimQueuePair& qp, const Fabric::Crossing& crossing,
                           std::uint32_t wire_b);
  void wake_first_waiting(SimQueuePair& qp);
  void schedule_window(const SimQueuePair& qp, std::int64_t at_ps);
  void hold(std::uint32_t index, SimQueuePair& target);
  void launch_waiting(SimQueuePair& qp);
  void read_done(const Flight& f, SimQueuePair& origin, std::int64_t done_ps);

  void send_message(std::uint32_t index, Path path, std::uint32_t bytes, const models::Moment& ready,
                    models::Packets packets, std::int64_t& last_ps, std::uint32_t links_taken = 0);
  void message_arrived(std::uint32_t index);
  bool arrives_later(std::uint32_t index, const models::Moment& there, std::int64_t& last_ps);
  bool crosses_later(std::uint32_t index, const Fabric::Crossing& crossing);
  void request_crossed(std::uint32_t index, SimQueuePair& origin, const Fabric::Crossing& crossing);
  void answer_crossed(std::uint32_t index, SimQueuePair& origin, const Fabric::Crossing& crossing);
  void cross_on(std::uint32_t index);
  void put_off(std::uint32_t index, const models::Moment& there, std::int64_t at_ps);
  models::Moment here(const Flight& f) const;
  models::Packets request_packets(const Flight& f) const;
  models::Packets answer_packets(const Flight& f) const;
  std::uint32_t request_bytes(const Flight& f) const;
  std::uint32_t answer_bytes(const Flight& f) const;
  void arrive_in_order(std::uint32_t index);
  static std::uint64_t sequence_key(const Flight& f);
  void try_again(std::uint32_t index);
  void send_again(Flight& f, std::int64_t& last_answer_ps);
  models::Packets again_of(const Flight& f, models::Packets packets) const;
  models::Packets rest_lost(const Flight& f, models::Packets packets) const;
  void probe(std::uint32_t index, std::int64_t at_ps);

  bool loses(Flight& f, models::Packets packets);
  bool loses_packet();
  bool arrives(std::uint32_t index, SimQueuePair& target);
  void refuse_sequence(SimQueuePair& target);
  bool is_heard(std::uint32_t index, SimQueuePair& origin, const models::Moment& tail);
  void finish_those_before(const Flight& f, SimQueuePair& origin, const models::Moment& done);
  std::int64_t way_ps(const SimQueuePair& origin) const;
  std::int64_t go_back_ps(const Flight& f, const SimQueuePair& origin) const;
  void miss_answer(std::uint32_t index, SimQueuePair& origin, std::int64_t at_ps, bool more_come);
  void await_answer(const Flight& f, SimQueuePair& origin);
  void answered(const Flight& f, SimQueuePair& origin);
  bool is_next(const Flight& f, const SimQueuePair::Rare& gap) const;
  void see_gap(SimQueuePair::Rare& gap, std::int64_t at_ps);
  void keep_unheard(std::uint32_t index, SimQueuePair::Rare& gap);
  enum class Because : std::uint8_t { kNak, kTimeout };
  void go_back(SimQueuePair::Rare& gap, Because because, std::int64_t from_ps);
  void schedule_resend(Stage stage, const Flight& f, std::uint32_t round, Because because,
                       std::int64_t from_ps);
  void resend_requests(const Flight& timer);
  void resend_unheard(const Flight& timer);

  static bool is_served(const Flight& f, const SimQueuePair& origin);
  void arrive_request(std::uint32_t index, SimQueuePair& origin, const models::Moment& tail);
  void carry_out(std::uint32_t index, SimQueuePair& origin, const models::Moment& in);
  void execute_atomic(std::uint32_t index, SimQueuePair& origin, const models::Moment& in);
  void stand_back(std::uint32_t index, const models::Moment& in);
  void hold_back(std::uint32_t index, SimQueuePair& origin, Stage until, const models::Moment& in);
  bool waits_for_turn(std::uint32_t index, SimQueuePair& origin, const models::Moment& in);
  void turn_has_come(std::uint32_t index);
  void lock_is_free(std::uint32_t index, SimQueuePair* origin);
  void schedule_touch(std::uint32_t index, SimQueuePair& origin, const models::Moment& touch,
                      const models::Moment& done);
  void touch(std::uint32_t index);
  void wake_watcher(const Flight& f, const Memory& memory);
  void execute(std::uint32_t index, SimQueuePair& target);
  void access_memory(Flight& f, Memory& memory);
  void access_whole(const Flight& f, Memory& memory);
  bool is_torn_read(const Flight& f) const;
  void access_late(const Flight& f, Opcode op, const std::byte* written);
  void access_line(std::uint32_t index);
  void perform(const Flight& line);
  void land(int endpoint);
  std::int64_t behind_landings_ps(int endpoint, std::int64_t visible_ps) const;
  void receive(std::uint32_t index, SimQueuePair& target);
  bool waits_for_engine(std::uint32_t index, SimQueuePair& target);
  bool take_recv(std::uint32_t index, SimQueuePair& target, RecvWr& recv);
  void push_recv(const Flight& f, SimQueuePair& target, const RecvWr& recv, WcStatus status,
                 std::uint32_t byte_len, std::int64_t visible_ps);
  void refuse(std::uint32_t index, SimQueuePair& target, WcStatus status);

  void respond(std::uint32_t index, SimQueuePair& target, const models::Moment& ready);
  void answer(std::uint32_t index, SimQueuePair& target, const models::Moment& ready);
  std::int64_t earliest_answer_ps(Path path) const;
  void acknowledge(std::uint32_t index, SimQueuePair& target, const models::Moment& ready);
  void acknowledge_quietly(SimQueuePair& target);
  void arrive_response(std::uint32_t index, SimQueuePair& origin, const models::Moment& tail);
  void finish(std::uint32_t index, SimQueuePair& origin, const models::Moment& ready, std::uint32_t landed_b);
  void complete_when(const Flight& f, SimQueuePair& qp, const models::Moment& left);
  void complete(const Flight& f, SimQueuePair& origin, std::int64_t visible_ps);
  models::Moment rest_of(const Flight& f) const;
  models::Moment ready_to_answer(const Flight& f, const SimQueuePair& target) const;
  void schedule_look(const SimQueuePair& qp, std::int64_t at_ps);
  void unanswered(SimQueuePair& origin);
  void enter_error(SimQueuePair& qp, const models::Moment& ready);
  models::Moment now() const { return {calendar_.now_ps(), 0}; }

  static constexpr std::uint32_t kChunk = 4096;
  /// A core's step is worked out when it begins, and rings doorbells later than that. One that is no further
  /// ahead than the latencies of a NIC is told of at once, its lead carried as a delay (models::Moment): an
  /// event less. One that is further ahead waits for its time, as its requests would stand in front of others
  /// that come before them.
  static constexpr std::int64_t kAheadMaxPs = 1'000'000;
  /// What a port is told to send goes on its way at once while the way out is taken no further ahead than
  /// this. Else it waits here, as it does in send queues.
  static constexpr std::int64_t kAheadOfQueuesMaxPs = Fabric::kAheadOfQueuesMaxPs;
  /// A turn at memory that comes later than this is waited for.
  static constexpr std::int64_t kReadTurnAheadMaxPs = 1'000'000;

  Calendar& calendar_;
  Calendar::HandlerId handler_;
  Fabric& fabric_;
  Clock* message_clock_;
  std::uint32_t mtu_b_, packet_extra_b_;
  std::vector<std::unique_ptr<Flight[]>> chunks_;
  std::uint32_t free_ = kNoFlight;
  std::size_t in_flight_ = 0;
  std::vector<SimQueuePair*> queue_pairs_;
  std::vector<Memory*> memories_;                       // by endpoint; of those that have a queue pair
  std::vector<Outbound*> waiting_ports_;                // where anything ever waited, by Outbound::number
  std::vector<std::vector<std::byte*>> free_payloads_;  // by power of two
  /// By core: doorbells that wait for their time with one event, that of the first, which is still to come if
  /// it is later than now.
  struct Ahead {
    std::int64_t first_ps = -1;
    FlightList doorbells;
  };
  std::vector<Ahead> ahead_;
  std::uint64_t resets_ = 0;
  std::uint64_t answers_crossing_ = 0;  // of all queue pairs
  std::uint32_t lost_below_;            // a random number that is less loses a packet; 0: none is lost
  pcg32 random_;
  Tear tear_;
  /// What a NIC has written and no CPU sees yet.
  struct Landing {
    std::vector<std::uint32_t> lines;  // flights, in the order of their requests
    std::int64_t last_ps = 0;          // when the last is seen
  };
  std::vector<Landing> landings_;  // by endpoint; with Tear only
  /// Messages that SimGrid delivers share bandwidth and overtake each other; those of one queue pair and
  /// direction are put back in order here (network.model = simgrid only). Looked up, never iterated.
  struct Sequence {
    std::uint32_t sent = 0, arrived = 0;
    std::map<std::uint32_t, std::uint32_t> early;  // flights by their number
  };
  std::map<std::uint64_t, Sequence> sequences_;
  /// Atomics that wait for a lock; the first of them has an event for when that is free.
  struct LockLine {
    const models::AtomicUnit* unit;
    FlightList waiting;
  };
  using LockId = std::pair<std::uint16_t, std::uint64_t>;  // endpoint, and which of its locks
  LockId lock_of(const Flight& f) const;
  std::uint64_t atomic_locks_;             // of each NIC
  std::map<LockId, LockLine> lock_lines_;  // looked up, never iterated
  VerbCounts counts_;
  std::uint64_t failed_ = 0, torn_lines_ = 0;
};

}  // namespace verbtwin::sim
