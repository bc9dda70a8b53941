#include "protocols/ramp/version_store.hpp"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <new>

#include "protocols/checks/history.hpp"
#include "protocols/store/record.hpp"
#include "protocols/workloads/draws.hpp"

namespace verbtwin::protocols {

namespace {

template <typename T>
T* zeroed(std::size_t count) {
  void* memory = std::calloc(count, sizeof(T));
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<T*>(memory);
}

/// NICs may read underneath: word by word, the last one padded.
void copy_in(std::byte* to, std::span<const std::byte> bytes) {
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8)
    atomic_word(to + at).store(load_word(bytes.data() + at), std::memory_order_relaxed);
  if (at == bytes.size()) return;
  std::byte padded[8] = {};
  std::memcpy(padded, bytes.data() + at, bytes.size() - at);
  atomic_word(to + at).store(load_word(padded), std::memory_order_relaxed);
}

}  // namespace

std::uint64_t version_digest(const VersionHead& head, std::span<const std::byte> metadata,
                             std::span<const std::byte> value) {
  const std::uint64_t sizes = static_cast<std::uint64_t>(head.metadata_b) << 32 | head.value_b;
  const std::uint64_t words = spread(head.timestamp() ^ spread(head.key ^ spread(sizes)));
  const std::uint64_t bytes = value_digest(value) ^ (metadata.empty() ? 0 : spread(value_digest(metadata)));
  const std::uint64_t digest = words ^ bytes;
  return digest == 0 ? 1 : digest;
}

VersionStore::VersionStore(const RampLayout& layout, int node, NodeMemory& memory,
                           const Parameters& parameters)
    : layout_(layout),
      parameters_(parameters),
      memory_(memory.local().data()),
      versions_max_(static_cast<std::uint32_t>(layout.places - layout.slots)) {
  if (node >= layout.servers) return;
  keys_ = zeroed<KeyState>(layout.slots);
  versions_ = zeroed<Version>(versions_max_ + std::size_t{1});
}

VersionStore::~VersionStore() {
  std::free(keys_);
  std::free(versions_);
}

std::vector<LastVersion> VersionStore::last_versions() const {
  std::vector<LastVersion> all;
  for (std::uint64_t slot = 0; keys_ != nullptr && slot < layout_.slots; ++slot) {
    const std::uint32_t last = keys_[slot].last;
    if (last == 0) continue;
    const View version = view(keys_[slot], last);
    all.push_back({versions_[last].key, version.timestamp, value_digest(version.value)});
  }
  return all;
}

/// Of the key's own place; only this key's lock holder writes it.
std::atomic_ref<std::uint64_t> VersionStore::stamp_of(const KeyState& state) const {
  return atomic_word(own_place(state) + offsetof(VersionHead, stamp));
}

VersionStore::View VersionStore::view(const KeyState& state, std::uint32_t version) const {
  View view;
  view.last_commit = state.last_commit;
  view.in_place =
      parameters_.in_place && stamp_of(state).load(std::memory_order_relaxed) == 2 * state.last_commit;
  if (version == 0) return view;
  const std::byte* from = at(version);
  VersionHead head;
  std::memcpy(&head, from, sizeof head);
  view.timestamp = versions_[version].timestamp;
  view.metadata = {from + sizeof head, head.metadata_b};
  view.value = {from + sizeof head + head.metadata_b, head.value_b};
  return view;
}

VersionStore::Found VersionStore::find_newest_of(const KeyState& state,
                                                 std::span<const std::uint64_t> timestamps,
                                                 std::uint32_t& version) const {
  std::uint64_t newest = 0;
  bool initial = false;
  version = 0;
  for (const std::uint64_t wanted : timestamps) {
    initial = initial || wanted == 0;
    if (wanted <= newest) continue;
    std::uint32_t at = state.newest;
    while (at != 0 && versions_[at].timestamp > wanted) at = versions_[at].older;
    if (at == 0 || versions_[at].timestamp != wanted) continue;
    version = at;
    newest = wanted;
  }
  // One that was collected may have been what was asked for.
  for (const std::uint64_t wanted : timestamps) {
    if (wanted > newest && wanted <= state.collected) return Found::kCollected;
  }
  return version != 0 || initial ? Found::kYes : Found::kNone;
}

