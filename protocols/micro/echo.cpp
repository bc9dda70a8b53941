#include "protocols/micro/echo.hpp"

#include <array>
#include <bit>
#include <nlohmann/json.hpp>
#include <string>

#include "backend/user_error.hpp"
#include "protocols/micro/connected_echo.hpp"
#include "protocols/micro/coroutine_thread.hpp"
#include "protocols/parameters.hpp"
#include "protocols/rpc/ud_rpc.hpp"
#include "protocols/whole_lines.hpp"

namespace verbtwin::protocols {

namespace {

using nlohmann::json;
using Transport = EchoOptions::Transport;

constexpr std::uint32_t kDatagramMaxBytes = 4096;
constexpr std::uint32_t kHeadersMaxBytes = 64;
constexpr auto kTransport =
    std::to_array<parameters::Word<Transport>>({{"ud_send", Transport::kUdSend},
                                                {"rc_send", Transport::kRcSend},
                                                {"rc_write_imm", Transport::kRcWriteImm},
                                                {"rc_write_poll", Transport::kRcWritePoll},
                                                {"herd", Transport::kHerd}});

RpcOptions rpc_options(const EchoOptions& options) {
  RpcOptions rpc;
  rpc.coalescing = options.coalescing;
  rpc.request_batching = options.doorbell_batching;
  rpc.response_batching = options.reply_batching;
  rpc.packet_b = std::max(rpc.packet_b, std::bit_ceil(options.payload_b + kHeadersMaxBytes));
  rpc.request_inline_max_b = rpc.reply_inline_max_b = options.inline_max_b;
  return rpc;
}

/// ud_send: the RPC layer that the transaction systems use.
class UdEcho final : public EchoTransport {
 public:
  UdEcho(const EchoOptions& options, int coroutines, Worker& worker, std::span<std::byte> memory)
      : payload_b_(options.payload_b),
        reply_b_(options.reply_b),
        rpc_(worker, coroutines, rpc_options(options), memory, worker.port().memory().lkey()),
        landing_(options.payload_b),
        replies_(static_cast<std::size_t>(coroutines)) {
    rpc_.set_handler(0, serve, this);
  }

  void request(int node, int coroutine, WaitGroup& group) override {
    Reply& reply = replies_[static_cast<std::size_t>(coroutine)];
    reply = Reply(group, landing_);
    rpc_.call(node, 0, payload_b_, reply);
  }

 private:
  static void serve(void* self, const RpcCall& call) {
    auto& echo = *static_cast<UdEcho*>(self);
    echo.rpc_.reply(call.origin(), echo.reply_b_);
  }

  std::uint32_t payload_b_, reply_b_;
  UdRpc rpc_;
  std::vector<std::byte> landing_;  // of all replies: nobody looks at them
  std::vector<Reply> replies_;
};

class Echo final : public Benchmark {
 public:
  Echo(const json& workload, const BenchmarkParameters& parameters)
      : options_(EchoOptions::from_json(workload)),
        parameters_(parameters),
        needs_(echo_needs(options_, parameters.shape, parameters.coroutines)) {
    needs_.memory_b = whole_lines(needs_.memory_b);
  }

  std::size_t node_memory_bytes() const override {
    return static_cast<std::size_t>(parameters_.shape.threads) * needs_.memory_b;
  }
  void check_device(const DeviceAttributes& device) const override {
    echo_check_device(options_, parameters_.shape, parameters_.coroutines, device);
    Worker::check_device(device, needs_.completions, needs_.queue_pairs);
  }
  std::unique_ptr<BenchmarkThread> make_thread(WorkerPort& port) const override;
  int machines() const override { return parameters_.shape.nodes; }

  EchoOptions options_;
  BenchmarkParameters parameters_;
  EchoNeeds needs_;
};

class EchoThread final : public CoroutineThread {
 public:
  EchoThread(const Echo& plan, WorkerPort& port)
      : CoroutineThread(port, plan.needs_.completions, plan.parameters_.coroutines, plan.parameters_.seed,
                        plan.needs_.queue_pairs),
        transport_(make_echo_transport(
            plan.options_, plan.parameters_.coroutines, worker_,
            port.memory().local().subspan(static_cast<std::size_t>(port.thread()) * plan.needs_.memory_b,
                                          plan.needs_.memory_b))) {}

