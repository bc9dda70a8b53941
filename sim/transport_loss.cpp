// Packets that the fabric loses, and how an RC queue pair makes up for them: go-back-N (InfiniBand
// Architecture Specification, volume 1, 9.7). Over UC and UD nobody does.
//
// A request that does not come whole leaves a gap in its queue pair's sequence. The responder drops what
// comes behind it, which is held here until it comes again, and says so once, with a NAK; the requester sends
// from the lost packet on. Where nothing comes behind it, or the NAK is lost, the requester's time-out does
// that. An answer that does not come whole is missed in the same way, when a later one is there. A later ACK
// stands for those before it; a READ is asked for again from the lost packet on. What was carried out already
// is not carried out twice, but for READs.
//
// Not modelled: how long a NIC takes to go back beyond the round trip and its own pipelines (devices differ
// widely), the limit on retries, and NAKs of other kinds that are lost.
#include <algorithm>

#include "sim/flight.hpp"
#include "sim/transport.hpp"

namespace verbtwin::sim {

namespace {

/// Of two positions in a send queue, which count on for ever.
bool is_before(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::int32_t>(a - b) < 0;
}

}  // namespace

bool Transport::loses_packet() {
  if (random_() >= lost_below_) return false;
  ++counts_.packets_lost;
  return true;
}

/// Whether one of the packets that its receiver has not heard yet is lost.
bool Transport::loses(Flight& f, models::Packets packets) {
  const std::uint32_t all = models::packets_of(packets.bytes, mtu_b_);
  std::uint32_t first_lost = all;
  for (std::uint32_t packet = f.packets_heard; packet < all; ++packet) {
    if (!loses_packet()) continue;
    first_lost = std::min(first_lost, packet);
    if (f.type == QpType::kRc) break;  // those behind it come again, whatever becomes of them
  }
  f.packets_heard = first_lost == all ? 0 : first_lost;
  return first_lost < all;
}

/// Of a message that has lost a packet, or came behind one that has: what it costs beyond its first time,
/// when all of it was sent for the models. In truth the sender has stopped a round trip behind the lost
/// packet.
models::Packets Transport::rest_lost(const Flight& f, models::Packets packets) const {
  const double round_trip_b =
      2 * static_cast<double>(fabric_.latency_ps(f.path)) * fabric_.slowest_gbps(f.path) / 8000;
  return {static_cast<std::uint32_t>(std::min<double>(packets.bytes, round_trip_b)), packets.mtu_b};
}

/// False where it does not, and has been dealt with.
bool Transport::arrives(std::uint32_t index, SimQueuePair& target) {
  Flight& f = flight(index);
  const bool crosses = f.path.count > 0 && f.stage != Stage::kInEngine && f.status == WcStatus::kSuccess;
  const models::Packets packets = request_packets(f);
  // What has been carried out is asked for again with one packet, or its last one is what is answered.
  if (!crosses || !(f.executed ? loses_packet() : loses(f, packets))) return true;
  SimQueuePair* origin = origin_of(f);
  if (f.type != QpType::kRc || origin == nullptr) {
    release(index);
  } else if (f.executed) {
    miss_answer(index, *origin, calendar_.now_ps(), false);
  } else if (target.holding_) {  // behind others that come again
    append(index, target.rare().held);
  } else {
    target.holding_ = true;
    SimQueuePair::Rare& gap = target.rare();
    gap.lost = index;
    gap.refused = false;
    schedule_resend(Stage::kResendRequests, f, gap.lost_round, Because::kTimeout, calendar_.now_ps());
    const bool more_come = f.packets_heard + 1 < models::packets_of(packets.bytes, mtu_b_);
    if (more_come) refuse_sequence(target);
  }
  return false;
}

/// Something has come behind what is missing.
void Transport::refuse_sequence(SimQueuePair& target) {
  SimQueuePair::Rare& gap = target.rare();
  if (gap.lost == kNoFlight || gap.refused) return;
  gap.refused = true;
  if (loses_packet()) return;  // the NAK
  schedule_resend(Stage::kResendRequests, flight(gap.lost), gap.lost_round, Because::kNak,
                  calendar_.now_ps());
}

/// False where it is not, and waits for being asked for again.
bool Transport::is_heard(std::uint32_t index, SimQueuePair& origin, const models::Moment& tail) {
  Flight& f = flight(index);
  if (f.type != QpType::kRc || f.status != WcStatus::kSuccess) return true;
  const models::Packets packets = answer_packets(f);
  if (f.path.count > 0 && loses(f, packets)) {
    const bool more_come = f.packets_heard + 1 < models::packets_of(packets.bytes, mtu_b_);
    miss_answer(index, origin, tail.at(), more_come);
    return false;
  }
  SimQueuePair::Rare& gap = origin.rare();
  if (!is_next(f, gap)) {
    f.packets_heard = models::packets_of(packets.bytes, mtu_b_);
    keep_unheard(index, gap);
    see_gap(gap, tail.at());
    return false;
  }
  return true;
}

/// An answer that the NIC has dealt with at `done` stands for the lost ACKs before it.
void Transport::finish_those_before(const Flight& f, SimQueuePair& origin, const models::Moment& done) {
  FlightList& unheard = origin.rare().unheard;
  while (!unheard.empty() && is_before(flight(unheard.first).position, f.position)) {
    const std::uint32_t acknowledged = take(unheard);
    finish(acknowledged, origin, done.whole(), 0);
  }
}

/// A request whose answer may be lost leaves.
void Transport::await_answer(const Flight& f, SimQueuePair& origin) {
  if ((f.flags & kSignaled) != 0 || returns_data(f.opcode)) origin.rare().awaited.push_back(f.position);
}

/// It has ended, whatever its answer: what is missing may now be asked for.
void Transport::answered(const Flight& f, SimQueuePair& origin) {
  SimQueuePair::Rare& gap = origin.rare();
  std::erase(gap.awaited, f.position);
  if (origin.state_ == QpState::kError || gap.unheard.empty()) return;
  const Flight& first = flight(gap.unheard.first);
  const bool is_lost = first.packets_heard < models::packets_of(answer_packets(first).bytes, mtu_b_);
  if (is_lost && first.next == kNoFlight) {  // and nothing is there behind it
    if (gap.awaited.front() == first.position) go_back(gap, Because::kTimeout, calendar_.now_ps());
  } else {
    see_gap(gap, calendar_.now_ps());
  }
}

/// Whether all before it have been heard of, or now are: its answer stands for the lost ACKs before it.
bool Transport::is_next(const Flight& f, const SimQueuePair::Rare& gap) const {
  std::uint32_t missing = gap.unheard.first;
  for (const std::uint32_t position : gap.awaited) {
    if (!is_before(position, f.position)) break;
    if (missing == kNoFlight || flight(missing).position != position) return false;  // on its way
    if (returns_data(flight(missing).opcode)) return false;
    missing = flight(missing).next;
  }
  return true;
}

/// `more_come`: packets of it behind the one that is lost, which show that one is.
void Transport::miss_answer(std::uint32_t index, SimQueuePair& origin, std::int64_t at_ps, bool more_come) {
  SimQueuePair::Rare& gap = origin.rare();
  keep_unheard(index, gap);
  if (gap.awaited.front() != flight(index).position) return;
  ++gap.unheard_round;
  gap.went_back = false;
  go_back(gap, Because::kTimeout, at_ps);
  if (more_come || flight(index).next != kNoFlight) see_gap(gap, at_ps);
}

/// Something is there behind what is missing. Where one before it is on its way again, they come with it, or
/// are asked for when it is there.
void Transport::see_gap(SimQueuePair::Rare& gap, std::int64_t at_ps) {
  if (gap.unheard.empty() || gap.went_back) return;
  if (gap.awaited.front() == flight(gap.unheard.first).position) go_back(gap, Because::kNak, at_ps);
}

/// In the order of their requests.
void Transport::keep_unheard(std::uint32_t index, SimQueuePair::Rare& gap) {
  FlightList before, behind = gap.unheard;
  while (!behind.empty() && is_before(flight(behind.first).position, flight(index).position))
    append(take(behind), before);
  append(index, before);
  while (!behind.empty()) append(take(behind), before);
  gap.unheard = before;
}

/// Asks once more for the first that is missing, and for all behind it.
void Transport::go_back(SimQueuePair::Rare& gap, Because because, std::int64_t from_ps) {
  gap.went_back = gap.went_back || because == Because::kNak;
  schedule_resend(Stage::kResendUnheard, flight(gap.unheard.first), gap.unheard_round, because, from_ps);
}

/// What a message takes between its two NICs, when it queues nowhere.
std::int64_t Transport::way_ps(const SimQueuePair& origin) const {
  return fabric_.latency_ps(origin.to_peer_) + origin.port_.nic.pipelines_ps();
}

/// From when a target misses a request until that is there again: the NAK's way, and its own, with the fetch
/// of its payload.
std::int64_t Transport::go_back_ps(const Flight& f, const SimQueuePair& origin) const {
  const bool fetches = (f.flags & kInline) == 0 && request_packets(f).bytes > 0;
  return 2 * way_ps(origin) + (fetches ? origin.port_.nic.pcie().read_latency_ps() : 0);
}

/// A round trip, or the time-out, after `from_ps`, when the last packet is there or would have been: those
/// behind the lost one have taken as long as they take when they come again. Of what is asked for again, half
/// a round trip. `round`: which gap it is for.
void Transport::schedule_resend(Stage stage, const Flight& f, std::uint32_t round, Because because,
                                std::int64_t from_ps) {
  const SimQueuePair* origin = origin_of(f);
  if (origin == nullptr) return;
  const std::int64_t nak_ps = stage == Stage::kResendUnheard ? way_ps(*origin) : go_back_ps(f, *origin);
  const std::int64_t later_ps = because == Because::kTimeout ? 4'096'000LL << origin->timeout_ : nak_ps;
  const std::uint32_t index = take_flight();
  Flight& timer = flight(index);
  timer.stage = stage;
  timer.origin = f.origin;
  timer.epoch = f.epoch;
  timer.target = f.target;
  timer.order = round;
  timer.imm_data = because == Because::kTimeout ? 1 : 0;
  calendar_.schedule(std::max(calendar_.now_ps(), from_ps) + later_ps, handler_, index);
}

void Transport::resend_requests(const Flight& timer) {
  SimQueuePair* target = find(timer.target);
  if (target == nullptr || !target->rare_) return;
  SimQueuePair::Rare& gap = *target->rare_;
  if (gap.lost == kNoFlight || gap.lost_round != timer.order) return;
  counts_.ack_timeouts += timer.imm_data;
  ++gap.lost_round;
  try_again(std::exchange(gap.lost, kNoFlight));
}

void Transport::resend_unheard(const Flight& timer) {
  SimQueuePair* origin = origin_of(timer);
  if (origin == nullptr || !origin->has_unheard() || origin->rare().unheard_round != timer.order) return;
  counts_.ack_timeouts += timer.imm_data;
  SimQueuePair::Rare& gap = origin->rare();
  ++gap.unheard_round;
  FlightList list = std::exchange(gap.unheard, {});
  gap.went_back = false;
  std::int64_t last_answer_ps = 0;
  while (!list.empty()) {
    const std::uint32_t index = take(list);
    Flight& f = flight(index);
    f.path = origin->to_peer_;
    f.stage = Stage::kTouch;
    send_again(f, last_answer_ps);
    touch(index);
  }
}

}  // namespace verbtwin::sim
