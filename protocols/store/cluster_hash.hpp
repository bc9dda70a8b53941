// ClusterHash: the index of one table's primary copy, in DrTM-KV's manner (SOSP 2015): buckets of eight slots
// that one READ fetches whole; a slot names a key and where its record is; a full bucket's last slot links to
// another bucket.
//
// A view over registered memory, made where needed. Buckets are decoded from a private copy, so that the same
// code serves a CPU of the node and a client that has READ the bucket.
//
// An untouched bucket is all zeros and means the initial contents: bucket b holds the keys 4b .. 4b+3 that
// exist, each at its own record slot. A table of millions is there without having been written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "protocols/store/record.hpp"

namespace verbtwin::protocols {

class ClusterHash {
 public:
  static constexpr std::uint32_t kSlots = 8;
  static constexpr std::uint32_t kSlotBytes = 16;
  static constexpr std::uint32_t kBucketBytes = kSlots * kSlotBytes;
  static constexpr std::uint32_t kInitialPerBucket = 4;

  static std::uint64_t buckets_for(std::uint64_t records) {
    return records == 0 ? 1 : (records + kInitialPerBucket - 1) / kInitialPerBucket;
  }

  /// Keys are dense numbers, so the home bucket is the key's neighbourhood: neighbours share lines and pages.
  static std::uint64_t home_bucket(std::uint64_t key, std::uint64_t bucket_count) {
    return key / kInitialPerBucket % bucket_count;
  }

  struct Found {
    enum class Kind : std::uint8_t { kRecord, kLink, kAbsent } kind = Kind::kAbsent;
    std::uint64_t value = 0;  // record slot, or the offset of the next bucket
  };

  /// Looks `key` up in a fetched copy of bucket number `bucket` (a linked bucket has number kLinked).
  static constexpr std::uint64_t kLinked = ~0ULL;
  static Found find(std::span<const std::byte, kBucketBytes> image, std::uint64_t bucket, std::uint64_t key,
                    std::uint64_t initial_records);
};

}  // namespace verbtwin::protocols
