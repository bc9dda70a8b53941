// QueueNetwork: RC and UD requests between machines as what the models stand for, a network of queues with an
// event for everything: jobs stand in lines, servers take them one by one. It works nothing out ahead, so
// that it has none of the approximations of models::Server and models::SharedEngine. Tests hold whole
// clusters against it.
//
// What costs how much it takes from a NicProfile by itself, for requests that meet no cache miss: no
// arithmetic is shared with models/ but the sizes of WQEs and packets. What a message of several packets
// takes is spread evenly over them.
//
// Owned by a test; one thread. Times in picoseconds.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

#include "models/profile.hpp"
#include "models/wqe.hpp"

namespace verbtwin::sim {

class QueueNetwork {
 public:
  enum class Verb : std::uint8_t { kRead, kWrite, kSend, kCompareAndSwap, kDatagram };

  QueueNetwork(const models::NicProfile& nic, std::int64_t cable_ps, std::int64_t switch_ps, int machines)
      : nic_(nic), cable_ps_(cable_ps), switch_ps_(switch_ps) {
    const auto tags = static_cast<std::int64_t>(nic.dma_reads_outstanding);
    const std::int64_t tlp_ps = write_ps(static_cast<std::uint32_t>(nic.pcie_payload_b));
    for (int i = 0; i < machines; ++i) machines_.push_back(std::make_unique<Machine>(*this, tlp_ps, tags));
  }

  /// One that machine `from` posts now, its completion (over UD: that of the RECV it takes) seen at `done`.
  /// `is_inline`: of WRITEs and SENDs. `queue_pair`: one of `from`'s to `to`; `word`: of an atomic.
  void post(Verb verb, int from, int to, int queue_pair, std::uint64_t word, std::uint32_t bytes,
            bool is_inline, std::function<void()> done) {
    Machine& a = *machines_[static_cast<std::size_t>(from)];
    Machine& b = *machines_[static_cast<std::size_t>(to)];
    auto route = std::make_shared<Route>();
    if (verb == Verb::kRead) {
      add_read(*route, a, b, bytes);
    } else if (verb == Verb::kCompareAndSwap) {
      Tags& last = atomics_.try_emplace({from, to, queue_pair}, 1).first->second;
      Tags& lock = b.locks.try_emplace(word % static_cast<std::uint64_t>(nic_.atomic_locks), 1).first->second;
      add_atomic(*route, a, b, last, lock);
    } else {
      add_request(*route, verb, a, b, bytes, is_inline);
    }
    route->done = std::move(done);
    walk(route, 0);
  }
  void at(std::int64_t at_ps, std::function<void()> what) {
    events_.push({at_ps, ++scheduled_, std::move(what)});
  }
  void run_until(std::int64_t end_ps) {
    while (!events_.empty() && events_.top().at_ps <= end_ps) {
      Event event = events_.top();
      events_.pop();
      now_ps_ = event.at_ps;
      event.what();
    }
    now_ps_ = end_ps;
  }
  std::int64_t now_ps() const { return now_ps_; }

 private:
  struct Event {
    std::int64_t at_ps;
    std::uint64_t number;
    std::function<void()> what;
    bool operator<(const Event& other) const {
      return at_ps != other.at_ps ? at_ps > other.at_ps : number > other.number;
    }
  };
  enum Line : std::uint8_t { kOwn, kOthers };

  /// Serves two lines of jobs by turns: one job of each, or, of longer ones, as much as takes `turn_ps`.
  class Station {
   public:
    explicit Station(QueueNetwork& network, std::int64_t turn_ps = std::numeric_limits<std::int64_t>::max())
        : network_(network), turn_ps_(turn_ps) {}
    void enter(Line line, std::int64_t service_ps, std::function<void()> begun, std::function<void()> done) {
      lines_[line].push_back({service_ps, std::move(begun), std::move(done)});
      if (!busy_) serve();
    }

   private:
    struct Job {
      std::int64_t service_ps;
      std::function<void()> begun, done;
    };
    void serve() {
      const Line other = last_ == kOwn ? kOthers : kOwn;
      if (!lines_[other].empty()) last_ = other;
      if (lines_[last_].empty()) return;
      Job& job = lines_[last_].front();
      busy_ = true;
      if (job.begun) std::exchange(job.begun, {})();
      const std::int64_t part_ps = std::min(job.service_ps, turn_ps_);
      job.service_ps -= part_ps;
      network_.at(network_.now_ps() + part_ps, [this] {
        busy_ = false;
        std::function<void()> done;
        if (Job& served = lines_[last_].front(); served.service_ps == 0) {
          done = std::move(served.done);
          lines_[last_].pop_front();
        }
        serve();
        if (done) done();
      });
    }

    QueueNetwork& network_;
    std::int64_t turn_ps_;
    std::array<std::deque<Job>, 2> lines_;
    Line last_ = kOwn;
    bool busy_ = false;
  };

