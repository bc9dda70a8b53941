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
  kUpdateBackup,
  kLockEntry,
  kCloseEntry
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

struct ReclaimRequest {
  std::uint64_t certain;
  std::uint64_t sender_thread;
};
struct ReclaimReply {
  std::uint64_t head;
};

/// LOCK: a record into the primary's log, all of whose records are to be locked. TRUNCATE rides on it
/// (`certain`, answered by `head`), as in FaRM.
struct LockEntryRequest {  // the entry follows
  LogRequest log;
  std::uint64_t owner;
  std::uint64_t certain;
};
struct LockEntryReply {
  Verdict verdict;
  std::uint64_t head;
};

/// COMMIT-PRIMARY or ABORT: what becomes of a LOCK record.
struct CloseEntryRequest {
  LogRequest log;
  std::uint64_t commit;  // 1, or 0: abort
};

}  // namespace verbtwin::protocols
