#include "sim/transport.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "sim/clock.hpp"

namespace verbtwin::sim {

namespace {

constexpr std::int64_t kMicrosecondPs = 1'000'000;
// min_rnr_timer 1 of the specification: a responder without a RECV is tried again after 10 us.
constexpr std::int64_t kRnrTimerPs = 10 * kMicrosecondPs;
// A request whose target has failed learns it from an earlier request's NAK, which is at most a round trip away.
constexpr std::int64_t kFlushProbePs = 4 * kMicrosecondPs;
constexpr std::uint8_t kRetryForEver = 7;

bool is_atomic(Opcode op) { return op == Opcode::kAtomicCmpAndSwp || op == Opcode::kAtomicFetchAndAdd; }
bool returns_data(Opcode op) { return op == Opcode::kRdmaRead || is_atomic(op); }
bool is_write(Opcode op) { return op == Opcode::kRdmaWrite || op == Opcode::kRdmaWriteWithImm; }
bool has_imm(Opcode op) { return op == Opcode::kSendWithImm || op == Opcode::kRdmaWriteWithImm; }

WcOpcode wc_opcode(Opcode op) {
  switch (op) {
    case Opcode::kSend:
    case Opcode::kSendWithImm: return WcOpcode::kSend;
    case Opcode::kRdmaWrite:
    case Opcode::kRdmaWriteWithImm: return WcOpcode::kRdmaWrite;
    case Opcode::kRdmaRead: return WcOpcode::kRdmaRead;
    case Opcode::kAtomicCmpAndSwp: return WcOpcode::kCompSwap;
    case Opcode::kAtomicFetchAndAdd: return WcOpcode::kFetchAdd;
  }
  return WcOpcode::kSend;
}

}  // namespace

struct Transport::Flight {
  std::uint32_t origin = 0, target = 0;  // queue pair numbers
  std::uint32_t epoch = 0;               // the origin's when posted
  std::uint32_t position = 0;            // in the origin's send queue
  Opcode opcode = Opcode::kSend;
  Stage stage = Stage::kRequestOnWire;
  WcStatus status = WcStatus::kSuccess;
  QpType type = QpType::kRc;
  std::uint8_t flags = 0;
  std::uint8_t hop = 0;
  std::uint8_t blocks = 0;
  std::uint8_t tries_left = 0;
  std::uint32_t bytes = 0;  // on the wire, headers included
  std::uint32_t length = 0;
  std::uint32_t rkey = 0;
  std::uint32_t imm_data = 0;
  std::uint32_t qkey = 0;
  std::uint32_t next_free = kNone;
  Path path;
  std::uint64_t wr_id = 0;
  std::uint64_t remote_addr = 0;
  std::byte* local = nullptr;  // READ, ATOMIC: where the result lands; else the payload
  std::int64_t done_ps = 0;
  std::uint64_t compare_add = 0, swap = 0;
  std::uint8_t pool_class = 0;  // of a payload kept in a pooled buffer; 0: none
  std::array<std::byte, 64> small{};
};

inline Transport::Flight& Transport::flight(std::uint32_t index) { return chunks_[index / kChunk][index % kChunk]; }

Transport::Transport(Calendar& calendar, Fabric& fabric, Clock* message_clock, const models::NicProfile& profile)
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
      chunks_.back()[i].next_free = free_;
      free_ = base + i;
    }
  }
  const std::uint32_t index = free_;
  free_ = flight(index).next_free;
  ++in_flight_;
  return index;
}

void Transport::release(std::uint32_t index) {
  Flight& f = flight(index);
  if (f.pool_class != 0) {
    free_payloads_[f.pool_class].push_back(f.local);
    f.pool_class = 0;
  }
  f.next_free = free_;
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
  std::memcpy(f.local, wr.sge.addr, wr.sge.length);
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
  f.tries_left = qp.attributes_.rnr_retry;
  f.length = wr.sge.length;
  f.rkey = wr.rkey;
  f.imm_data = wr.imm_data;
  f.qkey = wr.remote_qkey;
  f.wr_id = wr.wr_id;
  f.remote_addr = wr.remote_addr;
  f.local = wr.sge.addr;
  f.compare_add = wr.compare_add;
  f.swap = wr.swap;
  return index;
}