  class Tags {
   public:
    explicit Tags(std::int64_t count) : free_(count) {}
    void take(std::function<void()> then) {
      if (free_ == 0) return waiting_.push_back(std::move(then));
      --free_;
      then();
    }
    void give() {
      if (waiting_.empty()) {
        ++free_;
        return;
      }
      const std::function<void()> then = std::move(waiting_.front());
      waiting_.pop_front();
      then();
    }

   private:
    std::int64_t free_;
    std::deque<std::function<void()>> waiting_;
  };

  struct Machine {
    Machine(QueueNetwork& n, std::int64_t tlp_ps, std::int64_t count)
        : send(n),
          recv(n),
          up(n, tlp_ps),
          down(n, tlp_ps),
          link_out(n),
          link_in(n),
          atomics(n),
          tags(count) {}
    Station send, recv;         // engines: own work, and what is done for others
    Station up, down;           // PCIe: own is what carries no data of a DMA; others what does
    Station link_out, link_in;  // own: without payload
    Station atomics;
    Tags tags;
    std::map<std::uint64_t, Tags> locks;
    std::uint32_t recvs = 0;
  };

  enum class Kind : std::uint8_t {
    kPass,   // goes on when it has been served
    kHead,   // goes on when its service begins
    kAside,  // is served, but nobody waits for that
    kWait,
    kTake,
    kGive,
    kPackets,  // goes on when all have gone their ways
  };
  struct Route;
  struct Step {
    Kind kind;
    Station* station = nullptr;
    Line line = kOwn;
    std::int64_t ps = 0;  // of service, or to wait
    Tags* tags = nullptr;
    std::vector<std::shared_ptr<Route>> packets = {};
  };
  struct Route {
    void pass(Station& s, Line line, std::int64_t ps) { steps.push_back({Kind::kPass, &s, line, ps}); }
    void head(Station& s, Line line, std::int64_t ps) { steps.push_back({Kind::kHead, &s, line, ps}); }
    void aside(Station& s, Line line, std::int64_t ps) { steps.push_back({Kind::kAside, &s, line, ps}); }
    void wait(std::int64_t ps) { steps.push_back({Kind::kWait, nullptr, kOwn, ps}); }
    void take(Tags& tags) { steps.push_back({Kind::kTake, nullptr, kOwn, 0, &tags}); }
    void give(Tags& tags) { steps.push_back({Kind::kGive, nullptr, kOwn, 0, &tags}); }

    std::vector<Step> steps;
    std::function<void()> done;
  };

  void walk(const std::shared_ptr<Route>& route, std::size_t step) {
    for (; step < route->steps.size(); ++step) {
      Step& s = route->steps[step];
      auto next = [this, route, step] { walk(route, step + 1); };
      switch (s.kind) {
        case Kind::kPass:
          return s.station->enter(s.line, s.ps, {}, std::move(next));
        case Kind::kHead:
          return s.station->enter(s.line, s.ps, std::move(next), {});
        case Kind::kAside:
          s.station->enter(s.line, s.ps, {}, {});
          break;
        case Kind::kWait:
          return at(now_ps_ + s.ps, std::move(next));
        case Kind::kTake:
          return s.tags->take(std::move(next));
        case Kind::kGive:
          s.tags->give();
          break;
        case Kind::kPackets: {
          const auto packets = std::move(s.packets);  // who holds the route: not the other way round
          auto left = std::make_shared<std::size_t>(packets.size());
          for (const auto& packet : packets) {
            packet->done = [left, next] {
              if (--*left == 0) next();
            };
            walk(packet, 0);
          }
          return;
        }
      }
    }
    route->done();
  }

  static std::int64_t ps(double ns) { return std::llround(ns * 1000); }
  std::int64_t tlps_ps(std::uint32_t bytes, double each_b, double header_b) const {
    const double tlps = std::max(1.0, std::ceil(bytes / each_b));
    return static_cast<std::int64_t>((bytes + tlps * header_b) * 8000 / nic_.pcie_gbps);
  }
  std::int64_t write_ps(std::uint32_t bytes) const {
    return bytes == 0 ? 0 : tlps_ps(bytes, nic_.pcie_payload_b, nic_.pcie_tlp_header_b);
  }
  std::int64_t link_ps(std::uint32_t bytes) const {
    return static_cast<std::int64_t>(bytes * 8000 / nic_.link_gbps);
  }
  double more_tlps(std::uint32_t bytes) const {
    return std::max(0.0, std::ceil(bytes / nic_.pcie_payload_b) - 1);
  }
  std::int64_t receive_ps(std::uint32_t bytes) const {
    return ps(nic_.recv_packet_ns + bytes / 64.0 * nic_.recv_block_ns + more_tlps(bytes) * nic_.recv_tlp_ns);
  }

