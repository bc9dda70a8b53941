// Nic: one RDMA NIC as arithmetic over time: when does a request that is posted now reach the wire, when does
// one that arrives touch memory, when can a completion be seen. It moves no bytes and knows no other NIC.
//
// One Nic per simulated device, one thread. Every call takes when its input is ready and returns when its
// output is. Payloads of several packets pass from stage to stage by the packet (Moment).
//
// The path of a request (README.md): fetch_wqes -> send_request -> wire -> receive -> serve_read |
// serve_request -> DMA, atomic -> send_answer -> wire -> receive_response | receive_ack -> write_completion.
#pragma once

#include <cstdint>

#include "models/atomic_unit.hpp"
#include "models/divisor.hpp"
#include "models/lru_cache.hpp"
#include "models/pcie.hpp"
#include "models/profile.hpp"
#include "models/server.hpp"
#include "models/shared_engine.hpp"
#include "models/translation_cache.hpp"
#include "models/wqe.hpp"

namespace verbtwin::models {

class Nic {
 public:
  explicit Nic(const NicProfile& profile);

  /// Of a queue pair whose send queue has places of `slot_b` (send_queue_slot_bytes).
  std::uint32_t add_context(std::uint32_t slot_b) {
    wqes_prefetched_ += wqe_prefetch_b_ / slot_b;
    receive_queues_.add();
    return contexts_.add();
  }

  /// True if one request of `blocks` is copied to the device whole (BlueFlame) instead of being fetched by
  /// DMA. `points`: it names a payload to send by a pointer.
  bool takes_blueflame(std::size_t requests, std::uint32_t blocks, bool points) const {
    return requests == 1 && blocks * kWqeBlockBytes <= blueflame_b_ && (blueflame_points_ || !points);
  }

  /// The CPU has posted `requests` WQEs of `blocks` in all: when the NIC has them. Being told takes the send
  /// engine as long for one as for many: doorbell batching raises rates that the NIC limits, too.
  Moment fetch_wqes(Moment posted, std::size_t requests, std::uint32_t blocks, bool points) {
    send_engine_.owe_own(send_doorbell_ps_);
    if (takes_blueflame(requests, blocks, points)) return pcie_.store(posted, blocks * kWqeBlockBytes);
    return pcie_.doorbell_and_read(posted, blocks * kWqeBlockBytes);
  }
  /// The number (it wraps) of a WQE that is fetched: of a request that waits for its turn at the engine, not
  /// for the READ window, whose queue pair is not scheduled. WQEs are kept until a number of later ones have
  /// been fetched: one is used at its turn, and of a READ once more, when the answer comes, so that first in,
  /// first out is also least recently used.
  std::uint32_t number_wqe() { return ++wqes_fetched_; }

  /// The turn has come of the request with WQE number `wqe`: what is prefetched of send queues pushes one
  /// another out when it is more than the NIC keeps, and is fetched again then. That takes the engine's time.
  void fetch_again_if_gone(std::uint32_t wqe, std::uint32_t blocks, const Moment& at) {
    if (wqes_fetched_ - wqe < wqe_cache_entries_) return;
    if (wqes_prefetched_ < wqe_cache_entries_) return;
    send_engine_.owe_own(wqe_miss_send_ps_);
    send_misses_.wqes_ps += wqe_miss_send_ps_;
    wqes_fetched_again_ps_ += pcie_.prefetch(at, blocks * kWqeBlockBytes, 1);
  }

