// VersionStore: the versions of a server's keys, shared by its worker threads and READ in place by NICs.
//
// RAMP's server (Bailis et al., SIGMOD 2014, section 4): PREPARE adds a version, COMMIT raises lastCommit to
// the newest committed one. A version that a reader asks for by its timestamp was committed somewhere, so it
// is committed here too ("faster commit detection", section 4.3). Versions that were overwritten go after a
// while, oldest first; a reader that comes too late is told so and reads again.
//
// For GET* each key has a place of its own, which is READ. PREPARE marks what is there invalid: from now on
// a reader may have been told of the new version, by a sibling, and had it committed. COMMIT copies the
// version there. So an address stays good for ever. Not chosen: a READ goes to the version, wherever it is
// (each machine's address is stale after each write of another machine: a third of the READs in vain at 95 %
// reads and 8 machines); the first reader that has to ask has it copied (each write makes a READ fail).
//
// Owned by its node. Any worker of the node may call anything: a spin lock per key guards its chain, another
// one the free places; what NICs read is written through std::atomic_ref. Times in picoseconds.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "backend/cluster.hpp"
#include "protocols/checks/ramp_history.hpp"
#include "protocols/ramp/layout.hpp"

namespace verbtwin::protocols {

/// Of a version's words and bytes, the flags aside; never 0.
std::uint64_t version_digest(const VersionHead& head, std::span<const std::byte> metadata,
                             std::span<const std::byte> value);

class SpinLock {
 public:
  explicit SpinLock(std::uint32_t& word) : word_(word) {
    while (std::atomic_ref(word_).exchange(1, std::memory_order_acquire) != 0) {
    }
  }
  ~SpinLock() { std::atomic_ref(word_).store(0, std::memory_order_release); }
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

 private:
  std::uint32_t& word_;
};

class VersionStore {
 public:
  struct Parameters {
    std::int64_t collect_after_ps = 0;
    bool in_place = false;  // keys are READ in their places
  };
  /// A version while its key is locked.
  struct View {
    std::uint64_t timestamp = 0;  // 0: the initial value, and the spans are empty
    std::uint64_t last_commit = 0;
    bool in_place = false;  // a READ of the key's own place would succeed now
    std::span<const std::byte> metadata, value;
  };
  enum class Found : std::uint8_t { kYes, kNone, kCollected };

  VersionStore(const RampLayout& layout, int node, NodeMemory& memory, const Parameters& parameters);
  ~VersionStore();

  /// The last committed version.
  template <typename Take>
  void read_last(std::uint64_t key, const Take& take) {
    KeyState& state = state_of(key);
    const SpinLock lock(state.lock);
    take(view(state, state.last));
  }

  /// The newest version whose timestamp is among these.
  template <typename Take>
  Found read_newest_of(std::uint64_t key, std::span<const std::uint64_t> timestamps, std::int64_t now_ps,
                       const Take& take) {
    KeyState& state = state_of(key);
    const SpinLock lock(state.lock);
    std::uint32_t version = 0;
    const Found found = find_newest_of(state, timestamps, version);
    if (found != Found::kYes) return found;
    if (version != 0) commit_locked(state, version, now_ps);
    take(view(state, version));
    return Found::kYes;
  }

  /// Adds a version that is not committed yet; returns lastCommit.
  std::uint64_t prepare(std::uint64_t key, std::uint64_t timestamp, std::span<const std::byte> metadata,
                        std::span<const std::byte> value, std::int64_t now_ps);
  /// A version that is not there, or was committed before, is left alone. Returns how much was copied to the
  /// key's own place.
  std::size_t commit(std::uint64_t key, std::uint64_t timestamp, std::int64_t now_ps);

  /// Of each key that has another than its initial version; when nobody is at work.
  std::vector<LastVersion> last_versions() const;

  /// Collected before their time, because there was no room.
  std::uint64_t collected_early() const { return collected_early_.load(std::memory_order_relaxed); }

 private:
  /// All zeros: nothing but the initial version.
  struct KeyState {
    std::uint32_t lock;
    std::uint32_t newest;  // version of the largest timestamp; 0: the initial one
    std::uint32_t last;    // the last committed one
    std::uint32_t padding;
    std::uint64_t last_commit;
    std::uint64_t collected;  // the largest timestamp that has been collected
  };
  /// Version number v, v > 0, lies in place slots + v - 1. Its chain is ordered by timestamp.
  struct Version {
    std::uint64_t timestamp;
    std::uint64_t key;
    std::uint32_t older, newer;
    bool committed;
  };
  struct Overwritten {
    std::int64_t at_ps;
    std::uint32_t version;
  };

  KeyState& state_of(std::uint64_t key) { return keys_[layout_.slot_of(key)]; }
  std::byte* at(std::uint32_t version) const {
    return memory_ + layout_.place_offset(layout_.slots + version - 1);
  }
  std::byte* own_place(const KeyState& state) const {
    return memory_ + layout_.place_offset(static_cast<std::uint64_t>(&state - keys_));
  }
  View view(const KeyState& state, std::uint32_t version) const;
  Found find_newest_of(const KeyState& state, std::span<const std::uint64_t> timestamps,
                       std::uint32_t& version) const;
  void commit_locked(KeyState& state, std::uint32_t version, std::int64_t now_ps);
  std::atomic_ref<std::uint64_t> stamp_of(const KeyState& state) const;
  void invalidate(const KeyState& state);
  std::size_t settle(const KeyState& state);
  std::uint32_t take_version(std::int64_t now_ps);
  void collect(std::uint32_t version);
  void retire(std::uint32_t version, std::int64_t now_ps);

  const RampLayout& layout_;
  Parameters parameters_;
  std::byte* memory_;
  KeyState* keys_ = nullptr;     // by slot; pages exist once touched
  Version* versions_ = nullptr;  // likewise
  std::uint32_t versions_max_;
  std::uint32_t pool_lock_ = 0;  // guards the next two
  std::uint32_t versions_made_ = 0;
  std::deque<Overwritten> overwritten_;  // in the order of their times
  std::atomic<std::uint64_t> collected_early_{0};
};

}  // namespace verbtwin::protocols
