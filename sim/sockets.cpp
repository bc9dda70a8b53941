#include "sim/sockets.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "models/pcie.hpp"

namespace verbtwin::sim {

/// What one worker has sent to another: bytes that are not read yet, and how far the sender knows of that.
struct SocketNetwork::Stream {
  struct Freed {
    std::int64_t at_ps;  // the sender knows
    std::uint64_t bytes;
  };

  std::vector<std::byte> bytes;  // from `head` on: sent and not read
  std::size_t head = 0;
  std::size_t visible_b = 0;         // of them: in the socket's receive queue
  std::int64_t last_arrival_ps = 0;  // nothing overtakes
  std::uint32_t unacknowledged = 0;  // full packets received without an ACK of their own
  std::uint64_t outstanding_b = 0;   // counted against the window
  std::deque<Freed> freed;
  bool room_wanted = false;

  std::uint64_t room_b(std::int64_t now_ps, std::uint64_t window_b) {
    while (!freed.empty() && freed.front().at_ps <= now_ps) {
      outstanding_b -= freed.front().bytes;
      freed.pop_front();
    }
    return window_b - outstanding_b;
  }

  void append(std::span<const std::byte> more) {
    if (head > 0 && head >= bytes.size() / 2) {
      bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(head));
      head = 0;
    }
    bytes.insert(bytes.end(), more.begin(), more.end());
    outstanding_b += more.size();
  }

  void take(std::span<std::byte> into) {
    std::memcpy(into.data(), bytes.data() + head, into.size());
    head += into.size();
    visible_b -= into.size();
  }
};

/// One worker's end of its connections.
class SocketNetwork::End final : public Sockets {
 public:
  End(SocketNetwork& network, int node, int thread, Core& core)
      : network_(network),
        node_(node),
        thread_(thread),
        core_(core),
        in_(static_cast<std::size_t>(network.shape_.nodes)) {}

  std::size_t poll(std::span<SocketReady> ready) override {
    std::size_t count = 0;
    std::erase_if(readable_, [&](int node) { return in(node).visible_b == 0; });
    for (const int node : readable_) {
      if (count < ready.size()) ready[count++] = {node, true, false};
    }
    for (const int node : wanting_) {
      if (count < ready.size() && out(node).room_b(core_.now_ps(), window_b()) > 0) {
        ready[count++] = {node, false, true};
      }
    }
    core_.charge_ps(network_.costs_.poll_ps(count));
    if (slept_) core_.charge_ps(network_.costs_.context_switch_ps());
    slept_ = false;
    return count;
  }

  std::size_t send(int node, std::span<const std::byte> bytes) override {
    Stream& stream = out(node);
    const auto room = static_cast<std::size_t>(stream.room_b(core_.now_ps(), window_b()));
    bytes = bytes.first(std::min(room, bytes.size()));
    core_.charge_ps(network_.costs_.send_ps(bytes.size()));
    stream.append(bytes);
    const std::size_t segment_max_b = network_.segments_.segment_max_b();
    for (std::size_t done = 0; done < bytes.size(); done += segment_max_b) {
      send_segment(node, stream, std::min(segment_max_b, bytes.size() - done));
    }
    return bytes.size();
  }

  std::size_t receive(int node, std::span<std::byte> into) override {
    Stream& stream = in(node);
    into = into.first(std::min(into.size(), stream.visible_b));
    core_.charge_ps(network_.costs_.receive_ps(into.size()));
    if (into.empty()) return 0;
    stream.take(into);
    const std::int64_t known_ps = core_.now_ps() + network_.nic_ps_ + network_.switch_ps_;
    stream.freed.push_back({known_ps, into.size()});
    if (stream.room_wanted) network_.schedule(known_ps, {Stage::kRoom, &peer(node)});
    return into.size();
  }

  void want_room(int node, bool wanted) override {
    Stream& stream = out(node);
    if (stream.room_wanted == wanted) return;
    stream.room_wanted = wanted;
    if (!wanted) {
      std::erase(wanting_, node);
      return;
    }
    wanting_.push_back(node);
    if (!stream.freed.empty()) {
      network_.schedule(std::max(core_.now_ps(), stream.freed.front().at_ps), {Stage::kRoom, this});
    }
  }

