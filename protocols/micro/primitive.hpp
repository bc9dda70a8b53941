// primitive: raw verbs, as the rate and latency sweeps of the papers post them (Kalia et al., ATC 2016 and
// OSDI 2016; Wei et al., OSDI 2018, figures 3a and 5): each thread keeps a window of one kind of request in
// flight towards random machines.
//
// A thread talks to the threads of its own index, through the NIC of its own index, over cluster.qps_per_peer
// queue pairs to each: machines x threads per NIC x qps_per_peer queue pairs on a NIC, as in those papers.
// See the entry's schema for the parameters, README.md for what they express.
#pragma once

#include <cstdint>
#include <memory>

#include "protocols/micro/benchmark.hpp"

namespace verbtwin::protocols {

struct PrimitiveOptions {
  enum class Pattern : std::uint8_t { kSymmetric, kOneToMany, kManyToOne };
  enum class Mode : std::uint8_t {
    kPipelined,
    kSynchronous,  // the whole window completes before the next begins
    kPingPong,     // pairs of machines WRITE to each other in turn (ping_pong.hpp)
  };

  enum class Words : std::uint8_t {
    kDistinct,  // of each request in flight
    kOne,       // of each target
    kRandom,    // of target_b
  };

  Opcode verb = Opcode::kRdmaRead;
  QpType transport = QpType::kRc;
  Pattern pattern = Pattern::kSymmetric;
  std::uint32_t payload_b = 8;
  bool inline_payload = false;
  std::uint32_t outstanding = 16;     // requests in flight per thread at most
  std::uint32_t doorbell_batch = 1;   // requests posted with one doorbell
  std::uint32_t signal_interval = 1;  // every so many requests of a queue pair one is signalled
  Mode mode = Mode::kPipelined;
  Words words = Words::kDistinct;  // atomics: which ones
  std::uint64_t target_b = 0;      // memory of each machine that requests go to
  int issuing_threads = 0;         // of each issuing machine

  /// Throws UserError for what does not fit together.
  static PrimitiveOptions from_json(const nlohmann::json& workload, const ClusterShape& shape);

  bool issues(int node, int thread) const {
    if (thread >= issuing_threads) return false;
    return pattern == Pattern::kSymmetric || (node == 0) == (pattern == Pattern::kOneToMany);
  }
  /// What the one machine takes is its rate: over UD and UC more may be sent than arrives.
  bool counts_receives() const { return pattern == Pattern::kManyToOne && verb == Opcode::kSend; }
  /// Throws UserError where the payload does not fit: inline, or in a datagram.
  void check_device(const DeviceAttributes& device) const;
  bool is_atomic() const { return verbtwin::is_atomic(verb); }
};

RegistryEntry primitive_entry();
std::unique_ptr<Benchmark> make_primitive(const nlohmann::json& workload,
                                          const BenchmarkParameters& parameters);

}  // namespace verbtwin::protocols