  /// Takes one request through the send engine and fetches `fetch_b` of payload: when it is ready for the
  /// wire. `last_ready_ps` is the queue pair's own: its requests leave in order, none before one whose
  /// payload is still being fetched, and its processing unit lets one go each queue_pair_gap.
  Moment send_request(std::uint32_t context, std::int64_t& last_ready_ps, Moment ready, std::uint32_t blocks,
                      std::uint32_t fetch_b) {
    const Miss miss = touch(context, send_misses_);
    // A context is fetched before the engine has the request: other work passes meanwhile.
    if (miss.occupancy_ps > 0) ready = context_fetches_.serve(ready, miss.occupancy_ps);
    const std::int64_t service_ps = send_wqe_ps_ + blocks * send_wqe_block_ps_ + fetch_ps(fetch_b);
    const Packets packets{fetch_b, mtu_b_};
    Moment out =
        send_engine_.take_own(ready, service_ps, packets).plus_delay(miss.latency_ps + send_pipeline_ps_);
    if (fetch_b > 0) out = pcie_.dma_read(out, fetch_b, packets).done;
    // The queue pair's turn comes behind the engine's queue, not in front of it: when it comes depends on
    // that queue, and who carries such a wait as a delay into it is taken to have been there all the time.
    out = out.not_before(last_ready_ps + std::max(queue_pair_gap_ps_, out.spread_ps));
    last_ready_ps = out.at();
    return out;
  }

  /// A READ or ATOMIC of `bytes` over RC that the receive engine has dealt with: when the NIC is through with
  /// it and reads memory. The engine that sends requests takes it: who issues and serves does less of either.
  Moment serve_read(Moment ready, std::uint32_t bytes) {
    const std::int64_t service_ps = send_response_ps_ + bytes * send_response_block_ps_ / kWqeBlockBytes +
                                    more_tlps(bytes) * send_response_tlp_ps_;
    return send_engine_.take_others_early(ready, service_ps, Packets{bytes, mtu_b_});
  }
  /// The same of a WRITE or SEND, whether it asks for an ACK or not.
  Moment serve_request(Moment ready, std::uint32_t bytes) {
    return send_engine_.take_others_early(ready, serve_request_ps_, Packets{bytes, mtu_b_});
  }
  /// What a packet takes in one NIC and in another of this kind on its way between them, engines left out.
  std::int64_t pipelines_ps() const { return send_pipeline_ps_ + recv_pipeline_ps_; }

  /// What has been served, with the data that is sent for it at hand: when it is ready for the wire.
  Moment send_answer(Moment ready) { return ready.plus_delay(send_pipeline_ps_); }

  /// A request with `bytes` of payload has arrived in full: when the engine has dealt with it.
  Moment receive(std::uint32_t context, Moment arrived, std::uint32_t bytes) {
    return pass_receive_engine(context, arrived, bytes, payload_ps(bytes));
  }
  /// How long what arrives has to wait for the engine.
  std::int64_t receive_wait_ps(Moment arrived) const { return recv_engine_.others_wait_ps(arrived); }
  /// How long the last packet of a message of `wire_b` is not let in, as the port's buffer is full of others
  /// that wait for the engine, or for the way to host memory: lossless links hold it back then.
  std::int64_t held_out_ps(Moment arrived, std::uint32_t wire_b) const {
    const std::uint32_t packet_b = std::min(wire_b, mtu_b_ + 2 * kCreditBlockBytes);  // with its headers
    const std::int64_t room = kCreditBlocks / ((packet_b + kCreditBlockBytes - 1) / kCreditBlockBytes);
    return std::max({std::int64_t{0}, receive_wait_ps(arrived) - room * payload_ps(std::min(wire_b, mtu_b_)),
                     pcie_.up_wait_ps(arrived) - pcie_.raw_ps(kCreditBlocks * kCreditBlockBytes)});
  }
  /// A message that takes a RECV: as receive(), and the RECV's WQE comes over PCIe (prefetched: it costs
  /// bandwidth and engine time, not latency). Its payload has no address of its own: the engine keeps it
  /// until the WQE says where each part goes.
  Moment receive_send(std::uint32_t context, Moment arrived, std::uint32_t bytes) {
    const std::int64_t miss_ps = take_recv_ps(context, arrived);
    recv_misses_.recv_queues_ps += miss_ps;
    const std::int64_t scatter_ps = bytes * recv_scatter_block_ps_ / kWqeBlockBytes;
    return pass_receive_engine(context, arrived, bytes,
                               payload_ps(bytes) + scatter_ps + recv_wqe_ps_ + miss_ps);
  }
  /// A WRITE that has been received takes a RECV as well. Its payload did not have to wait for it, nor for
  /// the state of the receive queue.
  void receive_imm(std::uint32_t context, const Moment& arrived) {
    take_recv_ps(context, arrived);
    recv_engine_.owe_others(recv_imm_ps_);
  }
  /// The answer to the READ or ATOMIC with WQE number `wqe`: as receive(), if the WQE is still on the NIC.
  Moment receive_response(std::uint32_t context, Moment arrived, std::uint32_t bytes, std::uint32_t wqe) {
    std::int64_t service_ps = payload_ps(bytes);
    if (wqes_fetched_ - wqe >= wqe_cache_entries_) {
      service_ps += wqe_miss_response_ps_;
      recv_misses_.wqes_ps += wqe_miss_response_ps_;
    }
    return pass_receive_engine(context, arrived, bytes, service_ps);
  }
  Moment receive_ack(std::uint32_t context, Moment arrived) {
    const Miss miss = touch(context, recv_misses_);
    return recv_engine_.take_own(arrived, recv_ack_ps_ + miss.occupancy_ps, Packets{0, mtu_b_})
        .plus_delay(recv_pipeline_ps_ + miss.latency_ps);
  }

