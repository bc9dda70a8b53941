// Histories of key-value clients written by hand or by a generator, for the tests of their check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "protocols/checks/ramp_history.hpp"

namespace verbtwin::protocols {

/// The digest of what the tests' transactions write: different for each version of each key.
inline std::uint64_t ramp_digest(std::uint64_t key, std::uint64_t timestamp) {
  return (key + timestamp * 0x9E3779B97F4A7C15) * 0xBF58476D1CE4E5B9;
}

inline std::uint64_t initial_ramp_digest(std::uint64_t key) {
  return ramp_digest(key, 0);
}

inline RampRead at_ramp(std::uint64_t key, std::uint64_t timestamp, std::uint64_t last_commit) {
  return {key, timestamp, last_commit, ramp_digest(key, timestamp)};
}
/// The version that the server named as committed.
inline RampRead at_ramp(std::uint64_t key, std::uint64_t timestamp) {
  return at_ramp(key, timestamp, timestamp);
}

/// Histories of several clients in the shape that the check takes.
class TestRampHistories {
 public:
  using Versions = std::vector<std::pair<std::uint64_t, std::uint64_t>>;  // key, timestamp

  explicit TestRampHistories(std::size_t clients = 1) : histories_(clients) {
    for (const RampHistory& history : histories_) view_.push_back(&history);
  }
  TestRampHistories(const TestRampHistories&) = delete;  // view_ points into histories_
  TestRampHistories& operator=(const TestRampHistories&) = delete;

  TestRampHistories& add(std::uint64_t timestamp, const std::vector<RampRead>& reads,
                         const std::vector<RampWrite>& writes, bool committed, std::size_t client = 0) {
    histories_[client].add(timestamp, committed, reads, writes);
    return *this;
  }
  TestRampHistories& update(std::uint64_t timestamp, const Versions& reads,
                            const std::vector<std::uint64_t>& writes, std::size_t client = 0) {
    std::vector<RampRead> read;
    for (const auto& [key, version] : reads) read.push_back(at_ramp(key, version));
    std::vector<RampWrite> written;
    for (const std::uint64_t key : writes) written.push_back({key, ramp_digest(key, timestamp)});
    return add(timestamp, read, written, true, client);
  }
  TestRampHistories& write(std::uint64_t timestamp, const std::vector<std::uint64_t>& keys,
                           std::size_t client = 0) {
    return update(timestamp, {}, keys, client);
  }
  TestRampHistories& read(const Versions& versions, std::size_t client = 0) {
    return update(0, versions, {}, client);
  }

  RampHistories view() const { return view_; }

 private:
  std::vector<RampHistory> histories_;
  std::vector<const RampHistory*> view_;
};

}  // namespace verbtwin::protocols
