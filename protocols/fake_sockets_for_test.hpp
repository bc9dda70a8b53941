// FakeSockets: byte streams in memory between the workers of a FakeCluster, for the tests of protocols/.
// What is sent can be received at once. A test says how many bytes a call moves at most and how many a stream
// holds, and may put bytes of its own into a stream.
//
// Owned by the test; outlives what uses it. One thread.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "backend/sockets.hpp"

namespace verbtwin::protocols {

class FakeSockets final : public Sockets {
 public:
  struct Limits {
    std::size_t send_b = 1 << 30;     // a call
    std::size_t receive_b = 1 << 30;  // a call
    std::size_t window_b = 1 << 30;   // a stream
  };

  FakeSockets(int nodes, int node, Limits limits)
      : node_(node), limits_(limits), in_(static_cast<std::size_t>(nodes)), wanted_(in_.size()) {}

  /// All nodes', of one worker each.
  static std::vector<std::unique_ptr<FakeSockets>> mesh(int nodes, Limits limits) {
    std::vector<std::unique_ptr<FakeSockets>> all;
    for (int node = 0; node < nodes; ++node) {
      all.push_back(std::make_unique<FakeSockets>(nodes, node, limits));
    }
    for (const auto& one : all) {
      for (const auto& other : all) one->peers_.push_back(other.get());
    }
    return all;
  }

  std::size_t poll(std::span<SocketReady> ready) override {
    ++polls;
    std::size_t count = 0;
    for (std::size_t node = 0; node < in_.size(); ++node) {
      const bool writable = wanted_[node] && room(static_cast<int>(node)) > 0;
      if (in_[node].empty() && !writable) continue;
      ready[count++] = {static_cast<std::int32_t>(node), !in_[node].empty(), writable};
    }
    return count;
  }
  std::size_t send(int node, std::span<const std::byte> bytes) override {
    ++sends;
    const std::size_t length = std::min({bytes.size(), limits_.send_b, room(node)});
    std::deque<std::byte>& stream = stream_to(node);
    stream.insert(stream.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
    return length;
  }
  std::size_t receive(int node, std::span<std::byte> into) override {
    std::deque<std::byte>& stream = in_[static_cast<std::size_t>(node)];
    const std::size_t length = std::min({into.size(), limits_.receive_b, stream.size()});
    const auto end = stream.begin() + static_cast<std::ptrdiff_t>(length);
    std::copy(stream.begin(), end, into.begin());
    stream.erase(stream.begin(), end);
    return length;
  }
  void want_room(int node, bool wanted) override { wanted_[static_cast<std::size_t>(node)] = wanted; }

  bool quiet() const {
    return std::ranges::all_of(in_, [](const auto& stream) { return stream.empty(); });
  }
  /// As if `node` had sent it.
  void put(int node, std::span<const std::byte> bytes) {
    std::deque<std::byte>& stream = in_[static_cast<std::size_t>(node)];
    stream.insert(stream.end(), bytes.begin(), bytes.end());
  }
  std::size_t waiting_from(int node) const { return in_[static_cast<std::size_t>(node)].size(); }

  std::uint64_t sends = 0, polls = 0;

 private:
  std::deque<std::byte>& stream_to(int node) {
    return peers_[static_cast<std::size_t>(node)]->in_[static_cast<std::size_t>(node_)];
  }
  std::size_t room(int node) { return limits_.window_b - std::min(limits_.window_b, stream_to(node).size()); }

  int node_;
  Limits limits_;
  std::vector<FakeSockets*> peers_;
  std::vector<std::deque<std::byte>> in_;  // by the node that sends
  std::vector<bool> wanted_;
};

}  // namespace verbtwin::protocols
