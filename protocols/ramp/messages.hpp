// The messages of the RAMP family, as they lie in a call's or a reply's bytes: a fixed head, then what its
// comment says. Keys, timestamps and sizes in host order: clients and servers are of one build.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "protocols/workloads/draws.hpp"

namespace verbtwin::protocols {

enum class RampMessage : std::uint8_t {
  kGetLast,      // GetArguments -> VersionReply: the last committed version
  kGetTime,      // GetArguments -> VersionReply without metadata and value: lastCommit
  kGetNewestOf,  // GetArguments, timestamps -> VersionReply: the newest version with one of them
  kPrepare,      // PrepareArguments, metadata, value -> PrepareReply
  kCommit,       // CommitArguments, the keys written -> nothing
  kLock,         // LockArguments -> VersionReply, perhaps much later (S2PL)
  kRelease,      // CommitArguments, the keys written, the keys only locked -> nothing (S2PL)
};

/// Of its handler.
constexpr std::uint8_t id(RampMessage message) {
  return static_cast<std::uint8_t>(message);
}

enum class RampStatus : std::uint32_t {
  kFound,
  kNone,       // no version has one of these timestamps
  kCollected,  // one may have had
  kRefused,    // the lock
};

struct GetArguments {
  std::uint64_t key;
  std::uint64_t timestamps;
};

/// Then metadata_b bytes of metadata and value_b of value.
struct VersionReply {
  static constexpr std::uint64_t kNoPlace = ~std::uint64_t{0};

  RampStatus status;
  std::uint32_t metadata_b;
  std::uint32_t value_b;
  std::uint32_t padding;
  std::uint64_t timestamp;
  std::uint64_t last_commit;
  std::uint64_t place = kNoPlace;  // where a READ of the key would succeed now
};

struct PrepareArguments {
  std::uint64_t key;
  std::uint64_t timestamp;
  std::uint32_t metadata_b;
  std::uint32_t value_b;
};
struct PrepareReply {
  std::uint64_t last_commit;
};

struct CommitArguments {
  std::uint64_t timestamp;
  std::uint64_t client;
  std::uint32_t written;
  std::uint32_t locked;
};

struct LockArguments {
  std::uint64_t key;
  std::uint64_t client;
  std::uint64_t since_ps;  // when the transaction began first: its age
  std::uint32_t exclusive;
  std::uint32_t wants_value;
};

/// A value that tells whose it is in each of its bytes: of a key and of the timestamp it was written under, 0
/// for what is there at first. Versions of different keys differ, in whatever transaction, and so do a key's.
inline void fill_value(std::uint64_t key, std::uint64_t timestamp, std::span<std::byte> value) {
  const std::uint64_t of_both = spread(timestamp ^ spread(key));
  for (std::size_t at = 0; at < value.size(); at += sizeof of_both) {
    const std::uint64_t word = spread(of_both + at);
    std::memcpy(value.data() + at, &word, std::min(sizeof word, value.size() - at));
  }
}

template <typename T>
T head_of(std::span<const std::byte> bytes) {
  T head;
  std::memcpy(&head, bytes.data(), sizeof head);
  return head;
}
/// Returns what is behind the head.
template <typename T>
std::span<std::byte> put_head(std::span<std::byte> bytes, const T& head) {
  std::memcpy(bytes.data(), &head, sizeof head);
  return bytes.subspan(sizeof head);
}
inline std::uint64_t word_at(std::span<const std::byte> bytes, std::size_t index) {
  std::uint64_t word;
  std::memcpy(&word, bytes.data() + index * sizeof word, sizeof word);
  return word;
}
inline void put_word(std::span<std::byte> bytes, std::size_t index, std::uint64_t word) {
  std::memcpy(bytes.data() + index * sizeof word, &word, sizeof word);
}

}  // namespace verbtwin::protocols
