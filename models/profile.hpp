// NIC and host profiles: the numbers a device or a machine is made of, as plain data.
//
// Pure values, copied freely. Every parameter is a member here and a row of the tables in profile.cpp, with
// its unit, its range and what it means; files are read against the tables (calibration/profile_file.hpp).
// Times in nanoseconds as doubles (models round to picoseconds when they are built).
#pragma once

#include <span>
#include <string>

namespace verbtwin::models {

/// One parameter of a profile: where it lives and what a file may say of it.
template <typename Profile>
struct Parameter {
  const char* name;
  const char* unit;  // "ns", "B", "count", "Gb/s", "GHz"
  double min, max;   // inclusive
  double Profile::*value;
  const char* meaning;
};

/// One RDMA NIC with its PCIe slot.
struct NicProfile {
  std::string name;
  double link_gbps = 0;

  // PCIe
  double pcie_gbps = 0;
  double pcie_tlp_header_b = 0;
  double pcie_completion_header_b = 0;
  double pcie_payload_b = 0;
  double pcie_completion_b = 0;
  double dma_read_ns = 0;
  double dma_write_ns = 0;
  double dma_reads_outstanding = 0;
  double mmio_ns = 0;
  double doorbell_registers_dedicated = 0;
  double doorbell_registers_shared = 0;
  double doorbell_locked = 0;

  // Send side
  double blueflame_b = 0;
  double blueflame_pointers = 0;
  double max_inline_b = 0;
  double max_send_wr = 0;
  double max_rd_atomic = 0;
  double send_doorbell_ns = 0;
  double send_wqe_ns = 0;
  double send_wqe_block_ns = 0;
  double send_fetch_ns = 0;
  double send_fetch_block_ns = 0;
  double send_response_ns = 0;
  double send_response_block_ns = 0;
  double send_response_tlp_ns = 0;
  double serve_request_ns = 0;
  double ack_request_interval = 0;
  double queue_pair_gap_ns = 0;
  double send_pipeline_ns = 0;

  // Receive side
  double recv_packet_ns = 0;
  double recv_ack_ns = 0;
  double recv_wqe_ns = 0;
  double recv_imm_ns = 0;
  double recv_queue_cache_entries = 0;
  double recv_queue_miss_ns = 0;
  double recv_block_ns = 0;
  double recv_tlp_ns = 0;
  double recv_scatter_block_ns = 0;
  double recv_pipeline_ns = 0;

  // On-chip caches
  double qp_cache_entries = 0;
  double qp_miss_ns = 0;
  double qp_miss_occupancy_ns = 0;
  double qp_miss_growth_ns = 0;
  double wqe_prefetch_b = 0;
  double wqe_cache_entries = 0;
  double wqe_miss_send_ns = 0;
  double wqe_miss_response_ns = 0;
  double translation_cache_entries = 0;
  double translation_page_b = 0;
  double translation_miss_ns = 0;
  double translation_miss_occupancy_ns = 0;

  // Atomics
  double atomic_locks = 0;
  double atomic_engine_ns = 0;

  // Wire
  double mtu_b = 0;
  double wire_header_b =
      0;  // RC WRITE header without payload is 42 B on InfiniBand; RoCEv2 adds this much to each
};

/// One machine: what a worker's core pays for its work.
struct HostProfile {
  std::string name;
  double clock_ghz = 0;
  double turbo_few_ghz = 1;
  double turbo_all_ghz = 1;
  double turbo_cores = 3;
  double post_wr_ns = 0;
  double doorbell_ns = 0;
  double blueflame_ns = 0;
  double inline_block_ns = 0;
  double post_recv_ns = 0;
  double poll_ns = 0;
  double poll_cqe_ns = 0;
  double coroutine_switch_ns = 0;
  double rpc_send_ns = 0;
  double poll_slot_ns = 0;
  double rpc_receive_ns = 0;
  double index_lookup_ns = 0;
  double cache_lookup_ns = 0;
  double memory_miss_ns = 0;
  double local_atomic_ns = 0;
  double cores_per_socket = 0;
  double last_level_cache_mib = 0;
  double lock_ns = 0;
  double lock_handover_ns = 0;
  double lock_handover_far_ns = 0;
  double lock_waiter_ns = 0;
  double locked_flush_ns = 0;
  double copy_block_ns = 0;
  double transaction_begin_ns = 0;
  double transaction_end_ns = 0;
};

std::span<const Parameter<NicProfile>> nic_parameters();
std::span<const Parameter<HostProfile>> host_parameters();

}  // namespace verbtwin::models