  /// Whether a WRITE or SEND that is to complete unsignalled asks for an ACK: its place in the send queue
  /// decides.
  bool asks_for_ack(std::uint32_t position) const {
    return ack_request_interval_.remainder(position + 1) == 0;
  }
  /// The ACK of a request whose requester waits for none: it takes its time of the engine, no more.
  void receive_ack_quietly(std::uint32_t context) {
    const Miss miss = touch(context, recv_misses_);
    recv_engine_.owe_own(recv_ack_ps_ + miss.occupancy_ps);
  }

  /// A request that has passed the receive engine names host memory at `offset`: when its address is known.
  Moment translate(Moment ready, std::uint64_t offset) {
    if (translations_.touch(offset)) return ready;
    recv_engine_.owe_others(translation_miss_occupancy_ps_);
    recv_misses_.translations_ps += translation_miss_occupancy_ps_;
    return ready.plus_delay(translation_miss_ps_);
  }

  /// Writes `payload_b` and a completion behind it; when a CPU can see the completion.
  Moment write_completion(Moment ready, std::uint32_t payload_b = 0) {
    return pcie_.dma_write_both(ready, payload_b, {payload_b, mtu_b_}, kCqeBytes);
  }

  /// The same of a request of the machine's own that brings no payload.
  Moment write_own_completion(Moment ready) { return pcie_.dma_write_in_turn(ready, kCqeBytes); }

  /// A completion behind a payload that is visible at `landed`.
  Moment write_completion_behind(Moment landed) { return pcie_.dma_write_behind(landed, kCqeBytes); }

  /// The part of an engine's time that went into fetching what its caches did not hold.
  struct MissTime {
    std::int64_t contexts_ps = 0, wqes_ps = 0, recv_queues_ps = 0, translations_ps = 0;
  };
  /// The part of PCIe's way down that went into WQEs that it had brought before.
  std::int64_t wqes_fetched_again_ps() const { return wqes_fetched_again_ps_; }
  const MissTime& send_misses() const { return send_misses_; }
  const MissTime& recv_misses() const { return recv_misses_; }

  Pcie& pcie() { return pcie_; }
  AtomicUnit& atomic_unit() { return atomic_unit_; }
  const Pcie& pcie() const { return pcie_; }
  void begin_window(std::int64_t at_ps) { atomic_unit_.begin_window(at_ps); }
  const AtomicUnit& atomic_unit() const { return atomic_unit_; }
  const LruCache& contexts() const { return contexts_; }
  /// Of contexts, for requests.
  const Server& context_fetches() const { return context_fetches_; }
  const Server& send_engine() const { return send_engine_.all(); }
  const Server& recv_engine() const { return recv_engine_.all(); }

