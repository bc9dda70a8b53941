// RampLayout: which server has a key, and where versions lie in a server's registered memory. The same on
// every node.
//
// A value, built once before the run and shared read-only. Sizes and offsets in bytes.
//
// A version lies in a place: a head, metadata (siblings, or a Bloom filter), the value. The places behind the
// first `slots` are given to versions, and given again when a version has been collected. Place number `slot`
// is its key's own, the one that is READ: all zeros stand for the initial value, and version after version is
// copied there. Whoever READs it may find an overwritten version, or half of one. The head tells: its first
// word is even only while the version is what a reader should get, and `digest` covers the rest.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "protocols/whole_lines.hpp"

namespace verbtwin::protocols {

/// A key as a version's metadata names it: there are at most 2^26 (workloads/key_groups), and a READ of up to
/// 256 B is answered in one packet of PCIe.
using SiblingKey = std::uint32_t;

struct VersionHead {
  std::uint64_t stamp = 0;  // twice the timestamp (0: nobody wrote it), + kInvalidVersion
  std::uint64_t key = 0;
  std::uint64_t digest = 0;  // of the other words and bytes (version_digest()), kInvalidVersion aside
  std::uint32_t metadata_b = 0;
  std::uint32_t value_b = 0;

  std::uint64_t timestamp() const { return stamp >> 1; }
};
/// About to be overwritten (a newer one is prepared), or overwritten. In one word with the timestamp: no READ
/// can see the bit of one version and the timestamp of another.
inline constexpr std::uint64_t kInvalidVersion = 1;

struct RampLayout {
  int servers = 1;
  std::uint64_t keys = 0;
  std::uint32_t value_b = 0;
  std::uint32_t metadata_max_b = 0;
  std::uint64_t slots = 0;     // keys of one server
  std::uint64_t places = 0;    // of one server
  std::uint32_t stride_b = 0;  // from one place to the next
  std::size_t worker_b = 0;    // registered memory of each worker, behind the places
  std::size_t total_b = 0;

  int server_of(std::uint64_t key) const {
    return static_cast<int>(key % static_cast<std::uint64_t>(servers));
  }
  std::uint64_t slot_of(std::uint64_t key) const { return key / static_cast<std::uint64_t>(servers); }
  std::size_t place_offset(std::uint64_t place) const { return place * stride_b; }
  std::size_t worker_offset(int thread) const {
    return places * stride_b + static_cast<std::size_t>(thread) * worker_b;
  }
  std::uint32_t padded_value_b() const { return static_cast<std::uint32_t>(whole_words(value_b)); }
  std::uint32_t image_b(std::uint32_t metadata_b) const {
    return static_cast<std::uint32_t>(sizeof(VersionHead)) + metadata_b + padded_value_b();
  }
};

}  // namespace verbtwin::protocols