  void add_dma_read(Route& r, Machine& at, std::uint32_t bytes) {
    r.pass(at.up, kOthers, tlps_ps(0, 1, nic_.pcie_tlp_header_b));
    r.take(at.tags);
    r.wait(ps(nic_.dma_read_ns));
    r.pass(at.down, kOthers, tlps_ps(bytes, nic_.pcie_completion_b, nic_.pcie_completion_header_b));
    r.give(at.tags);
  }
  /// From the CPU's store until the NIC has the WQE.
  void add_start(Route& r, Machine& from, std::uint32_t blocks, bool points) {
    const std::uint32_t wqe_b = blocks * 64;
    if (wqe_b <= nic_.blueflame_b && (nic_.blueflame_pointers > 0 || !points)) {
      r.pass(from.down, kOwn, tlps_ps(wqe_b, 64, nic_.pcie_tlp_header_b));
      r.wait(ps(nic_.mmio_ns));
    } else {
      r.pass(from.down, kOwn, tlps_ps(8, nic_.pcie_payload_b, nic_.pcie_tlp_header_b));
      r.wait(ps(nic_.mmio_ns));
      add_dma_read(r, from, wqe_b);
    }
  }
  std::int64_t send_ps(std::uint32_t blocks, std::uint32_t fetch_b) const {
    const double fetch_ns = fetch_b == 0 ? 0 : nic_.send_fetch_ns + fetch_b / 64.0 * nic_.send_fetch_block_ns;
    return ps(nic_.send_doorbell_ns + nic_.send_wqe_ns + blocks * nic_.send_wqe_block_ns + fetch_ns);
  }
  /// A packet of a message.
  struct Packet {
    Route& route;
    std::uint32_t bytes;
    double share;
    bool is_last;

    std::int64_t of(std::int64_t message_ps) const {
      return static_cast<std::int64_t>(static_cast<double>(message_ps) * share);
    }
  };
  template <typename Build>
  void add_packets(Route& r, std::uint32_t bytes, Build build) const {
    const auto mtu_b = static_cast<std::uint32_t>(nic_.mtu_b);
    Step step{Kind::kPackets};
    for (std::uint32_t at = 0; at == 0 || at < bytes; at += mtu_b) {
      step.packets.push_back(std::make_shared<Route>());
      const std::uint32_t part_b = std::min(mtu_b, bytes - at);
      const double share = bytes == 0 ? 1 : static_cast<double>(part_b) / bytes;
      build(Packet{*step.packets.back(), part_b, share, at + mtu_b >= bytes});
    }
    r.steps.push_back(std::move(step));
  }
  void add_crossing(Route& r, Machine& from, Machine& to, std::int64_t link_ps, bool has_payload) {
    const Line line = has_payload ? kOthers : kOwn;
    r.head(from.link_out, line, link_ps);
    r.wait(cable_ps_);
    r.pass(to.link_in, line, link_ps);
    r.wait(switch_ps_ + cable_ps_);
  }
  /// What asks for data, until it has passed the engine that receives.
  void add_question(Route& r, Machine& from, Machine& to, models::WqeKind kind, std::uint32_t first_b) {
    const std::uint32_t blocks = models::wqe_blocks(kind, false, 8);
    add_start(r, from, blocks, kind == models::WqeKind::kAtomic);
    r.pass(from.send, kOwn, send_ps(blocks, 0));
    r.wait(ps(nic_.send_pipeline_ns));
    add_crossing(r, from, to, wire_ps(0, first_b), false);
    r.pass(to.recv, kOthers, receive_ps(0));
    r.wait(ps(nic_.recv_pipeline_ns));
  }
  void add_read(Route& r, Machine& from, Machine& to, std::uint32_t bytes) {
    add_question(r, from, to, models::WqeKind::kRead, models::kRethBytes);
    const std::int64_t response_ps = ps(nic_.send_response_ns + bytes / 64.0 * nic_.send_response_block_ns +
                                        more_tlps(bytes) * nic_.send_response_tlp_ns);
    add_packets(r, bytes, [&](const Packet& packet) {
      packet.route.pass(to.send, kOthers, packet.of(response_ps));
      add_dma_read(packet.route, to, packet.bytes);
      packet.route.wait(ps(nic_.send_pipeline_ns));
      add_crossing(packet.route, to, from, packet.of(wire_ps(bytes, models::kAethBytes)), true);
      packet.route.pass(from.recv, kOthers, packet.of(receive_ps(bytes)));
      packet.route.wait(ps(nic_.recv_pipeline_ns));
      packet.route.pass(from.up, kOthers,
                        packet.of(write_ps(bytes)) + (packet.is_last ? write_ps(models::kCqeBytes) : 0));
    });
    r.wait(ps(nic_.dma_write_ns));
  }