  void arrive(int from, std::uint32_t bytes) {
    Stream& stream = in(from);
    if (stream.visible_b == 0 && std::ranges::find(readable_, from) == readable_.end()) {
      readable_.push_back(from);
    }
    stream.visible_b += bytes;
    // RFC 9293, 3.8.6.3: an ACK for every second full segment at least; others ride on what is sent back.
    stream.unacknowledged += bytes == network_.segments_.packet_max_b() ? 1 : 0;
    if (stream.unacknowledged == 2) {
      stream.unacknowledged = 0;
      network_.acknowledge(*this, from);
    }
    rouse();
  }

  /// There is something to do. A worker at work finds it when it polls next.
  void rouse() {
    const std::int64_t now_ps = network_.calendar_.now_ps();
    if (!core_.asleep_at(now_ps)) {
      core_.wake(now_ps, 0);
    } else if (!waking_) {
      waking_ = true;
      network_.schedule(now_ps + network_.costs_.wakeup_ps(), {Stage::kWake, this});
    }
  }

  void run() {
    waking_ = false;
    slept_ = true;
    core_.wake(network_.calendar_.now_ps(), 0);
  }

  int node() const { return node_; }
  int thread() const { return thread_; }

 private:
  Stream& in(int node) { return in_[static_cast<std::size_t>(node)]; }
  End& peer(int node) {
    return *network_.ends_[static_cast<std::size_t>(node * network_.shape_.threads + thread_)];
  }
  Stream& out(int node) { return peer(node).in(node_); }
  std::uint64_t window_b() const { return static_cast<std::uint64_t>(network_.profile_.window_b); }

  void send_segment(int node, Stream& stream, std::size_t length_b) {
    core_.charge_ps(network_.costs_.segment_ps());
    const std::size_t packet_max_b = network_.segments_.packet_max_b();
    for (std::size_t done = 0; done < length_b; done += packet_max_b) {
      const auto payload_b = static_cast<std::uint32_t>(std::min(packet_max_b, length_b - done));
      const std::uint32_t wire_b = network_.segments_.wire_b(payload_b);
      const std::int64_t arrival_ps = network_.cross(node_, node, wire_b, core_.now_ps());
      stream.last_arrival_ps = std::max(stream.last_arrival_ps, arrival_ps);
      network_.schedule(stream.last_arrival_ps, {Stage::kInMemory, &peer(node), node_, payload_b});
    }
  }

  SocketNetwork& network_;
  int node_, thread_;
  Core& core_;
  std::vector<Stream> in_;  // by the node that sends
  std::vector<int> readable_, wanting_;
  bool waking_ = false;  // the scheduler has been told
  bool slept_ = false;   // and the thread has just come back
};

SocketNetwork::SocketNetwork(const Parameters& parameters, const ClusterShape& shape, Calendar& calendar,
                             Fabric& fabric, const std::vector<std::unique_ptr<Core>>& cores)
    : profile_(parameters.profile),
      costs_(profile_, parameters.clock_ghz),
      segments_(profile_),
      shape_(shape),
      cores_per_node_(parameters.cores),
      endpoints_(parameters.endpoints),
      calendar_(calendar),
      handler_(calendar.add_handler(*this)),
      fabric_(fabric),
      cores_(cores),
      vectors_(static_cast<std::size_t>(profile_.interrupt_queues)),
      ps_per_byte_(profile_.link_gbps > 0 ? 8000 / profile_.link_gbps : 0),
      switch_ps_(models::to_ps(profile_.switch_ns)),
      nic_ps_(models::to_ps(profile_.nic_ns)) {
  const auto nodes = static_cast<std::size_t>(shape_.nodes);
  queues_.assign(nodes * vectors_, models::InterruptQueue(costs_, models::to_ps(profile_.interrupt_gap_ns)));
  if (ps_per_byte_ > 0) links_.resize(nodes);
  for (int node = 0; node < shape_.nodes; ++node) {
    for (int thread = 0; thread < shape_.threads; ++thread) {
      ends_.push_back(std::make_unique<End>(*this, node, thread, *cores_[ends_.size()]));
    }
  }
}

SocketNetwork::~SocketNetwork() = default;

Sockets& SocketNetwork::of(int node, int thread) {
  return *ends_[static_cast<std::size_t>(node * shape_.threads + thread)];
}

