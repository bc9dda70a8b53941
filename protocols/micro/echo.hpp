// echo: RPCs with an empty handler, to compare what carries them (Wei et al., OSDI 2018, figure 3b; Kalia et
// al., SIGCOMM 2014 and OSDI 2016): every worker is client and server, every coroutine has one call in flight
// to a random other machine.
//
// See the entry's schema for the parameters. EchoTransport belongs to one worker and its thread.
#pragma once

#include <memory>
#include <span>

#include "protocols/micro/benchmark.hpp"
#include "protocols/runtime/worker.hpp"

namespace verbtwin::protocols {

struct EchoOptions {
  enum class Transport : std::uint8_t {
    kUdSend,       // FaSST's: UdRpc
    kRcSend,       // SEND_WITH_IMM both ways
    kRcWriteImm,   // WRITE_WITH_IMM into the peer's message ring both ways
    kRcWritePoll,  // WRITE into the peer's message ring both ways, whose head the peer's CPU polls (FaRM)
    kHerd,         // requests by UC WRITE into a polled ring, replies by UD SEND (HERD)
  };
  Transport transport = Transport::kUdSend;
  std::uint32_t payload_b = 0;
  std::uint32_t reply_b = 0;  // at most payload_b
  bool doorbell_batching = true;
  bool reply_batching = true;      // ud_send
  bool coalescing = false;         // ud_send
  std::uint32_t inline_max_b = 0;  // ud_send: of a packet

  static EchoOptions from_json(const nlohmann::json& workload);
};

/// How requests and replies get to a peer: the thread of this worker's index on another machine.
class EchoTransport {
 public:
  virtual ~EchoTransport() = default;
  /// Finds the peers; every thread of the cluster exists.
  virtual void connect() {}
  /// Calls `node` for `coroutine`, which has no other call in flight; `group` completes with the reply.
  virtual void request(int node, int coroutine, WaitGroup& group) = 0;
};

/// What a transport needs of its worker: registered memory, and room in its completion queue.
struct EchoNeeds {
  std::size_t memory_b = 0;
  std::uint32_t completions = 0;
  QpInitAttributes queue_pairs = one_sided_queue_pairs();  // type and depths of the connected ones
};
EchoNeeds echo_needs(const EchoOptions& options, const ClusterShape& shape, int coroutines);
/// Throws UserError where a message does not fit the device's datagrams, or all that may be sent its queues.
void echo_check_device(const EchoOptions& options, const ClusterShape& shape, int coroutines,
                       const DeviceAttributes& device);
std::unique_ptr<EchoTransport> make_echo_transport(const EchoOptions& options, int coroutines, Worker& worker,
                                                   std::span<std::byte> memory);

RegistryEntry echo_entry();
std::unique_ptr<Benchmark> make_echo(const nlohmann::json& workload, const BenchmarkParameters& parameters);

}  // namespace verbtwin::protocols
