// CallSlots: the calls of an RPC layer that have no reply yet, by the number that goes with the call and
// comes back with its reply.
//
// Belongs to an RPC layer and its thread. Grows to the most calls there ever were at one time.
#pragma once

#include <cassert>
#include <cstdint>
#include <vector>

#include "protocols/rpc/rpc.hpp"

namespace verbtwin::protocols {

class CallSlots {
 public:
  /// Calls outstanding at one time at most.
  static constexpr std::size_t kMost = 65'536;

  /// The number of a call to `node` whose reply goes to `target`; free again when it was taken.
  std::uint16_t add(int node, ReplyTarget& target) {
    if (free_.empty()) {
      assert(waiting_.size() < kMost && "more calls outstanding than slots have numbers");
      free_.push_back(static_cast<std::uint16_t>(waiting_.size()));
      waiting_.emplace_back();
    }
    const std::uint16_t slot = free_.back();
    free_.pop_back();
    waiting_[slot] = {&target, node};
    return slot;
  }

  /// `node` has been called under this number and has not replied.
  bool awaits(std::uint16_t slot, int node) const {
    return slot < waiting_.size() && waiting_[slot].target != nullptr && waiting_[slot].node == node;
  }

  /// Calls to `node` that it has not replied to.
  std::size_t unanswered(int node) const {
    std::size_t count = 0;
    for (const Waiting& call : waiting_) count += call.target != nullptr && call.node == node;
    return count;
  }

  /// Where the reply goes.
  ReplyTarget& take(std::uint16_t slot) {
    ReplyTarget* target = waiting_[slot].target;
    waiting_[slot].target = nullptr;
    free_.push_back(slot);
    return *target;
  }

 private:
  struct Waiting {
    ReplyTarget* target = nullptr;  // null: the slot is free
    std::int32_t node = 0;
  };
  std::vector<Waiting> waiting_;     // by slot
  std::vector<std::uint16_t> free_;  // last in, first out: few are used
};

}  // namespace verbtwin::protocols