void Transport::post(SimQueuePair& qp, const SendWr& wr, std::uint32_t position, std::int64_t fetched_ps) {
  VerbCounts::Count& count = counts_.by_opcode[static_cast<std::size_t>(wr.opcode)];
  ++count.count;
  count.bytes += wr.sge.length;

  const std::uint32_t index = new_flight(qp, wr, position);
  Flight& f = flight(index);
  const bool is_inline = (wr.flags & kInline) != 0;
  const unsigned access = returns_data(wr.opcode) ? kAccessLocalWrite : 0U;
  const auto addr = reinterpret_cast<std::uint64_t>(wr.sge.addr);
  if (!is_inline && wr.sge.length > 0 && !qp.port_.memory->allows(wr.sge.lkey, addr, wr.sge.length, access)) {
    f.status = WcStatus::kLocProtErr;
    f.stage = Stage::kLocalCompletion;
    calendar_.schedule(fetched_ps, handler_, index);
    return;
  }
  f.path = qp.type() == QpType::kUd ? static_cast<SimAddressHandle*>(wr.ah)->path : qp.to_peer_;
  if (is_inline || qp.type() != QpType::kRc) keep_payload(f, wr);
  if (!qp.waiting_.empty() || must_wait(qp, f)) {
    qp.waiting_.push_back(index);
  } else {
    launch(index, qp, fetched_ps);
  }
}

void Transport::flush(SimQueuePair& qp, const SendWr& wr, std::uint32_t position) {
  const std::uint32_t index = new_flight(qp, wr, position);
  flight(index).status = WcStatus::kWrFlushErr;
  flight(index).stage = Stage::kLocalCompletion;
  calendar_.schedule(qp.core_.now_ps(), handler_, index);
}

bool Transport::must_wait(const SimQueuePair& qp, const Flight& f) const {
  if ((f.flags & kFence) != 0 && qp.reads_in_flight_ > 0) return true;
  return returns_data(f.opcode) && qp.reads_in_flight_ >= qp.attributes_.max_rd_atomic;
}

void Transport::launch_waiting(SimQueuePair& qp) {
  while (!qp.waiting_.empty() && !must_wait(qp, flight(qp.waiting_.front()))) {
    const std::uint32_t index = qp.waiting_.front();
    qp.waiting_.pop_front();
    launch(index, qp, calendar_.now_ps());
  }
}

void Transport::launch(std::uint32_t index, SimQueuePair& qp, std::int64_t ready_ps) {
  Flight& f = flight(index);
  const bool has_payload = !returns_data(f.opcode);
  const std::uint32_t fetch_b = has_payload && (f.flags & kInline) == 0 ? f.length : 0;
  const std::int64_t out_ps = qp.port_.nic.send_request(qp.context_, qp.order_, ready_ps, f.blocks, fetch_b);
  std::uint32_t first_b = 0;
  if (f.type == QpType::kUd) first_b += models::kDethBytes;
  if (is_write(f.opcode) || f.opcode == Opcode::kRdmaRead) first_b += models::kRethBytes;
  if (is_atomic(f.opcode)) first_b += models::kAtomicEthBytes;
  if (has_imm(f.opcode)) first_b += models::kImmBytes;
  const std::uint32_t bytes =
      models::message_bytes(has_payload ? f.length : 0, first_b, mtu_b_, packet_extra_b_);
  if (returns_data(f.opcode)) ++qp.reads_in_flight_;

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
    calendar_.schedule(out_ps, handler_, completion);
  }
  flight(index).stage = Stage::kRequestOnWire;
  put_on_wire(index, flight(index).path, bytes, out_ps);
}

