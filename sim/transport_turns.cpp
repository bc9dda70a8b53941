// Requests that have reached their target's NIC: through its engines, and in their turn to memory.
//
// A queue pair does one atomic at a time, a READ behind an atomic or WRITE stands back until that is done,
// and an atomic until its lock is free. Who stands back waits for an event, and so does what comes behind it
// on its queue pair: in front of the atomic unit and of PCIe is then what is there when its turn has come. A
// READ whose turn comes soon does without.
//
// Not chosen: all of it worked out ahead (PCIe's queue was as when the request came: beside others that fill
// the slot atomics were twice as fast), events for long waits only (who waited less passed the atomic unit's
// queue before who waited more: of four equal machines one did 1.4 times what another did), and a wait that
// is guessed from the queue as it is now (those that wait for one lock would all be told the same).
#include <algorithm>

#include "sim/flight.hpp"
#include "sim/transport.hpp"

namespace verbtwin::sim {

/// For a RECV, whose owner is known when it touches memory; for nobody; or failed at home and only in its
/// place: nothing but its order counts.
bool Transport::is_served(const Flight& f, const SimQueuePair& origin) {
  return f.status == WcStatus::kSuccess && !is_send(f.opcode) && origin.peer_port_ != nullptr;
}

/// The last byte of a request reaches the target's NIC at `tail`.
void Transport::arrive_request(std::uint32_t index, SimQueuePair& origin, const models::Moment& tail) {
  const Flight& f = flight(index);
  models::Moment in = f.status == WcStatus::kSuccess ? tail : tail.whole();
  if (is_served(f, origin)) {
    models::Nic& nic = origin.peer_port_->nic;
    in = nic.receive(origin.peer_context_, tail, is_write(f.opcode) ? f.length : 0);
    in = nic.translate(in, origin.peer_port_->memory->offset(f.rkey, f.remote_addr));
    if (!is_write(f.opcode)) {
      in = nic.serve_read(in, f.length);
    } else if (f.type == QpType::kRc) {
      in = nic.serve_request(in, f.length);
    }
  }
  if (!origin.held_back_) return carry_out(index, origin, in);
  stand_back(index, in);
  append(index, origin.rare().behind_held_back);
}

/// It has passed the engines by `in`, and so has all before it on its queue pair: when does it touch memory?
void Transport::carry_out(std::uint32_t index, SimQueuePair& origin, const models::Moment& in) {
  const Flight& f = flight(index);
  if (!is_served(f, origin)) return schedule_touch(index, origin, in, in);
  models::Pcie& pcie = origin.peer_port_->nic.pcie();
  const models::Packets packets{f.length, mtu_b_};
  if (is_write(f.opcode)) {
    // The NIC answers when it has passed the payload on: nothing tells it when that is visible.
    const models::Moment visible = pcie.dma_write(in, f.length, packets).whole();
    schedule_touch(index, origin, visible, visible.plus_delay(-pcie.write_latency_ps()));
  } else if (waits_for_turn(index, origin, in)) {
    return;
  } else if (is_atomic(f.opcode)) {
    execute_atomic(index, origin, in);
  } else {
    const models::Moment turn = in.not_before(origin.last_change_ps_);
    const models::Pcie::Read read = pcie.dma_read(turn, f.length, packets);
    schedule_touch(index, origin, read.touch, read.done);
  }
}

void Transport::execute_atomic(std::uint32_t index, SimQueuePair& origin, const models::Moment& in) {
  models::Nic& nic = origin.peer_port_->nic;
  const models::Moment turn = in.not_before(origin.last_change_ps_);
  const auto [old, held_ps] = nic.atomic_unit().execute(turn, flight(index).remote_addr, nic.pcie());
  origin.last_change_ps_ = old.at();
  origin.port_.atomics_ps += held_ps;
  if (!origin.had_atomics_) ++origin.port_.queue_pairs_with_atomics;
  origin.had_atomics_ = true;
  schedule_touch(index, origin, old, old);
}

/// Keeps when it had passed the engines, until rest_of() is asked for.
void Transport::stand_back(std::uint32_t index, const models::Moment& in) {
  Flight& f = flight(index);
  f.done_ps = in.at();
  f.spread_ps = in.spread_ps;
}

void Transport::hold_back(std::uint32_t index, SimQueuePair& origin, Stage until, const models::Moment& in) {
  origin.held_back_ = true;
  stand_back(index, in);
  flight(index).stage = until;
}

/// Whether a READ or an atomic has been held back: by what its queue pair does before it, or by its lock.
bool Transport::waits_for_turn(std::uint32_t index, SimQueuePair& origin, const models::Moment& in) {
  const Flight& f = flight(index);
  const std::int64_t ahead_ps = is_atomic(f.opcode) ? 0 : kReadTurnAheadMaxPs;
  if (origin.last_change_ps_ > in.at() + ahead_ps) {
    hold_back(index, origin, Stage::kBehindChange, in);
    calendar_.schedule(origin.last_change_ps_, handler_, index);
    return true;
  }
  if (!is_atomic(f.opcode)) return false;
  const models::AtomicUnit& unit = origin.peer_port_->nic.atomic_unit();
  const std::int64_t wait_ps = unit.wait_ps(in, f.remote_addr);
  auto line = lock_lines_.find(lock_of(f));
  if (line == lock_lines_.end() && wait_ps == 0) return false;
  hold_back(index, origin, Stage::kBehindLock, in);
  if (line == lock_lines_.end()) {
    line = lock_lines_.emplace(lock_of(f), LockLine{&unit, {}}).first;
    calendar_.schedule(in.at() + wait_ps, handler_, index);
  }
  append(index, line->second.waiting);
  return true;
}

void Transport::turn_has_come(std::uint32_t index) {
  SimQueuePair* origin = origin_of(flight(index));
  if (origin != nullptr) origin->held_back_ = false;
  if (flight(index).stage == Stage::kBehindLock) {
    lock_is_free(index, origin);
  } else if (origin != nullptr) {
    carry_out(index, *origin, rest_of(flight(index)));
  } else {
    release(index);
  }
  if (origin == nullptr || !origin->rare_) return;
  for (FlightList& behind = origin->rare_->behind_held_back; !behind.empty() && !origin->held_back_;) {
    const std::uint32_t next = take(behind);
    carry_out(next, *origin, rest_of(flight(next)));
  }
}

/// For the first of those that wait for it. `origin`: null where its queue pair is gone.
void Transport::lock_is_free(std::uint32_t index, SimQueuePair* origin) {
  const auto line = lock_lines_.find(lock_of(flight(index)));
  const std::uint64_t addr = flight(index).remote_addr;
  take(line->second.waiting);
  if (origin != nullptr) {
    execute_atomic(index, *origin, rest_of(flight(index)));
  } else {
    release(index);
  }
  if (line->second.waiting.empty()) {
    lock_lines_.erase(line);
  } else {
    calendar_.schedule(calendar_.now_ps() + line->second.unit->wait_ps(now(), addr), handler_,
                       line->second.waiting.first);
  }
}

/// Of a queue pair that begins anew. What waits for an event finds that out by itself.
void Transport::abandon_held_back(SimQueuePair& qp) {
  qp.held_back_ = false;
  while (qp.rare_ && !qp.rare_->behind_held_back.empty()) release(take(qp.rare_->behind_held_back));
}

}  // namespace verbtwin::sim
