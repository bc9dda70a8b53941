// What OCC's messages carry. Plain structs, little-endian, 8 B aligned, in the body of an RPC message.
#pragma once

#include <cstdint>

namespace verbtwin::protocols {

enum OccMessage : std::uint8_t {
  kFetch = 1,
  kLock,
  kCheck,
  kLog,
  kCommitWrite,
  kUnlock,
  kReclaim,
  kUpdateBackup
};

struct FetchRequest {
  std::uint64_t record;
};
struct LockingFetchRequest {  // longer: the record is to be locked for `owner`
  std::uint64_t record;
  std::uint64_t owner;
};
struct FetchReply {  // the record's image follows
  std::uint64_t slot;
};
inline constexpr std::uint64_t kFetchLockedBit = 1ULL << 63;  // of FetchReply::slot: locked for who asked

struct LockRequest {
  std::uint64_t record;
  std::uint64_t slot;
  std::uint64_t version;
  std::uint64_t owner;
};
enum class Verdict : std::uint64_t { kPassed, kLocked, kChanged };
struct VerdictReply {
  Verdict verdict;
};

struct CheckRequest {
  std::uint64_t record;
  std::uint64_t slot;
  std::uint64_t version;
};

struct LogRequest {  // the entry follows
  std::uint32_t ring_offset;
  std::uint16_t sender_thread;
  std::uint16_t padding;
};

struct CommitRequest {  // the value follows; of kUpdateBackup too
  std::uint64_t record;
  std::uint64_t slot;
  std::uint64_t version;
};

struct UnlockRequest {
  std::uint64_t record;
  std::uint64_t slot;
};

struct ReclaimRequest {  // the entry follows where each transaction calls (Reclaim::kEach)
  std::uint64_t certain;
  std::uint64_t sender_thread;
};
struct ReclaimReply {
  std::uint64_t head;
};

/// What answers a LOCK record: one word, which a NIC writes whole, so that its number says that it is there.
/// Number 16 bits, verdict 8, how far the log has been truncated 40 (in words of 8 B).
inline constexpr std::uint64_t lock_answer(std::uint16_t number, Verdict verdict, std::uint64_t head) {
  return static_cast<std::uint64_t>(number) << 48 | static_cast<std::uint64_t>(verdict) << 40 |
         (head / 8 & ((1ULL << 40) - 1));
}
inline constexpr std::uint16_t number_of_answer(std::uint64_t word) {
  return static_cast<std::uint16_t>(word >> 48);
}
inline constexpr Verdict verdict_of_answer(std::uint64_t word) {
  return static_cast<Verdict>(word >> 40 & 0xFF);
}
inline constexpr std::uint64_t head_of_answer(std::uint64_t word) {
  return (word & ((1ULL << 40) - 1)) * 8;
}

}  // namespace verbtwin::protocols