void Transport::put_on_wire(std::uint32_t index, Path path, std::uint32_t bytes, std::int64_t ready_ps) {
  Flight& f = flight(index);
  f.path = path;
  f.bytes = bytes;
  ready_ps = std::max(ready_ps, calendar_.now_ps());
  if (message_clock_ != nullptr) {
    f.hop = static_cast<std::uint8_t>(path.count);
    message_clock_->send(path.from, path.to, bytes, ready_ps, handler_, index);
    return;
  }
  if (path.count == 0) {
    f.hop = 0;
    calendar_.schedule(ready_ps, handler_, index);
    return;
  }
  const Fabric::Crossing crossing = fabric_.cross(fabric_.link_of(path, 0), bytes, ready_ps);
  f.hop = 1;
  calendar_.schedule(path.count == 1 ? crossing.tail_ps : crossing.head_ps, handler_, index);
}

void Transport::next_hop(std::uint32_t index) {
  Flight& f = flight(index);
  if (f.hop == f.path.count) {
    arrive(index, calendar_.now_ps());
    return;
  }
  const Fabric::Crossing crossing =
      fabric_.cross(fabric_.link_of(f.path, f.hop), f.bytes, calendar_.now_ps());
  ++f.hop;
  if (f.hop == f.path.count) {
    arrive(index, crossing.tail_ps);
  } else {
    calendar_.schedule(crossing.head_ps, handler_, index);
  }
}

void Transport::arrive(std::uint32_t index, std::int64_t tail_ps) {
  if (flight(index).stage == Stage::kRequestOnWire) {
    arrive_request(index, tail_ps);
  } else {
    arrive_response(index, tail_ps);
  }
}

void Transport::handle(std::uint32_t index) {
  switch (flight(index).stage) {
    case Stage::kRequestOnWire:
    case Stage::kResponseOnWire: next_hop(index); break;
    case Stage::kReceiverNotReady:
      flight(index).stage = Stage::kRequestOnWire;
      arrive_request(index, calendar_.now_ps());
      break;
    case Stage::kTouch: touch(index); break;
    case Stage::kLocalCompletion: {
      SimQueuePair* origin = find(flight(index).origin);
      if (origin == nullptr || origin->epoch_ != flight(index).epoch) {
        release(index);
      } else {
        finish(index, *origin, calendar_.now_ps());
      }
      break;
    }
    case Stage::kUnanswered: unanswered(index); break;
  }
}

void Transport::arrive_request(std::uint32_t index, std::int64_t tail_ps) {
  Flight& f = flight(index);
  SimQueuePair* target = find(f.target);
  const bool there = target != nullptr && target->type() == f.type &&
                     (target->state_ == QpState::kRtr || target->state_ == QpState::kRts) &&
                     (f.type == QpType::kUd ? target->number_ == f.qkey : target->peer_number_ == f.origin);
  if (!there) {
    if (f.type != QpType::kRc) {
      ++counts_.datagrams_dropped;
      release(index);
      return;
    }
    f.stage = Stage::kUnanswered;
    f.done_ps = 0;
    calendar_.schedule(tail_ps + kFlushProbePs, handler_, index);
    return;
  }
  switch (f.opcode) {
    case Opcode::kSend:
    case Opcode::kSendWithImm: arrive_send(index, *target, tail_ps); break;
    case Opcode::kRdmaWrite:
    case Opcode::kRdmaWriteWithImm: arrive_write(index, *target, tail_ps); break;
    case Opcode::kRdmaRead: arrive_read(index, *target, tail_ps); break;
    case Opcode::kAtomicCmpAndSwp:
    case Opcode::kAtomicFetchAndAdd: arrive_atomic(index, *target, tail_ps); break;
  }
}

