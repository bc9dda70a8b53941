// echo: RPCs with an empty handler, to compare what carries them (Wei et al., OSDI 2018, figure 3b; Kalia et
// al., SIGCOMM 2014 and OSDI 2016; RF-RPC, TPDS 2019): a coroutine has one message of calls in flight, to a
// random other machine or to a server.
//
// Several calls in a message (RF-RPC's batches, a multi-get). Chosen: a message is what a coroutine sends,
// and as many calls as one says share its fate, so that the number is the scenario's. Rejected: calls of
// different coroutines put together as they come, which ud_send has (`coalescing`) and whose number is a
// result; a number that is tuned to a limit of latency, which is a control loop around this one.
//
// See the entry's schema for the parameters. EchoTransport belongs to one worker and its thread.
#pragma once

#include <algorithm>
#include <memory>
#include <span>

#include "protocols/micro/benchmark.hpp"
#include "protocols/runtime/worker.hpp"

namespace verbtwin::protocols {

struct EchoOptions {
  enum class Transport : std::uint8_t {
    kUdSend,        // FaSST's: UdRpc
    kRcSend,        // SEND_WITH_IMM both ways
    kRcWriteImm,    // WRITE_WITH_IMM into the peer's message ring both ways
    kRcWritePoll,   // WRITE into the peer's message ring both ways, whose head the peer's CPU polls (FaRM)
    kHerd,          // requests by UC WRITE into a polled ring, replies by UD SEND (HERD)
    kRemoteFetch,   // requests as kRcWritePoll, results fetched by READ (RF-RPC)
    kServerBypass,  // READs only: the server's CPU has no part in it
  };
  enum class Pattern : std::uint8_t { kSymmetric, kManyToOne };

  Transport transport = Transport::kUdSend;
  Pattern pattern = Pattern::kSymmetric;
  int servers = 1;  // kManyToOne: the first machines
  int issuing_threads = 0;
  std::uint32_t calls_per_message = 1;
  std::uint32_t payload_b = 0;  // of a message, all of its calls
  std::uint32_t reply_b = 0;
  std::int64_t process_ps = 0;  // of a handler: a message
  bool doorbell_batching = true;
  bool reply_batching = true;      // ud_send
  bool coalescing = false;         // ud_send
  std::uint32_t inline_max_b = 0;  // ud_send: of a packet
  std::uint32_t fetch_b = 0;       // rf_rpc
  std::uint32_t fetch_tries = 0;   // rf_rpc
  double reads_per_call = 0;       // server_bypass
  std::uint32_t probe_b = 0;       // server_bypass: of all READs but a call's last

  static EchoOptions from_json(const nlohmann::json& workload, const ClusterShape& shape);

  std::uint32_t longest_b() const { return std::max(payload_b, reply_b); }
  const char* pointer_to(std::uint32_t bytes) const {
    if (calls_per_message > 1) return "/workload/calls_per_message";
    return bytes == payload_b ? "/workload/payload_b" : "/workload/reply_b";
  }
  bool is_server_of_all(int node) const { return pattern == Pattern::kManyToOne && node < servers; }
  /// The thread of this index calls: on each machine those behind the one before's, so that a server's
  /// threads, each of which serves its own index, share the callers evenly.
  bool issues(int node, int thread, const ClusterShape& shape) const {
    const int behind = ((thread - node * issuing_threads) % shape.threads + shape.threads) % shape.threads;
    return !is_server_of_all(node) && behind < issuing_threads;
  }
  /// Threads that call, of all machines.
  int issuers(const ClusterShape& shape) const {
    return (shape.nodes - (pattern == Pattern::kManyToOne ? servers : 0)) * issuing_threads;
  }
  /// Thread `thread` of `from` may call its peer on `to`.
  bool calls(int from, int to, int thread, const ClusterShape& shape) const {
    return from != to && issues(from, thread, shape) &&
           (pattern == Pattern::kSymmetric || is_server_of_all(to));
  }
};

/// How requests and replies get to a peer: the thread of this worker's index on another machine.
class EchoTransport {
 public:
  virtual ~EchoTransport() = default;
  /// Finds the peers; every thread of the cluster exists.
  virtual void connect() {}
  /// Calls `node` for `coroutine`, which has no other call in flight; ends with the reply.
  virtual Task<WcStatus> call(int node, int coroutine) = 0;
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
