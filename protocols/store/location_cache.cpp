#include "protocols/store/location_cache.hpp"

#include <tsl/robin_map.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "protocols/spread_bits.hpp"

namespace verbtwin::protocols {

namespace {

constexpr int kShardBits = 4;

/// Other bits than those that say the shard, which all of its records share.
struct RecordHash {
  std::size_t operator()(std::uint64_t packed) const { return spread_bits(packed) >> kShardBits; }
};

/// What a warm cache holds, and when it forgets.
struct Warm {
  double age = std::numeric_limits<double>::infinity();  // what is older is not held
  double held = 0;                                       // entries
  double older_per_entry = 0;                            // by how much age falls when one of them goes
};

Warm warm_start(const std::vector<RecordClass>& classes, double remote_share, double capacity) {
  const auto held = [&](double age) {
    double sum = 0;
    for (const RecordClass& one : classes)
      sum -= static_cast<double>(one.records) * std::expm1(-one.drawn * age);
    return sum * remote_share;
  };
  double all = 0, least = std::numeric_limits<double>::infinity();
  for (const RecordClass& one : classes) {
    if (one.drawn == 0) continue;
    all += static_cast<double>(one.records) * remote_share;
    least = std::min(least, one.drawn);
  }
  Warm warm{.held = std::min(all, capacity)};
  if (all <= capacity) return warm;
  // At the upper end even the rarest is held; a double's bits are used up after 64 halvings.
  double low = 0, high = 40 / least;
  for (int i = 0; i < 64; ++i) (held((low + high) / 2) < capacity ? low : high) = (low + high) / 2;
  warm.age = high;
  double per_age = 0;
  for (const RecordClass& one : classes)
    per_age += static_cast<double>(one.records) * remote_share * one.drawn * std::exp(-one.drawn * warm.age);
  warm.older_per_entry = per_age > 0 ? 1 / per_age : 0;
  return warm;
}

}  // namespace

struct LocationCache::Shard {
  struct Entry {
    std::uint64_t record = 0, slot = 0;
    std::uint32_t next = 0, previous = 0;
  };

  std::mutex mutex;
  tsl::robin_map<std::uint64_t, std::uint32_t, RecordHash> index;
  std::vector<Entry> entries{1};  // entry 0 holds the list's ends
  std::uint64_t capacity = 0;
  std::uint64_t unseen = 0;    // warm entries that nobody has looked up yet: the first to go, for good
  double age = 0;              // of the oldest of them
  double older_per_entry = 0;  // by how much that falls when one goes

  void unlink(std::uint32_t at) {
    entries[entries[at].previous].next = entries[at].next;
    entries[entries[at].next].previous = entries[at].previous;
  }
  void link_front(std::uint32_t at) {
    entries[at].previous = 0;
    entries[at].next = entries[0].next;
    entries[entries[0].next].previous = at;
    entries[0].next = at;
  }
  void insert(std::uint64_t record, std::uint64_t slot, bool was_unseen) {
    std::uint32_t at = 0;
    const std::uint64_t held = entries.size() - 1 + unseen;
    if (was_unseen || held < capacity) {
      at = static_cast<std::uint32_t>(entries.size());
      entries.emplace_back();
    } else if (unseen > 0) {
      --unseen;
      age -= older_per_entry;
      at = static_cast<std::uint32_t>(entries.size());
      entries.emplace_back();
    } else {
      at = entries[0].previous;
      if (at == 0) return;  // no room for a single entry
      unlink(at);
      index.erase(entries[at].record);
    }
    entries[at].record = record;
    entries[at].slot = slot;
    link_front(at);
    index[record] = at;
  }
};

LocationCache::LocationCache(std::uint64_t bytes, CacheStart start, const Popularity& popularity, int nodes)
    : start_(start), holds_any_(bytes > 0 || start == CacheStart::kFull), popularity_(popularity) {
  const std::uint64_t capacity = bytes / kEntryBytes;
  Warm warm;
  if (start_ == CacheStart::kWarm) {
    const std::vector<RecordClass>& classes = popularity.classes();
    for (const RecordClass& one : classes) rates_.push_back(one.drawn);
    warm = warm_start(classes, static_cast<double>(nodes - 1) / nodes, static_cast<double>(capacity));
  }
  for (auto& shard : shards_) {
    shard = std::make_unique<Shard>();
    shard->capacity = capacity / kShards;
    shard->unseen = static_cast<std::uint64_t>(warm.held) / kShards;
    shard->age = warm.age;
    shard->older_per_entry = warm.older_per_entry * kShards;
  }
}

LocationCache::~LocationCache() = default;

LocationCache::Shard& LocationCache::shard_of(RecordId record) const {
  static_assert(kShards == std::size_t{1} << kShardBits);
  return *shards_[spread_bits(record.packed) % kShards];
}

bool LocationCache::starts_cached(const Shard& shard, RecordId record) const {
  const std::size_t its_class = popularity_.class_of(record);
  if (shard.unseen == 0 || its_class == Popularity::kNoClass) return false;
  const double draw = static_cast<double>(spread_bits(record.packed + 1) >> 32) * 0x1p-32;
  return -std::log1p(-draw) < rates_[its_class] * shard.age;
}

std::optional<std::uint64_t> LocationCache::find(RecordId record, std::uint64_t initial_slot) {
  if (start_ == CacheStart::kFull) return initial_slot;
  Shard& shard = shard_of(record);
  const std::scoped_lock guard(shard.mutex);
  const auto found = shard.index.find(record.packed);
  if (found != shard.index.end()) {
    shard.unlink(found->second);
    shard.link_front(found->second);
    return shard.entries[found->second].slot;
  }
  if (start_ == CacheStart::kWarm && starts_cached(shard, record)) {
    --shard.unseen;
    shard.insert(record.packed, initial_slot, true);
    return initial_slot;
  }
  return std::nullopt;
}

void LocationCache::put(RecordId record, std::uint64_t slot) {
  if (start_ == CacheStart::kFull || !holds_any_) return;
  Shard& shard = shard_of(record);
  const std::scoped_lock guard(shard.mutex);
  const auto found = shard.index.find(record.packed);
  if (found != shard.index.end()) {
    shard.entries[found->second].slot = slot;
    return;
  }
  shard.insert(record.packed, slot, false);
}

std::size_t LocationCache::seen() const {
  std::size_t sum = 0;
  for (const auto& shard : shards_) {
    const std::scoped_lock guard(shard->mutex);
    sum += shard->index.size();
  }
  return sum;
}

}  // namespace verbtwin::protocols