void Transport::arrive_write(std::uint32_t index, SimQueuePair& target, std::int64_t tail_ps) {
  Flight& f = flight(index);
  models::Nic& nic = target.port_.nic;
  const std::uint32_t packets = models::packets_of(f.length, mtu_b_);
  RecvWr recv;
  const bool with_imm = f.opcode == Opcode::kRdmaWriteWithImm;
  if (with_imm && !take_recv(index, target, tail_ps, recv)) return;
  const std::int64_t done_ps = with_imm ? nic.receive_send(target.context_, tail_ps, packets)
                                        : nic.receive(target.context_, tail_ps, packets);
  if (f.length > 0 && !target.port_.memory->allows(f.rkey, f.remote_addr, f.length, kAccessRemoteWrite)) {
    refuse(index, target, WcStatus::kRemAccessErr, done_ps);
    return;
  }
  const std::int64_t visible_ps = nic.pcie().dma_write(done_ps, f.length);
  schedule_touch(index, target, visible_ps, visible_ps);
  if (with_imm) {
    push_recv(f, target, recv, WcStatus::kSuccess, f.length,
              std::max(nic.write_completion(done_ps), target.last_touch_ps_));
  }
}

void Transport::arrive_read(std::uint32_t index, SimQueuePair& target, std::int64_t tail_ps) {
  Flight& f = flight(index);
  models::Nic& nic = target.port_.nic;
  const std::int64_t done_ps = nic.receive(target.context_, tail_ps, 1);
  if (f.length > 0 && !target.port_.memory->allows(f.rkey, f.remote_addr, f.length, kAccessRemoteRead)) {
    refuse(index, target, WcStatus::kRemAccessErr, done_ps);
    return;
  }
  const models::Pcie::Read read = nic.pcie().dma_read(std::max(done_ps, target.last_touch_ps_), f.length);
  schedule_touch(index, target, read.touch_ps, read.done_ps);
}

void Transport::arrive_atomic(std::uint32_t index, SimQueuePair& target, std::int64_t tail_ps) {
  Flight& f = flight(index);
  models::Nic& nic = target.port_.nic;
  const std::int64_t done_ps = nic.receive(target.context_, tail_ps, 1);
  if (f.remote_addr % 8 != 0 || f.length != 8) {
    refuse(index, target, WcStatus::kRemInvReqErr, done_ps);
    return;
  }
  if (!target.port_.memory->allows(f.rkey, f.remote_addr, 8, kAccessRemoteAtomic)) {
    refuse(index, target, WcStatus::kRemAccessErr, done_ps);
    return;
  }
  const models::AtomicUnit::Result result =
      nic.atomic_unit().execute(std::max(done_ps, target.last_touch_ps_), f.remote_addr, nic.pcie());
  schedule_touch(index, target, result.touch_ps, result.done_ps);
}

/// Takes a RECV for a message; false if there is none and the message has been dealt with.
bool Transport::take_recv(std::uint32_t index, SimQueuePair& target, std::int64_t tail_ps, RecvWr& recv) {
  if (target.receives_.count > 0) {
    recv = target.receives_.pop();
    return true;
  }
  Flight& f = flight(index);
  if (f.type != QpType::kRc) {
    ++counts_.datagrams_dropped;
    release(index);
  } else if (f.tries_left == 0) {
    refuse(index, target, WcStatus::kRnrRetryExcErr, tail_ps);
  } else {
    if (f.tries_left != kRetryForEver) --f.tries_left;
    f.stage = Stage::kReceiverNotReady;
    calendar_.schedule(tail_ps + kRnrTimerPs, handler_, index);
  }
  return false;
}

