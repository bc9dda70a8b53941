// The responder's side of the transport: a request has arrived at its target's NIC.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "sim/flight.hpp"
#include "sim/transport.hpp"

namespace verbtwin::sim {

namespace {

constexpr std::int64_t kMicrosecondPs = 1'000'000;
// min_rnr_timer 1 of the specification: a responder without a RECV is tried again after 10 us.
constexpr std::int64_t kRnrTimerPs = 10 * kMicrosecondPs;
// A request whose target has failed learns it from an earlier request's NAK, which is at most a round trip
// away.
constexpr std::int64_t kFlushProbePs = 4 * kMicrosecondPs;
constexpr std::uint8_t kRetryForEver = 7;

}  // namespace

void Transport::arrive_request(std::uint32_t index, models::Moment tail) {
  Flight& f = flight(index);
  SimQueuePair* target = find(f.target);
  if (resets_ > 0) {  // a request of a life that a reset has ended
    const SimQueuePair* origin = find(f.origin);
    if (origin == nullptr || origin->epoch_ != f.epoch) {
      release(index);
      return;
    }
  }
  const bool there = target != nullptr && target->type() == f.type &&
                     (target->state_ == QpState::kRtr || target->state_ == QpState::kRts) &&
                     (f.type == QpType::kUd ? target->number_ == f.qkey : target->peer_number_ == f.origin);
  if (!there) {
    if (f.type != QpType::kRc) {
      ++counts_.datagrams_dropped;
      release(index);
      return;
    }
    probe(index, tail.at());
    return;
  }
  if (f.status != WcStatus::kSuccess) {  // it failed at home and only keeps its place
    schedule_touch(index, *target, tail, tail);
    return;
  }
  if (target->holding_) {
    hold(index, *target);
    return;
  }
  switch (f.opcode) {
    case Opcode::kSend:
    case Opcode::kSendWithImm:
      arrive_send(index, *target, tail);
      break;
    case Opcode::kRdmaWrite:
    case Opcode::kRdmaWriteWithImm:
      arrive_write(index, *target, tail);
      break;
    case Opcode::kRdmaRead:
      arrive_read(index, *target, tail);
      break;
    case Opcode::kAtomicCmpAndSwp:
    case Opcode::kAtomicFetchAndAdd:
      arrive_atomic(index, *target, tail);
      break;
  }
}

void Transport::arrive_write(std::uint32_t index, SimQueuePair& target, models::Moment tail) {
  Flight& f = flight(index);
  models::Nic& nic = target.port_.nic;
  const std::uint32_t packets = models::packets_of(f.length, mtu_b_);
  RecvWr recv;
  const bool with_imm = f.opcode == Opcode::kRdmaWriteWithImm;
  if (f.length > 0 && !target.port_.memory->allows(f.rkey, f.remote_addr, f.length, kAccessRemoteWrite)) {
    refuse(index, target, WcStatus::kRemAccessErr, nic.receive(target.context_, tail, packets));
    return;
  }
  if (with_imm && !take_recv(index, target, tail, recv)) return;
  const models::Moment done = with_imm ? nic.receive_send(target.context_, tail, packets)
                                       : nic.receive(target.context_, tail, packets);
  const models::Moment visible = nic.pcie().dma_write(done, f.length);
  schedule_touch(index, target, visible, visible);
  if (with_imm) {
    push_recv(f, target, recv, WcStatus::kSuccess, f.length,
              std::max(nic.write_completion(done).at(), target.last_touch_ps_));
  }
}

void Transport::arrive_read(std::uint32_t index, SimQueuePair& target, models::Moment tail) {
  Flight& f = flight(index);
  models::Nic& nic = target.port_.nic;
  const models::Moment done = nic.receive(target.context_, tail, 1);
  if (f.length > 0 && !target.port_.memory->allows(f.rkey, f.remote_addr, f.length, kAccessRemoteRead)) {
    refuse(index, target, WcStatus::kRemAccessErr, done);
    return;
  }
  const models::Pcie::Read read = nic.pcie().dma_read(done.not_before(target.last_atomic_ps_), f.length);
  schedule_touch(index, target, read.touch, read.done);
}

void Transport::arrive_atomic(std::uint32_t index, SimQueuePair& target, models::Moment tail) {
  Flight& f = flight(index);
  models::Nic& nic = target.port_.nic;
  const models::Moment done = nic.receive(target.context_, tail, 1);
  if (f.remote_addr % 8 != 0 || f.length != 8) {
    refuse(index, target, WcStatus::kRemInvReqErr, done);
    return;
  }
  if (!target.port_.memory->allows(f.rkey, f.remote_addr, 8, kAccessRemoteAtomic)) {
    refuse(index, target, WcStatus::kRemAccessErr, done);
    return;
  }
  const models::Moment old =
      nic.atomic_unit().execute(done.not_before(target.last_touch_ps_), f.remote_addr, nic.pcie());
  target.last_atomic_ps_ = old.at();
  schedule_touch(index, target, old, old);
}

/// Takes a RECV for a message; false if there is none and the message has been dealt with.
bool Transport::take_recv(std::uint32_t index, SimQueuePair& target, models::Moment tail, RecvWr& recv) {
  if (target.receives_.size() > 0) {
    recv = target.receives_.pop();
    return true;
  }
  Flight& f = flight(index);
  if (f.type != QpType::kRc) {
    ++counts_.datagrams_dropped;
    release(index);
  } else if (f.tries_left == 0) {
    refuse(index, target, WcStatus::kRnrRetryExcErr, tail);
  } else {
    if (f.tries_left != kRetryForEver) --f.tries_left;
    target.holding_ = true;
    f.stage = Stage::kReceiverNotReady;
    calendar_.schedule(tail.at() + kRnrTimerPs, handler_, index);
  }
  return false;
}

/// Behind a SEND that waits for a RECV every later request of the queue pair waits too: the requester sends
/// them again.
void Transport::hold(std::uint32_t index, SimQueuePair& target) {
  flight(index).next = kNone;
  if (target.held_first_ == kNone) {
    target.held_first_ = index;
  } else {
    flight(target.held_last_).next = index;
  }
  target.held_last_ = index;
}

/// A SEND that found no RECV arrives again, and if it finds one now, so do those behind it.
void Transport::try_again(std::uint32_t index) {
  SimQueuePair* target = find(flight(index).target);
  if (target != nullptr) target->holding_ = false;
  arrive_request(index, now());
  if (target != nullptr) release_held(*target);
}

void Transport::release_held(SimQueuePair& target) {
  while (!target.holding_ && target.held_first_ != kNone) {
    const std::uint32_t index = target.held_first_;
    target.held_first_ = flight(index).next;
    arrive_request(index, now());
  }
}

/// Nobody is there to answer: looks again when a NAK to an earlier request would have come back.
void Transport::probe(std::uint32_t index, std::int64_t at_ps) {
  Flight& f = flight(index);
  f.stage = Stage::kUnanswered;
  f.done_ps = 0;
  if (SimQueuePair* origin = find(f.origin)) {
    origin->last_flush_ps_ = std::max(origin->last_flush_ps_, at_ps + kFlushProbePs);
  }
  calendar_.schedule(at_ps + kFlushProbePs, handler_, index);
}

void Transport::arrive_send(std::uint32_t index, SimQueuePair& target, models::Moment tail) {
  RecvWr recv;
  if (!take_recv(index, target, tail, recv)) return;
  Flight& f = flight(index);
  models::Nic& nic = target.port_.nic;
  const models::Moment done = nic.receive_send(target.context_, tail, models::packets_of(f.length, mtu_b_));
  const std::uint32_t grh_b = f.type == QpType::kUd ? kGrhBytes : 0;
  const auto addr = reinterpret_cast<std::uint64_t>(recv.sge.addr);
  const bool fits = grh_b + f.length <= recv.sge.length;
  const bool allowed = recv.sge.length == 0 ||
                       target.port_.memory->allows(recv.sge.lkey, addr, recv.sge.length, kAccessLocalWrite);
  if (!fits || !allowed) {
    push_recv(f, target, recv, fits ? WcStatus::kLocProtErr : WcStatus::kLocLenErr, 0,
              nic.write_completion(done).at());
    if (f.type == QpType::kRc) {
      refuse(index, target, fits ? WcStatus::kRemOpErr : WcStatus::kRemInvReqErr, done);
    } else {
      enter_error(target, done);
      release(index);
    }
    return;
  }
  // The receiver may not look before its completion is visible, so the bytes may land now.
  if (f.length > 0) std::memcpy(recv.sge.addr + grh_b, f.local, f.length);
  nic.pcie().dma_write(done, grh_b + f.length);
  // Not before an earlier WRITE of the queue pair has landed.
  const std::int64_t visible_ps = std::max(nic.write_completion(done).at(), target.last_touch_ps_);
  push_recv(f, target, recv, WcStatus::kSuccess, grh_b + f.length, visible_ps);
  if (f.type == QpType::kRc) {
    schedule_touch(index, target, done, done);  // its ACK keeps its place behind earlier answers
  } else {
    release(index);
  }
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
  ++counts_.recv.count;
  counts_.recv.bytes += byte_len;
  target.recv_cq_->push(wc, visible_ps, 0);
}

/// Answers with an error; an RC responder that refuses fails with its requester.
void Transport::refuse(std::uint32_t index, SimQueuePair& target, WcStatus status, models::Moment ready) {
  Flight& f = flight(index);
  if (f.type != QpType::kRc) {
    ++counts_.datagrams_dropped;
    release(index);
    return;
  }
  f.status = status;
  if (status == WcStatus::kRnrRetryExcErr) {
    target.state_ = QpState::kError;  // its RECVs, if any come, are flushed
  } else {
    enter_error(target, ready);
  }
  schedule_touch(index, target, ready, ready);
}

void Transport::schedule_touch(std::uint32_t index, SimQueuePair& target, models::Moment touch,
                               models::Moment done) {
  Flight& f = flight(index);
  target.last_touch_ps_ = std::max(target.last_touch_ps_, touch.at());
  target.last_done_ps_ = std::max({target.last_done_ps_, done.at(), target.last_touch_ps_});
  f.done_ps = target.last_done_ps_;
  f.stage = Stage::kTouch;
  calendar_.schedule(target.last_touch_ps_, handler_, index);
}

void Transport::touch(std::uint32_t index) {
  Flight& f = flight(index);
  SimQueuePair* target = find(f.target);
  if (target == nullptr) {  // gone in between
    probe(index, calendar_.now_ps());
    return;
  }
  auto* remote = reinterpret_cast<std::byte*>(f.remote_addr);
  if (f.status == WcStatus::kSuccess && !is_send(f.opcode) && f.length > 0 &&
      !target->port_.memory->allows(f.rkey, f.remote_addr, f.length, 0)) {
    f.status = WcStatus::kRemAccessErr;  // deregistered while the request was on its way
    if (f.type == QpType::kRc) enter_error(*target, now());
  }
  if (f.status != WcStatus::kSuccess || is_send(f.opcode)) {
    // nothing to touch
  } else if (is_write(f.opcode)) {
    if (f.length > 0) std::memcpy(remote, f.local, f.length);
    if (Core* core = target->port_.memory->watcher_of(remote)) core->wake(calendar_.now_ps(), 0);
  } else if (f.opcode == Opcode::kRdmaRead) {
    if (f.length > 0) std::memcpy(f.local, remote, f.length);
  } else {
    std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(remote));
    std::uint64_t old = f.atomic.compare_add;
    if (f.opcode == Opcode::kAtomicFetchAndAdd) {
      old = word.fetch_add(f.atomic.compare_add);
    } else {
      word.compare_exchange_strong(old, f.atomic.swap);
    }
    std::memcpy(f.local, &old, sizeof old);
  }
  const bool unnoticed = f.status == WcStatus::kSuccess && is_write(f.opcode) && (f.flags & kSignaled) == 0 &&
                         message_clock_ == nullptr;
  if (f.type == QpType::kRc && !unnoticed) {
    respond(index, *target, now().plus_delay(f.done_ps - calendar_.now_ps()));
    return;
  }
  if (f.type == QpType::kRc) acknowledge_quietly(f, *target);
  release(index);
}

