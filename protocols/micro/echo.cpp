#include "protocols/micro/echo.hpp"

#include <array>
#include <bit>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "backend/user_error.hpp"
#include "protocols/micro/connected_echo.hpp"
#include "protocols/micro/coroutine_thread.hpp"
#include "protocols/micro/remote_fetch.hpp"
#include "protocols/micro/server_bypass.hpp"
#include "protocols/parameters.hpp"
#include "protocols/rpc/ud_rpc.hpp"
#include "protocols/whole_lines.hpp"

namespace verbtwin::protocols {

namespace {

using nlohmann::json;
using Transport = EchoOptions::Transport;
using Pattern = EchoOptions::Pattern;

constexpr auto kTransport =
    std::to_array<parameters::Word<Transport>>({{"ud_send", Transport::kUdSend},
                                                {"rc_send", Transport::kRcSend},
                                                {"rc_write_imm", Transport::kRcWriteImm},
                                                {"rc_write_poll", Transport::kRcWritePoll},
                                                {"herd", Transport::kHerd},
                                                {"rf_rpc", Transport::kRemoteFetch},
                                                {"server_bypass", Transport::kServerBypass}});
constexpr auto kPattern = std::to_array<parameters::Word<Pattern>>(
    {{"symmetric", Pattern::kSymmetric}, {"many_to_one", Pattern::kManyToOne}});

constexpr std::uint32_t kMessageMax_b = 65536;
constexpr std::int64_t kProcessMax_ps = 1'000'000'000;  // of a message, all of its calls

RpcOptions rpc_options(const EchoOptions& options) {
  RpcOptions rpc;
  rpc.coalescing = options.coalescing ? Shared::kByRound : Shared::kByNone;
  rpc.request_batching = options.doorbell_batching ? Shared::kByRound : Shared::kByNone;
  rpc.response_batching = options.reply_batching;
  rpc.packet_b = std::max(rpc.packet_b, std::bit_ceil(UdRpc::packet_bytes(options.longest_b())));
  rpc.request_inline_max_b = rpc.reply_inline_max_b = options.inline_max_b;
  rpc.packets_per_call = rpc.calls_max = 1;
  rpc.passive_calls = false;
  return rpc;
}

/// ud_send: the RPC layer that the transaction systems use.
class UdEcho final : public EchoTransport {
 public:
  UdEcho(const EchoOptions& options, int coroutines, Worker& worker, std::span<std::byte> memory)
      : options_(options),
        worker_(worker),
        rpc_(worker, coroutines, rpc_options(options), memory, worker.port().memory().lkey()),
        landing_(options.reply_b) {
    rpc_.set_handler(0, serve, this);
  }

  Task<WcStatus> call(int node, int) override {
    WaitGroup replied(worker_);
    Reply reply(replied, landing_);
    rpc_.call(node, 0, options_.payload_b, reply);
    co_await replied;
    co_return replied.status();
  }

 private:
  static void serve(void* self, const RpcCall& call) {
    auto& echo = *static_cast<UdEcho*>(self);
    if (echo.options_.process_ps > 0) echo.worker_.cpu().charge_ps(echo.options_.process_ps);
    echo.rpc_.reply(call.origin(), echo.options_.reply_b);
  }

  const EchoOptions& options_;
  Worker& worker_;
  UdRpc rpc_;
  std::vector<std::byte> landing_;  // of all replies: nobody looks at them
};

class Echo final : public Benchmark {
 public:
  Echo(const json& workload, const BenchmarkParameters& parameters)
      : options_(EchoOptions::from_json(workload, parameters.shape)),
        parameters_(parameters),
        needs_(echo_needs(options_, parameters.shape, parameters.coroutines)) {
    if (options_.calls_per_message > 1 && parameters.offered_per_s > 0) {
      throw UserError("/workload/calls_per_message",
                      "calls that are asked for one by one would wait for a message to be full: with "
                      "run.offered_per_s 1 is allowed");
    }
    needs_.memory_b = whole_lines(needs_.memory_b);
  }