 private:
  void connect() override { transport_->connect(); }
  Task<void> run(int coroutine) override {
    while (running()) {
      const std::int64_t start_ps = cpu_.now_ps();
      WaitGroup group(worker_);
      transport_->request(pick_node(), coroutine, group);
      co_await group;
      count(start_ps, group.status());
    }
  }

  std::unique_ptr<EchoTransport> transport_;
};

std::unique_ptr<BenchmarkThread> Echo::make_thread(WorkerPort& port) const {
  return std::make_unique<EchoThread>(*this, port);
}

}  // namespace

EchoOptions EchoOptions::from_json(const json& workload) {
  EchoOptions o;
  const std::string name = workload.at("transport");
  o.transport = parameters::value_of(kTransport, name);
  o.payload_b = workload.at("payload_b");
  o.reply_b = workload.at("reply_b");
  if (o.reply_b == 0) o.reply_b = o.payload_b;
  o.doorbell_batching = workload.at("doorbell_batching");
  o.reply_batching = workload.at("reply_batching");
  o.coalescing = workload.at("coalescing");
  o.inline_max_b = workload.at("inline_max_b");
  if (o.coalescing && o.transport != Transport::kUdSend) {
    throw UserError("/workload/coalescing",
                    "a message of " + name + " has its own place: coalescing allows ud_send only");
  }
  const bool polled = o.transport == Transport::kRcWritePoll || o.transport == Transport::kHerd;
  if (o.reply_b > o.payload_b || (polled && o.reply_b != o.payload_b)) {
    throw UserError("/workload/reply_b",
                    "a reply of " + name + " is " +
                        (polled ? "as long as its request: 0"
                                : "no longer than its request: 0 to " + std::to_string(o.payload_b)) +
                        " is allowed");
  }
  const bool datagrams = o.transport == Transport::kUdSend || o.transport == Transport::kHerd;
  if (datagrams && o.payload_b + kHeadersMaxBytes > kDatagramMaxBytes) {
    throw UserError("/workload/payload_b", "a message of " + name + " is one datagram: up to " +
                                               std::to_string(kDatagramMaxBytes - kHeadersMaxBytes) +
                                               " B are allowed");
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
  const ConnectedEchoLayout layout(options, shape, coroutines);
  needs.memory_b = layout.total_b;
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
    if (options.payload_b > most_b) {
      throw UserError("/workload/payload_b", "a message of ud_send is one datagram, and this device's hold " +
                                                 std::to_string(device.mtu) + " B: up to " +
                                                 std::to_string(most_b) + " B are allowed");
    }
    UdRpc::check_device(shape, coroutines, rpc_options(options), device);
  }
}

std::unique_ptr<EchoTransport> make_echo_transport(const EchoOptions& options, int coroutines, Worker& worker,
                                                   std::span<std::byte> memory) {
  if (options.transport == Transport::kUdSend) {
    return std::make_unique<UdEcho>(options, coroutines, worker, memory);
  }
  return std::make_unique<ConnectedEcho>(options, coroutines, worker, memory);
}

RegistryEntry echo_entry() {
  using namespace parameters;
  json p;
  p["transport"] =
      choice("ud_send", kTransport,
             "ud_send: FaSST's RPC; rc_send; rc_write_imm; rc_write_poll: WRITE into rings that the "
             "CPU polls; herd: UC WRITE into polled rings, replies by UD SEND");
  p["payload_b"] = number(32, 1, 65536, "bytes of a request; ud_send, herd: up to 4032");
  p["reply_b"] = number(0, 0, 65536, "bytes of a reply, at most those of a request; 0: as many as a request");
  p["doorbell_batching"] = flag(true,
                                "messages that are ready together share a doorbell where they share a queue "
                                "pair");
  p["reply_batching"] = flag(true, "ud_send: the same of replies; doorbell_batching is of requests then");
  p["coalescing"] = flag(false, "ud_send: messages to one destination share a packet");
  p["inline_max_b"] =
      inline_limit("ud_send: longer packets are fetched by DMA even where the NIC would take them inline");
  return {"echo",
          "RPCs with an empty handler over the transport of choice; cluster.coroutines calls in flight per "
          "thread",
          {{"properties", p}},
          false};
}

std::unique_ptr<Benchmark> make_echo(const json& workload, const BenchmarkParameters& parameters) {
  return std::make_unique<Echo>(workload, parameters);
}

}  // namespace verbtwin::protocols
