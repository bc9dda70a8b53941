// Pcie: one slot, two directions, as servers: stores and DMA between a NIC and its host's memory.
//
// Owned by a Nic; one thread. `down` carries CPU stores and the data of DMA reads to the device, `up` carries
// DMA writes and the requests of DMA reads to the host. Every TLP pays its header, which is a word
// shorter where it brings what was read (PCI Express Base Specification, 2.2.9). TLPs without payload to
// speak of (a read's request, a doorbell) take their time from the lanes but are no jobs in their queues: who
// stands there waits nanoseconds for them. A read's request does wait for the writes in front of it. A CPU's
// stores and the data of DMA reads take turns by the TLP.
//
// Reads in flight are bounded (tags, PCI Express Base Specification, 2.2.6.2). The pool of tags is a server
// too: with n of them that are held for a time t each it lets n reads begin at once and n in every t. A list
// of when each tag is free again, tried before, deals a tag to a read that is announced now and begins later;
// until then others waited for it, and rates went up and down with the number of tags (one more: -57 %).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "models/divisor.hpp"
#include "models/profile.hpp"
#include "models/server.hpp"
#include "models/shared_engine.hpp"

namespace verbtwin::models {

inline std::int64_t to_ps(double ns) {
  return std::llround(ns * 1000.0);
}

class Pcie {
 public:
  explicit Pcie(const NicProfile& profile)
      : ps_per_byte_(8000.0 / profile.pcie_gbps),
        header_b_(static_cast<std::uint32_t>(profile.pcie_tlp_header_b)),
        payload_b_(static_cast<std::uint32_t>(profile.pcie_payload_b)),
        completion_header_b_(static_cast<std::uint32_t>(profile.pcie_completion_header_b)),
        completion_b_(static_cast<std::uint32_t>(profile.pcie_completion_b)),
        dma_read_ps_(to_ps(profile.dma_read_ns)),
        dma_write_ps_(to_ps(profile.dma_write_ns)),
        mmio_ps_(to_ps(profile.mmio_ns)),
        tags_count_(static_cast<std::uint64_t>(profile.dma_reads_outstanding)),
        up_(wire_ps(payload_b_, payload_b_)),
        down_(completion_ps(completion_b_)) {}

  /// A CPU store of `bytes`: when the device has it. Write-combining buffers empty a cache line at a time,
  /// each a TLP of its own (Kalia et al., ATC 2016, section 3.1).
  Moment store(Moment issued, std::uint32_t bytes) {
    const std::int64_t store_ps = wire_ps(bytes, kLineBytes);
    stores_ps_ += store_ps;
    return down_.take_own(issued, store_ps, {}).plus_delay(mmio_ps_);
  }
  struct Read {
    Moment touch;  // when host memory is read
    Moment done;   // when the device has all of it
  };

  /// The request does not pass the writes in front of it (PCI Express Base Specification, 2.4.1), and takes a
  /// tag at its turn. `packets`: of the message whose payload it is, which come and go one by one.
  Read dma_read(Moment ready, std::uint32_t bytes, Packets packets = {}) {
    const std::int64_t request_ps = wire_ps(0, payload_b_), data_ps = completion_ps(bytes);
    const Moment turn = ready.not_before(ready.at() + up_wait_ps(ready));
    up_.owe_others(request_ps);
    const Moment sent = take_tag(turn, request_ps + dma_read_ps_ + data_ps);
    const Moment done = down_.take_others(sent, data_ps, packets).plus_delay(request_ps + dma_read_ps_);
    return {done.plus_delay(-dma_read_ps_ / 2), done};
  }

  /// A doorbell, a store of 8 B, and the read of `bytes` that the device starts when it has it: when that is
  /// done.
  Moment doorbell_and_read(Moment issued, std::uint32_t bytes) {
    const std::int64_t store_ps = wire_ps(8, payload_b_);
    const Moment done = dma_read(issued.plus_delay(store_ps + mmio_ps_), bytes).done;
    down_.owe_others(store_ps);  // in front of that read's data, which may have all of this way
    stores_ps_ += store_ps;
    return done;
  }

  /// One of `uses` of a read ahead of need, which is at `ready`: nobody waits for it, but what a CPU stores
  /// takes turns with it. What it takes of the way down.
  std::int64_t prefetch(Moment ready, std::uint32_t bytes, std::uint32_t uses) {
    const std::int64_t data_ps = completion_ps(bytes) / uses;
    up_.owe_others(wire_ps(0, payload_b_) / uses);
    down_.take_others(ready, data_ps, {});
    return data_ps;
  }

