#include "models/nic.hpp"

namespace verbtwin::models {

Nic::Nic(const NicProfile& profile)
    : pcie_(profile),
      atomic_unit_(profile),
      contexts_(static_cast<std::uint32_t>(profile.qp_cache_entries)),
      receive_queues_(static_cast<std::uint32_t>(profile.recv_queue_cache_entries)),
      translations_(profile),
      blueflame_b_(static_cast<std::uint32_t>(profile.blueflame_b)),
      blueflame_points_(profile.blueflame_pointers > 0),
      send_doorbell_ps_(to_ps(profile.send_doorbell_ns)),
      send_wqe_ps_(to_ps(profile.send_wqe_ns)),
      send_wqe_block_ps_(to_ps(profile.send_wqe_block_ns)),
      send_fetch_ps_(to_ps(profile.send_fetch_ns)),
      send_fetch_block_ps_(to_ps(profile.send_fetch_block_ns)),
      send_response_ps_(to_ps(profile.send_response_ns)),
      send_response_block_ps_(to_ps(profile.send_response_block_ns)),
      send_response_tlp_ps_(to_ps(profile.send_response_tlp_ns)),
      serve_request_ps_(to_ps(profile.serve_request_ns)),
      queue_pair_gap_ps_(to_ps(profile.queue_pair_gap_ns)),
      send_pipeline_ps_(to_ps(profile.send_pipeline_ns)),
      recv_packet_ps_(to_ps(profile.recv_packet_ns)),
      recv_ack_ps_(to_ps(profile.recv_ack_ns)),
      recv_wqe_ps_(to_ps(profile.recv_wqe_ns)),
      recv_imm_ps_(to_ps(profile.recv_imm_ns)),
      recv_queue_miss_ps_(to_ps(profile.recv_queue_miss_ns)),
      recv_pipeline_ps_(to_ps(profile.recv_pipeline_ns)),
      mtu_b_(static_cast<std::uint32_t>(profile.mtu_b)),
      tlp_payload_b_(static_cast<std::uint32_t>(profile.pcie_payload_b)),
      recv_tlp_ps_(to_ps(profile.recv_tlp_ns)),
      recv_scatter_block_ps_(to_ps(profile.recv_scatter_block_ns)),
      qp_miss_ps_(to_ps(profile.qp_miss_ns)),
      qp_miss_occupancy_ps_(to_ps(profile.qp_miss_occupancy_ns)),
      qp_miss_growth_ps_(to_ps(profile.qp_miss_growth_ns)),
      wqe_cache_entries_(static_cast<std::uint32_t>(profile.wqe_cache_entries)),
      wqe_miss_response_ps_(to_ps(profile.wqe_miss_response_ns)),
      wqe_miss_ack_ps_(to_ps(profile.wqe_miss_ack_ns)),
      ack_request_interval_(static_cast<std::uint32_t>(profile.ack_request_interval)),
      translation_miss_ps_(to_ps(profile.translation_miss_ns)),
      translation_miss_occupancy_ps_(to_ps(profile.translation_miss_occupancy_ns)) {}

}  // namespace verbtwin::models
