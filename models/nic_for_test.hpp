// A Nic with a few queue pairs, and times in nanoseconds, for its tests.
#pragma once

#include <vector>

#include "models/nic.hpp"
#include "models/profiles_for_test.hpp"

namespace verbtwin::models {

inline constexpr std::int64_t kNs = 1000;
inline constexpr Moment kStart{0, 0};

inline std::int64_t ns(Moment moment) {
  return moment.at() / kNs;
}

/// A NIC with a few queue pairs, as a sender.
struct Sender {
  explicit Sender(const NicProfile& profile, std::size_t queue_pairs = 2, std::uint32_t slot_b = 64)
      : nic(profile), free_ps(queue_pairs, 0) {
    for (std::size_t i = 0; i < queue_pairs; ++i) nic.add_context(slot_b);
  }
  std::int64_t send_ns(std::uint32_t queue_pair, std::uint32_t blocks = 1, std::uint32_t fetch_b = 0) {
    return ns(nic.send_request(queue_pair, free_ps[queue_pair], kStart, blocks, fetch_b));
  }
  Nic nic;
  std::vector<std::int64_t> free_ps;
};

}  // namespace verbtwin::models
