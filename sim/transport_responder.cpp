// The responder's side of the transport: a request has arrived at its target's NIC.
#include <algorithm>
#include <cstring>

#include "sim/flight.hpp"
#include "sim/transport.hpp"

namespace verbtwin::sim {

namespace {

constexpr std::int64_t kMicrosecondPs = 1'000'000;
// min_rnr_timer 1 of the specification: a responder without a RECV is tried again 10 us after its NAK is
// there.
constexpr std::int64_t kRnrTimerPs = 10 * kMicrosecondPs;
// A request whose target has failed learns it from an earlier request's NAK, which is at most a round trip
// away.
constexpr std::int64_t kFlushProbePs = 4 * kMicrosecondPs;
// A datagram takes its RECV no earlier than this before the engine has dealt with those in front of it. An
// event less where the wait is short.
constexpr std::int64_t kRecvAheadMaxPs = 4 * kMicrosecondPs;
constexpr std::uint8_t kRetryForEver = 7;

}  // namespace

void Transport::schedule_touch(std::uint32_t index, SimQueuePair& origin, const models::Moment& touch,
                               const models::Moment& done) {
  Flight& f = flight(index);
  std::int64_t touch_ps = touch.first().at();
  // SimGrid tells of a message when all of it is there: its first packet may have been at memory by now.
  if (message_clock_ != nullptr) touch_ps = std::max(calendar_.now_ps(), touch_ps);
  f.done_ps = done.at();
  f.spread_ps = done.spread_ps;
  if (f.type != QpType::kUd) {  // datagrams go to many: they have no order
    touch_ps = std::max(origin.last_touch_ps_, touch_ps);
    const std::int64_t whole_ps = std::max(touch_ps, touch.at());
    const std::int64_t held_ps = whole_ps - touch.at();  // by those before it
    // What comes behind a READ that has begun may land: only a fence keeps it back.
    origin.last_touch_ps_ = f.opcode == Opcode::kRdmaRead ? touch_ps : whole_ps;
    f.done_ps += held_ps;
    if (is_torn_read(f)) f.done_ps = std::max(f.done_ps, whole_ps + tear_.within_ps);
    if (is_write(f.opcode)) origin.last_change_ps_ = std::max(origin.last_change_ps_, f.done_ps);
    // A SEND's answer is worked out when it has taken its RECV.
    if (!is_send(f.opcode)) f.done_ps = origin.last_answer_ps_ = std::max(origin.last_answer_ps_, f.done_ps);
  }
  f.stage = Stage::kTouch;
  calendar_.schedule(touch_ps, handler_, index);
}

void Transport::touch(std::uint32_t index) {
  Flight& f = flight(index);
  SimQueuePair* target = find(f.target);
  // A request of a life that a reset has ended.
  if (resets_ > 0 && origin_of(f) == nullptr) return release(index);
  const bool there = target != nullptr && target->type_ == f.type &&
                     (target->state_ == QpState::kRtr || target->state_ == QpState::kRts) && !target->deaf_ &&
                     (f.type == QpType::kUd ? target->number_ == f.qkey : target->peer_number_ == f.origin);
  if (there && lost_below_ > 0 && !arrives(index, *target)) return;
  if (there) {
    execute(index, *target);
  } else if (f.type == QpType::kRc) {
    probe(index, calendar_.now_ps());
  } else {
    ++counts_.datagrams_dropped;
    release(index);
  }
}

/// Whoever polls the memory that was written finds it now.
void Transport::wake_watcher(const Flight& f, const Memory& memory) {
  Core* core = memory.watcher_of(reinterpret_cast<const std::byte*>(f.remote_addr));
  if (core != nullptr) core->wake(calendar_.now_ps(), 0);
}

void Transport::execute(std::uint32_t index, SimQueuePair& target) {
  Flight& f = flight(index);
  if (f.status != WcStatus::kSuccess) {
    respond(index, target, now());
    return;
  }
  if (f.executed && f.opcode != Opcode::kRdmaRead) {
    respond(index, target, rest_of(f));
    return;
  }
  if (target.holding_ && !f.executed) {
    hold(index, target);
    return;
  }
  if (is_send(f.opcode)) {
    receive(index, target);
    return;
  }
  // A WRITE lands behind the SENDs before it, and does not wait for those behind it.
  if (f.type == QpType::kUc && f.stage != Stage::kInEngine && target.rare_ &&
      target.rare_->last_in_engine_ps > calendar_.now_ps()) {
    f.stage = Stage::kInEngine;
    calendar_.schedule(target.rare_->last_in_engine_ps, handler_, index);
    return;
  }
  if (is_atomic(f.opcode) && (f.remote_addr % 8 != 0 || f.length != 8)) {
    refuse(index, target, WcStatus::kRemInvReqErr);
    return;
  }
  unsigned access = kAccessRemoteAtomic;
  if (is_write(f.opcode)) access = kAccessRemoteWrite;
  if (f.opcode == Opcode::kRdmaRead) access = kAccessRemoteRead;
  if (f.length > 0 && !target.port_.memory->allows(f.rkey, f.remote_addr, f.length, access)) {
    refuse(index, target, WcStatus::kRemAccessErr);
    return;
  }
  if (f.opcode == Opcode::kRdmaWriteWithImm) {
    RecvWr recv;
    if (!take_recv(index, target, recv)) return;
    access_memory(f, *target.port_.memory);
    models::Nic& nic = target.port_.nic;
    nic.receive_imm(target.context_, now());
    push_recv(f, target, recv, WcStatus::kSuccess, f.length, nic.write_completion_behind(now()).at());
  } else {
    access_memory(f, *target.port_.memory);
    if (is_write(f.opcode) && tear_.within_ps == 0) wake_watcher(f, *target.port_.memory);
  }
  acknowledge(index, target, ready_to_answer(f, target));
}

/// The answer to a request that touches memory now: with the rest of a READ, or what a WRITE has become
/// visible behind.
models::Moment Transport::ready_to_answer(const Flight& f, const SimQueuePair& target) const {
  if (!is_write(f.opcode)) return rest_of(f);
  const std::int64_t posted_ps = -target.port_.nic.pcie().write_latency_ps();
  return now().plus_delay(std::max(f.done_ps - calendar_.now_ps(), posted_ps));
}

/// A message whose first packet is dealt with now: as a whole.
models::Moment Transport::rest_of(const Flight& f) const {
  const std::int64_t rest_ps = std::max<std::int64_t>(0, f.done_ps - calendar_.now_ps());
  const std::int64_t spread_ps = std::min(f.spread_ps, rest_ps);
  return {calendar_.now_ps() + spread_ps, rest_ps - spread_ps, 0, spread_ps};
}

/// Takes a RECV for a message; false if there is none and the message has been dealt with.
bool Transport::take_recv(std::uint32_t index, SimQueuePair& target, RecvWr& recv) {
  if (target.receives_.size() > 0) {
    recv = target.receives_.pop();
    return true;
  }
  Flight& f = flight(index);
  // The NIC has taken it in before it finds that.
  if (is_send(f.opcode) && f.stage != Stage::kInEngine)
    target.port_.nic.receive(target.context_, rest_of(f), f.length);
  if (f.type != QpType::kRc) {
    ++counts_.datagrams_dropped;
    release(index);
  } else if (f.tries_left == 0) {
    refuse(index, target, WcStatus::kRnrRetryExcErr);
  } else {
    acknowledge_quietly(target);  // the NAK
    if (f.tries_left != kRetryForEver) --f.tries_left;
    target.holding_ = true;
    f.stage = Stage::kReceiverNotReady;
    const SimQueuePair* origin = origin_of(f);
    const std::int64_t trip_ps = origin == nullptr ? 0 : go_back_ps(f, *origin);
    calendar_.schedule(calendar_.now_ps() + kRnrTimerPs + trip_ps, handler_, index);
  }
  return false;
}

/// Behind a SEND that waits for a RECV every later request of the queue pair waits too: the requester sends
/// them again.
void Transport::hold(std::uint32_t index, SimQueuePair& target) {
  append(index, target.rare().held);
  refuse_sequence(target);
}

/// What found no RECV, or did not come whole, arrives again, and if it gets through now, so do those behind
/// it.
void Transport::try_again(std::uint32_t index) {
  SimQueuePair* target = find(flight(index).target);
  if (target != nullptr) target->holding_ = false;
  flight(index).stage = Stage::kTouch;
  std::int64_t last_answer_ps = 0;
  for (;;) {
    send_again(flight(index), last_answer_ps);
    touch(index);
    if (target == nullptr || target->holding_ || !target->has_held()) return;
    index = take(target->rare().held);
  }
}

/// The second and every further time takes engines and links as long as the first (or again_of() it); how
/// long that is for the request itself is in the time before it (go_back_ps). What a WRITE takes behind the
/// receive engine it has taken already, the lost part with it. A READ's data are fetched from now on.
/// `last_answer_ps`: of those sent again before it; answers leave in order.
void Transport::send_again(Flight& f, std::int64_t& last_answer_ps) {
  SimQueuePair* origin = origin_of(f);
  if (origin == nullptr) return;
  const std::uint32_t payload_b = again_of(f, request_packets(f)).bytes;
  const std::uint32_t fetch_b = (f.flags & kInline) == 0 ? payload_b : 0;
  origin->port_.nic.send_request(origin->context_, origin->last_ready_ps_, now(), f.blocks, fetch_b);
  fabric_.cross_quietly(f.path, request_bytes(f));
  SimQueuePair* target = find(f.target);
  if (target == nullptr || is_send(f.opcode)) return;
  models::Nic& nic = target->port_.nic;
  const models::Moment in = nic.receive(target->context_, now(), payload_b);
  if (f.opcode == Opcode::kRdmaRead) {
    const models::Packets again = again_of(f, answer_packets(f));
    const std::int64_t packet_ps = nic.pcie().raw_ps(std::min(again.bytes, again.mtu_b));
    f.done_ps = std::max(f.done_ps, calendar_.now_ps() + nic.pcie().read_latency_ps() / 2 + packet_ps);
    if (f.executed) nic.pcie().dma_read(nic.serve_read(in, again.bytes), again.bytes, again);
  }
  f.done_ps = last_answer_ps = std::max(last_answer_ps, f.done_ps);
  origin->last_answer_ps_ = std::max(origin->last_answer_ps_, f.done_ps);
}

/// Nobody is there to answer: its origin looks again when a NAK to an earlier request would have come back.
void Transport::probe(std::uint32_t index, std::int64_t at_ps) {
  Flight& f = flight(index);
  SimQueuePair* origin = origin_of(f);
  if (origin == nullptr) return release(index);
  f.done_ps = at_ps + kFlushProbePs;
  const bool is_first = !origin->has_unanswered();
  append(index, origin->rare().unanswered);
  if (is_first) schedule_look(*origin, flight(index).done_ps);
}

/// A message whose turn at the NIC's engine is far takes its RECV then, not now: those of a receiver that is
/// flooded are few. The last RECV gone, one may yet be posted until then. RC has windows, and is told to come
/// again; UC keeps its order, so that each takes its RECV in its turn.
bool Transport::waits_for_engine(std::uint32_t index, SimQueuePair& target) {
  Flight& f = flight(index);
  if (f.type == QpType::kRc || f.stage == Stage::kInEngine) return false;
  models::Nic& nic = target.port_.nic;
  const bool in_turn = f.type == QpType::kUc || target.receives_.size() == 0;
  const std::int64_t wait_ps = nic.receive_wait_ps(rest_of(f)) - (in_turn ? 0 : kRecvAheadMaxPs);
  if (wait_ps <= 0) return false;
  const models::Moment done = nic.receive_send(target.context_, rest_of(f), f.length);
  f.stage = Stage::kInEngine;
  f.done_ps = done.at();
  f.spread_ps = done.spread_ps;
  const std::int64_t goes_on_ps = calendar_.now_ps() + wait_ps;
  if (f.type == QpType::kUc) target.rare().last_in_engine_ps = goes_on_ps;
  calendar_.schedule(goes_on_ps, handler_, index);
  return true;
}

/// A SEND is there.
void Transport::receive(std::uint32_t index, SimQueuePair& target) {
  if (waits_for_engine(index, target)) return;
  RecvWr recv;
  if (!take_recv(index, target, recv)) return;
  Flight& f = flight(index);
  models::Nic& nic = target.port_.nic;
  models::Moment done =
      f.stage == Stage::kInEngine ? rest_of(f) : nic.receive_send(target.context_, rest_of(f), f.length);
  if (f.type == QpType::kRc) done = nic.serve_request(done, f.length);
  const std::uint32_t grh_b = f.type == QpType::kUd ? kGrhBytes : 0;
  const auto addr = reinterpret_cast<std::uint64_t>(recv.sge.addr);
  const bool fits = grh_b + f.length <= recv.sge.length;
  const bool allowed = recv.sge.length == 0 ||
                       target.port_.memory->allows(recv.sge.lkey, addr, recv.sge.length, kAccessLocalWrite);
  if (!fits || !allowed) {
    push_recv(f, target, recv, fits ? WcStatus::kLocProtErr : WcStatus::kLocLenErr, 0,
              nic.write_completion(done).at());
    if (f.type == QpType::kRc) {
      refuse(index, target, fits ? WcStatus::kRemOpErr : WcStatus::kRemInvReqErr);
    } else {
      enter_error(target, done);
      release(index);
    }
    return;
  }
  // An InfiniBand packet within a subnet has no GRH: its place in the buffer stays as it was. RoCE's carry
  // one.
  const std::uint32_t landed_b = f.length + (packet_extra_b_ > 0 ? grh_b : 0);
  // The receiver may not look before its completion is visible, so the bytes may land now.
  if (f.length > 0) std::memcpy(recv.sge.addr + grh_b, f.local, f.length);
  const models::Moment landed = nic.write_completion(done, landed_b);
  push_recv(f, target, recv, WcStatus::kSuccess, grh_b + f.length, landed.at());
  // As for a WRITE, whose ACK does not wait until its payload is visible. How long the NIC took to pass it on
  // is a delay to who hears of it now: in front of the servers on the way back stands what has come there by
  // now.
  std::int64_t posted_ps = std::max(calendar_.now_ps(), landed.at() - nic.pcie().write_latency_ps());
  if (SimQueuePair* origin = f.type == QpType::kRc ? origin_of(f) : nullptr)
    posted_ps = origin->last_answer_ps_ = std::max(origin->last_answer_ps_, posted_ps);
  acknowledge(index, target, now().plus_delay(posted_ps - calendar_.now_ps()));
}

void Transport::push_recv(const Flight& f, SimQueuePair& target, const RecvWr& recv, WcStatus status,
                          std::uint32_t byte_len, std::int64_t visible_ps) {
  WorkCompletion wc;
  wc.wr_id = recv.wr_id;
  wc.status = status;
  wc.opcode = f.opcode == Opcode::kRdmaWriteWithImm ? WcOpcode::kRecvRdmaWithImm : WcOpcode::kRecv;
  wc.has_imm = has_imm(f.opcode);
  wc.byte_len = byte_len;
  wc.imm_data = f.imm_data;
  wc.qp_num = target.number_;
  wc.src_qp = f.origin;
  counts_.recv.add(f.length);  // of a datagram without what stands in front of it
  visible_ps = behind_landings_ps(target.port_.endpoint, visible_ps);
  target.last_receive_ps_ = std::max(target.last_receive_ps_, visible_ps);
  target.recv_cq_->push(wc, target.last_receive_ps_, SimCompletionQueue::kNoSender, 0);
}

/// Answers with an error. An RC responder that refuses fails with its requester, but for one that has run out
/// of RECVs.
void Transport::refuse(std::uint32_t index, SimQueuePair& target, WcStatus status) {
  Flight& f = flight(index);
  if (f.type != QpType::kRc) {
    ++counts_.datagrams_dropped;
    release(index);
    return;
  }
  f.status = status;
  if (status == WcStatus::kRnrRetryExcErr) {
    target.deaf_ = true;  // it goes on, but what its peer has sent behind that does not follow on anything
  } else {
    enter_error(target, now());
  }
  respond(index, target, now());
}

/// A request that has been carried out, at a reliable queue pair: its answer if one is due.
void Transport::acknowledge(std::uint32_t index, SimQueuePair& target, const models::Moment& ready) {
  Flight& f = flight(index);
  f.executed = true;
  if (f.type == QpType::kRc) {
    if ((f.flags & kSignaled) != 0 || returns_data(f.opcode)) return respond(index, target, ready);
    if (target.peer_port_->nic.asks_for_ack(f.position)) {
      if (message_clock_ != nullptr) return respond(index, target, ready);
      acknowledge_quietly(target);
    }
  }
  release(index);
}

/// The ACK of an unsignalled request takes its share of the link and of its origin's NIC, but tells its
/// origin nothing that a later completion does not.
void Transport::acknowledge_quietly(SimQueuePair& target) {
  fabric_.cross_quietly(target.to_peer_, models::kAckBytes + packet_extra_b_);
  target.peer_port_->nic.receive_ack_quietly(target.peer_context_);
}

/// What carries data waits for its port where that has much to send, and so do all that come behind it on its
/// queue pair.
void Transport::respond(std::uint32_t index, SimQueuePair& target, const models::Moment& ready) {
  Flight& f = flight(index);
  OutboundQueue& answers = target.port_.outbound.answers;
  const bool waits = f.answer_has_data() && (!answers.waiting.empty() || is_taken(answers));
  if (!waits && target.answers_waiting_ == 0) return answer(index, target, ready);
  f.stage = Stage::kAnswerWaits;
  f.done_ps = ready.at();
  f.spread_ps = ready.spread_ps;
  ++target.answers_waiting_;
  wait_for_port(index, target.port_.outbound, answers);
}

models::Packets Transport::answer_packets(const Flight& f) const {
  return {f.answer_has_data() ? f.length : 0, mtu_b_};
}

std::uint32_t Transport::answer_bytes(const Flight& f) const {
  const std::uint32_t data_b = again_of(f, answer_packets(f)).bytes;
  if (!f.answer_has_data()) return models::kAckBytes + packet_extra_b_;
  if (is_atomic(f.opcode)) return models::message_bytes(0, models::kAtomicAckBytes, mtu_b_, packet_extra_b_);
  // Of several packets the first and the last have an AETH.
  const std::uint32_t last_b = data_b > mtu_b_ ? models::kAethBytes : 0;
  return models::message_bytes(data_b, models::kAethBytes, mtu_b_, packet_extra_b_) + last_b;
}

/// The ACK of a WRITE leaves before its payload is visible, which is when it is told of: not so long before
/// that it would be at its origin by then. SimGrid takes nothing that has left already.
std::int64_t Transport::earliest_answer_ps(Path path) const {
  return calendar_.now_ps() - (message_clock_ == nullptr ? fabric_.latency_ps(path) : 0);
}

void Transport::answer(std::uint32_t index, SimQueuePair& target, const models::Moment& ready) {
  Flight& f = flight(index);
  models::Nic& nic = target.port_.nic;
  const bool with_data = f.answer_has_data();
  models::Moment out = nic.send_answer(ready);
  if (out.at() < calendar_.now_ps()) out = out.not_before(earliest_answer_ps(target.to_peer_));
  f.stage = Stage::kResponseOnWire;
  if (message_clock_ != nullptr) {
    send_message(index, target.to_peer_, answer_bytes(f), out, answer_packets(f), target.last_response_ps_);
    return;
  }
  f.path = target.to_peer_;
  SimQueuePair* origin = origin_of(f);
  // Behind those that have stopped between two links it stands in their line.
  const bool in_line = answers_crossing_ > 0 && origin != nullptr && origin->answers_crossing_ > 0;
  const Fabric::Crossing crossing =
      with_data || in_line
          ? fabric_.cross(f.path, answer_bytes(f), out, again_of(f, answer_packets(f)), calendar_.now_ps())
          : fabric_.slip_through(f.path, answer_bytes(f), out);
  if (with_data) target.port_.outbound.answers.sent(crossing.left);
  if (origin == nullptr) return release(index);
  answer_crossed(index, *origin, crossing);
}

}  // namespace verbtwin::sim