  /// `last`: one at a time of a queue pair.
  void add_atomic(Route& r, Machine& from, Machine& to, Tags& last, Tags& lock) {
    add_question(r, from, to, models::WqeKind::kAtomic, models::kAtomicEthBytes);
    r.pass(to.send, kOthers, ps(nic_.send_response_ns + 8 / 64.0 * nic_.send_response_block_ns));
    r.take(last);
    r.take(lock);
    r.pass(to.atomics, kOthers, ps(nic_.atomic_engine_ns));
    add_dma_read(r, to, 8);
    r.aside(to.up, kOthers, write_ps(8));
    r.give(lock);
    r.give(last);
    r.wait(ps(nic_.send_pipeline_ns));
    add_crossing(r, to, from, wire_ps(0, models::kAtomicAckBytes), true);
    r.pass(from.recv, kOthers, receive_ps(8));
    r.wait(ps(nic_.recv_pipeline_ns));
    r.pass(from.up, kOthers, write_ps(8) + write_ps(models::kCqeBytes));
    r.wait(ps(nic_.dma_write_ns));
  }

  void add_request(Route& r, Verb verb, Machine& from, Machine& to, std::uint32_t bytes, bool is_inline) {
    const bool datagram = verb == Verb::kDatagram, write = verb == Verb::kWrite;
    using models::WqeKind;
    const WqeKind kind = write ? WqeKind::kWrite : datagram ? WqeKind::kUdSend : WqeKind::kSend;
    const std::uint32_t fetch_b = is_inline ? 0 : bytes;
    const std::uint32_t blocks = models::wqe_blocks(kind, is_inline, bytes);
    const std::uint32_t first_b = write ? models::kRethBytes : datagram ? models::kDethBytes : 0;
    const double recv_ns = write ? 0 : nic_.recv_wqe_ns + bytes / 64.0 * nic_.recv_scatter_block_ns;
    const std::uint32_t landed_b = bytes + (datagram ? grh_b() : 0);
    add_start(r, from, blocks, fetch_b > 0);
    add_packets(r, bytes, [&](const Packet& packet) {
      Route& p = packet.route;
      p.pass(from.send, kOwn, packet.of(send_ps(blocks, fetch_b)));
      p.wait(ps(nic_.send_pipeline_ns));
      if (fetch_b > 0) add_dma_read(p, from, packet.bytes);
      add_crossing(p, from, to, packet.of(wire_ps(bytes, first_b)), true);
      if (!write && packet.is_last) add_recv_wqe(p, to);
      p.pass(to.recv, kOthers, packet.of(receive_ps(bytes) + ps(recv_ns)));
      p.wait(ps(nic_.recv_pipeline_ns));
      if (!datagram) p.pass(to.send, kOthers, packet.of(ps(nic_.serve_request_ns)));
      p.pass(to.up, kOthers,
             packet.of(write_ps(landed_b)) + (!write && packet.is_last ? write_ps(models::kCqeBytes) : 0));
    });
    if (!datagram) {
      r.wait(ps(nic_.send_pipeline_ns));
      add_crossing(r, to, from, wire_ps(0, models::kAethBytes), false);
      r.pass(from.recv, kOwn, ps(nic_.recv_ack_ns));
      r.wait(ps(nic_.recv_pipeline_ns));
      r.pass(from.up, kOwn, write_ps(models::kCqeBytes));
    }
    r.wait(ps(nic_.dma_write_ns));
  }
  /// They come by the line, which nobody waits for.
  void add_recv_wqe(Route& r, Machine& at) const {
    if (at.recvs++ % (models::kRecvLineBytes / models::kRecvWqeBytes) != 0) return;
    r.aside(at.up, kOthers, tlps_ps(0, 1, nic_.pcie_tlp_header_b));
    r.aside(at.down, kOthers,
            tlps_ps(models::kRecvLineBytes, nic_.pcie_completion_b, nic_.pcie_completion_header_b));
  }
  /// Of a message, with its headers.
  std::int64_t wire_ps(std::uint32_t payload_b, std::uint32_t first_b) const {
    const auto extra_b = static_cast<std::uint32_t>(nic_.wire_header_b);
    return link_ps(
        models::message_bytes(payload_b, first_b, static_cast<std::uint32_t>(nic_.mtu_b), extra_b));
  }
  std::uint32_t grh_b() const { return nic_.wire_header_b > 0 ? 40 : 0; }

  models::NicProfile nic_;
  std::int64_t cable_ps_, switch_ps_;
  std::vector<std::unique_ptr<Machine>> machines_;
  std::map<std::array<int, 3>, Tags> atomics_;  // by machine, other machine, queue pair
  std::priority_queue<Event> events_;
  std::int64_t now_ps_ = 0;
  std::uint64_t scheduled_ = 0;
};

}  // namespace verbtwin::sim