  std::size_t node_memory_bytes() const override {
    return static_cast<std::size_t>(parameters_.shape.threads) * needs_.memory_b;
  }
  void check_device(const DeviceAttributes& device) const override {
    echo_check_device(options_, parameters_.shape, parameters_.coroutines, device);
    Worker::check_device(device, needs_.completions, needs_.queue_pairs);
  }
  bool receives_on_queue_pairs() const override { return needs_.queue_pairs.max_recv_wr > 1; }
  std::unique_ptr<BenchmarkThread> make_thread(WorkerPort& port) const override;
  int machines() const override {
    return options_.pattern == Pattern::kSymmetric ? parameters_.shape.nodes : options_.servers;
  }

  EchoOptions options_;
  BenchmarkParameters parameters_;
  EchoNeeds needs_;
};

class EchoThread final : public CoroutineThread {
 public:
  EchoThread(const Echo& plan, WorkerPort& port)
      : CoroutineThread(port, plan.needs_.completions, plan.parameters_,
                        plan.parameters_.offered_per_s / plan.options_.issuers(port.shape()),
                        plan.needs_.queue_pairs),
        options_(plan.options_),
        transport_(make_echo_transport(
            plan.options_, plan.parameters_.coroutines, worker_,
            port.memory().local().subspan(static_cast<std::size_t>(port.thread()) * plan.needs_.memory_b,
                                          plan.needs_.memory_b))) {}

  bool is_passive() const override { return options_.transport == Transport::kServerBypass && !issues(); }

 private:
  bool issues() const { return options_.issues(port_.node(), port_.thread(), port_.shape()); }
  int pick_server() {
    return options_.servers == 1 ? 0
                                 : static_cast<int>(random_(static_cast<std::uint32_t>(options_.servers)));
  }
  void connect() override { transport_->connect(); }
  Task<void> run(int coroutine) override {
    while (issues()) {
      auto next = next_start();
      const std::optional<Start> start = co_await next;
      if (!start) break;
      const int node = options_.pattern == Pattern::kSymmetric ? pick_node() : pick_server();
      auto call = transport_->call(node, coroutine);
      const WcStatus status = co_await call;
      count(*start, status, options_.calls_per_message);
    }
  }

