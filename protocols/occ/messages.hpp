// What OCC's messages carry. Plain structs, little-endian, 8 B aligned, in the body of an RPC message.
#pragma once

#include <cstdint>

namespace verbtwin::protocols {

enum OccMessage : std::uint8_t { kFetch = 1, kLock, kCheck, kLog, kCommitWrite, kUnlock, kReclaim };

struct FetchRequest {
  std::uint64_t record;
};
struct FetchReply {  // the record's image follows
  std::uint64_t slot;
};

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

struct CommitRequest {  // the value follows
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

}  // namespace verbtwin::protocols
