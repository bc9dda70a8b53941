// LocationCache: a node's memory of where remote records are, so that one READ fetches a record (DrTM-KV,
// SOSP 2015). Least recently used entries go when its size is used up.
//
// One per node, shared by its workers: any of them may call it at any time (locked by shard).
//
// Start: a run of a millisecond would see the cache of a cluster that has been up for a millisecond. A cache
// that starts warm holds what one that has long been in use would hold, without being filled: the most
// popular records as far as they fit, then a share of the rest, picked by a hash of their names. Such an
// entry is made when it is first looked up; when room is needed, entries nobody has looked up go first.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "protocols/checks/history.hpp"

namespace verbtwin::protocols {

/// What a workload knows of its records' popularity: popular are those drawn more than twice as often as the
/// average, and popular_records() says how many of them popular() names.
class Popularity {
 public:
  virtual ~Popularity() = default;
  virtual bool popular(RecordId record) const = 0;
  virtual std::uint64_t popular_records() const = 0;  // in the whole cluster
  virtual std::uint64_t records() const = 0;          // in the whole cluster, the popular ones included
};

enum class CacheStart : std::uint8_t { kCold, kWarm, kFull };

class LocationCache {
 public:
  /// Key, location, recency: what an entry takes of the size given.
  static constexpr std::uint64_t kEntryBytes = 24;

  /// `popularity` is not owned and outlives the cache.
  LocationCache(std::uint64_t bytes, CacheStart start, const Popularity& popularity);
  ~LocationCache();

  /// False: it has no room, so that nobody needs to ask.
  bool holds_any() const { return holds_any_; }
  /// The record's slot at its primary, if cached; `initial_slot` is where it was from the start.
  std::optional<std::uint64_t> find(RecordId record, std::uint64_t initial_slot);
  void put(RecordId record, std::uint64_t slot);

 private:
  static constexpr std::size_t kShards = 16;
  struct Shard;

  Shard& shard_of(RecordId record) const;
  bool starts_cached(const Shard& shard, RecordId record) const;

  CacheStart start_;
  bool holds_any_;
  const Popularity& popularity_;
  std::uint64_t popular_share_ = 0;  // of 2^32: how much of the popular records a warm cache holds
  std::array<std::unique_ptr<Shard>, kShards> shards_;
};

}  // namespace verbtwin::protocols
