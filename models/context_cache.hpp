// ContextCache: which queue-pair contexts a NIC holds on chip. Real least-recently-used contents, no miss ratio.
//
// Owned by a Nic; one thread. Contexts are numbered from 0 in the order they are made. A touch of an absent context is
// a miss: it comes in and the least recently used one goes. Until the cache is full for the first time, contexts count
// as used in the order they were made.
#pragma once

#include <cstdint>
#include <vector>

namespace verbtwin::models {

class ContextCache {
 public:
  explicit ContextCache(std::uint32_t capacity) : capacity_(capacity) { nodes_.push_back({}); }

  /// A new context, cached as connecting it has just used it.
  std::uint32_t add() {
    nodes_.push_back({});
    const auto node = static_cast<std::uint32_t>(nodes_.size() - 1);
    bring_in(node);
    return node - 1;
  }

  /// Uses context `context`; returns true on a hit.
  bool touch(std::uint32_t context) {
    if (cached_ < capacity_) {  // all are in, and who came last decides nothing before the cache is full
      ++hits_;
      return true;
    }
    const std::uint32_t node = context + 1;
    if (nodes_[node].cached) {
      ++hits_;
      unlink(node);
      link_front(node);
      return true;
    }
    ++misses_;
    bring_in(node);
    return false;
  }

  std::uint64_t hits() const { return hits_; }
  std::uint64_t misses() const { return misses_; }

 private:
  static constexpr std::uint32_t kEnds = 0;  // list head: next is the most recent, previous the least recent
  struct Node {
    std::uint32_t next = 0, previous = 0;
    bool cached = false;
  };

  void bring_in(std::uint32_t node) {
    if (cached_ == capacity_) {
      const std::uint32_t least_recent = nodes_[kEnds].previous;
      unlink(least_recent);
      nodes_[least_recent].cached = false;
    } else {
      ++cached_;
    }
    nodes_[node].cached = true;
    link_front(node);
  }

  void unlink(std::uint32_t node) {
    nodes_[nodes_[node].previous].next = nodes_[node].next;
    nodes_[nodes_[node].next].previous = nodes_[node].previous;
  }

  void link_front(std::uint32_t node) {
    const std::uint32_t first = nodes_[kEnds].next;
    nodes_[node].next = first;
    nodes_[node].previous = kEnds;
    nodes_[first].previous = node;
    nodes_[kEnds].next = node;
  }

  std::vector<Node> nodes_;
  std::uint32_t capacity_;
  std::uint32_t cached_ = 0;
  std::uint64_t hits_ = 0, misses_ = 0;
};

}  // namespace verbtwin::models