 private:
  struct Miss {
    std::int64_t occupancy_ps = 0, latency_ps = 0;
  };

  Miss touch(std::uint32_t context, MissTime& misses) {
    if (contexts_.touch(context)) return {};
    // The engine stands still for a part of the fetch, at most for all of it.
    const std::int64_t held_ps = qp_miss_occupancy_ps_ + contexts_.size() * qp_miss_growth_ps_;
    const std::int64_t occupancy_ps = std::min(held_ps, qp_miss_ps_);
    misses.contexts_ps += occupancy_ps;
    return {occupancy_ps, qp_miss_ps_ - occupancy_ps};
  }

  /// RECV WQEs are fetched by the cache line, which serves the next ones of the queue as well, unless others
  /// have been used since: then the queue's state is fetched too.
  std::int64_t take_recv_ps(std::uint32_t context, const Moment& arrived) {
    const bool held = receive_queues_.touch(context);
    pcie_.prefetch(arrived.whole(), kRecvLineBytes, held ? kRecvLineBytes / kRecvWqeBytes : 1);
    return held ? 0 : recv_queue_miss_ps_;
  }

  /// Engines stream payloads: what they cost grows with their bytes.
  std::int64_t fetch_ps(std::uint32_t bytes) const {
    return bytes == 0 ? 0 : send_fetch_ps_ + bytes * send_fetch_block_ps_ / kWqeBlockBytes;
  }

  std::int64_t payload_ps(std::uint32_t bytes) const {
    return packets_of(bytes, mtu_b_) * recv_packet_ps_ + bytes * recv_block_ps_ / kWqeBlockBytes +
           more_tlps(bytes) * recv_tlp_ps_;
  }
  std::uint32_t more_tlps(std::uint32_t bytes) const {
    return bytes <= tlp_payload_b_ ? 0 : (bytes - 1) / tlp_payload_b_;
  }

  Moment pass_receive_engine(std::uint32_t context, Moment arrived, std::uint32_t bytes,
                             std::int64_t service_ps) {
    const Miss miss = touch(context, recv_misses_);
    return recv_engine_.take_others(arrived, service_ps + miss.occupancy_ps, Packets{bytes, mtu_b_})
        .plus_delay(recv_pipeline_ps_ + miss.latency_ps);
  }

  Pcie pcie_;
  AtomicUnit atomic_unit_;
  LruCache contexts_, receive_queues_;
  TranslationCache translations_;
  SharedEngine send_engine_, recv_engine_;
  Server context_fetches_;
  MissTime send_misses_, recv_misses_;
  std::int64_t wqes_fetched_again_ps_ = 0;
  std::uint32_t blueflame_b_;
  bool blueflame_points_;
  std::int64_t send_doorbell_ps_, send_wqe_ps_, send_wqe_block_ps_, send_fetch_ps_, send_fetch_block_ps_;
  std::int64_t send_response_ps_, send_response_block_ps_, send_response_tlp_ps_, serve_request_ps_;
  std::int64_t queue_pair_gap_ps_, send_pipeline_ps_;
  std::int64_t recv_packet_ps_, recv_ack_ps_, recv_wqe_ps_, recv_imm_ps_, recv_queue_miss_ps_,
      recv_pipeline_ps_;
  std::uint32_t mtu_b_, tlp_payload_b_;
  std::int64_t recv_block_ps_, recv_tlp_ps_, recv_scatter_block_ps_;
  std::int64_t qp_miss_ps_, qp_miss_occupancy_ps_, qp_miss_growth_ps_;
  std::uint32_t wqe_prefetch_b_, wqe_cache_entries_;
  std::uint32_t wqes_prefetched_ = 0;  // of all send queues together, as long as they are full
  std::uint32_t wqes_fetched_ = 0;     // so far
  std::int64_t wqe_miss_send_ps_, wqe_miss_response_ps_;
  Divisor ack_request_interval_;
  std::int64_t translation_miss_ps_, translation_miss_occupancy_ps_;
};

}  // namespace verbtwin::models
