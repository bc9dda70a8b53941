// LocationCache: a node's memory of where remote records are, so that one READ fetches a record (DrTM-KV,
// SOSP 2015). Least recently used entries go when its size is used up.
//
// One per node, shared by its workers: any of them may call it at any time (locked by shard).
//
// Start: a run of a millisecond would see the cache of a cluster that has been up for a millisecond. A cache
// that starts warm holds what one that has long been in use would hold, without being filled. There is an age
// at which it evicts what nobody has looked up since (Che et al., "Hierarchical Web Caching Systems", JSAC
// 2002): a record that is looked up at a rate r is held with a probability of 1 - exp(-r age), and the age is
// the one at which all of them fill the cache. A record's own age comes from a hash of its name. Its entry is
// made when it is first looked up; when room is needed, the oldest of those nobody has looked up yet go
// first.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "protocols/store/popularity.hpp"

namespace verbtwin::protocols {

enum class CacheStart : std::uint8_t { kCold, kWarm, kFull };

class LocationCache {
 public:
  /// Key, location, recency: what an entry takes of the size given.
  static constexpr std::uint64_t kEntryBytes = 24;

  /// `popularity` is not owned and outlives the cache. Of each class of records the nodes have as many each,
  /// and a node does not look its own up here.
  LocationCache(std::uint64_t bytes, CacheStart start, const Popularity& popularity, int nodes);
  ~LocationCache();

  /// False: it has no room, so that nobody needs to ask.
  bool holds_any() const { return holds_any_; }
  /// The record's slot at its primary, if cached; `initial_slot` is where it was from the start.
  std::optional<std::uint64_t> find(RecordId record, std::uint64_t initial_slot);
  void put(RecordId record, std::uint64_t slot);
  /// How many records it has entries of, those of a warm start that nobody has looked up aside.
  std::size_t seen() const;

 private:
  static constexpr std::size_t kShards = 16;
  struct Shard;

  Shard& shard_of(RecordId record) const;
  bool starts_cached(const Shard& shard, RecordId record) const;

  CacheStart start_;
  bool holds_any_;
  const Popularity& popularity_;
  std::vector<double> rates_;  // by class: how often one of its records is looked up
  std::array<std::unique_ptr<Shard>, kShards> shards_;
};

}  // namespace verbtwin::protocols