/// The ACK of an unsignalled WRITE takes its share of engines and links, but tells its origin nothing that a
/// later completion does not: it needs no event when it arrives.
void Transport::acknowledge_quietly(const Flight& f, SimQueuePair& target) {
  const std::uint32_t bytes = models::kAckBytes + packet_extra_b_;
  models::Moment moment = target.port_.nic.send_ack(now());
  for (std::uint32_t hop = 0; hop < target.to_peer_.count; ++hop) {
    const Fabric::Crossing crossing = fabric_.cross(fabric_.link_of(target.to_peer_, hop), bytes, moment);
    moment = hop + 1 == target.to_peer_.count ? crossing.tail : crossing.head;
  }
  SimQueuePair* origin = find(f.origin);
  if (origin != nullptr) origin->port_.nic.receive_ack(origin->context_, moment);
}

void Transport::respond(std::uint32_t index, SimQueuePair& target, models::Moment ready) {
  Flight& f = flight(index);
  models::Nic& nic = target.port_.nic;
  const bool with_data = returns_data(f.opcode) && f.status == WcStatus::kSuccess;
  const models::Moment out = with_data ? nic.send_response(ready) : nic.send_ack(ready);
  std::uint32_t bytes = models::kAckBytes + packet_extra_b_;
  if (with_data && is_atomic(f.opcode)) {
    bytes = models::message_bytes(0, models::kAtomicAckBytes, mtu_b_, packet_extra_b_);
  } else if (with_data) {
    bytes = models::message_bytes(f.length, models::kAethBytes, mtu_b_, packet_extra_b_);
  }
  f.stage = Stage::kResponseOnWire;
  put_on_wire(index, target.to_peer_, bytes, out, target.last_response_ps_);
}

}  // namespace verbtwin::sim
