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
                     const models::NicProfile& profile)
    : calendar_(calendar),
      handler_(calendar.add_handler(*this)),
      fabric_(fabric),
      message_clock_(message_clock),
      mtu_b_(static_cast<std::uint32_t>(profile.mtu_b)),
      packet_extra_b_(static_cast<std::uint32_t>(profile.wire_header_b)),
      queue_pairs_(1, nullptr),
      free_payloads_(33) {}

Transport::~Transport() {
  for (auto& buffers : free_payloads_) {
    for (std::byte* buffer : buffers) delete[] buffer;
  }
}

std::uint32_t Transport::add(SimQueuePair& qp) {
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
                     std::int64_t rung_ps) {
  std::uint32_t first = kNone, last = kNone;
  for (const SendWr& wr : list) {
    VerbCounts::Count& count = counts_.by_opcode[static_cast<std::size_t>(wr.opcode)];
    ++count.count;
    count.bytes += wr.sge.length;
    const std::uint32_t index = new_flight(qp, wr, position++);
    Flight& f = flight(index);
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
    f.stage = Stage::kPosted;
    f.next = kNone;
    if (last != kNone) flight(last).next = index;
    if (first == kNone) first = index;
    last = index;
  }
  calendar_.schedule(rung_ps, handler_, first);
}

/// The doorbell of a list reaches the NIC's slot: the WQEs are fetched, each request takes its turn.
void Transport::fetch_posted(std::uint32_t first) {
  std::uint32_t requests = 0, blocks = 0;
  for (std::uint32_t index = first; index != kNone; index = flight(index).next) {
    ++requests;
    blocks += flight(index).blocks;
  }
  SimQueuePair* qp = find(flight(first).origin);
  const bool alive = qp != nullptr && qp->epoch_ == flight(first).epoch;
  models::Moment fetched = now();
  if (alive) fetched = qp->port_.nic.fetch_wqes(now(), requests, blocks);
  for (std::uint32_t index = first; index != kNone;) {
    Flight& f = flight(index);
    const std::uint32_t next = f.next;
    if (!alive) {
      release(index);
    } else if (qp->waiting_first_ != kNone || must_wait(*qp, f)) {
      wait_behind(*qp, index);
    } else {
      launch(index, *qp, fetched);
    }
    index = next;
  }
}

void Transport::flush(SimQueuePair& qp, const SendWr& wr, std::uint32_t position) {
  const std::uint32_t index = new_flight(qp, wr, position);
  flight(index).status = WcStatus::kWrFlushErr;
  flight(index).stage = Stage::kLocalCompletion;
  qp.last_flush_ps_ = std::max(qp.last_flush_ps_, qp.core_.now_ps());
  calendar_.schedule(qp.last_flush_ps_, handler_, index);
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
  if ((f.flags & kFence) != 0 && qp.reads_in_flight_ > 0) return true;
  return returns_data(f.opcode) && qp.reads_in_flight_ >= qp.max_rd_atomic_;
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
  std::uint32_t first_b = 0;
  if (f.type == QpType::kUd) first_b += models::kDethBytes;
  if (is_write(f.opcode) || f.opcode == Opcode::kRdmaRead) first_b += models::kRethBytes;
  if (is_atomic(f.opcode)) first_b += models::kAtomicEthBytes;
  if (has_imm(f.opcode)) first_b += models::kImmBytes;
  const std::uint32_t bytes =
      models::message_bytes(has_payload ? f.length : 0, first_b, mtu_b_, packet_extra_b_);
  if (returns_data(f.opcode)) ++qp.reads_in_flight_;
  if (f.type != QpType::kRc && f.status != WcStatus::kSuccess) {
    f.stage = Stage::kLocalCompletion;
    calendar_.schedule(out.at(), handler_, index);
    return;
  }

  if (f.type != QpType::kRc && (f.flags & kSignaled) != 0) {
    // Nobody answers a datagram: its completion says that it has left.
    const std::uint32_t completion = take_flight();
    Flight& c = flight(completion);
    const Flight& sent = flight(index);
    c.origin = sent.origin;
    c.epoch = sent.epoch;
    c.position = sent.position;
    c.opcode = sent.opcode;
    c.status = WcStatus::kSuccess;
    c.flags = sent.flags;
    c.wr_id = sent.wr_id;
    c.stage = Stage::kLocalCompletion;
    calendar_.schedule(std::max(out.at(), qp.last_request_ps_), handler_, completion);
  }
  flight(index).stage = Stage::kRequestOnWire;
  put_on_wire(index, flight(index).path, bytes, out, qp.last_request_ps_);
}

/// `last_ps`: when the one before it on its queue pair did; none overtakes another.
void Transport::put_on_wire(std::uint32_t index, Path path, std::uint32_t bytes, models::Moment ready,
                            std::int64_t& last_ps) {
  Flight& f = flight(index);
  f.path = path;
  f.bytes = bytes;
  if (message_clock_ != nullptr) {
    f.hop = static_cast<std::uint8_t>(path.count);
    last_ps = std::max(last_ps, ready.at());
    f.order = sequences_[sequence_key(f)].sent++;
    message_clock_->send(path.from, path.to, bytes, last_ps, handler_, index);
    return;
  }
  f.hop = 0;
  std::int64_t at_ps = ready.at();
  if (path.count > 0) {
    const Fabric::Crossing crossing = fabric_.cross(fabric_.link_of(path, 0), bytes, ready);
    at_ps = path.count == 1 ? crossing.tail.at() : crossing.head.at();
    f.hop = 1;
  }
  last_ps = std::max(last_ps, at_ps);
  calendar_.schedule(last_ps, handler_, index);
}

