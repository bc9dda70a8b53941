// The requester's side of the transport: from a doorbell to the wire.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "backend/prefetch.hpp"
#include "sim/flight.hpp"
#include "sim/transport.hpp"

namespace verbtwin::sim {

void Transport::keep_payload(Flight& f, const SendWr& wr) {
  if (wr.sge.length <= f.small.size()) {
    f.local = f.small.data();
  } else {
    f.pool_class = static_cast<std::uint8_t>(std::bit_width(wr.sge.length - 1));
    auto& buffers = free_payloads_[f.pool_class];
    if (buffers.empty()) {
      f.local = new std::byte[std::size_t{1} << f.pool_class];
    } else {
      f.local = buffers.back();
      buffers.pop_back();
    }
  }
  if (wr.sge.length > 0) std::memcpy(f.local, wr.sge.addr, wr.sge.length);
}

std::uint32_t Transport::wqe_blocks(const SendWr& wr, QpType type) {
  using models::WqeKind;
  const bool is_inline = (wr.flags & kInline) != 0;
  WqeKind kind = type == QpType::kUd ? WqeKind::kUdSend : WqeKind::kSend;
  if (is_write(wr.opcode)) kind = WqeKind::kWrite;
  if (wr.opcode == Opcode::kRdmaRead) kind = WqeKind::kRead;
  if (is_atomic(wr.opcode)) kind = WqeKind::kAtomic;
  return models::wqe_blocks(kind, is_inline, wr.sge.length);
}

std::uint32_t Transport::new_flight(SimQueuePair& qp, const SendWr& wr, std::uint32_t position) {
  const std::uint32_t index = take_flight();
  Flight& f = flight(index);
  f.origin = qp.number_;
  f.target = qp.type() == QpType::kUd ? wr.remote_qpn : qp.peer_number_;
  f.epoch = qp.epoch_;
  f.position = position;
  f.opcode = wr.opcode;
  f.status = WcStatus::kSuccess;
  f.type = qp.type();
  f.flags = wr.flags;
  f.blocks = static_cast<std::uint8_t>(wqe_blocks(wr, qp.type()));
  f.wqe = 0;
  f.tries_left = qp.rnr_retry_;
  f.executed = false;
  f.packets_heard = 0;
  f.length = wr.sge.length;
  f.rkey = wr.rkey;
  f.imm_data = wr.imm_data;
  f.qkey = wr.remote_qkey;
  f.wr_id = wr.wr_id;
  f.remote_addr = wr.remote_addr;
  f.local = wr.sge.addr;
  if (is_atomic(wr.opcode)) f.atomic = {wr.compare_add, wr.swap};
  return index;
}

void Transport::post(SimQueuePair& qp, std::span<const SendWr> list, std::uint32_t position,
                     std::uint32_t blocks, std::int64_t rung_ps) {
  FlightList requests;
  if (qp.read_done_ps_) prefetch_line(&(*qp.read_done_ps_)[qp.read_next_]);
  for (const SendWr& wr : list) {
    counts_.add(wr.opcode, wr.sge.length);
    const std::uint32_t index = new_flight(qp, wr, position++);
    Flight& f = flight(index);
    append(index, requests);
    const bool is_inline = (wr.flags & kInline) != 0;
    const unsigned access = returns_data(wr.opcode) ? kAccessLocalWrite : 0U;
    const auto addr = reinterpret_cast<std::uint64_t>(wr.sge.addr);
    if (!is_inline && wr.sge.length > 0 &&
        !qp.port_.memory->allows(wr.sge.lkey, addr, wr.sge.length, access)) {
      f.status = WcStatus::kLocProtErr;
    } else if (is_inline || qp.type_ != QpType::kRc) {
      keep_payload(f, wr);
    }
    f.path = qp.type_ == QpType::kUd ? static_cast<SimAddressHandle*>(wr.ah)->path : qp.to_peer_;
  }
  const RungList rung{requests.first, static_cast<std::uint32_t>(list.size()), blocks,
                      is_by_pointer(list.front())};
  const std::int64_t ahead_ps = rung_ps - calendar_.now_ps();
  if (ahead_ps <= kAheadMaxPs) {
    take_list(qp, rung, now().plus_delay(ahead_ps));
  } else {
    ring_later(qp, rung, rung_ps);
  }
}

void Transport::ring_later(SimQueuePair& qp, const RungList& rung, std::int64_t rung_ps) {
  const std::uint32_t index = take_flight();
  Flight& f = flight(index);
  f.stage = Stage::kRung;
  f.origin = qp.number_;
  f.epoch = qp.epoch_;
  f.done_ps = rung_ps;
  f.rung = rung;
  const std::size_t core = qp.core_->index();
  if (core >= ahead_.size()) ahead_.resize(core + 1);
  Ahead& ahead = ahead_[core];
  if (ahead.first_ps <= calendar_.now_ps() || rung_ps - ahead.first_ps > kAheadMaxPs) {
    ahead = {rung_ps, {}};
    calendar_.schedule(rung_ps, handler_, index);
  }
  append(index, ahead.doorbells);
}

/// The NIC has been told of these requests.
void Transport::take_list(SimQueuePair& qp, const RungList& rung, const models::Moment& at) {
  const models::Moment fetched = qp.port_.nic.fetch_wqes(at, rung.requests, rung.blocks, rung.points);
  for (std::uint32_t index = rung.first, next = kNoFlight; index != kNoFlight; index = next) {
    Flight& f = flight(index);
    next = f.next;
    f.done_ps = fetched.at();  // for one that has to wait
    OutboundQueue& requests = qp.port_.outbound.requests;
    // Behind those of its queue pair that wait for the port it may not get to the window before them.
    if (!qp.waiting_.empty() && qp.requests_waiting_ == 0) {
      append(index, qp.waiting_);
    } else if (!requests.waiting.empty() || is_taken(requests)) {
      if (has_place(qp, f, qp.requests_waiting_)) f.wqe = qp.port_.nic.number_wqe();
      f.stage = Stage::kRequestWaits;
      ++qp.requests_waiting_;
      wait_for_port(index, qp.port_.outbound, requests);
    } else {
      leave(index, qp, fetched);
    }
  }
}

/// The first of its queue pair that has not left: now, or when its place in the window is free.
void Transport::leave(std::uint32_t index, SimQueuePair& qp, const models::Moment& fetched) {
  if (must_wait(qp, flight(index))) {
    flight(index).wqe = 0;
    append(index, qp.waiting_);
    wake_first_waiting(qp);
  } else {
    if (flight(index).wqe != 0)
      qp.port_.nic.fetch_again_if_gone(flight(index).wqe, flight(index).blocks, fetched);
    launch(index, qp, fetched);
  }
}

/// The time of a core's doorbells has come, or nearly.
void Transport::rung(std::uint32_t index) {
  for (std::uint32_t next = kNoFlight; index != kNoFlight; index = next) {
    const Flight& doorbell = flight(index);
    const RungList list = doorbell.rung;
    SimQueuePair* qp = origin_of(doorbell);
    const models::Moment at = now().plus_delay(doorbell.done_ps - calendar_.now_ps());
    next = doorbell.next;
    release(index);
    if (qp != nullptr && qp->state_ == QpState::kRts) {
      take_list(*qp, list, at);
    } else {
      drop(list, qp);
    }
  }
}

/// Requests whose queue pair has failed before they were told of, or (null) begun anew.
void Transport::drop(const RungList& list, SimQueuePair* qp) {
  for (std::uint32_t request = list.first, next = kNoFlight; request != kNoFlight; request = next) {
    next = flight(request).next;
    if (qp == nullptr) {
      release(request);
    } else {
      flush_last(request, *qp, calendar_.now_ps());
    }
  }
}

void Transport::flush(SimQueuePair& qp, std::uint32_t index, std::int64_t at_ps) {
  flight(index).status = WcStatus::kWrFlushErr;
  flight(index).stage = Stage::kLocalCompletion;
  std::int64_t& last_flush_ps = qp.rare().last_flush_ps;
  last_flush_ps = std::max(last_flush_ps, at_ps);
  calendar_.schedule(last_flush_ps, handler_, index);
}

/// Some of its requests are on their way yet: what is flushed completes behind them.
bool Transport::has_untouched(const SimQueuePair& qp) const {
  if (qp.type_ != QpType::kRc) return false;
  const std::int64_t now_ps = calendar_.now_ps();
  if (!qp.port_.outbound.requests.waiting.empty() || qp.has_unanswered() || qp.requests_crossing_ > 0 ||
      std::max(qp.last_request_ps_, qp.last_touch_ps_) > now_ps) {
    return true;
  }
  return qp.read_done_ps_ &&
         std::ranges::any_of(*qp.read_done_ps_, [now_ps](std::int64_t done_ps) { return done_ps > now_ps; });
}

/// Keeps its place by going round empty.
void Transport::flush_in_order(std::uint32_t index, SimQueuePair& qp) {
  flight(index).status = WcStatus::kWrFlushErr;
  launch(index, qp, now());
}

/// Of a queue pair that has failed: behind all that it was told of before.
void Transport::flush_last(std::uint32_t index, SimQueuePair& qp, std::int64_t at_ps) {
  if (!has_untouched(qp)) return flush(qp, index, at_ps);
  flight(index).path = qp.to_peer_;
  OutboundQueue& before = qp.port_.outbound.requests;
  if (before.waiting.empty()) return flush_in_order(index, qp);
  flight(index).stage = Stage::kRequestWaits;
  ++qp.requests_waiting_;
  wait_for_port(index, qp.port_.outbound, before);
}

void Transport::flush(SimQueuePair& qp, const SendWr& wr, std::uint32_t position) {
  flush_last(new_flight(qp, wr, position), qp, qp.core_->now_ps());
}

bool Transport::must_wait(const SimQueuePair& qp, const Flight& f) const {
  // Over UC and UD what stands between two links holds back those behind it, whoever they are for.
  if (qp.stalled_ || (qp.requests_crossing_ > 0 && f.type != QpType::kRc)) return true;
  if (!qp.read_done_ps_) return false;
  const std::int64_t now_ps = calendar_.now_ps();
  if ((f.flags & kFence) != 0) {
    for (const std::int64_t done_ps : *qp.read_done_ps_) {
      if (done_ps > now_ps) return true;
    }
  }
  return !has_place(qp, f, 0);
}

/// In the READ window of its queue pair, for one that leaves behind `before` others.
bool Transport::has_place(const SimQueuePair& qp, const Flight& f, std::uint32_t before) const {
  if (!returns_data(f.opcode)) return true;
  if (before >= qp.max_rd_atomic_) return false;
  if (!qp.read_done_ps_) return true;
  std::uint32_t slot = qp.read_next_ + before;
  if (slot >= qp.max_rd_atomic_) slot -= qp.max_rd_atomic_;
  return (*qp.read_done_ps_)[slot] <= calendar_.now_ps();
}

void Transport::abandon_waiting(SimQueuePair& qp) {
  while (!qp.waiting_.empty()) release(take(qp.waiting_));
}

void Transport::abandon_unanswered(SimQueuePair& qp) {
  while (qp.has_unanswered()) release(take(qp.rare().unanswered));
}

void Transport::abandon_unheard(SimQueuePair& qp) {
  while (qp.has_unheard()) release(take(qp.rare().unheard));
}

void Transport::abandon_held(SimQueuePair& qp) {
  qp.holding_ = false;
  if (qp.rare_ && qp.rare_->lost != kNoFlight) {
    release(std::exchange(qp.rare_->lost, kNoFlight));
    ++qp.rare_->lost_round;
  }
  while (qp.has_held()) release(take(qp.rare().held));
}

void Transport::launch_waiting(SimQueuePair& qp) {
  while (!qp.waiting_.empty() && !must_wait(qp, flight(qp.waiting_.first))) {
    const std::uint32_t index = take(qp.waiting_);
    launch(index, qp, now().not_before(flight(index).done_ps));
  }
  if (!qp.waiting_.empty()) wake_first_waiting(qp);
}

/// The answer to a READ or an ATOMIC is in at `done_ps`: its place in the window is free from then on.
void Transport::read_done(const Flight& f, SimQueuePair& origin, std::int64_t done_ps) {
  (*origin.read_done_ps_)[f.read_slot] = done_ps;
  if (origin.waiting_.empty()) return;
  const bool is_awaited =
      f.read_slot == origin.read_next_ || (flight(origin.waiting_.first).flags & kFence) != 0;
  if (is_awaited) schedule_window(origin, done_ps);
}

/// Answers that were known to come before there was anybody to wait for them wake nobody by themselves.
void Transport::wake_first_waiting(SimQueuePair& qp) {
  if (!qp.read_done_ps_) return;
  std::int64_t known_ps = 0;
  const auto known = [&](std::int64_t done_ps) {
    if (done_ps != SimQueuePair::kNotDone) known_ps = std::max(known_ps, done_ps);
  };
  const Flight& f = flight(qp.waiting_.first);
  if (returns_data(f.opcode)) known((*qp.read_done_ps_)[qp.read_next_]);
  if ((f.flags & kFence) != 0) std::ranges::for_each(*qp.read_done_ps_, known);
  if (known_ps > calendar_.now_ps()) schedule_window(qp, known_ps);
}

void Transport::schedule_window(const SimQueuePair& qp, std::int64_t at_ps) {
  const std::uint32_t index = take_flight();
  flight(index).origin = qp.number_;
  flight(index).epoch = qp.epoch_;
  flight(index).stage = Stage::kWindow;
  calendar_.schedule(std::max(at_ps, calendar_.now_ps()), handler_, index);
}

void Transport::launch(std::uint32_t index, SimQueuePair& qp, const models::Moment& fetched) {
  Flight& f = flight(index);
  // It failed at home. Its place in the order is kept by sending it round empty: its error completes behind
  // those before it, and those behind it stay.
  if (f.status != WcStatus::kSuccess) qp.stalled_ = true;
  if (f.wqe == 0) f.wqe = qp.port_.nic.number_wqe();
  const std::uint32_t fetch_b = (f.flags & kInline) == 0 ? request_packets(f).bytes : 0;
  const models::Moment out =
      qp.port_.nic.send_request(qp.context_, qp.last_ready_ps_, fetched, f.blocks, fetch_b);
  if (returns_data(f.opcode)) {
    f.read_slot = qp.read_next_;
    if (!qp.read_done_ps_)
      qp.read_done_ps_ = std::make_unique<std::array<std::int64_t, SimQueuePair::kReadsMax>>();
    (*qp.read_done_ps_)[qp.read_next_] = SimQueuePair::kNotDone;
    if (++qp.read_next_ == qp.max_rd_atomic_) qp.read_next_ = 0;
  }
  if (f.type != QpType::kRc && f.status != WcStatus::kSuccess) {
    f.stage = Stage::kLocalCompletion;
    calendar_.schedule(out.at(), handler_, index);
    return;
  }
  if (lost_below_ > 0 && f.type == QpType::kRc) await_answer(f, qp);
  const std::uint32_t bytes = request_bytes(f);
  f.stage = Stage::kRequestOnWire;
  if (message_clock_ != nullptr) {
    const bool completes = completes_at_port(f);
    // SimGrid does not tell when a message has left its port, only when it is there.
    const models::Packets packets = request_packets(f);
    if (completes) complete_when(f, qp, fabric_.leave(f.path, bytes, out, packets));
    send_message(index, f.path, bytes, out, packets, qp.last_request_ps_, completes ? 1 : 0);
    return;
  }
  // Behind those that have stopped between two links it stands in their line.
  const bool slips = returns_data(f.opcode) && qp.requests_crossing_ == 0;
  const Fabric::Crossing crossing =
      slips ? fabric_.slip_through(f.path, bytes, out)
            : fabric_.cross(f.path, bytes, out, request_packets(f), calendar_.now_ps());
  qp.port_.outbound.requests.sent(crossing.left);
  request_crossed(index, qp, crossing);
}

/// Its completion is written when it has left the port, at `left`. Until then PCIe works on what comes
/// before.
void Transport::complete_when(const Flight& f, SimQueuePair& qp, const models::Moment& left) {
  const std::int64_t wait_ps = std::max<std::int64_t>(0, left.at() - calendar_.now_ps());
  complete(f, qp, qp.port_.nic.write_own_completion(now().plus_delay(wait_ps)).at());
}

/// Nobody answers on UC and UD: a completion there says that the last byte has left the port.
bool Transport::completes_at_port(const Flight& f) {
  return f.type != QpType::kRc && (f.flags & kSignaled) != 0;
}

/// A request that failed at home goes round empty.
models::Packets Transport::request_packets(const Flight& f) const {
  return {f.status == WcStatus::kSuccess && !returns_data(f.opcode) ? f.length : 0, mtu_b_};
}

std::uint32_t Transport::request_bytes(const Flight& f) const {
  std::uint32_t first_b = 0;
  if (f.type == QpType::kUd) first_b += models::kDethBytes;
  if (is_write(f.opcode) || f.opcode == Opcode::kRdmaRead) first_b += models::kRethBytes;
  if (is_atomic(f.opcode)) first_b += models::kAtomicEthBytes;
  if (has_imm(f.opcode)) first_b += models::kImmBytes;
  return models::message_bytes(again_of(f, request_packets(f)).bytes, first_b, mtu_b_, packet_extra_b_);
}

/// Who takes a message for sent when it has left the port is held back by a NIC that takes in no more.
models::Moment Transport::left_port(const Flight& f, const SimQueuePair& qp, const Fabric::Crossing& crossing,
                                    std::uint32_t wire_b) {
  const Port* to = qp.peer_port_;
  if (f.type == QpType::kUd) {
    const SimQueuePair* target = find(f.target);
    to = target == nullptr ? nullptr : &target->port_;
  }
  const std::int64_t held_ps = to == nullptr ? 0 : to->nic.held_out_ps(crossing.there, wire_b);
  return held_ps == 0 ? crossing.left : crossing.left.not_before(crossing.there.at() + held_ps);
}

}  // namespace verbtwin::sim
