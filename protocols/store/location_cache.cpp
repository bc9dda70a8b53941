#include "protocols/store/location_cache.hpp"

#include <tsl/robin_map.h>

#include <algorithm>
#include <vector>

#include "protocols/spread_bits.hpp"

namespace verbtwin::protocols {

namespace {

struct RecordHash {
  std::size_t operator()(std::uint64_t packed) const { return spread_bits(packed); }
};

std::uint64_t share(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0 || part >= whole) return 1ULL << 32;
  return static_cast<std::uint64_t>(static_cast<double>(part) / static_cast<double>(whole) * 4294967296.0);
}

}  // namespace

struct LocationCache::Shard {
  struct Entry {
    std::uint64_t record = 0, slot = 0;
    std::uint32_t next = 0, previous = 0;
  };

  static constexpr std::uint32_t kEvicted = 0;

  std::mutex mutex;
  tsl::robin_map<std::uint64_t, std::uint32_t, RecordHash> index;
  std::vector<Entry> entries{1};  // entry 0 holds the list's ends
  std::uint64_t capacity = 0;
  bool warm = false;            // CacheStart::kWarm
  std::uint64_t unseen = 0;     // warm entries of unpopular records that nobody has looked up yet
  double unseen_share = 0;      // an unpopular record whose draw is below this is one of them
  std::uint64_t unpopular = 0;  // unpopular records that fall to this shard and nobody has looked up yet
  std::uint64_t popular = 0;    // warm entries of popular records

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
    const std::uint64_t held = entries.size() - 1 + unseen + popular;
    if (was_unseen || held < capacity) {
      at = static_cast<std::uint32_t>(entries.size());
      entries.emplace_back();
    } else if (unseen > 0) {
      --unseen;
      unseen_share =
          std::max(0.0, unseen_share - 1.0 / static_cast<double>(std::max<std::uint64_t>(unpopular, 1)));
      at = static_cast<std::uint32_t>(entries.size());
      entries.emplace_back();
    } else {
      at = entries[0].previous;
      if (at == 0) return;  // no room for a single entry
      unlink(at);
      if (warm) {
        index[entries[at].record] =
            kEvicted;  // else it would count as a warm entry that nobody has looked up
      } else {
        index.erase(entries[at].record);
      }
    }
    entries[at].record = record;
    entries[at].slot = slot;
    link_front(at);
    index[record] = at;
  }
};

LocationCache::LocationCache(std::uint64_t bytes, CacheStart start, const Popularity& popularity)
    : start_(start), holds_any_(bytes > 0 || start == CacheStart::kFull), popularity_(popularity) {
  const std::uint64_t capacity = bytes / kEntryBytes;
  const std::uint64_t popular = std::min(capacity, popularity.popular_records());
  const std::uint64_t unpopular = popularity.records() - popularity.popular_records();
  const std::uint64_t rest = std::min(capacity - popular, unpopular);
  popular_share_ = share(popular, popularity.popular_records());
  for (auto& shard : shards_) {
    shard = std::make_unique<Shard>();
    shard->capacity = capacity / kShards;
    shard->warm = start_ == CacheStart::kWarm;
    if (shard->warm) {
      shard->unseen = rest / kShards;
      shard->unpopular = unpopular / kShards;
      shard->unseen_share = unpopular == 0 ? 0.0 : static_cast<double>(rest) / static_cast<double>(unpopular);
      shard->popular = popular / kShards;
    }
  }
}

LocationCache::~LocationCache() = default;

LocationCache::Shard& LocationCache::shard_of(RecordId record) const {
  return *shards_[spread_bits(record.packed) % kShards];
}

bool LocationCache::starts_cached(const Shard& shard, RecordId record) const {
  const std::uint64_t draw = spread_bits(record.packed + 1) >> 32;
  if (popularity_.popular(record)) return draw < popular_share_;
  return shard.unseen > 0 && static_cast<double>(draw) < shard.unseen_share * 4294967296.0;
}

std::optional<std::uint64_t> LocationCache::find(RecordId record, std::uint64_t initial_slot) {
  if (start_ == CacheStart::kFull) return initial_slot;
  Shard& shard = shard_of(record);
  const std::scoped_lock guard(shard.mutex);
  const auto found = shard.index.find(record.packed);
  if (found != shard.index.end() && found->second == Shard::kEvicted) return std::nullopt;
  if (found != shard.index.end()) {
    shard.unlink(found->second);
    shard.link_front(found->second);
    return shard.entries[found->second].slot;
  }
  if (start_ == CacheStart::kWarm && starts_cached(shard, record)) {
    const bool popular = popularity_.popular(record);
    std::uint64_t& left = popular ? shard.popular : shard.unseen;
    if (left > 0) --left;
    if (!popular && shard.unpopular > 0) --shard.unpopular;
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
  if (found != shard.index.end() && found->second != Shard::kEvicted) {
    shard.entries[found->second].slot = slot;
    return;
  }
  // Looked up for the first time, and it was none of the warm entries.
  const bool first =
      found == shard.index.end() && start_ == CacheStart::kWarm && !popularity_.popular(record);
  if (first && shard.unpopular > 0) --shard.unpopular;
  shard.insert(record.packed, slot, false);
}

}  // namespace verbtwin::protocols
