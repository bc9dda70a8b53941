// ClusterHash: the index of one table's primary copy: buckets that one READ fetches whole, as in DrTM-KV
// (SOSP 2015), half of whose slots name a key.
//
// Nobody writes a bucket: a key has one place for ever (README.md). A slot's word says how far its
// key's record lies from the record slot of the key's own number, so that a bucket of zeros is right, and a
// table of millions is there without having been written. What remains of an index is what it costs to look
// into it: the READ of a bucket, or a CPU's miss of its caches.
//
// Pure functions; a bucket is the node's own memory or a copy that a client has READ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "protocols/store/record.hpp"

namespace verbtwin::protocols {

class ClusterHash {
 public:
  static constexpr std::uint32_t kSlotBytes = 16;
  static constexpr std::uint32_t kBucketBytes = 8 * kSlotBytes;
  static constexpr std::uint32_t kKeysPerBucket = 4;

  static std::uint64_t buckets_for(std::uint64_t records) {
    return records == 0 ? 1 : (records + kKeysPerBucket - 1) / kKeysPerBucket;
  }

  /// Keys are dense numbers: neighbours share lines and pages.
  static std::uint64_t bucket_of(std::uint64_t key) { return key / kKeysPerBucket; }

  /// The record slot of a key that has a place in this bucket.
  static std::uint64_t find(std::span<const std::byte, kBucketBytes> bucket, std::uint64_t key) {
    return key + load_word(bucket.data() + key % kKeysPerBucket * kSlotBytes);
  }
};

}  // namespace verbtwin::protocols
