// The kernel's socket path: what TCP over an Ethernet or IPoIB interface costs CPUs, and when bytes get
// where.
//
// SocketProfile is one kind of interface as plain data (calibration/profiles/, "verbtwin-socket-profile").
// SocketCosts prices the calls of a thread on a host, Segments cuts a stream as the interface does, and
// InterruptQueue is what receives: one interrupt vector of the interface with the core that serves it. One
// thread. Times in picoseconds but for the profile's nanoseconds.
//
// Sources: ip(7), tcp(7), epoll(7); the kernel's Documentation/networking (NAPI, scaling, segmentation
// offloads) and Documentation/infiniband/ipoib; the values' own stand in the profiles.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "models/profile.hpp"

namespace verbtwin::models {

/// A network interface with the kernel's path to it.
struct SocketProfile {
  std::string name;
  // What carries the packets
  double link_gbps = 0;
  double switch_ns = 0;
  double nic_ns = 0;
  double mtu_b = 0;
  double ip_header_b = 0;
  double frame_payload_b = 0;
  double frame_header_b = 0;
  double window_b = 0;
  // What the kernel spends on a core at clock_ghz
  double clock_ghz = 0;
  double offload_b = 0;
  double copy_block_ns = 0;
  double checksum_block_ns = 0;
  double send_call_ns = 0;
  double send_segment_ns = 0;
  double poll_call_ns = 0;
  double poll_ready_ns = 0;
  double receive_call_ns = 0;
  double context_switch_ns = 0;
  double wakeup_ns = 0;
  double interrupt_ns = 0;
  double receive_packet_ns = 0;
  double ack_ns = 0;
  double interrupt_queues = 0;
  double interrupt_gap_ns = 0;
};

std::span<const Parameter<SocketProfile>> socket_parameters();

/// What a thread's calls cost the core they run on.
class SocketCosts {
 public:
  /// `clock_ghz` of the host: the profile's costs hold for its own clock.
  SocketCosts(const SocketProfile& profile, double clock_ghz);

  /// A segment is what the stack handles at once on its way out: all that segmentation offload takes.
  std::int64_t send_ps(std::uint64_t bytes) const {
    return send_call_ps_ + blocks(bytes) * (copy_block_ps_ + checksum_block_ps_);
  }
  std::int64_t segment_ps() const { return send_segment_ps_; }
  std::int64_t poll_ps(std::uint64_t ready) const {
    return poll_call_ps_ + static_cast<std::int64_t>(ready) * poll_ready_ps_;
  }
  std::int64_t receive_ps(std::uint64_t bytes) const {
    return receive_call_ps_ + blocks(bytes) * copy_block_ps_;
  }
  /// A thread that slept in poll: until it runs again, and what that costs its core.
  std::int64_t wakeup_ps() const { return wakeup_ps_; }
  std::int64_t context_switch_ps() const { return context_switch_ps_; }

  // On the core that serves the interrupt:
  std::int64_t interrupt_ps() const { return interrupt_ps_; }
  std::int64_t packet_ps(std::uint64_t bytes) const {
    return receive_packet_ps_ + blocks(bytes) * checksum_block_ps_;
  }
  std::int64_t ack_ps() const { return ack_ps_; }

 private:
  static std::int64_t blocks(std::uint64_t bytes) { return static_cast<std::int64_t>((bytes + 63) / 64); }

  std::int64_t copy_block_ps_, checksum_block_ps_, send_call_ps_, send_segment_ps_, poll_call_ps_,
      poll_ready_ps_, receive_call_ps_, context_switch_ps_, wakeup_ps_, interrupt_ps_, receive_packet_ps_,
      ack_ps_;
};

/// How bytes of a stream become packets, and packets bytes on the wire.
class Segments {
 public:
  explicit Segments(const SocketProfile& profile);

  /// Payload of one packet at most: the MTU without the headers of IP and TCP.
  std::uint32_t packet_max_b() const { return packet_max_b_; }
  /// Payload that the stack hands to the interface at once.
  std::uint32_t segment_max_b() const { return segment_max_b_; }
  /// A packet with all headers, in as many frames of the link as it takes. Without payload: an ACK.
  std::uint32_t wire_b(std::uint32_t payload_b) const {
    const std::uint32_t ip_b = payload_b + ip_header_b_;
    return ip_b + (ip_b + frame_payload_b_ - 1) / frame_payload_b_ * frame_header_b_;
  }

 private:
  std::uint32_t ip_header_b_, frame_payload_b_, frame_header_b_, packet_max_b_, segment_max_b_;
};

/// An interrupt vector and the core that serves it: the NIC waits between two interrupts (moderation), and
/// packets that come while the core is at it are taken without another one (NAPI).
class InterruptQueue {
 public:
  /// `costs` outlives it.
  InterruptQueue(const SocketCosts& costs, std::int64_t gap_ps) : costs_(&costs), gap_ps_(gap_ps) {}

  struct Taken {
    std::int64_t done_ps = 0;  // the bytes are in the socket's receive queue
    std::int64_t cpu_ps = 0;   // of the core's time, up to then
  };
  /// A packet with that payload is in memory at `at_ps`; calls come in the order of time.
  Taken take(std::int64_t at_ps, std::uint64_t payload_b);
  /// More work for the core behind what it has.
  void owe(std::int64_t at_ps, std::int64_t ps);
  /// The core did something else for `ps`: what is to come waits, if there is work.
  void give_way(std::int64_t at_ps, std::int64_t ps) {
    if (done_ps_ > at_ps) done_ps_ += ps;
  }

  /// All work so far is done.
  std::int64_t done_ps() const { return done_ps_; }

  std::int64_t busy_ps() const { return busy_ps_; }
  std::uint64_t interrupts() const { return interrupts_; }

 private:
  const SocketCosts* costs_;
  std::int64_t gap_ps_;
  std::int64_t done_ps_ = 0;            // all packets so far
  std::int64_t next_interrupt_ps_ = 0;  // not before
  std::int64_t busy_ps_ = 0;
  std::uint64_t interrupts_ = 0;
};

}  // namespace verbtwin::models
