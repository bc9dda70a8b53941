// LruCache: which of many things (queue-pair contexts, address translations) a NIC holds on chip. Real
// contents, no miss ratio: what has to go is the less recently used of two that are drawn.
//
// Owned by a Nic; one thread. The things are numbered from 0 in the order they are made. A touch of an absent
// one is a miss: it comes in and another one goes. Draws are the same in every run.
//
// Why not the least recently used of all: no device keeps an order of thousands, and clients of a simulation
// come round in the same order again and again, so that one more than fits makes nearly every touch a miss
// (NOTES.md).
#pragma once

#include <cstdint>
#include <vector>

namespace verbtwin::models {

class LruCache {
 public:
  explicit LruCache(std::uint32_t capacity) : capacity_(capacity) {}

  /// A new thing: cached as long as there is room.
  std::uint32_t add() {
    const auto number = static_cast<std::uint32_t>(things_.size());
    things_.push_back({});
    if (held_.size() < capacity_) {
      things_[number].place = static_cast<std::uint32_t>(held_.size());
      held_.push_back(number);
    }
    things_[number].used_at = ++clock_;
    return number;
  }

  /// Uses `number`; returns true on a hit.
  bool touch(std::uint32_t number) {
    Thing& thing = things_[number];
    const bool hit = thing.place != kAbsent;
    if (!hit) bring_in(number);
    ++(hit ? hits_ : misses_);
    thing.used_at = ++clock_;
    return hit;
  }

  std::uint32_t size() const { return static_cast<std::uint32_t>(things_.size()); }
  std::uint64_t hits() const { return hits_; }
  std::uint64_t misses() const { return misses_; }

 private:
  static constexpr std::uint32_t kAbsent = ~0U;
  struct Thing {
    std::uint32_t place = kAbsent;
    std::uint32_t used_at = 0;  // wraps: only differences count
  };

  void bring_in(std::uint32_t number) {
    std::uint32_t place = draw();
    const std::uint32_t other = draw();
    if (age(held_[other]) > age(held_[place])) place = other;
    things_[held_[place]].place = kAbsent;
    held_[place] = number;
    things_[number].place = place;
  }

  std::uint32_t age(std::uint32_t number) const { return clock_ - things_[number].used_at; }

  /// A place, by xorshift (Marsaglia, 2003): cheap, and the same everywhere.
  std::uint32_t draw() {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return static_cast<std::uint32_t>((random_ >> 32) * capacity_ >> 32);
  }

  std::uint32_t capacity_;
  std::vector<Thing> things_;
  std::vector<std::uint32_t> held_;  // by place
  std::uint32_t clock_ = 0;
  std::uint64_t random_ = 0x9e3779b97f4a7c15;
  std::uint64_t hits_ = 0, misses_ = 0;
};

}  // namespace verbtwin::models