std::uint64_t VersionStore::prepare(std::uint64_t key, std::uint64_t timestamp,
                                    std::span<const std::byte> metadata, std::span<const std::byte> value,
                                    std::int64_t now_ps) {
  const std::uint32_t version = take_version(now_ps);
  VersionHead head{2 * timestamp, key, 0, static_cast<std::uint32_t>(metadata.size()),
                   static_cast<std::uint32_t>(value.size())};
  if (parameters_.in_place) head.digest = version_digest(head, metadata, value);
  std::byte* to = at(version);
  std::memcpy(to, &head, sizeof head);
  std::ranges::copy(metadata, to + sizeof head);
  std::ranges::copy(value, to + sizeof head + metadata.size());

  KeyState& state = state_of(key);
  const SpinLock lock(state.lock);
  std::uint32_t newer = 0, older = state.newest;
  while (older != 0 && versions_[older].timestamp > timestamp) {
    newer = older;
    older = versions_[older].older;
  }
  versions_[version] = {timestamp, key, older, newer, false};
  (newer == 0 ? state.newest : versions_[newer].older) = version;
  if (older != 0) versions_[older].newer = version;
  if (timestamp > state.last_commit) invalidate(state);
  return state.last_commit;
}

std::size_t VersionStore::commit(std::uint64_t key, std::uint64_t timestamp, std::int64_t now_ps) {
  KeyState& state = state_of(key);
  const SpinLock lock(state.lock);
  std::uint32_t version = state.newest;
  while (version != 0 && versions_[version].timestamp > timestamp) version = versions_[version].older;
  if (version != 0 && versions_[version].timestamp == timestamp) commit_locked(state, version, now_ps);
  return settle(state);
}

void VersionStore::commit_locked(KeyState& state, std::uint32_t version, std::int64_t now_ps) {
  Version& committed = versions_[version];
  if (committed.committed) return;
  committed.committed = true;
  if (committed.timestamp < state.last_commit) {  // overwritten before anybody could see it
    retire(version, now_ps);
    return;
  }
  if (state.last != 0) retire(state.last, now_ps);
  state.last = version;
  state.last_commit = committed.timestamp;
}

/// What is in the key's own place is not to be read from now on.
void VersionStore::invalidate(const KeyState& state) {
  if (!parameters_.in_place) return;
  const auto stamp = stamp_of(state);
  stamp.store(stamp.load(std::memory_order_relaxed) | kInvalidVersion, std::memory_order_release);
}

/// Copies the last committed version to the key's own place, unless it is there, or would be invalid at once.
std::size_t VersionStore::settle(const KeyState& state) {
  if (!parameters_.in_place || state.newest != state.last) return 0;
  if (stamp_of(state).load(std::memory_order_relaxed) == 2 * state.last_commit) return 0;
  const std::byte* from = at(state.last);
  std::byte* to = own_place(state);
  VersionHead head;
  std::memcpy(&head, from, sizeof head);
  const std::size_t size_b = sizeof head + head.metadata_b + head.value_b;
  std::atomic_thread_fence(std::memory_order_release);  // who sees any of this sees the place invalid
  copy_in(to + sizeof head.stamp, {from + sizeof head.stamp, size_b - sizeof head.stamp});
  stamp_of(state).store(head.stamp, std::memory_order_release);
  return size_b;
}

void VersionStore::retire(std::uint32_t version, std::int64_t now_ps) {
  const SpinLock lock(pool_lock_);
  overwritten_.push_back({now_ps, version});
}

/// A place for one more version: one that is due, a new one, or the oldest of those that are not due yet.
/// There is always one of these: no key has more than one version that is not overwritten, beside those that
/// transactions under way have prepared.
std::uint32_t VersionStore::take_version(std::int64_t now_ps) {
  std::uint32_t due = 0;
  {
    const SpinLock lock(pool_lock_);
    const bool full = versions_made_ == versions_max_;
    const bool waiting = !overwritten_.empty();
    if (waiting && (full || overwritten_.front().at_ps + parameters_.collect_after_ps <= now_ps)) {
      if (overwritten_.front().at_ps + parameters_.collect_after_ps > now_ps) ++collected_early_;
      due = overwritten_.front().version;
      overwritten_.pop_front();
    } else {
      assert(!full && "more transactions under way than the layout made room for");
      return ++versions_made_;
    }
  }
  collect(due);
  return due;
}

/// Takes a version out of its key's chain.
void VersionStore::collect(std::uint32_t version) {
  Version& gone = versions_[version];
  KeyState& state = state_of(gone.key);
  const SpinLock lock(state.lock);
  state.collected = std::max(state.collected, gone.timestamp);
  (gone.newer == 0 ? state.newest : versions_[gone.newer].older) = gone.older;
  if (gone.older != 0) versions_[gone.older].newer = gone.newer;
}

}  // namespace verbtwin::protocols
