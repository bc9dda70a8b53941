// OccOptions: an OCC protocol as data: which primitive each phase uses and which optimisations are on. A
// named protocol is a preset of these; a scenario may override any of them.
//
// A value; read-only during a run.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "protocols/rpc/ud_rpc.hpp"
#include "protocols/store/layout.hpp"
#include "protocols/store/location_cache.hpp"

namespace verbtwin::protocols {

/// How a phase reaches a remote record. kHybrid: one-sided where its location is cached, else by RPC.
enum class Primitive : std::uint8_t { kOneSided, kRpc, kHybrid };
enum class LockKind : std::uint8_t { kCas, kRpc };

struct OccOptions {
  struct Execution {
    Primitive primitive = Primitive::kHybrid;
    bool outstanding = true;  // fetch independent records together (speculative execution)
    bool doorbell_batching = true;
  } execution;
  struct Validation {
    LockKind lock = LockKind::kCas;
    Primitive check = Primitive::kOneSided;
    bool outstanding = true;
    bool doorbell_batching = true;
  } validation;
  struct Logging {
    Primitive primitive = Primitive::kOneSided;
    bool outstanding = true;
    bool doorbell_batching = true;
  } logging;
  struct Commit {
    Primitive primitive = Primitive::kOneSided;
    bool outstanding = true;
    bool doorbell_batching = true;
    bool passive_ack = true;
  } commit;
  RpcOptions rpc;
  std::uint64_t location_cache_b = 300ULL << 20;
  CacheStart location_cache_start = CacheStart::kWarm;
  std::uint32_t log_ring_b = 16384;

  /// Deliberate faults, for tests of the checks. Not in any scenario.
  struct Sabotage {
    bool skip_lock = false;
    bool skip_validation = false;
    bool skip_version_bump = false;
    bool skip_log = false;
  } sabotage;

  /// From the resolved `protocol` object of a scenario.
  static OccOptions from_json(const nlohmann::json& protocol);
};

}  // namespace verbtwin::protocols