void Transport::next_hop(std::uint32_t index) {
  Flight& f = flight(index);
  if (f.hop == f.path.count) {
    if (message_clock_ != nullptr) {
      arrive_in_order(index);
    } else {
      arrive(index, now());
    }
    return;
  }
  const Fabric::Crossing crossing = fabric_.cross(fabric_.link_of(f.path, f.hop), f.bytes, now());
  ++f.hop;
  if (f.hop == f.path.count) {
    arrive(index, crossing.tail);
  } else {
    calendar_.schedule(crossing.head.at(), handler_, index);
  }
}

void Transport::prefetch(std::uint32_t index, int steps) const {
  const Flight& f = flight(index);
  if (steps == 2) {
    __builtin_prefetch(&f);
    __builtin_prefetch(&f.wr_id);
    return;
  }
  const bool at_target = f.stage == Stage::kRequestOnWire || f.stage == Stage::kTouch;
  const std::uint32_t number = at_target ? f.target : f.origin;
  const SimQueuePair* qp = number < queue_pairs_.size() ? queue_pairs_[number] : nullptr;
  if (qp == nullptr) return;
  if (steps == 1) {
    const auto* lines = reinterpret_cast<const std::byte*>(qp);
    for (std::size_t at = 0; at < SimQueuePair::kHotBytes; at += 64) __builtin_prefetch(lines + at);
    if (f.stage == Stage::kTouch) __builtin_prefetch(reinterpret_cast<const void*>(f.remote_addr));
    for (std::size_t at = 0; at < f.length && at < 256; at += 64) __builtin_prefetch(f.local + at);
    return;
  }
  const bool receives = f.stage == Stage::kRequestOnWire && is_send(f.opcode);
  if (receives) qp->receives_.prefetch();
  if (!receives && (f.stage != Stage::kResponseOnWire || (f.flags & kSignaled) == 0)) return;
  const SimCompletionQueue* cq = receives ? qp->recv_cq_ : qp->send_cq_;
  __builtin_prefetch(cq);
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
    arrive(arrived, now());
  }
}

void Transport::arrive(std::uint32_t index, models::Moment tail) {
  if (flight(index).stage == Stage::kRequestOnWire) {
    arrive_request(index, tail);
  } else {
    arrive_response(index, tail);
  }
}

void Transport::handle(std::uint32_t index) {
  switch (flight(index).stage) {
    case Stage::kPosted:
      fetch_posted(index);
      break;
    case Stage::kRequestOnWire:
    case Stage::kResponseOnWire:
      next_hop(index);
      break;
    case Stage::kReceiverNotReady:
      flight(index).stage = Stage::kRequestOnWire;
      try_again(index);
      break;
    case Stage::kTouch:
      touch(index);
      break;
    case Stage::kLocalCompletion: {
      SimQueuePair* origin = find(flight(index).origin);
      if (origin == nullptr || origin->epoch_ != flight(index).epoch) {
        release(index);
      } else {
        finish(index, *origin, now());
      }
      break;
    }
    case Stage::kUnanswered:
      unanswered(index);
      break;
  }
}

void Transport::arrive_response(std::uint32_t index, models::Moment tail) {
  Flight& f = flight(index);
  SimQueuePair* origin = find(f.origin);
  if (origin == nullptr || origin->epoch_ != f.epoch) {
    release(index);
    return;
  }
  models::Nic& nic = origin->port_.nic;
  models::Moment done;
  if (returns_data(f.opcode) && f.status == WcStatus::kSuccess) {
    done = nic.receive(origin->context_, tail, models::packets_of(f.length, mtu_b_));
    nic.pcie().dma_write(done, f.length);  // the completion follows it on the same lanes
  } else {
    done = nic.receive_ack(origin->context_, tail);
  }
  finish(index, *origin, done);
}

void Transport::finish(std::uint32_t index, SimQueuePair& origin, models::Moment ready) {
  Flight& f = flight(index);
  const bool answered = f.stage == Stage::kResponseOnWire;
  if (answered && returns_data(f.opcode)) --origin.reads_in_flight_;
  if (f.status == WcStatus::kSuccess && origin.state_ == QpState::kError) f.status = WcStatus::kWrFlushErr;
  if (f.status != WcStatus::kSuccess && origin.state_ != QpState::kError) enter_error(origin, ready);
  if ((f.flags & kSignaled) != 0 || f.status != WcStatus::kSuccess) {
    WorkCompletion wc;
    wc.wr_id = f.wr_id;
    wc.status = f.status;
    wc.opcode = wc_opcode(f.opcode);
    wc.byte_len = f.length;
    wc.qp_num = origin.number_;
    origin.send_cq_->push(wc, origin.port_.nic.write_completion(ready).at(), f.position + 1);
  }
  release(index);
  if (answered) launch_waiting(origin);
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
  finish(index, *origin, now());
}

void Transport::enter_error(SimQueuePair& qp, models::Moment ready) {
  qp.state_ = QpState::kError;
  while (qp.waiting_first_ != kNone) {
    const std::uint32_t index = take_waiting(qp);
    flight(index).status = WcStatus::kWrFlushErr;
    flight(index).stage = Stage::kLocalCompletion;
    qp.last_flush_ps_ = std::max({qp.last_flush_ps_, ready.at(), calendar_.now_ps()});
    calendar_.schedule(qp.last_flush_ps_, handler_, index);
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