void Transport::arrive_send(std::uint32_t index, SimQueuePair& target, std::int64_t tail_ps) {
  RecvWr recv;
  if (!take_recv(index, target, tail_ps, recv)) return;
  Flight& f = flight(index);
  models::Nic& nic = target.port_.nic;
  const std::int64_t done_ps = nic.receive_send(target.context_, tail_ps, models::packets_of(f.length, mtu_b_));
  const std::uint32_t grh_b = f.type == QpType::kUd ? kGrhBytes : 0;
  const auto addr = reinterpret_cast<std::uint64_t>(recv.sge.addr);
  const bool fits = grh_b + f.length <= recv.sge.length;
  if (!fits || !target.port_.memory->allows(recv.sge.lkey, addr, recv.sge.length, kAccessLocalWrite)) {
    push_recv(f, target, recv, fits ? WcStatus::kLocProtErr : WcStatus::kLocLenErr, 0, nic.write_completion(done_ps));
    if (f.type == QpType::kRc) {
      refuse(index, target, fits ? WcStatus::kRemOpErr : WcStatus::kRemInvReqErr, done_ps);
    } else {
      enter_error(target, done_ps);
      release(index);
    }
    return;
  }
  // The receiver may not look before its completion is visible, so the bytes may land now.
  if (f.length > 0) std::memcpy(recv.sge.addr + grh_b, f.local, f.length);
  nic.pcie().dma_write(done_ps, grh_b + f.length);
  const std::int64_t visible_ps = nic.write_completion(done_ps);
  push_recv(f, target, recv, WcStatus::kSuccess, grh_b + f.length, visible_ps);
  if (f.type == QpType::kRc) {
    respond(index, target, done_ps);
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
  target.recv_cq().push(wc, visible_ps, 0);
}

/// Answers with an error; an RC responder that refuses fails with its requester.
void Transport::refuse(std::uint32_t index, SimQueuePair& target, WcStatus status, std::int64_t ready_ps) {
  Flight& f = flight(index);
  if (f.type != QpType::kRc) {
    ++counts_.datagrams_dropped;
    release(index);
    return;
  }
  f.status = status;
  if (status != WcStatus::kRnrRetryExcErr) enter_error(target, ready_ps);
  respond(index, target, ready_ps);
}

void Transport::schedule_touch(std::uint32_t index, SimQueuePair& target, std::int64_t touch_ps,
                               std::int64_t done_ps) {
  Flight& f = flight(index);
  target.last_touch_ps_ = std::max(target.last_touch_ps_, touch_ps);
  f.done_ps = std::max(done_ps, target.last_touch_ps_);
  f.stage = Stage::kTouch;
  calendar_.schedule(target.last_touch_ps_, handler_, index);
}

void Transport::touch(std::uint32_t index) {
  Flight& f = flight(index);
  SimQueuePair* target = find(f.target);
  if (target == nullptr) {  // gone in between: nobody answers
    f.stage = Stage::kUnanswered;
    f.done_ps = 0;
    calendar_.schedule(calendar_.now_ps() + kFlushProbePs, handler_, index);
    return;
  }
  auto* remote = reinterpret_cast<std::byte*>(f.remote_addr);
  if (is_write(f.opcode)) {
    if (f.length > 0) std::memcpy(remote, f.local, f.length);
  } else if (f.opcode == Opcode::kRdmaRead) {
    if (f.length > 0) std::memcpy(f.local, remote, f.length);
  } else {
    std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(remote));
    std::uint64_t old = f.compare_add;
    if (f.opcode == Opcode::kAtomicFetchAndAdd) {
      old = word.fetch_add(f.compare_add);
    } else {
      word.compare_exchange_strong(old, f.swap);
    }
    std::memcpy(f.local, &old, sizeof old);
  }
  if (f.type == QpType::kRc) {
    respond(index, *target, f.done_ps);
  } else {
    release(index);
  }
}

void Transport::respond(std::uint32_t index, SimQueuePair& target, std::int64_t ready_ps) {
  Flight& f = flight(index);
  models::Nic& nic = target.port_.nic;
  const bool with_data = returns_data(f.opcode) && f.status == WcStatus::kSuccess;
  ready_ps = std::max(ready_ps, target.last_response_ps_);
  const std::int64_t out_ps = with_data ? nic.send_response(ready_ps) : nic.send_ack(ready_ps);
  target.last_response_ps_ = ready_ps;
  std::uint32_t bytes = models::kAckBytes + packet_extra_b_;
  if (with_data && is_atomic(f.opcode)) {
    bytes = models::message_bytes(0, models::kAtomicAckBytes, mtu_b_, packet_extra_b_);
  } else if (with_data) {
    bytes = models::message_bytes(f.length, models::kAethBytes, mtu_b_, packet_extra_b_);
  }
  f.stage = Stage::kResponseOnWire;
  put_on_wire(index, target.to_peer_, bytes, out_ps);
}

