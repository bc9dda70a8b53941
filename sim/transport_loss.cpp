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
// Not modelled: how long a NIC takes to go back beyond the round trip (devices differ widely), the limit on
// retries, and NAKs of other kinds that are lost.
#include <algorithm>

#include "sim/flight.hpp"
#include "sim/transport.hpp"

namespace verbtwin::sim {

bool Transport::loses_packet() {
  if (random_() >= lost_below_) return false;
  ++counts_.packets_lost;
  return true;
}

/// Whether one of the packets that its receiver has not heard yet is lost.
bool Transport::loses(Flight& f, models::Packets packets) {
  const std::uint32_t all = models::packets_of(packets.bytes, mtu_b_);
  for (; f.packets_heard < all; ++f.packets_heard) {
    if (loses_packet()) return true;
  }
  f.packets_heard = 0;
  return false;
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
  while (origin.has_unheard() && !returns_data(flight(origin.rare().unheard.first).opcode)) {
    const std::uint32_t acknowledged = take(origin.rare().unheard);
    origin.port_.nic.retire_quietly(flight(acknowledged).wqe);
    finish(acknowledged, origin, tail.whole(), 0);
  }
  if (!origin.has_unheard()) {
    if (origin.rare_) ++origin.rare_->unheard_round;
    return true;
  }
  SimQueuePair::Rare& gap = origin.rare();
  append(index, gap.unheard);
  if (!gap.went_back) {
    gap.went_back = true;
    schedule_resend(Stage::kResendUnheard, f, gap.unheard_round, Because::kNak, tail.at());
  }
  return false;
}

/// `more_come`: packets of it behind the one that is lost, which show that one is.
void Transport::miss_answer(std::uint32_t index, SimQueuePair& origin, std::int64_t at_ps, bool more_come) {
  SimQueuePair::Rare& gap = origin.rare();
  const bool is_first = gap.unheard.empty();
  append(index, gap.unheard);
  const Flight& f = flight(index);
  if (is_first) {
    gap.went_back = false;
    schedule_resend(Stage::kResendUnheard, f, gap.unheard_round, Because::kTimeout, at_ps);
  }
  if (!more_come || gap.went_back) return;
  gap.went_back = true;
  schedule_resend(Stage::kResendUnheard, f, gap.unheard_round, Because::kNak, at_ps);
}

/// A round trip, or the time-out, and what is left of the message after `from_ps`. `round`: which gap it is
/// for.
void Transport::schedule_resend(Stage stage, const Flight& f, std::uint32_t round, Because because,
                                std::int64_t from_ps) {
  const SimQueuePair* origin = origin_of(f);
  if (origin == nullptr) return;
  const std::uint32_t bytes = stage == Stage::kResendUnheard ? f.length : request_packets(f).bytes;
  const std::uint32_t left_b = bytes - std::min(bytes, f.packets_heard * mtu_b_);
  std::int64_t later_ps = models::to_ps(left_b * 8 / fabric_.slowest_gbps(origin->to_peer_));
  later_ps += because == Because::kTimeout ? 4'096'000LL << origin->timeout_
                                           : 2 * fabric_.latency_ps(origin->to_peer_);
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
  ++origin->rare().unheard_round;
  FlightList list = std::exchange(origin->rare().unheard, {});
  while (!list.empty()) {
    const std::uint32_t index = take(list);
    Flight& f = flight(index);
    f.path = origin->to_peer_;
    f.stage = Stage::kTouch;
    send_again(f);
    touch(index);
  }
}

}  // namespace verbtwin::sim
