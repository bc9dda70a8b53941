// LruCache: which of many things (queue-pair contexts, address translations) a NIC holds on chip. Real
// least-recently-used contents, no miss ratio.
//
// Owned by a Nic; one thread. The things are numbered from 0 in the order they are made. A touch of an absent
// one is a miss: it comes in and the least recently used one of its set goes.
//
// `capacity` and `ways` count things. A set holds `ways` things at most: there are as many sets as that
// takes, and their sizes differ by one at most, so that the sum is `capacity` whether or not `ways` divides
// it. With `ways` of `capacity` or more there is one set: things that fall together never push each other out
// early.
//
// A thing's set is a hash of its number (splitmix64's finaliser). Drivers deal queue pair numbers in order,
// and low bits of them would fill all sets evenly; but a NIC's numbers are dealt to many processes, contexts
// and receive-side objects at once, and what a vendor takes for the set is not published: evenly is the one
// thing that they would not be.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace verbtwin::models {

class LruCache {
 public:
  LruCache(std::uint32_t capacity, std::uint32_t ways)
      : sets_((capacity - 1) / ways + 1),
        room_(capacity / sets_),
        roomier_sets_(capacity % sets_),
        nodes_(sets_) {
    for (std::uint32_t set = 0; set < sets_; ++set) nodes_[set] = {set, set, set};
    held_.resize(sets_);
  }
  explicit LruCache(std::uint32_t capacity) : LruCache(capacity, capacity) {}

  /// A new thing, cached as making it has just used it.
  std::uint32_t add() {
    const auto node = static_cast<std::uint32_t>(nodes_.size());
    const std::uint32_t number = node - sets_;
    const std::uint32_t set = set_of(number);
    nodes_.push_back({kOut, kOut, set});
    const bool fits = held_[set] < room_ + (set < roomier_sets_ ? 1 : 0);
    if (fits) ++held_[set];
    if (!crowded_ && fits) {
      used_at_.push_back(++clock_);
      return number;
    }
    if (!crowded_) fill_lists();
    if (!fits) evict_from(set);
    link_front(node);
    return number;
  }

  /// Uses `number`; returns true on a hit.
  bool touch(std::uint32_t number) {
    if (!crowded_) {  // all are in: note the order, it is needed when a set is full
      ++hits_;
      used_at_[number] = ++clock_;
      return true;
    }
    const std::uint32_t node = number + sets_;
    if (nodes_[node].next != kOut) {
      ++hits_;
      unlink(node);
      link_front(node);
      return true;
    }
    ++misses_;
    evict_from(nodes_[node].set);
    link_front(node);
    return false;
  }

  std::uint32_t size() const { return static_cast<std::uint32_t>(nodes_.size()) - sets_; }
  std::uint64_t hits() const { return hits_; }
  std::uint64_t misses() const { return misses_; }

 private:
  static constexpr std::uint32_t kOut = ~0U;  // next of a thing that is not cached
  /// The first nodes are the ends of the sets' lists: next is the most recent, previous the least recent.
  struct Node {
    std::uint32_t next, previous, set;
  };

  std::uint32_t set_of(std::uint32_t number) const {
    std::uint64_t mixed = number + 0x9E3779B97F4A7C15;
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9;
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB;
    mixed ^= mixed >> 31;
    return static_cast<std::uint32_t>((mixed >> 32) * sets_ >> 32);
  }

  /// One more than its set takes: from now on the orders are kept as lists.
  void fill_lists() {
    crowded_ = true;
    std::vector<std::uint32_t> order(used_at_.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(),
              [this](std::uint32_t a, std::uint32_t b) { return used_at_[a] < used_at_[b]; });
    for (const std::uint32_t number : order) link_front(number + sets_);
  }

  void evict_from(std::uint32_t set) {
    const std::uint32_t least_recent = nodes_[set].previous;
    unlink(least_recent);
    nodes_[least_recent].next = kOut;
  }

  void unlink(std::uint32_t node) {
    nodes_[nodes_[node].previous].next = nodes_[node].next;
    nodes_[nodes_[node].next].previous = nodes_[node].previous;
  }

  void link_front(std::uint32_t node) {
    const std::uint32_t ends = nodes_[node].set;
    const std::uint32_t first = nodes_[ends].next;
    nodes_[node].next = first;
    nodes_[node].previous = ends;
    nodes_[first].previous = node;
    nodes_[ends].next = node;
  }

  std::uint32_t sets_, room_, roomier_sets_;  // the first roomier_sets_ of them hold one more than room_
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> held_;     // by set
  std::vector<std::uint64_t> used_at_;  // by thing, until a set is full
  std::uint64_t clock_ = 0;
  bool crowded_ = false;
  std::uint64_t hits_ = 0, misses_ = 0;
};

}  // namespace verbtwin::models