void Transport::arrive_response(std::uint32_t index, std::int64_t tail_ps) {
  Flight& f = flight(index);
  SimQueuePair* origin = find(f.origin);
  if (origin == nullptr || origin->epoch_ != f.epoch) {
    release(index);
    return;
  }
  models::Nic& nic = origin->port_.nic;
  std::int64_t done_ps = 0;
  if (returns_data(f.opcode) && f.status == WcStatus::kSuccess) {
    done_ps = nic.receive(origin->context_, tail_ps, models::packets_of(f.length, mtu_b_));
    nic.pcie().dma_write(done_ps, f.length);  // the completion follows it on the same lanes
  } else {
    done_ps = nic.receive_ack(origin->context_, tail_ps);
  }
  finish(index, *origin, done_ps);
}

void Transport::finish(std::uint32_t index, SimQueuePair& origin, std::int64_t ready_ps) {
  Flight& f = flight(index);
  const bool answered = f.stage == Stage::kResponseOnWire;
  if (answered && returns_data(f.opcode)) --origin.reads_in_flight_;
  if (f.status == WcStatus::kSuccess && origin.state_ == QpState::kError) f.status = WcStatus::kWrFlushErr;
  if (f.status != WcStatus::kSuccess && origin.state_ != QpState::kError) enter_error(origin, ready_ps);
  if ((f.flags & kSignaled) != 0 || f.status != WcStatus::kSuccess) {
    WorkCompletion wc;
    wc.wr_id = f.wr_id;
    wc.status = f.status;
    wc.opcode = wc_opcode(f.opcode);
    wc.byte_len = f.length;
    wc.qp_num = origin.number_;
    origin.send_cq().push(wc, origin.port_.nic.write_completion(ready_ps), f.position + 1);
  }
  release(index);
  if (answered) launch_waiting(origin);
}

/// The target did not answer. Its queue pair may have failed because of an earlier request, whose NAK tells the
/// origin soon; if not, the origin tries for as long as its attributes say.
void Transport::unanswered(std::uint32_t index) {
  Flight& f = flight(index);
  SimQueuePair* origin = find(f.origin);
  if (origin == nullptr || origin->epoch_ != f.epoch) {
    release(index);
    return;
  }
  const bool given_up = f.done_ps > 0;
  if (origin->state_ != QpState::kError && !given_up) {
    const QpInitAttributes& attributes = origin->attributes_;
    f.done_ps = calendar_.now_ps() + (attributes.retry_cnt + 1LL) * (4'096'000LL << attributes.timeout);
    calendar_.schedule(f.done_ps, handler_, index);
    return;
  }
  f.status = origin->state_ == QpState::kError ? WcStatus::kWrFlushErr : WcStatus::kRetryExcErr;
  finish(index, *origin, calendar_.now_ps());
}

void Transport::enter_error(SimQueuePair& qp, std::int64_t at_ps) {
  qp.state_ = QpState::kError;
  while (!qp.waiting_.empty()) {
    const std::uint32_t index = qp.waiting_.front();
    qp.waiting_.pop_front();
    flight(index).status = WcStatus::kWrFlushErr;
    flight(index).stage = Stage::kLocalCompletion;
    calendar_.schedule(std::max(at_ps, calendar_.now_ps()), handler_, index);
  }
  while (qp.receives_.count > 0) {
    WorkCompletion wc;
    wc.wr_id = qp.receives_.pop().wr_id;
    wc.status = WcStatus::kWrFlushErr;
    wc.opcode = WcOpcode::kRecv;
    wc.qp_num = qp.number_;
    qp.recv_cq().push(wc, qp.port_.nic.write_completion(at_ps), 0);
  }
}

}  // namespace verbtwin::sim
