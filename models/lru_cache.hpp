// LruCache: which of many things (queue-pair contexts, address translations) a NIC holds on chip. Real
// least-recently-used contents, no miss ratio.
//
// Owned by a Nic; one thread. The things are numbered from 0 in the order they are made. A touch of an absent
// one is a miss: it comes in and the least recently used one goes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace verbtwin::models {

class LruCache {
 public:
  explicit LruCache(std::uint32_t capacity) : capacity_(capacity), nodes_(1), used_at_(1) {}

  /// A new thing, cached as making it has just used it.
  std::uint32_t add() {
    nodes_.push_back({});
    const auto node = static_cast<std::uint32_t>(nodes_.size() - 1);
    if (!full_) {
      used_at_.push_back(++clock_);
      nodes_[node].cached = true;
      if (node == capacity_) fill_list();
    } else {
      bring_in(node);
    }
    return node - 1;
  }

  /// Uses `number`; returns true on a hit.
  bool touch(std::uint32_t number) {
    const std::uint32_t node = number + 1;
    if (!full_) {  // all are in: note the order, it is needed when the cache is full
      ++hits_;
      used_at_[node] = ++clock_;
      return true;
    }
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

  std::uint32_t size() const { return static_cast<std::uint32_t>(nodes_.size() - 1); }
  std::uint64_t hits() const { return hits_; }
  std::uint64_t misses() const { return misses_; }

 private:
  static constexpr std::uint32_t kEnds = 0;  // list head: next is the most recent, previous the least recent
  struct Node {
    std::uint32_t next = 0, previous = 0;
    bool cached = false;
  };

  /// The cache is full: from now on the order is kept as a list.
  void fill_list() {
    full_ = true;
    std::vector<std::uint32_t> order(capacity_);
    std::iota(order.begin(), order.end(), 1U);
    std::sort(order.begin(), order.end(),
              [this](std::uint32_t a, std::uint32_t b) { return used_at_[a] < used_at_[b]; });
    for (const std::uint32_t node : order) link_front(node);
  }

  void bring_in(std::uint32_t node) {
    const std::uint32_t least_recent = nodes_[kEnds].previous;
    unlink(least_recent);
    nodes_[least_recent].cached = false;
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

  std::uint32_t capacity_;
  std::vector<Node> nodes_;
  std::vector<std::uint64_t> used_at_;  // by node, until the cache is full
  std::uint64_t clock_ = 0;
  bool full_ = false;
  std::uint64_t hits_ = 0, misses_ = 0;
};

}  // namespace verbtwin::models
