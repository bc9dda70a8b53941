// Nic: one RDMA NIC as arithmetic over time: when does a request that is posted now reach the wire, when does one that
// arrives touch memory, when can a completion be seen. It moves no bytes and knows no other NIC.
//
// One Nic per simulated device, one thread. All times are absolute picoseconds; every call takes when its input is
// ready and returns when its output is.
//
// The path of a request (DESIGN.md "NIC model"): fetch_wqes -> send_request -> wire -> receive -> dma/atomic ->
// send_response | send_ack -> wire -> receive_response | receive_ack -> write_completion.
#pragma once

#include <cstdint>

#include "models/atomic_unit.hpp"
#include "models/context_cache.hpp"
#include "models/pcie.hpp"
#include "models/profile.hpp"
#include "models/server.hpp"
#include "models/wqe.hpp"

namespace verbtwin::models {

class Nic {
 public:
  explicit Nic(const NicProfile& profile);

  std::uint32_t add_context() { return contexts_.add(); }

  /// True if one request of `blocks` is copied to the device whole (BlueFlame) instead of being fetched by DMA.
  bool takes_blueflame(std::size_t requests, std::uint32_t blocks) const {
    return requests == 1 && blocks * kWqeBlockBytes <= blueflame_b_;
  }

  /// The CPU has posted `requests` WQEs of `blocks` in all at `at_ps`: when the NIC has them.
  std::int64_t fetch_wqes(std::int64_t at_ps, std::size_t requests, std::uint32_t blocks) {
    if (takes_blueflame(requests, blocks)) return pcie_.store(at_ps, blocks * kWqeBlockBytes);
    const std::int64_t rung_ps = pcie_.store(at_ps, 8);
    return pcie_.dma_read(rung_ps, blocks * kWqeBlockBytes).done_ps;
  }

  /// A queue pair's own order: its requests leave one after another, at most one each queue_pair_gap.
  struct SendOrder {
    std::int64_t engine_free_ps = 0;  // its processing unit
    std::int64_t wire_ps = 0;         // its last request left
  };

  /// Takes one request through the send engine and fetches `fetch_b` of payload; returns when it is ready for the wire.
  std::int64_t send_request(std::uint32_t context, SendOrder& order, std::int64_t ready_ps, std::uint32_t blocks,
                            std::uint32_t fetch_b) {
    const Miss miss = touch(context);
    const std::int64_t service_ps = send_wqe_ps_ + blocks * send_wqe_block_ps_ + miss.occupancy_ps;
    const std::int64_t start_ps = send_engine_.reserve(std::max(ready_ps, order.engine_free_ps), service_ps);
    order.engine_free_ps = start_ps + std::max(service_ps, queue_pair_gap_ps_);
    std::int64_t out_ps = start_ps + service_ps + miss.latency_ps;
    if (fetch_b > 0) out_ps = pcie_.dma_read(out_ps, fetch_b).done_ps;
    out_ps = std::max(out_ps + send_pipeline_ps_, order.wire_ps);
    order.wire_ps = out_ps;
    return out_ps;
  }

  /// A READ or ATOMIC response whose data is at hand at `ready_ps`: when it is ready for the wire.
  std::int64_t send_response(std::int64_t ready_ps) {
    return send_engine_.reserve(ready_ps, send_response_ps_) + send_response_ps_ + send_pipeline_ps_;
  }

  std::int64_t send_ack(std::int64_t ready_ps) {
    return send_engine_.reserve(ready_ps, send_ack_ps_) + send_ack_ps_ + send_pipeline_ps_;
  }

  /// A request or a response of `packets` has arrived in full at `tail_ps`: when the engine has dealt with it.
  std::int64_t receive(std::uint32_t context, std::int64_t tail_ps, std::uint32_t packets) {
    return pass_receive_engine(context, tail_ps, packets * recv_packet_ps_);
  }
  std::int64_t receive_ack(std::uint32_t context, std::int64_t tail_ps) {
    return pass_receive_engine(context, tail_ps, recv_ack_ps_);
  }
  /// A message that takes a RECV: as receive(), and the RECV's WQE comes over PCIe (prefetched: it costs bandwidth and
  /// engine time, not latency).
  std::int64_t receive_send(std::uint32_t context, std::int64_t tail_ps, std::uint32_t packets) {
    const std::int64_t done_ps =
        pass_receive_engine(context, tail_ps, packets * recv_packet_ps_ + recv_wqe_ps_);
    pcie_.dma_read(tail_ps, kRecvWqeBytes);
    return done_ps;
  }

  /// Writes a completion; returns when a CPU can see it.
  std::int64_t write_completion(std::int64_t ready_ps) { return pcie_.dma_write(ready_ps, kCqeBytes); }

  Pcie& pcie() { return pcie_; }
  AtomicUnit& atomic_unit() { return atomic_unit_; }
  const Pcie& pcie() const { return pcie_; }
  const AtomicUnit& atomic_unit() const { return atomic_unit_; }
  const ContextCache& contexts() const { return contexts_; }
  const Server& send_engine() const { return send_engine_; }
  const Server& recv_engine() const { return recv_engine_; }

 private:
  struct Miss {
    std::int64_t occupancy_ps = 0, latency_ps = 0;
  };

  Miss touch(std::uint32_t context) {
    if (contexts_.touch(context)) return {};
    return {qp_miss_occupancy_ps_, qp_miss_ps_};
  }

  std::int64_t pass_receive_engine(std::uint32_t context, std::int64_t tail_ps, std::int64_t service_ps) {
    const Miss miss = touch(context);
    service_ps += miss.occupancy_ps;
    return recv_engine_.reserve(tail_ps + recv_pipeline_ps_, service_ps) + service_ps + miss.latency_ps;
  }

  Pcie pcie_;
  AtomicUnit atomic_unit_;
  ContextCache contexts_;
  Server send_engine_, recv_engine_;
  std::uint32_t blueflame_b_;
  std::int64_t send_wqe_ps_, send_wqe_block_ps_, send_response_ps_, send_ack_ps_;
  std::int64_t queue_pair_gap_ps_, send_pipeline_ps_;
  std::int64_t recv_packet_ps_, recv_ack_ps_, recv_wqe_ps_, recv_pipeline_ps_;
  std::int64_t qp_miss_ps_, qp_miss_occupancy_ps_;
};

}  // namespace verbtwin::models