void SocketNetwork::schedule(std::int64_t at_ps, const Event& event) {
  if (free_events_.empty()) {
    free_events_.push_back(static_cast<std::uint32_t>(events_.size()));
    events_.emplace_back();
  }
  const std::uint32_t index = free_events_.back();
  free_events_.pop_back();
  events_[index] = event;
  calendar_.schedule(at_ps, handler_, index);
}

void SocketNetwork::handle(std::uint32_t index) {
  const Event event = events_[index];
  free_events_.push_back(index);
  End& end = *event.end;
  switch (event.stage) {
    case Stage::kInMemory: {
      const std::size_t vector = vector_of(end.node(), end.thread(), event.node);
      if (Core* core = worker_core(end.node(), vector)) {
        queues_[vector].give_way(calendar_.now_ps(), core->take_softirq_delay_ps());
      }
      const auto taken = queues_[vector].take(calendar_.now_ps(), event.bytes);
      schedule(taken.done_ps, {Stage::kInQueue, &end, event.node, event.bytes, taken.cpu_ps});
      return;
    }
    case Stage::kInQueue:
      interrupt(end.node(), vector_of(end.node(), end.thread(), event.node), event.cpu_ps);
      return end.arrive(event.node, event.bytes);
    case Stage::kWake:
      return end.run();
    case Stage::kRoom:
      return end.rouse();
  }
}

/// When `wire_b` bytes that the driver hands over at `at_ps` are in the other node's memory.
std::int64_t SocketNetwork::cross(int from, int to, std::uint32_t wire_b, std::int64_t at_ps) {
  const models::Moment ready{at_ps + nic_ps_, 0, 0};
  if (links_.empty()) {
    const Path path =
        fabric_.path(endpoints_[static_cast<std::size_t>(from)], endpoints_[static_cast<std::size_t>(to)]);
    return fabric_.cross(path, wire_b, ready).there.at();
  }
  const auto service_ps = static_cast<std::int64_t>(static_cast<double>(wire_b) * ps_per_byte_);
  const models::Moment switched =
      links_[static_cast<std::size_t>(from)].out.serve(ready, service_ps).plus_delay(switch_ps_);
  return links_[static_cast<std::size_t>(to)].in.serve(switched, service_ps).at();
}

/// Connections are dealt to vectors, as a hash of their addresses would.
std::size_t SocketNetwork::vector_of(int node, int thread, int peer) const {
  const auto connection = static_cast<std::size_t>(thread * shape_.nodes + peer);
  return static_cast<std::size_t>(node) * vectors_ + connection % vectors_;
}

/// The core that serves a vector, or null if no worker has it.
Core* SocketNetwork::worker_core(int node, std::size_t vector) const {
  const auto place = static_cast<int>(vector % vectors_) % cores_per_node_;
  const int core = cores_per_node_ - 1 - place;
  if (core >= shape_.threads) return nullptr;
  return cores_[static_cast<std::size_t>(node * shape_.threads + core)].get();
}

void SocketNetwork::interrupt(int node, std::size_t vector, std::int64_t cpu_ps) {
  Core* core = worker_core(node, vector);
  if (core != nullptr) core->interrupt(calendar_.now_ps(), cpu_ps, queues_[vector].done_ps());
}

/// An ACK without data: sent by the core that received, and an interrupt's work for the other side.
void SocketNetwork::acknowledge(End& receiver, int peer) {
  const std::int64_t now_ps = calendar_.now_ps();
  const auto work = [&](int node, int of) {
    const std::size_t vector = vector_of(node, receiver.thread(), of);
    queues_[vector].owe(now_ps, costs_.ack_ps());
    interrupt(node, vector, costs_.ack_ps());
  };
  work(receiver.node(), peer);
  cross(receiver.node(), peer, segments_.wire_b(0), now_ps);
  work(peer, receiver.node());
}

std::vector<std::int64_t> SocketNetwork::interrupts_busy_ps() const {
  std::vector<std::int64_t> busy;
  for (const models::InterruptQueue& queue : queues_) busy.push_back(queue.busy_ps());
  return busy;
}

std::vector<std::int64_t> SocketNetwork::links_done_ps(std::int64_t at_ps) const {
  std::vector<std::int64_t> done;
  for (const OwnLink& link : links_) {
    done.push_back(link.out.done_ps(at_ps));
    done.push_back(link.in.done_ps(at_ps));
  }
  return done;
}

}  // namespace verbtwin::sim