  const EchoOptions& options_;
  std::unique_ptr<EchoTransport> transport_;
};

std::unique_ptr<BenchmarkThread> Echo::make_thread(WorkerPort& port) const {
  return std::make_unique<EchoThread>(*this, port);
}

void take_servers(EchoOptions& o, const json& workload, const ClusterShape& shape) {
  o.servers = workload.at("servers");
  if (o.servers > 1 && o.pattern == Pattern::kSymmetric) {
    throw UserError("/workload/servers", "every machine of pattern symmetric serves: 1 is allowed");
  }
  if (o.servers >= shape.nodes) {
    throw UserError("/workload/servers", "of " + std::to_string(shape.nodes) +
                                             " machines one at least calls: up to " +
                                             std::to_string(shape.nodes - 1) + " are allowed");
  }
}

void take_calls_per_message(EchoOptions& o, const json& workload) {
  o.calls_per_message = workload.at("calls_per_message");
  if (o.calls_per_message == 1) return;
  if (o.transport == Transport::kServerBypass) {
    throw UserError("/workload/calls_per_message", "server_bypass sends no messages: 1 is allowed");
  }
  const std::uint32_t most = kMessageMax_b / o.longest_b();
  if (o.calls_per_message > most) {
    throw UserError("/workload/calls_per_message", "a message has " + std::to_string(kMessageMax_b) +
                                                       " B at most: up to " + std::to_string(most) +
                                                       " calls are allowed");
  }
  if (o.process_ps * o.calls_per_message > kProcessMax_ps) {
    throw UserError("/workload/calls_per_message",
                    "a server's handler takes " + std::to_string(kProcessMax_ps / 1'000'000) +
                        " us at most: up to " + std::to_string(kProcessMax_ps / o.process_ps) +
                        " calls of this process_ns are allowed");
  }
  o.payload_b *= o.calls_per_message;
  o.reply_b *= o.calls_per_message;
  o.process_ps *= o.calls_per_message;
}

}  // namespace

EchoOptions EchoOptions::from_json(const json& workload, const ClusterShape& shape) {
  EchoOptions o;
  const std::string name = workload.at("transport");
  o.transport = parameters::value_of(kTransport, name);
  o.pattern = parameters::value_of(kPattern, workload.at("pattern"));
  o.payload_b = workload.at("payload_b");
  o.reply_b = workload.at("reply_b");
  if (o.reply_b == 0) o.reply_b = o.payload_b;
  o.process_ps = workload.at("process_ns").get<std::int64_t>() * 1000;
  take_servers(o, workload, shape);
  take_calls_per_message(o, workload);
  o.doorbell_batching = workload.at("doorbell_batching");
  o.reply_batching = workload.at("reply_batching");
  o.coalescing = workload.at("coalescing");
  o.inline_max_b = workload.at("inline_max_b");
  o.fetch_b = workload.at("fetch_b");
  o.fetch_tries = workload.at("fetch_tries");
  o.reads_per_call = workload.at("reads_per_call");
  o.probe_b = workload.at("probe_b");
  if (o.coalescing && o.transport != Transport::kUdSend) {
    throw UserError("/workload/coalescing",
                    "a message of " + name + " has its own place: coalescing allows ud_send only");
  }
  o.issuing_threads = issuing_threads_of(workload, shape);
  if (o.process_ps > 0 && o.transport == Transport::kServerBypass) {
    throw UserError("/workload/process_ns",
                    "the server's CPU has no part in calls of server_bypass: 0 is allowed");
  }
  return o;
}

EchoNeeds echo_needs(const EchoOptions& options, const ClusterShape& shape, int coroutines) {
  EchoNeeds needs;
  if (options.transport == Transport::kUdSend) {
    needs.memory_b = UdRpc::memory_bytes(shape, coroutines, rpc_options(options));
    needs.completions = UdRpc::completions(shape, coroutines, rpc_options(options));
    return needs;
  }
  if (options.transport == Transport::kServerBypass) {
    needs.memory_b = FetchedPlaces::memory_bytes(ServerBypass::place_b(options), shape, coroutines);
    needs.queue_pairs.max_send_wr = static_cast<std::uint32_t>(coroutines) + 64;
    needs.completions = static_cast<std::uint32_t>(coroutines) + 64;
    return needs;
  }
  const ConnectedEchoLayout layout(options, shape, coroutines);
  needs.memory_b = options.transport == Transport::kRemoteFetch
                       ? RemoteFetch::memory_bytes(options, shape, coroutines)
                       : layout.total_b;
  if (options.transport == Transport::kHerd) needs.queue_pairs.type = QpType::kUc;
  needs.queue_pairs.max_recv_wr = layout.ring + ConnectedEcho::kRecvBatch;
  needs.queue_pairs.max_send_wr = 2 * layout.ring + 64;
  // RECVs of every queue pair, and one signalled request of every few that are sent.
  needs.completions =
      static_cast<std::uint32_t>(shape.nodes + 1) * (needs.queue_pairs.max_recv_wr + layout.ring / 8 + 4);
  return needs;
}

void echo_check_device(const EchoOptions& options, const ClusterShape& shape, int coroutines,
                       const DeviceAttributes& device) {
  if (options.transport == Transport::kHerd) {
    ConnectedEcho::check_datagrams(options, shape, coroutines, device);
  } else if (options.transport == Transport::kUdSend) {
    const std::uint32_t most_b = UdRpc::message_max_b(device.mtu);
    if (options.longest_b() > most_b) {
      throw UserError(options.pointer_to(options.longest_b()),
                      "a message of ud_send is one datagram, and this device's hold " +
                          std::to_string(device.mtu) + " B: up to " + std::to_string(most_b) +
                          " B are allowed, not " + std::to_string(options.longest_b()));
    }
    UdRpc::check_device(shape, coroutines, rpc_options(options), device);
  }
}

std::unique_ptr<EchoTransport> make_echo_transport(const EchoOptions& options, int coroutines, Worker& worker,
                                                   std::span<std::byte> memory) {
  if (options.transport == Transport::kUdSend) {
    return std::make_unique<UdEcho>(options, coroutines, worker, memory);
  }
  if (options.transport == Transport::kRemoteFetch) {
    return std::make_unique<RemoteFetch>(options, coroutines, worker, memory);
  }
  if (options.transport == Transport::kServerBypass) {
    return std::make_unique<ServerBypass>(options, coroutines, worker, memory);
  }
  return std::make_unique<ConnectedEcho>(options, coroutines, worker, memory);
}

RegistryEntry echo_entry() {
  using namespace parameters;
  json p;
  p["transport"] = choice(
      "ud_send", kTransport,
      "ud_send: FaSST's RPC; rc_send; rc_write_imm; rc_write_poll: WRITE into rings that the "
      "CPU polls, replies likewise (server-reply); herd: UC WRITE into polled rings, replies by UD SEND; "
      "rf_rpc: requests as rc_write_poll, clients READ the results from the server's memory; "
      "server_bypass: READs only, no server CPU");
  p["pattern"] =
      choice("symmetric", kPattern,
             "every machine calls all others; the first machines serve the others, which call them");
  p["servers"] = number(1, 1, 1023,
                        "many_to_one: so many machines, the first ones, serve all others, which "
                        "call any of them");
  p["issuing_threads"] =
      number(0, 0, 256,
             "threads of each machine that call, each its own index at the server; many_to_one: "
             "those of one machine behind those of the one before; 0: all");
  p["calls_per_message"] = number(
      1, 1, 1024,
      "calls that a coroutine puts into one message, and the server their replies (a batch, a multi-get): "
      "payload_b, reply_b and process_ns are of each");
  p["payload_b"] = number(32, 1, kMessageMax_b, "bytes of a request; ud_send: up to 4088");
  p["reply_b"] = number(0, 0, kMessageMax_b,
                        "bytes of a reply; 0: as many as a request; ud_send: up to 4088, herd: 4096");
  p["process_ns"] =
      number(0, 0, kProcessMax_ps / 1000, "what a server's handler takes of its core for each call");
  p["doorbell_batching"] = flag(true,
                                "messages that are ready together share a doorbell where they share a queue "
                                "pair");
  p["reply_batching"] = flag(true, "ud_send: the same of replies; doorbell_batching is of requests then");
  p["coalescing"] = flag(false, "ud_send: messages to one destination share a packet");
  p["inline_max_b"] =
      inline_limit("ud_send: longer packets are fetched by DMA even where the NIC would take them inline");
  p["fetch_b"] =
      number(256, 16, 65536,
             "rf_rpc: bytes of the first READ of a result; one that is longer, with 16 B of frame, takes a "
             "second READ");
  p["fetch_tries"] =
      number(5, 0, 1000,
             "rf_rpc: READs in vain that a call may take; after two calls in a row that took more the "
             "client asks for replies, until the server is faster");
  p["reads_per_call"] = real(3.2, 1, 64, "server_bypass: READs of a call, one after another, on the average");
  p["probe_b"] =
      number(32, 1, 65536,
             "server_bypass: bytes of each READ before a call's last, which brings the reply: entries "
             "of an index");
  return {"echo",
          "RPCs over the transport of choice; cluster.coroutines calls in flight per thread, at most so many "
          "where a load is offered",
          {{"properties", p}},
          ""};
}

std::unique_ptr<Benchmark> make_echo(const json& workload, const BenchmarkParameters& parameters) {
  return std::make_unique<Echo>(workload, parameters);
}

}  // namespace verbtwin::protocols
