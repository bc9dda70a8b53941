#include "sim/transport.hpp"

#include <algorithm>
#include <limits>

#include "backend/prefetch.hpp"
#include "sim/clock.hpp"
#include "sim/flight.hpp"
#include "sim/shared_queue_pair.hpp"

namespace verbtwin::sim {

namespace {

/// Of the stream of random numbers: no other has it.
constexpr std::uint64_t kLossStream = 0x1055'0000;

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
                     const models::NicProfile& profile, Tear tear, Loss loss)
    : calendar_(calendar),
      handler_(calendar.add_handler(*this)),
      fabric_(fabric),
      message_clock_(message_clock),
      mtu_b_(static_cast<std::uint32_t>(profile.mtu_b)),
      packet_extra_b_(static_cast<std::uint32_t>(profile.wire_header_b)),
      queue_pairs_(1, nullptr),
      free_payloads_(33),
      lost_below_(static_cast<std::uint32_t>(loss.ratio * 4294967296.0)),
      random_(loss.seed, kLossStream),
      tear_(tear),
      atomic_locks_(static_cast<std::uint64_t>(profile.atomic_locks)) {}

Transport::~Transport() {
  for (const auto& chunk : chunks_) {
    for (std::uint32_t i = 0; i < kChunk; ++i) {
      if (chunk[i].pool_class != 0) delete[] chunk[i].local;  // still on its way
    }
  }
  for (auto& buffers : free_payloads_) {
    for (std::byte* buffer : buffers) delete[] buffer;
  }
}

std::uint32_t Transport::add(SimQueuePair& qp) {
  const auto endpoint = static_cast<std::size_t>(qp.port_.endpoint);
  if (memories_.size() <= endpoint) memories_.resize(endpoint + 1);
  memories_[endpoint] = qp.port_.memory;
  if (tear_.within_ps > 0) landings_.resize(memories_.size());
  queue_pairs_.push_back(&qp);
  return static_cast<std::uint32_t>(queue_pairs_.size() - 1);
}

std::uint32_t Transport::take_flight() {
  if (free_ == kNoFlight) {
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

/// `last_ps`: when the one before it on its queue pair did; none overtakes another. `links_taken`: how many
/// of the path know of it already.
/// It begins with its first packet, so late that its last one is ready when its turn on an idle path has
/// come.
void Transport::send_message(std::uint32_t index, Path path, std::uint32_t bytes, const models::Moment& ready,
                             models::Packets packets, std::int64_t& last_ps, std::uint32_t links_taken) {
  Flight& f = flight(index);
  const auto wire_ps = static_cast<std::int64_t>(bytes * 8000.0 / fabric_.slowest_gbps(path));
  const std::int64_t before_last_ps = wire_ps - packets.each_ps(wire_ps);
  const std::int64_t begin_ps = ready.at() - std::min(ready.spread_ps, before_last_ps);
  f.spread_ps = std::max(ready.spread_ps, before_last_ps);
  last_ps = std::max({last_ps, begin_ps, calendar_.now_ps()});
  f.order = sequences_[sequence_key(f)].sent++;
  fabric_.cross_quietly(path, bytes, links_taken);  // for what the links are in use
  message_clock_->send(path.from, path.to, bytes, last_ps, handler_, index);
}

void Transport::prefetch(std::uint32_t index, int steps) const {
  const Flight& f = flight(index);
  if (steps == 3) {
    prefetch_line(&f);
    prefetch_line(&f.wr_id);
    return;
  }
  const bool at_target = f.stage == Stage::kTouch || f.stage == Stage::kInEngine;
  const bool memory_known = f.path.to < memories_.size() && memories_[f.path.to] != nullptr;
  if (at_target && steps > 0 && !is_send(f.opcode) && memory_known) {
    memories_[f.path.to]->prefetch(f.rkey, f.remote_addr, steps - 1);
  }
  const std::uint32_t number = at_target ? f.target : f.origin;
  if (number >= queue_pairs_.size() || f.origin >= queue_pairs_.size()) return;
  if (steps == 2) {
    prefetch_line(&queue_pairs_[number]);
    prefetch_line(&queue_pairs_[f.origin]);
    prefetch_lines(f.local, std::min<std::size_t>(f.length, 256));
    return;
  }
  const SimQueuePair* qp = queue_pairs_[number];
  const SimQueuePair* origin = queue_pairs_[f.origin];
  if (qp == nullptr || origin == nullptr) return;
  if (steps == 1) {
    using Lines = SimQueuePair::Lines;
    qp->prefetch(at_target ? Lines::kAnswers : Lines::kPosts);
    if (is_send(f.opcode)) prefetch_line(&qp->recv_cq_);
    const bool answers = at_target && f.type == QpType::kRc && (f.flags & kSignaled) != 0;
    if (answers) origin->prefetch(Lines::kCompletes);
    return;
  }
  const bool receives = at_target && is_send(f.opcode);
  if (receives) qp->receives_.prefetch();
  if (!receives && (f.flags & kSignaled) == 0) return;
  if (!receives) qp = origin;
  prefetch_line(receives ? qp->recv_cq_ : qp->send_cq_);
  prefetch_lines(qp->core_, 128);
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

/// Whether the NIC at the far end is to hear of it when its time has nearly come, `last_ps` being when it
/// hears of the one before it on this queue pair. It may wait in a queue, or have waited before it left.
bool Transport::arrives_later(std::uint32_t index, const models::Moment& there, std::int64_t& last_ps) {
  const std::int64_t now_ps = calendar_.now_ps();
  const std::int64_t near_ps =
      std::max(there.first().queue_ps, there.at() - kAheadOfQueuesMaxPs) - kAheadOfQueuesMaxPs;
  if (near_ps <= now_ps && last_ps < now_ps)
    return false;  // the one before it may be heard of at this instant
  last_ps = std::max({now_ps, last_ps, near_ps});
  put_off(index, there, last_ps);
  return true;
}

/// Until `at_ps`, at or before which it is `there`.
void Transport::put_off(std::uint32_t index, const models::Moment& there, std::int64_t at_ps) {
  Flight& f = flight(index);
  f.done_ps = there.at();
  f.spread_ps = there.spread_ps;
  constexpr std::int64_t kLeadMaxPs = std::numeric_limits<std::uint32_t>::max();
  f.lead_ps = static_cast<std::uint32_t>(std::clamp<std::int64_t>(there.queue_ps - at_ps, 0, kLeadMaxPs));
  calendar_.schedule(at_ps, handler_, index);
}

/// Where what was put off until now is.
models::Moment Transport::here(const Flight& f) const {
  const std::int64_t queue_ps = calendar_.now_ps() + f.lead_ps;
  return {queue_ps, std::max<std::int64_t>(0, f.done_ps - queue_ps), 0, f.spread_ps};
}

/// All of a request or a response is there: now, or soon where it was put off (arrives_later).
void Transport::message_arrived(std::uint32_t index) {
  const Flight& f = flight(index);
  const models::Moment there =
      message_clock_ == nullptr ? here(f) : models::Moment{calendar_.now_ps(), 0, 0, f.spread_ps};
  SimQueuePair* origin = origin_of(f);
  if (origin == nullptr) {
    release(index);
  } else if (f.stage == Stage::kRequestOnWire) {
    arrive_request(index, *origin, there);
  } else {
    arrive_response(index, *origin, there);
  }
}

/// Whether it has stopped in front of a link of its path.
bool Transport::crosses_later(std::uint32_t index, const Fabric::Crossing& crossing) {
  Flight& f = flight(index);
  if (crossing.links == f.path.count) return false;
  f.links_crossed = static_cast<std::uint16_t>(crossing.links);
  put_off(index, crossing.there, fabric_.put_off(f.path, crossing.links, crossing.there, calendar_.now_ps()));
  return true;
}

void Transport::request_crossed(std::uint32_t index, SimQueuePair& origin, const Fabric::Crossing& crossing) {
  Flight& f = flight(index);
  if (crosses_later(index, crossing)) {
    f.stage = Stage::kRequestCrosses;
    ++origin.requests_crossing_;
    return;
  }
  f.stage = Stage::kRequestOnWire;
  if (completes_at_port(f)) {
    complete_when(f, origin, left_port(f, origin, crossing, request_bytes(f)));
  }
  // What bounds a sender to whom nobody answers is what stands in front of the receiver's engine (left_port):
  // that has to know of all of it.
  if (f.type != QpType::kRc || !arrives_later(index, crossing.there, origin.last_request_ps_))
    arrive_request(index, origin, crossing.there);
}

void Transport::answer_crossed(std::uint32_t index, SimQueuePair& origin, const Fabric::Crossing& crossing) {
  Flight& f = flight(index);
  if (crosses_later(index, crossing)) {
    f.stage = Stage::kAnswerCrosses;
    ++answers_crossing_;
    ++origin.answers_crossing_;
    return;
  }
  f.stage = Stage::kResponseOnWire;
  SimQueuePair* target = find(f.target);
  if (f.status != WcStatus::kSuccess && target != nullptr) {  // the origin goes on until it hears of it
    target->last_response_ps_ = std::max(target->last_response_ps_, crossing.there.at());
    f.done_ps = f.spread_ps = 0;
    f.lead_ps = 0;
    calendar_.schedule(target->last_response_ps_, handler_, index);
    return;
  }
  std::int64_t of_nobody_ps = -1;  // its queue pair is gone
  if (!arrives_later(index, crossing.there, target == nullptr ? of_nobody_ps : target->last_response_ps_))
    arrive_response(index, origin, crossing.there);
}

/// To the next links of its path.
void Transport::cross_on(std::uint32_t index) {
  const Flight& f = flight(index);
  const bool is_request = f.stage == Stage::kRequestCrosses;
  if (!is_request) --answers_crossing_;
  SimQueuePair* origin = origin_of(f);
  if (origin == nullptr) return release(index);
  const Fabric::Crossing crossing = fabric_.cross(
      f.path, is_request ? request_bytes(f) : answer_bytes(f), here(f),
      again_of(f, is_request ? request_packets(f) : answer_packets(f)), calendar_.now_ps(), f.links_crossed);
  if (is_request) {
    const bool blocked = f.type != QpType::kRc;
    --origin->requests_crossing_;
    request_crossed(index, *origin, crossing);
    if (blocked) launch_waiting(*origin);
  } else {
    --origin->answers_crossing_;
    answer_crossed(index, *origin, crossing);
  }
}

void Transport::handle(std::uint32_t index) {
  switch (flight(index).stage) {
    case Stage::kTouch:
    case Stage::kInEngine:
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
    case Stage::kRequestCrosses:
    case Stage::kAnswerCrosses:
      cross_on(index);
      break;
    case Stage::kBehindChange:
    case Stage::kBehindLock:
      turn_has_come(index);
      break;
    case Stage::kReceiverNotReady:
      try_again(index);
      break;
    case Stage::kLocalCompletion:
      if (SimQueuePair* origin = origin_of(flight(index))) {
        finish(index, *origin, now(), 0);
      } else {
        release(index);
      }
      break;
    case Stage::kWindow: {
      SimQueuePair* origin = origin_of(flight(index));
      release(index);
      if (origin != nullptr) launch_waiting(*origin);
      break;
    }
    case Stage::kUnanswered: {
      SimQueuePair* origin = origin_of(flight(index));
      release(index);
      if (origin != nullptr) unanswered(*origin);
      break;
    }
    case Stage::kLine:
      ++torn_lines_;
      access_line(index);
      break;
    case Stage::kRung:
      rung(index);
      break;
    case Stage::kRequestsGo:
    case Stage::kAnswersGo: {
      Outbound& out = *waiting_ports_[flight(index).target];
      (flight(index).stage == Stage::kRequestsGo ? out.requests : out.answers).is_scheduled = false;
      release(index);
      send_outbound(out);
      break;
    }
    case Stage::kResendRequests:
    case Stage::kResendUnheard: {
      const bool requests = flight(index).stage == Stage::kResendRequests;
      const Flight timer = flight(index);
      release(index);
      requests ? resend_requests(timer) : resend_unheard(timer);
      break;
    }
    case Stage::kRequestWaits:  // without an event of their own
    case Stage::kAnswerWaits:
      break;
  }
}

void Transport::arrive_response(std::uint32_t index, SimQueuePair& origin, const models::Moment& tail) {
  Flight& f = flight(index);
  if (lost_below_ > 0 && !is_heard(index, origin, tail)) return;
  models::Nic& nic = origin.port_.nic;
  if (f.answer_has_data()) {
    const models::Moment done = nic.receive_response(origin.context_, tail, f.length, f.wqe);
    // Its place is free when its payload has gone: else what waits for the way to memory had no bound.
    read_done(f, origin, done.at() + nic.pcie().up_wait_ps(done));
    if (lost_below_ > 0 && origin.has_unheard()) finish_those_before(f, origin, done);
    finish(index, origin, done, f.length);
  } else {
    const models::Moment done = nic.receive_ack(origin.context_, tail);
    if (returns_data(f.opcode)) read_done(f, origin, done.at());
    if (lost_below_ > 0 && origin.has_unheard()) finish_those_before(f, origin, done);
    finish(index, origin, done, 0);
  }
}

/// A request is done at `ready`; `landed_b` of its result are still to be written to memory.
void Transport::finish(std::uint32_t index, SimQueuePair& origin, const models::Moment& ready,
                       std::uint32_t landed_b) {
  Flight& f = flight(index);
  models::Nic& nic = origin.port_.nic;
  if (f.status == WcStatus::kSuccess && origin.state_ == QpState::kError) f.status = WcStatus::kWrFlushErr;
  if (f.status != WcStatus::kSuccess && origin.state_ != QpState::kError) enter_error(origin, ready);
  if ((f.flags & kSignaled) != 0 || f.status != WcStatus::kSuccess) {
    const models::Moment visible =
        landed_b > 0 ? nic.write_completion(ready, landed_b) : nic.write_own_completion(ready);
    complete(f, origin, visible.at());
  } else if (landed_b > 0) {
    nic.pcie().dma_write_quietly(landed_b);
  }
  if (lost_below_ > 0 && f.type == QpType::kRc) answered(f, origin);
  release(index);
}

void Transport::complete(const Flight& f, SimQueuePair& origin, std::int64_t visible_ps) {
  WorkCompletion wc;
  wc.wr_id = f.wr_id;
  wc.status = f.status;
  wc.opcode = wc_opcode(f.opcode);
  wc.byte_len = f.length;
  wc.qp_num = origin.number_;
  if (f.status != WcStatus::kSuccess) ++failed_;
  visible_ps = behind_landings_ps(origin.port_.endpoint, visible_ps);
  origin.last_completion_ps_ = std::max(origin.last_completion_ps_, visible_ps);
  if (origin.shared_ != nullptr) {
    origin.shared_->complete(f.position, wc, origin.last_completion_ps_);
  } else {
    origin.send_cq_->push(wc, origin.last_completion_ps_, origin.sender_, f.position + 1);
  }
}

void Transport::schedule_look(const SimQueuePair& qp, std::int64_t at_ps) {
  const std::uint32_t index = take_flight();
  flight(index).origin = qp.number_;
  flight(index).epoch = qp.epoch_;
  flight(index).stage = Stage::kUnanswered;
  calendar_.schedule(at_ps, handler_, index);
}

/// The target did not answer. Its queue pair may have failed because of an earlier request, whose NAK tells
/// the origin (enter_error); if not, the origin tries for as long as its attributes say.
void Transport::unanswered(SimQueuePair& origin) {
  if (!origin.has_unanswered()) return;  // another look was sooner
  const std::int64_t retries_ps = (origin.retry_cnt_ + 1LL) * (4'096'000LL << origin.timeout_);
  const std::int64_t deadline_ps = flight(origin.rare().unanswered.first).done_ps + retries_ps;
  if (origin.state_ != QpState::kError && calendar_.now_ps() < deadline_ps) {
    schedule_look(origin, deadline_ps);
    return;
  }
  while (origin.has_unanswered()) {
    const std::uint32_t index = take(origin.rare().unanswered);
    Flight& f = flight(index);
    f.status = origin.state_ == QpState::kError ? WcStatus::kWrFlushErr : WcStatus::kRetryExcErr;
    if (returns_data(f.opcode)) read_done(f, origin, calendar_.now_ps());
    finish(index, origin, now(), 0);
  }
}

void Transport::enter_error(SimQueuePair& qp, const models::Moment& ready) {
  qp.state_ = QpState::kError;
  while (qp.has_unheard()) {
    const std::uint32_t index = take(qp.rare().unheard);
    if (returns_data(flight(index).opcode)) read_done(flight(index), qp, calendar_.now_ps());
    finish(index, qp, ready, 0);
  }
  if (qp.has_unanswered()) schedule_look(qp, std::max(ready.at(), calendar_.now_ps()));
  const bool others_first = has_untouched(qp);
  while (!qp.waiting_.empty()) {
    const std::uint32_t index = take(qp.waiting_);
    if (others_first) {
      flush_in_order(index, qp);
    } else {
      flush(qp, index, std::max(ready.at(), calendar_.now_ps()));
    }
  }
  while (qp.receives_.size() > 0) flush_recv(qp, qp.receives_.pop(), ready);
}

void Transport::flush_recv(SimQueuePair& qp, const RecvWr& wr, const models::Moment& at) {
  WorkCompletion wc;
  wc.wr_id = wr.wr_id;
  wc.status = WcStatus::kWrFlushErr;
  wc.opcode = WcOpcode::kRecv;
  wc.qp_num = qp.number_;
  qp.recv_cq_->push(wc, qp.port_.nic.write_completion(at).at(), SimCompletionQueue::kNoSender, 0);
}

}  // namespace verbtwin::sim
