// What waits for the way out of its port, because that is taken for a while by what was sent before.
#include <algorithm>

#include "sim/flight.hpp"
#include "sim/transport.hpp"

namespace verbtwin::sim {

bool Transport::is_taken(const OutboundQueue& queue) const {
  return queue.few_left_ps() - calendar_.now_ps() > kAheadOfQueuesMaxPs;
}

void Transport::wait_for_port(std::uint32_t index, Outbound& out, OutboundQueue& queue) {
  if (out.number == Outbound::kNeverWaited) {
    out.number = static_cast<std::uint32_t>(waiting_ports_.size());
    waiting_ports_.push_back(&out);
  }
  append(index, queue.waiting);
  schedule_outbound(out, queue);
}

/// For when half of what is ahead is done: several go with one event.
void Transport::schedule_outbound(const Outbound& out, OutboundQueue& queue) {
  if (queue.waiting.empty() || queue.is_scheduled) return;
  queue.is_scheduled = true;
  const std::uint32_t index = take_flight();
  flight(index).stage = &queue == &out.requests ? Stage::kRequestsGo : Stage::kAnswersGo;
  flight(index).target = out.number;
  const std::int64_t at_ps = queue.few_left_ps() - kAheadOfQueuesMaxPs / 2;
  calendar_.schedule(std::max(at_ps, calendar_.now_ps()), handler_, index);
}

/// Requests and answers, each in their order: as many bytes of either where both can go.
std::uint32_t Transport::take_outbound(Outbound& out) {
  constexpr std::int64_t kHeadersB = 64;  // about: so that short ones take turns
  if (out.requests.waiting.empty() || out.answers.waiting.empty()) out.answers_ahead_b = 0;
  const bool requests_go = can_go(out.requests), answers_go = can_go(out.answers);
  const bool answer = answers_go && (!requests_go || out.answers_ahead_b < 0);
  const std::uint32_t index = take(answer ? out.answers.waiting : out.requests.waiting);
  const Flight& f = flight(index);
  const std::int64_t bytes = kHeadersB + (answer || !returns_data(f.opcode) ? f.length : 0);
  if (requests_go && answers_go) out.answers_ahead_b += answer ? bytes : -bytes;
  return index;
}

bool Transport::can_go(const OutboundQueue& queue) const {
  return !queue.waiting.empty() && !is_taken(queue);
}

void Transport::send_outbound(Outbound& out) {
  while (can_go(out.requests) || can_go(out.answers)) send_waiting(take_outbound(out));
  schedule_outbound(out, out.requests);
  schedule_outbound(out, out.answers);
}

void Transport::send_waiting(std::uint32_t index) {
  const Flight& f = flight(index);
  if (f.stage == Stage::kAnswerWaits) {
    SimQueuePair* target = find(f.target);
    if (target != nullptr) --target->answers_waiting_;
    if (target == nullptr || target->peer_number_ != f.origin) {
      probe(index, calendar_.now_ps());
    } else {
      answer(index, *target, rest_of(f));
    }
    return;
  }
  SimQueuePair* origin = origin_of(f);
  if (origin == nullptr) return release(index);
  --origin->requests_waiting_;
  if (origin->state_ == QpState::kError) {
    flush_in_order(index, *origin);
  } else if (!origin->waiting_.empty()) {
    append(index, origin->waiting_);
  } else {
    leave(index, *origin, now().not_before(f.done_ps));
  }
}

}  // namespace verbtwin::sim
