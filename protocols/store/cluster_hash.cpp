#include "protocols/store/cluster_hash.hpp"

namespace verbtwin::protocols {

namespace {

// A slot's second word: 0 untouched, else what it holds, with its kind in the top bits.
constexpr std::uint64_t kRecordBit = 1ULL << 63;
constexpr std::uint64_t kLinkBit = 1ULL << 62;
constexpr std::uint64_t kValueMask = kLinkBit - 1;

}  // namespace

ClusterHash::Found ClusterHash::find(std::span<const std::byte, kBucketBytes> image, std::uint64_t bucket,
                                     std::uint64_t key, std::uint64_t initial_records) {
  for (std::uint32_t i = 0; i < kSlots; ++i) {
    const std::byte* slot = image.data() + i * kSlotBytes;
    const std::uint64_t word = load_word(slot + 8);
    if (word == 0) {
      const bool initial = bucket != kLinked && i < kInitialPerBucket && key < initial_records;
      if (initial && bucket * kInitialPerBucket + i == key) return {Found::Kind::kRecord, key};
    } else if ((word & kRecordBit) != 0) {
      if (load_word(slot) == key) return {Found::Kind::kRecord, word & kValueMask};
    } else if ((word & kLinkBit) != 0) {
      return {Found::Kind::kLink, word & kValueMask};
    }
  }
  return {};
}

}  // namespace verbtwin::protocols
