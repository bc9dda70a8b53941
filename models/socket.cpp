#include "models/socket.hpp"

#include <algorithm>

#include "models/pcie.hpp"

namespace verbtwin::models {

namespace {

using S = SocketProfile;

constexpr Parameter<S> kSocketParameters[] = {
    {"link_gbps", "Gb/s", 0, 1600, &S::link_gbps,
     "data rate of the interface's own link; 0: its packets cross the RDMA NIC's link (IPoIB)"},
    {"switch_ns", "ns", 0, 1e6, &S::switch_ns,
     "cables and switch of the own link, without the time to store and forward a packet"},
    {"nic_ns", "ns", 0, 1e6, &S::nic_ns,
     "doorbell, DMA and device at the sender, and the same up to the interrupt at the receiver, together"},
    {"mtu_b", "B", 576, 65535, &S::mtu_b, "largest IP packet"},
    {"ip_header_b", "B", 40, 200, &S::ip_header_b, "headers of IP and TCP with the usual options"},
    {"frame_payload_b", "B", 256, 65535, &S::frame_payload_b, "what one frame or packet of the link carries"},
    {"frame_header_b", "B", 0, 256, &S::frame_header_b,
     "bytes that each of them takes on the wire beyond that"},
    {"window_b", "B", 2048, 1e9, &S::window_b, "bytes of a connection sent and not yet read, at most"},
    {"clock_ghz", "GHz", 0.1, 10, &S::clock_ghz, "core clock for which the costs below hold"},
    {"offload_b", "B", 0, 65536, &S::offload_b,
     "payload that the stack hands to the NIC at once (segmentation offload); 0: a packet at a time"},
    {"copy_block_ns", "ns", 0, 1000, &S::copy_block_ns, "copy 64 B between user and kernel"},
    {"checksum_block_ns", "ns", 0, 1000, &S::checksum_block_ns,
     "checksum of 64 B, at the sender and at the receiver; 0: the NIC's work"},
    {"send_call_ns", "ns", 0, 1e5, &S::send_call_ns, "system call to send, without copy and protocol"},
    {"send_segment_ns", "ns", 0, 1e5, &S::send_segment_ns,
     "TCP, IP, queueing discipline and driver for what is handed to the NIC at once, in the sender's call"},
    {"poll_call_ns", "ns", 0, 1e5, &S::poll_call_ns, "system call to learn what is ready"},
    {"poll_ready_ns", "ns", 0, 1e5, &S::poll_ready_ns, "each connection that is"},
    {"receive_call_ns", "ns", 0, 1e5, &S::receive_call_ns, "system call to receive, without the copy"},
    {"context_switch_ns", "ns", 0, 1e6, &S::context_switch_ns,
     "core time of giving the core away in a poll that finds nothing, and of getting it back"},
    {"wakeup_ns", "ns", 0, 1e6, &S::wakeup_ns,
     "from the wake-up of a thread that waits until it runs: scheduler, interrupt between cores, leaving an "
     "idle state"},
    {"interrupt_ns", "ns", 0, 1e6, &S::interrupt_ns, "interrupt and start of the soft interrupt, core time"},
    {"receive_packet_ns", "ns", 0, 1e6, &S::receive_packet_ns,
     "driver, IP, TCP and the socket's queue for one packet, in the soft interrupt"},
    {"ack_ns", "ns", 0, 1e6, &S::ack_ns,
     "core time of an ACK that rides on no data, where it is sent and where it is received"},
    {"interrupt_queues", "count", 1, 256, &S::interrupt_queues,
     "interrupt vectors for received packets, each with a core; connections are dealt to them"},
    {"interrupt_gap_ns", "ns", 0, 1e6, &S::interrupt_gap_ns,
     "between two interrupts of a vector at least (moderation)"},
};

}  // namespace

std::span<const Parameter<SocketProfile>> socket_parameters() {
  return kSocketParameters;
}

SocketCosts::SocketCosts(const SocketProfile& p, double clock_ghz) {
  const auto ps = [&](double ns) { return to_ps(ns * p.clock_ghz / clock_ghz); };
  copy_block_ps_ = ps(p.copy_block_ns);
  checksum_block_ps_ = ps(p.checksum_block_ns);
  send_call_ps_ = ps(p.send_call_ns);
  send_segment_ps_ = ps(p.send_segment_ns);
  poll_call_ps_ = ps(p.poll_call_ns);
  poll_ready_ps_ = ps(p.poll_ready_ns);
  receive_call_ps_ = ps(p.receive_call_ns);
  context_switch_ps_ = ps(p.context_switch_ns);
  wakeup_ps_ = to_ps(p.wakeup_ns);  // idle states and timers, not instructions
  interrupt_ps_ = ps(p.interrupt_ns);
  receive_packet_ps_ = ps(p.receive_packet_ns);
  ack_ps_ = ps(p.ack_ns);
}

Segments::Segments(const SocketProfile& p)
    : ip_header_b_(static_cast<std::uint32_t>(p.ip_header_b)),
      frame_payload_b_(static_cast<std::uint32_t>(p.frame_payload_b)),
      frame_header_b_(static_cast<std::uint32_t>(p.frame_header_b)),
      packet_max_b_(static_cast<std::uint32_t>(p.mtu_b) - ip_header_b_),
      segment_max_b_(std::max(packet_max_b_, static_cast<std::uint32_t>(p.offload_b))) {}

InterruptQueue::Taken InterruptQueue::take(std::int64_t at_ps, std::uint64_t payload_b) {
  Taken taken;
  if (at_ps >= done_ps_) {
    done_ps_ = std::max(at_ps, next_interrupt_ps_);
    next_interrupt_ps_ = done_ps_ + gap_ps_;
    taken.cpu_ps = costs_->interrupt_ps();
    ++interrupts_;
  }
  taken.cpu_ps += costs_->packet_ps(payload_b);
  // The first packet has the interrupt in front of it, the others what is taken already.
  done_ps_ += taken.cpu_ps;
  busy_ps_ += taken.cpu_ps;
  taken.done_ps = done_ps_;
  return taken;
}

void InterruptQueue::owe(std::int64_t at_ps, std::int64_t ps) {
  done_ps_ = std::max(done_ps_, at_ps) + ps;
  busy_ps_ += ps;
}

}  // namespace verbtwin::models
