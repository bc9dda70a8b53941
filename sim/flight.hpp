// Flight: one request on its way, from the send queue to its completion. Private to the transport.
//
// What every step of the way reads comes first, so that a READ stays within a cache line and a half.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "backend/verbs.hpp"
#include "models/atomic_unit.hpp"
#include "sim/transport.hpp"

namespace verbtwin::sim {

/// Whether its WQE names a payload that the NIC has to fetch, or is an atomic's: mlx4_post_send copies
/// neither to the device, only inline payloads and READs (rdma-core, providers/mlx4/qp.c; blueflame_pointers
/// of a profile).
inline bool is_by_pointer(const SendWr& wr) {
  if (is_atomic(wr.opcode)) return true;
  return !returns_data(wr.opcode) && (wr.flags & kInline) == 0 && wr.sge.length > 0;
}

struct alignas(64) Transport::Flight {
  bool answer_has_data() const { return returns_data(opcode) && status == WcStatus::kSuccess; }

  Opcode opcode = Opcode::kSend;
  Stage stage = Stage::kRequestOnWire;
  WcStatus status = WcStatus::kSuccess;
  QpType type = QpType::kRc;
  std::uint8_t flags = 0;
  std::uint8_t read_slot = 0;  // READ, ATOMIC: its place in the origin's window
  std::uint8_t blocks = 0;
  std::uint8_t tries_left = 0;
  std::uint32_t origin = 0, target = 0;  // queue pair numbers
  std::uint32_t epoch = 0;               // the origin's when posted
  std::uint32_t position = 0;            // in the origin's send queue
  Path path;
  std::uint32_t length = 0;
  std::uint32_t wqe = 0;           // its number on the origin's NIC; 0: not fetched yet
  std::uint32_t next = kNoFlight;  // in the list of free flights, or in a FlightList
  std::byte* local = nullptr;      // READ, ATOMIC: where the result lands; else the payload
  std::uint64_t remote_addr = 0;

  std::uint64_t wr_id = 0;
  std::int64_t done_ps = 0;
  std::int64_t spread_ps = 0;  // of models::Moment, at done_ps
  std::uint32_t rkey = 0;
  std::uint32_t imm_data = 0;
  std::uint32_t qkey = 0;
  union {
    std::uint32_t order = 0;  // among the messages of its queue pair and direction (network.model = simgrid)
    std::uint32_t lead_ps;    // else: from when the NIC hears of it until it stands in front of it
  };
  std::uint8_t pool_class = 0;      // of a payload kept in a pooled buffer; 0: none
  bool executed = false;            // over RC: if it comes again, it is answered and not done again
  std::uint16_t links_crossed = 0;  // of its path, where it stopped between two
  struct Atomic {
    std::uint64_t compare_add, swap;
  };
  std::uint32_t packets_heard = 0;  // of a message over RC that has lost a packet: those before it
  union {
    Atomic atomic{};
    std::array<std::byte, 88> small;  // an inline payload
    RungList rung;                    // of a doorbell
  };
};

inline Transport::Flight& Transport::flight(std::uint32_t index) const {
  return chunks_[index / kChunk][index % kChunk];
}

inline void Transport::append(std::uint32_t index, FlightList& list) {
  flight(index).next = kNoFlight;
  (list.empty() ? list.first : flight(list.last).next) = index;
  list.last = index;
}

/// Takes the first off a list that is not empty.
inline std::uint32_t Transport::take(FlightList& list) {
  const std::uint32_t index = list.first;
  list.first = flight(index).next;
  return index;
}

inline Transport::LockId Transport::lock_of(const Flight& f) const {
  return {f.path.to, models::AtomicUnit::lock_of(f.remote_addr, atomic_locks_)};
}

/// What of a message is sent now: all of it, but where it, or one before it, has lost a packet.
inline models::Packets Transport::again_of(const Flight& f, models::Packets packets) const {
  return f.packets_heard == 0 ? packets : rest_lost(f, packets);
}

/// The queue pair that it was posted to; null where that is gone, or was reset since.
inline SimQueuePair* Transport::origin_of(const Flight& f) {
  SimQueuePair* origin = find(f.origin);
  return origin != nullptr && origin->epoch_ == f.epoch ? origin : nullptr;
}

}  // namespace verbtwin::sim