  /// When a write of `bytes` is visible to the host's CPUs. Writes are posted: the device has done with it
  /// write_latency_ps() before that, and later reads of the device's own do not pass it (PCI Express Base
  /// Specification, 2.4.1).
  Moment dma_write(Moment ready, std::uint32_t bytes, Packets packets = {}) {
    return up_.take_others(ready, wire_ps(bytes, payload_b_), packets).plus_delay(dma_write_ps_);
  }

  /// The completion of a request of the machine's own that brings no data: when it is visible. It takes turns
  /// with what other machines write: in line behind it, a machine that is sent a lot would hear of its own
  /// requests late, send less, and be sent the more.
  Moment dma_write_in_turn(Moment ready, std::uint32_t completion_bytes) {
    return up_.take_own(ready, wire_ps(completion_bytes, payload_b_), {}).plus_delay(dma_write_ps_);
  }

  /// A write that nobody looks for by itself.
  void dma_write_quietly(std::uint32_t bytes) { up_.owe_others(wire_ps(bytes, payload_b_)); }
  /// A write of `bytes` and one of a completion behind it: when the completion is visible.
  Moment dma_write_both(Moment ready, std::uint32_t bytes, Packets packets, std::uint32_t completion_bytes) {
    const std::int64_t payload_ps = bytes > 0 ? wire_ps(bytes, payload_b_) : 0;
    return up_.take_others(ready, payload_ps + wire_ps(completion_bytes, payload_b_), packets)
        .plus_delay(dma_write_ps_);
  }

  /// A write right behind one that is visible at `before`: when it is.
  Moment dma_write_behind(Moment before, std::uint32_t bytes) {
    return up_.take_others(before.plus_delay(-dma_write_ps_), wire_ps(bytes, payload_b_), {})
        .plus_delay(dma_write_ps_);
  }

  /// How long what is written for others waits for its turn.
  std::int64_t up_wait_ps(Moment ready) const { return up_.others_wait_ps(ready); }

  std::int64_t write_latency_ps() const { return dma_write_ps_; }
  std::int64_t read_latency_ps() const { return dma_read_ps_; }

  /// What so many bytes take, without headers.
  std::int64_t raw_ps(std::uint32_t bytes) const { return static_cast<std::int64_t>(bytes * ps_per_byte_); }

  /// The part of down's time that CPU stores took.
  std::int64_t stores_ps() const { return stores_ps_; }
  /// Its busy time is the share of the tags that were in use.
  const Server& tags() const { return tags_; }
  const Server& up() const { return up_.all(); }
  const Server& down() const { return down_.all(); }

 private:
  static constexpr std::uint32_t kLineBytes = 64;

  std::int64_t wire_ps(std::uint32_t bytes, std::uint32_t tlp_payload_b) const {
    return wire_ps(bytes, tlp_payload_b, header_b_);
  }
  std::int64_t completion_ps(std::uint32_t bytes) const {
    return wire_ps(bytes, completion_b_, completion_header_b_);
  }
  std::int64_t wire_ps(std::uint32_t bytes, std::uint32_t tlp_payload_b, std::uint32_t header_b) const {
    const std::uint32_t tlps = bytes <= tlp_payload_b ? 1 : (bytes + tlp_payload_b - 1) / tlp_payload_b;
    return static_cast<std::int64_t>(static_cast<double>(bytes + tlps * header_b) * ps_per_byte_);
  }

  /// When one of the tags is free for a read that holds it for `hold_ps`.
  Moment take_tag(Moment ready, std::int64_t hold_ps) {
    const auto service_ps =
        static_cast<std::int64_t>(tags_count_.quotient(static_cast<std::uint64_t>(hold_ps)));
    const Moment first = ready.first();
    const std::int64_t wait_ps = tags_.serve(first, service_ps).queue_ps - service_ps - first.queue_ps;
    const std::int64_t beyond_ps = std::max<std::int64_t>(0, wait_ps - (hold_ps - service_ps));
    return {ready.queue_ps + beyond_ps, ready.delay_ps, ready.held_ps, ready.spread_ps};
  }

  double ps_per_byte_;
  std::uint32_t header_b_, payload_b_, completion_header_b_, completion_b_;
  std::int64_t dma_read_ps_, dma_write_ps_, mmio_ps_;
  Divisor tags_count_;
  Server tags_;
  SharedEngine up_, down_;
  std::int64_t stores_ps_ = 0;
};

}  // namespace verbtwin::models
