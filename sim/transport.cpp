#include "sim/transport.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "sim/clock.hpp"
#include "sim/flight.hpp"

namespace verbtwin::sim {

namespace {

WcOpcode wc_opcode(Opcode op) {
  switch (op) {
    case Opcode::kSend:
    case Opcode::kSendWithImm:
      return WcOpcode::kSend;
    case Opcode::kRdmaWrite:
    case Opcode::kRdmaWriteWithImm:
      return WcOpcode::kRdmaWrite;
    case Opcode::kRdmaRead:
      return WcOpcode::kRdmaRead;
    case Opcode::kAtomicCmpAndSwp:
      return WcOpcode::kCompSwap;
    case Opcode::kAtomicFetchAndAdd:
      return WcOpcode::kFetchAdd;
  }
  return WcOpcode::kSend;
}

}  // namespace

Transport::Transport(Calendar& calendar, Fabric& fabric, Clock* message_clock,
                     const models::NicProfile& profile, Tear tear)
    : calendar_(calendar),
      handler_(calendar.add_handler(*this)),
      fabric_(fabric),
      message_clock_(message_clock),
      mtu_b_(static_cast<std::uint32_t>(profile.mtu_b)),
      packet_extra_b_(static_cast<std::uint32_t>(profile.wire_header_b)),
      queue_pairs_(1, nullptr),
      free_payloads_(33),
      tear_(tear) {}

Transport::~Transport() {
  for (auto& buffers : free_payloads_) {
    for (std::byte* buffer : buffers) delete[] buffer;
  }
}

std::uint32_t Transport::add(SimQueuePair& qp) {
  const auto endpoint = static_cast<std::size_t>(qp.port_.endpoint);
  if (memories_.size() <= endpoint) memories_.resize(endpoint + 1);
  memories_[endpoint] = qp.port_.memory;
  queue_pairs_.push_back(&qp);
  return static_cast<std::uint32_t>(queue_pairs_.size() - 1);
}

std::uint32_t Transport::take_flight() {
  if (free_ == kNone) {
    const auto base = static_cast<std::uint32_t>(chunks_.size()) * kChunk;
    chunks_.push_back(std::make_unique<Flight[]>(kChunk));
    for (std::uint32_t i = kChunk; i-- > 0;) {
      chunks_.back()[i].next = free_;
      free_ = base + i;
    }
  }
  const std::uint32_t index = free_;
  free_ = flight(index).next;
  ++in_flight_;
  return index;
}

void Transport::release(std::uint32_t index) {
  Flight& f = flight(index);
  if (f.pool_class != 0) {
    free_payloads_[f.pool_class].push_back(f.local);
    f.pool_class = 0;
  }
  f.next = free_;
  free_ = index;
  --in_flight_;
}

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
  f.tries_left = qp.rnr_retry_;
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
  std::uint32_t first = kNone, last = kNone;
  for (const SendWr& wr : list) {
    VerbCounts::Count& count = counts_.by_opcode[static_cast<std::size_t>(wr.opcode)];
    ++count.count;
    count.bytes += wr.sge.length;
    const std::uint32_t index = new_flight(qp, wr, position++);
    Flight& f = flight(index);
    (last == kNone ? first : flight(last).next) = index;
    last = index;
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
  flight(last).next = kNone;
  const RungList rung{first, static_cast<std::uint32_t>(list.size()), blocks,
                      points_to_payload(list.front())};
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
  f.next = kNone;
  f.rung = rung;
  const std::size_t core = qp.core_.index();
  if (core >= ahead_.size()) ahead_.resize(core + 1);
  Ahead& ahead = ahead_[core];
  if (ahead.first_ps > calendar_.now_ps() && rung_ps - ahead.first_ps <= kAheadMaxPs) {
    flight(ahead.last).next = index;
    ahead.last = index;
  } else {
    ahead = {rung_ps, index};
    calendar_.schedule(rung_ps, handler_, index);
  }
}

/// The NIC has been told of these requests.
void Transport::take_list(SimQueuePair& qp, const RungList& rung, models::Moment at) {
  std::uint32_t wqe = qp.port_.nic.wqes_fetched();
  const models::Moment fetched = qp.port_.nic.fetch_wqes(at, rung.requests, rung.blocks, rung.points);
  for (std::uint32_t index = rung.first, next = kNone; index != kNone; index = next) {
    Flight& f = flight(index);
    next = f.next;
    f.wqe = ++wqe;
    if (qp.waiting_first_ != kNone) {
      wait_behind(qp, index);
    } else if (must_wait(qp, f)) {
      wait_behind(qp, index);
      wake_first_waiting(qp);
    } else {
      launch(index, qp, fetched);
    }
  }
}

/// The time of a core's doorbells has come, or nearly.
void Transport::rung(std::uint32_t index) {
  for (std::uint32_t next = kNone; index != kNone; index = next) {
    const Flight& doorbell = flight(index);
    const RungList list = doorbell.rung;
    SimQueuePair* qp = find(doorbell.origin);
    const bool alive = qp != nullptr && qp->epoch_ == doorbell.epoch;
    const models::Moment at = now().plus_delay(doorbell.done_ps - calendar_.now_ps());
    next = doorbell.next;
    release(index);
    if (alive && qp->state_ == QpState::kRts) {
      take_list(*qp, list, at);
    } else {
      drop(list, alive ? qp : nullptr);
    }
  }
}

/// Requests whose queue pair has failed before they were told of, or (null) begun anew.
void Transport::drop(const RungList& list, SimQueuePair* qp) {
  for (std::uint32_t request = list.first, next = kNone; request != kNone; request = next) {
    next = flight(request).next;
    if (qp == nullptr) {
      release(request);
    } else {
      flush(*qp, request, calendar_.now_ps());
    }
  }
}

void Transport::flush(SimQueuePair& qp, std::uint32_t index, std::int64_t at_ps) {
  flight(index).status = WcStatus::kWrFlushErr;
  flight(index).stage = Stage::kLocalCompletion;
  qp.last_flush_ps_ = std::max(qp.last_flush_ps_, at_ps);
  calendar_.schedule(qp.last_flush_ps_, handler_, index);
}

void Transport::flush(SimQueuePair& qp, const SendWr& wr, std::uint32_t position) {
  flush(qp, new_flight(qp, wr, position), qp.core_.now_ps());
}

void Transport::flush_recv(SimQueuePair& qp, const RecvWr& wr) {
  WorkCompletion wc;
  wc.wr_id = wr.wr_id;
  wc.status = WcStatus::kWrFlushErr;
  wc.opcode = WcOpcode::kRecv;
  wc.qp_num = qp.number_;
  qp.recv_cq_->push(wc, qp.port_.nic.write_completion({qp.core_.now_ps(), 0}).at(), 0);
}

bool Transport::must_wait(const SimQueuePair& qp, const Flight& f) const {
  if (qp.stalled_) return true;
  if (!qp.read_done_ps_) return false;
  const std::int64_t now_ps = calendar_.now_ps();
  if ((f.flags & kFence) != 0) {
    for (const std::int64_t done_ps : *qp.read_done_ps_) {
      if (done_ps > now_ps) return true;
    }
  }
  return returns_data(f.opcode) && (*qp.read_done_ps_)[qp.read_next_] > now_ps;
}

void Transport::wait_behind(SimQueuePair& qp, std::uint32_t index) {
  flight(index).next = kNone;
  if (qp.waiting_first_ == kNone) {
    qp.waiting_first_ = index;
  } else {
    flight(qp.waiting_last_).next = index;
  }
  qp.waiting_last_ = index;
}

std::uint32_t Transport::take_waiting(SimQueuePair& qp) {
  const std::uint32_t index = qp.waiting_first_;
  qp.waiting_first_ = flight(index).next;
  return index;
}

void Transport::abandon_waiting(SimQueuePair& qp) {
  while (qp.waiting_first_ != kNone) release(take_waiting(qp));
}

void Transport::abandon_held(SimQueuePair& qp) {
  qp.holding_ = false;
  while (qp.held_first_ != kNone) {
    const std::uint32_t index = qp.held_first_;
    qp.held_first_ = flight(index).next;
    release(index);
  }
}

void Transport::launch_waiting(SimQueuePair& qp) {
  while (qp.waiting_first_ != kNone && !must_wait(qp, flight(qp.waiting_first_))) {
    launch(take_waiting(qp), qp, now());
  }
}

/// The answer to a READ or an ATOMIC is in at `done_ps`: its place in the window is free from then on.
void Transport::read_done(const Flight& f, SimQueuePair& origin, std::int64_t done_ps) {
  (*origin.read_done_ps_)[f.read_slot] = done_ps;
  if (origin.waiting_first_ != kNone) schedule_window(origin, done_ps);
}

/// Answers that were known to come before there was anybody to wait for them wake nobody by themselves.
void Transport::wake_first_waiting(SimQueuePair& qp) {
  if (!qp.read_done_ps_) return;
  std::int64_t known_ps = 0;
  const auto known = [&](std::int64_t done_ps) {
    if (done_ps != SimQueuePair::kNotDone) known_ps = std::max(known_ps, done_ps);
  };
  const Flight& f = flight(qp.waiting_first_);
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

void Transport::launch(std::uint32_t index, SimQueuePair& qp, models::Moment fetched) {
  Flight& f = flight(index);
  // It failed at home. Its place in the order is kept by sending it round empty: its error completes behind
  // those before it, and those behind it stay.
  if (f.status != WcStatus::kSuccess) qp.stalled_ = true;
  const bool has_payload = !returns_data(f.opcode);
  const std::uint32_t fetch_b =
      f.status == WcStatus::kSuccess && has_payload && (f.flags & kInline) == 0 ? f.length : 0;
  const models::Moment out =
      qp.port_.nic.send_request(qp.context_, qp.engine_free_ps_, fetched, f.blocks, fetch_b);
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
  if (f.type != QpType::kRc && (f.flags & kSignaled) != 0) {
    // Nobody answers a datagram: its completion says that it has left.
    complete(f, qp, qp.port_.nic.write_completion(out).at());
  }
  std::uint32_t first_b = 0;
  if (f.type == QpType::kUd) first_b += models::kDethBytes;
  if (is_write(f.opcode) || f.opcode == Opcode::kRdmaRead) first_b += models::kRethBytes;
  if (is_atomic(f.opcode)) first_b += models::kAtomicEthBytes;
  if (has_imm(f.opcode)) first_b += models::kImmBytes;
  const std::uint32_t bytes =
      models::message_bytes(has_payload ? f.length : 0, first_b, mtu_b_, packet_extra_b_);
  f.stage = Stage::kRequestOnWire;
  if (message_clock_ != nullptr) {
    send_message(index, f.path, bytes, out.at(), qp.last_request_ps_);
  } else {
    arrive_request(index, qp, fabric_.cross(f.path, bytes, out));
  }
}

/// `last_ps`: when the one before it on its queue pair did; none overtakes another.
void Transport::send_message(std::uint32_t index, Path path, std::uint32_t bytes, std::int64_t ready_ps,
                             std::int64_t& last_ps) {
  Flight& f = flight(index);
  last_ps = std::max(last_ps, ready_ps);
  f.order = sequences_[sequence_key(f)].sent++;
  message_clock_->send(path.from, path.to, bytes, last_ps, handler_, index);
}

void Transport::prefetch(std::uint32_t index, int steps) const {
  const Flight& f = flight(index);
  if (steps == 2) {
    __builtin_prefetch(&f);
    __builtin_prefetch(&f.wr_id);
    return;
  }
  const bool at_target = f.stage == Stage::kTouch;
  if (at_target && !is_send(f.opcode) && f.path.to < memories_.size() && memories_[f.path.to] != nullptr) {
    memories_[f.path.to]->prefetch(f.rkey, f.remote_addr, steps);
  }
  const std::uint32_t number = at_target ? f.target : f.origin;
  const SimQueuePair* qp = number < queue_pairs_.size() ? queue_pairs_[number] : nullptr;
  if (qp == nullptr) return;
  if (steps == 1) {
    const auto* lines = reinterpret_cast<const std::byte*>(qp);
    for (std::size_t at = 0; at < SimQueuePair::kHotBytes; at += 64) __builtin_prefetch(lines + at);
    for (std::size_t at = 0; at < f.length && at < 256; at += 64) __builtin_prefetch(f.local + at);
    const bool answers = at_target && f.type == QpType::kRc && (f.flags & kSignaled) != 0;
    if (answers && f.origin < queue_pairs_.size() && queue_pairs_[f.origin] != nullptr) {
      const auto* origin = reinterpret_cast<const std::byte*>(queue_pairs_[f.origin]);
      for (std::size_t at = 0; at < SimQueuePair::kHotBytes; at += 64) __builtin_prefetch(origin + at);
    }
    return;
  }
  const bool receives = at_target && is_send(f.opcode);
  if (receives) qp->receives_.prefetch();
  if (!receives && (f.flags & kSignaled) == 0) return;
  if (!receives && f.origin < queue_pairs_.size()) qp = queue_pairs_[f.origin];
  if (qp == nullptr) return;
  __builtin_prefetch(receives ? qp->recv_cq_ : qp->send_cq_);
  const auto* core = reinterpret_cast<const std::byte*>(&qp->core_);
  __builtin_prefetch(core);
  __builtin_prefetch(core + 64);
}

std::uint64_t Transport::sequence_key(const Flight& f) {
  const bool request = f.stage == Stage::kRequestOnWire;
  return std::uint64_t{request ? f.origin : f.target} << 33 |
         std::uint64_t{request ? f.target : f.origin} << 1 | (request ? 1U : 0U);
}

void Transport::arrive_in_order(std::uint32_t index) {
  const std::uint64_t key = sequence_key(flight(index));
  sequences_[key].early.emplace(flight(index).order, index);
  for (;;) {
    Sequence& sequence = sequences_[key];
    const auto next = sequence.early.find(sequence.arrived);
    if (next == sequence.early.end()) return;
    const std::uint32_t arrived = next->second;
    sequence.early.erase(next);
    ++sequence.arrived;
    message_arrived(arrived);
  }
}

/// A request or a response is there as a whole, now.
void Transport::message_arrived(std::uint32_t index) {
  SimQueuePair* origin = find(flight(index).origin);
  if (origin == nullptr || origin->epoch_ != flight(index).epoch) {
    release(index);
  } else if (flight(index).stage == Stage::kRequestOnWire) {
    arrive_request(index, *origin, now());
  } else {
    arrive_response(index, *origin, now());
  }
}

void Transport::handle(std::uint32_t index) {
  switch (flight(index).stage) {
    case Stage::kTouch:
      touch(index);
      break;
    case Stage::kRequestOnWire:
    case Stage::kResponseOnWire:
      if (message_clock_ != nullptr) {
        arrive_in_order(index);
      } else {
        message_arrived(index);
      }
      break;
    case Stage::kReceiverNotReady:
      try_again(index);
      break;
    case Stage::kLocalCompletion:
    case Stage::kWindow: {
      SimQueuePair* origin = find(flight(index).origin);
      const bool alive = origin != nullptr && origin->epoch_ == flight(index).epoch;
      if (alive && flight(index).stage == Stage::kLocalCompletion) {
        finish(index, *origin, now(), 0);
        break;
      }
      release(index);
      if (alive) launch_waiting(*origin);
      break;
    }
    case Stage::kUnanswered:
      unanswered(index);
      break;
    case Stage::kLine:
      access_line(index);
      break;
    case Stage::kRung:
      rung(index);
      break;
  }
}

void Transport::arrive_response(std::uint32_t index, SimQueuePair& origin, models::Moment tail) {
  Flight& f = flight(index);
  models::Nic& nic = origin.port_.nic;
  if (returns_data(f.opcode) && f.status == WcStatus::kSuccess) {
    const std::uint32_t packets = models::packets_of(f.length, mtu_b_);
    const models::Moment done = nic.receive_response(origin.context_, tail, packets, f.length, f.wqe);
    read_done(f, origin, done.at());
    finish(index, origin, done, f.length);
  } else {
    const models::Moment done = nic.receive_ack(origin.context_, tail, f.wqe);
    if (returns_data(f.opcode)) read_done(f, origin, done.at());
    finish(index, origin, done, 0);
  }
}

/// A request is done at `ready`; `landed_b` of its result are still to be written to memory.
void Transport::finish(std::uint32_t index, SimQueuePair& origin, models::Moment ready,
                       std::uint32_t landed_b) {
  Flight& f = flight(index);
  models::Nic& nic = origin.port_.nic;
  if (f.status == WcStatus::kSuccess && origin.state_ == QpState::kError) f.status = WcStatus::kWrFlushErr;
  if (f.status != WcStatus::kSuccess && origin.state_ != QpState::kError) enter_error(origin, ready);
  if ((f.flags & kSignaled) != 0 || f.status != WcStatus::kSuccess) {
    complete(f, origin, nic.write_completion(ready, landed_b).at());
  } else if (landed_b > 0) {
    nic.pcie().dma_write_quietly(landed_b);
  }
  release(index);
}

void Transport::complete(const Flight& f, SimQueuePair& origin, std::int64_t visible_ps) {
  WorkCompletion wc;
  wc.wr_id = f.wr_id;
  wc.status = f.status;
  wc.opcode = wc_opcode(f.opcode);
  wc.byte_len = f.length;
  wc.qp_num = origin.number_;
  origin.last_completion_ps_ = std::max(origin.last_completion_ps_, visible_ps);
  origin.send_cq_->push(wc, origin.last_completion_ps_, f.position + 1);
}

/// The target did not answer. Its queue pair may have failed because of an earlier request, whose NAK tells
/// the origin soon; if not, the origin tries for as long as its attributes say.
void Transport::unanswered(std::uint32_t index) {
  Flight& f = flight(index);
  SimQueuePair* origin = find(f.origin);
  if (origin == nullptr || origin->epoch_ != f.epoch) {
    release(index);
    return;
  }
  const bool given_up = f.done_ps > 0;
  if (origin->state_ != QpState::kError && !given_up) {
    f.done_ps = calendar_.now_ps() + (origin->retry_cnt_ + 1LL) * (4'096'000LL << origin->timeout_);
    calendar_.schedule(f.done_ps, handler_, index);
    return;
  }
  f.status = origin->state_ == QpState::kError ? WcStatus::kWrFlushErr : WcStatus::kRetryExcErr;
  finish(index, *origin, now(), 0);
}

void Transport::enter_error(SimQueuePair& qp, models::Moment ready) {
  qp.state_ = QpState::kError;
  while (qp.waiting_first_ != kNone) {
    flush(qp, take_waiting(qp), std::max(ready.at(), calendar_.now_ps()));
  }
  while (qp.receives_.size() > 0) {
    WorkCompletion wc;
    wc.wr_id = qp.receives_.pop().wr_id;
    wc.status = WcStatus::kWrFlushErr;
    wc.opcode = WcOpcode::kRecv;
    wc.qp_num = qp.number_;
    qp.recv_cq_->push(wc, qp.port_.nic.write_completion(ready).at(), 0);
  }
}

}  // namespace verbtwin::sim
