// Profiles for tests: round numbers that make expected times easy to work out by hand, independent of the
// calibrated files. A test changes what it is about.
#pragma once

#include "models/profile.hpp"
#include "models/socket.hpp"

namespace verbtwin::models {

/// 1 B/ns on the link and on PCIe, a context for every queue pair, no cost beyond what is named here.
inline NicProfile round_nic() {
  NicProfile nic;
  nic.name = "round";
  nic.link_gbps = 8;
  nic.pcie_gbps = 8;
  nic.pcie_tlp_header_b = 20;
  nic.pcie_completion_header_b = 20;
  nic.pcie_payload_b = 256;
  nic.pcie_completion_b = 128;
  nic.dma_read_ns = 500;
  nic.dma_write_ns = 200;
  nic.dma_reads_outstanding = 64;
  nic.mmio_ns = 100;
  nic.doorbell_registers_dedicated = 4;
  nic.doorbell_registers_shared = 11;
  nic.blueflame_b = 256;
  nic.doorbell_locked = 1;
  nic.blueflame_pointers = 1;
  nic.max_inline_b = 188;
  nic.max_send_wr = 4096;
  nic.max_rd_atomic = 16;
  nic.send_wqe_ns = 10;
  nic.send_wqe_block_ns = 2;
  nic.send_response_ns = 6;
  nic.serve_request_ns = 3;
  nic.ack_request_interval = 1;
  nic.queue_pair_gap_ns = 0;
  nic.send_pipeline_ns = 150;
  nic.recv_packet_ns = 7;
  nic.recv_ack_ns = 4;
  nic.recv_wqe_ns = 2;
  nic.recv_queue_cache_entries = 1e6;
  nic.recv_pipeline_ns = 160;
  nic.qp_cache_entries = 1024;
  nic.qp_miss_ns = 300;
  nic.qp_miss_occupancy_ns = 11;
  nic.wqe_cache_entries = 1e6;
  nic.translation_cache_entries = 1e6;
  nic.translation_page_b = 1 << 30;
  nic.atomic_locks = 4096;
  nic.atomic_engine_ns = 40;
  nic.mtu_b = 4096;
  nic.wire_header_b = 0;
  return nic;
}

/// A core whose calls take no time, 1 ns a cycle.
inline HostProfile free_host() {
  HostProfile host;
  host.name = "free";
  host.clock_ghz = 1;
  host.cores_per_socket = 12;
  return host;
}

/// An own link of 1 B/ns with a switch, and nothing that costs CPU time.
inline SocketProfile free_sockets() {
  SocketProfile sockets;
  sockets.name = "free";
  sockets.link_gbps = 8;
  sockets.switch_ns = 2000;
  sockets.nic_ns = 1000;
  sockets.mtu_b = 1500;
  sockets.ip_header_b = 50;
  sockets.frame_payload_b = 1500;
  sockets.frame_header_b = 40;
  sockets.window_b = 65'536;
  sockets.clock_ghz = 1;
  sockets.interrupt_queues = 1;
  return sockets;
}

/// The same with a price on everything.
inline SocketProfile round_sockets() {
  SocketProfile sockets = free_sockets();
  sockets.name = "round";
  sockets.copy_block_ns = 10;
  sockets.checksum_block_ns = 4;
  sockets.send_call_ns = 300;
  sockets.send_segment_ns = 1500;
  sockets.poll_call_ns = 200;
  sockets.poll_ready_ns = 100;
  sockets.receive_call_ns = 250;
  sockets.context_switch_ns = 1700;
  sockets.wakeup_ns = 3000;
  sockets.interrupt_ns = 800;
  sockets.receive_packet_ns = 1200;
  sockets.ack_ns = 600;
  return sockets;
}

}  // namespace verbtwin::models
