// RampOptions: a protocol of the RAMP family as data: how versions are told apart (the algorithm), how reads
// and writes reach the servers, and what carries RPCs. Combinations that cannot be are refused with the
// reason.
//
// Sources: Bailis et al., "Scalable Atomic Visibility with RAMP Transactions" (SIGMOD 2014) for the
// algorithms; what of them goes by RDMA WRITE and READ (PUT+, GET+, GET*) follows RAMP over RDMA. A value;
// read-only during a run. Times in picoseconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>

#include "protocols/registry.hpp"

namespace verbtwin::protocols {

enum class RampAlgorithm : std::uint8_t {
  kFast,    // versions name the keys that were written with them: 1 round of reads, 2 in a race
  kSmall,   // versions say nothing: always 2 rounds
  kHybrid,  // a Bloom filter of those keys: 1 or 2 rounds
  kS2pl,    // strict two-phase locking and two-phase commit, to compare with
};

struct RampOptions {
  enum class Get : std::uint8_t { kRpc, kPlus, kStar };
  enum class Put : std::uint8_t { kRpc, kPlus };
  enum class Transport : std::uint8_t { kEthernetTcp, kIpoibTcp, kSendRecv, kRdmaWrite };
  enum class Deadlock : std::uint8_t { kNoWait, kWaitDie };

  RampAlgorithm algorithm = RampAlgorithm::kFast;
  Get get = Get::kRpc;
  Put put = Put::kRpc;
  Transport transport = Transport::kSendRecv;
  std::uint32_t bloom_bits = 256;  // kHybrid
  std::uint32_t bloom_hashes = 4;
  Deadlock deadlock = Deadlock::kNoWait;              // kS2pl
  std::int64_t collect_after_ps = 4'000'000'000'000;  // a version goes so long after it was overwritten
  std::uint64_t versions_b = 256ULL << 20;            // room for overwritten versions on a server
  bool addresses_known = true;                        // GET*: the client has seen every key before the run

  /// Deliberate faults, for tests of the checks. Not in any scenario.
  struct Sabotage {
    bool skip_second_round = false;
    bool commit_before_prepare = false;
    bool ignore_invalid_bit = false;
    bool drop_siblings = false;
    bool accept_torn = false;  // GET* and messages
    bool lose_commit = false;  // the last key's, of several
  } sabotage;

  bool in_place() const { return get == Get::kStar; }
  /// RDMA WRITEs into polled buffers carry some messages; those of `transport` carry some.
  bool uses_buffers() const {
    return get != Get::kRpc || put == Put::kPlus || transport == Transport::kRdmaWrite;
  }
  bool uses(Transport wanted) const { return transport == wanted && (get == Get::kRpc || put == Put::kRpc); }

  bool uses_sockets() const { return uses(Transport::kEthernetTcp) || uses(Transport::kIpoibTcp); }

  /// Metadata of a version that was written with `group` keys, its own among them.
  std::uint32_t metadata_b(std::size_t group) const;

  /// From the resolved `protocol` object of a scenario. Throws UserError for what cannot be.
  static RampOptions from_json(const nlohmann::json& protocol);
};

std::span<const RegistryEntry> ramp_entries();

}  // namespace verbtwin::protocols
