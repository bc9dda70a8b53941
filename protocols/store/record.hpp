// Record: how a record lies in registered memory, read and written by NICs and CPUs at once.
//
//   lock     8 B   0, or the owner that is writing (owner_word())
//   version  8 B   0: never written, the value is the table's initial value for the key; +1 with every write
//   value          padded to 8 B
//   tail     8 B   only where the record is longer than a cache line: proves that the lines belong together
//
// A record of at most 64 B never straddles a line, and a NIC or CPU takes a line whole. A longer one may be
// fetched torn, its lines in any order; it is accepted only if it is unlocked and its tail is right. The
// writer holds the lock from before the first byte changes until after the last one is there. With two lines
// the version once more, in the second, settles it; a CPU, which writes word by word, takes it away first.
// Where there are more, those between could be older than both ends, so that the tail also digests the value,
// as Pilaf's self-verifying records do (USENIX ATC 2013, section 4.2).
//
// Nobody owns these functions' memory; any thread may call them on any record, and the lock and version words
// are reached only through std::atomic_ref.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "backend/prefetch.hpp"
#include "protocols/whole_lines.hpp"

namespace verbtwin::protocols {

inline constexpr std::uint32_t kRecordHeaderBytes = 16;
inline constexpr std::uint64_t kDeletedBit = 1ULL << 63;  // of a version word

/// How often the record has been written, deletions counted.
inline constexpr std::uint64_t writes_of(std::uint64_t version_word) {
  return version_word & ~kDeletedBit;
}

struct RecordLayout {
  std::uint32_t value_b = 0;
  std::uint32_t image_b = 0;   // what a fetch reads and a write covers
  std::uint32_t stride_b = 0;  // from one record to the next
  bool has_tail = false;
  bool digests = false;  // the tail digests the value

  explicit RecordLayout(std::uint32_t value_bytes);

  std::uint32_t tail_offset() const { return image_b - 8; }
};

/// The digest that a history keeps of a write: of the value, or of nothing where the record was deleted.
std::uint64_t written_digest(std::uint64_t version_word, std::span<const std::byte> value);

enum class RecordState : std::uint8_t { kStable, kLocked, kTorn };

/// A fetched image: what the fetch may conclude from it.
struct RecordView {
  std::uint64_t lock = 0;
  std::uint64_t version = 0;
  RecordState state = RecordState::kStable;
};

inline std::uint64_t load_word(const std::byte* at) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}
inline void store_word(std::byte* at, std::uint64_t word) {
  std::memcpy(at, &word, sizeof word);
}

inline std::atomic_ref<std::uint64_t> atomic_word(std::byte* at) {
  return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(at));
}

/// A hint: the record is near.
inline void prefetch(const std::byte* record) {
  prefetch_lines(record, 2UL * kCacheLineBytes);
}

/// What the tail of a record holds.
std::uint64_t tail_word(const RecordLayout& layout, std::uint64_t version, std::span<const std::byte> value);

/// Judges a private copy of a record.
RecordView inspect(const RecordLayout& layout, const std::byte* image);

/// Copies a live record to `image` with a CPU of its node, then judges it: a writer that was at work shows as
/// kTorn.
RecordView copy_record(const RecordLayout& layout, std::byte* record, std::byte* image);

/// Installs `value` at `version` with a CPU of the record's node; the caller holds the lock.
void install(const RecordLayout& layout, std::byte* record, std::uint64_t version,
             std::span<const std::byte> value);

/// CPU locks of the record's node. They are not atomic with a NIC's CAS on the same word: a protocol uses one
/// kind. Of two transactions that each lock one record and then look at the other's lock, one has to see the
/// other's: try_lock() and lock_word() are in one order for all, which acquire and release do not give
/// (memory_order_seq_cst; on x86-64 the same instructions).
bool try_lock(std::byte* record, std::uint64_t owner);
void unlock(std::byte* record);
/// Zero: nobody holds it.
std::uint64_t lock_word(std::byte* record);

/// The lock word of a holder; never 0.
inline std::uint64_t owner_word(int node, int thread, int coroutine) {
  return 1ULL << 63 | static_cast<std::uint64_t>(node) << 32 | static_cast<std::uint64_t>(thread) << 16 |
         static_cast<std::uint64_t>(coroutine);
}
/// "node 0 thread 1 coroutine 2", as owner_word() was told; for a reader.
inline std::string owner_name(std::uint64_t word) {
  return "node " + std::to_string(word >> 32 & 0x7FFF'FFFF) + " thread " +
         std::to_string(word >> 16 & 0xFFFF) + " coroutine " + std::to_string(word & 0xFFFF);
}

}  // namespace verbtwin::protocols
