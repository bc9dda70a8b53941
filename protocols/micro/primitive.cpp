#include "protocols/micro/primitive.hpp"

#include <nlohmann/json.hpp>
#include <string>

#include "backend/user_error.hpp"
#include "protocols/micro/ping_pong.hpp"
#include "protocols/micro/primitive_thread.hpp"
#include "protocols/parameters.hpp"

namespace verbtwin::protocols {

namespace {

using nlohmann::json;
using parameters::value_of;
using parameters::Word;
using Pattern = PrimitiveOptions::Pattern;
using Mode = PrimitiveOptions::Mode;

constexpr auto kVerb = std::to_array<Word<Opcode>>({{"read", Opcode::kRdmaRead},
                                                    {"write", Opcode::kRdmaWrite},
                                                    {"compare_swap", Opcode::kAtomicCmpAndSwp},
                                                    {"fetch_add", Opcode::kAtomicFetchAndAdd},
                                                    {"send", Opcode::kSend}});
constexpr auto kTransport =
    std::to_array<Word<QpType>>({{"rc", QpType::kRc}, {"uc", QpType::kUc}, {"ud", QpType::kUd}});
constexpr auto kPattern = std::to_array<Word<Pattern>>({{"symmetric", Pattern::kSymmetric},
                                                        {"one_to_many", Pattern::kOneToMany},
                                                        {"many_to_one", Pattern::kManyToOne}});
constexpr auto kMode = std::to_array<Word<Mode>>(
    {{"pipelined", Mode::kPipelined}, {"synchronous", Mode::kSynchronous}, {"ping_pong", Mode::kPingPong}});
constexpr auto kWords =
    std::to_array<Word<PrimitiveOptions::Words>>({{"distinct", PrimitiveOptions::Words::kDistinct},
                                                  {"one", PrimitiveOptions::Words::kOne},
                                                  {"random", PrimitiveOptions::Words::kRandom}});

constexpr std::uint32_t kAtomicBytes = 8;

class Primitive final : public Benchmark {
 public:
  Primitive(const json& workload, const BenchmarkParameters& parameters)
      : options_(PrimitiveOptions::from_json(workload, parameters.shape)),
        layout_(options_, parameters.shape),
        ping_pong_layout_(options_, parameters.shape),
        parameters_(parameters) {}

  std::size_t node_memory_bytes() const override {
    return options_.mode == Mode::kPingPong ? ping_pong_layout_.total_b : layout_.total_b();
  }
  void check_device(const DeviceAttributes& device) const override {
    options_.check_device(device);
    if (options_.mode == Mode::kPingPong) {
      PingPongThread::check_device(options_, device);
    } else {
      PrimitiveThread::check_device(options_, parameters_.shape, device);
    }
  }
  bool receives_on_queue_pairs() const override {
    return options_.verb == Opcode::kSend && options_.transport != QpType::kUd;
  }
  std::unique_ptr<BenchmarkThread> make_thread(WorkerPort& port) const override {
    if (options_.mode == Mode::kPingPong)
      return std::make_unique<PingPongThread>(options_, ping_pong_layout_, port);
    return std::make_unique<PrimitiveThread>(options_, layout_, parameters_.seed, port);
  }
  int machines() const override {
    if (options_.mode == Mode::kPingPong) return parameters_.shape.nodes / 2;
    return options_.pattern == Pattern::kSymmetric ? parameters_.shape.nodes : 1;
  }

 private:
  PrimitiveOptions options_;
  PrimitiveLayout layout_;
  PingPongLayout ping_pong_layout_;
  BenchmarkParameters parameters_;
};

void check_verb(const PrimitiveOptions& o, const std::string& verb) {
  if (o.transport == QpType::kUd && !is_send(o.verb)) {
    throw UserError("/workload/transport", "UD carries no " + verb + ": \"ud\" allows send only");
  }
  if (o.transport == QpType::kUc && returns_data(o.verb)) {
    throw UserError("/workload/transport", "UC carries no " + verb + ": \"uc\" allows write and send only");
  }
  if (o.inline_payload && returns_data(o.verb)) {
    throw UserError("/workload/inline",
                    "a " + verb + " has no payload to send: inline allows write and send only");
  }
  if (o.is_atomic() && o.payload_b != kAtomicBytes) {
    throw UserError("/workload/payload_b", verb + " works on a word: 8 is allowed");
  }
  if (o.words != PrimitiveOptions::Words::kDistinct && !o.is_atomic()) {
    throw UserError("/workload/words",
                    "words are for compare_swap and fetch_add; " + verb + " allows \"distinct\"");
  }
}

void check_ping_pong(const PrimitiveOptions& o, const ClusterShape& shape) {
  if (o.verb != Opcode::kRdmaWrite) {
    throw UserError("/workload/mode",
                    "ping_pong is for WRITEs, whose arrival the CPU can see: verb write is allowed");
  }
  if (o.payload_b < 8) {
    throw UserError("/workload/payload_b", "ping_pong looks for a message's last word: 8 or more is allowed");
  }
  if (o.outstanding != 1) {
    throw UserError("/workload/outstanding", "ping_pong has one message under way: 1 is allowed");
  }
  if (shape.nodes < 2) throw UserError("/cluster/nodes", "ping_pong takes pairs of machines: 2 or more");
}

}  // namespace

void PrimitiveOptions::check_device(const DeviceAttributes& device) const {
  if (inline_payload && payload_b > device.max_inline_data) {
    throw UserError("/workload/inline", std::to_string(payload_b) +
                                            " B do not fit in a request: the NIC allows up to " +
                                            std::to_string(device.max_inline_data) + " B inline");
  }
  if (transport == QpType::kUd && payload_b > device.mtu) {
    throw UserError("/workload/payload_b", "a datagram holds one packet: the NIC allows up to " +
                                               std::to_string(device.mtu) + " B over UD");
  }
}

PrimitiveOptions PrimitiveOptions::from_json(const json& workload, const ClusterShape& shape) {
  PrimitiveOptions o;
  const std::string verb = workload.at("verb");
  o.verb = value_of(kVerb, verb);
  o.transport = value_of(kTransport, workload.at("transport"));
  o.pattern = value_of(kPattern, workload.at("pattern"));
  o.payload_b = workload.at("payload_b");
  o.inline_payload = workload.at("inline");
  o.outstanding = workload.at("outstanding");
  o.doorbell_batch = workload.at("doorbell_batch");
  o.signal_interval = workload.at("signal_interval");
  o.mode = value_of(kMode, workload.at("mode"));
  o.words = value_of(kWords, workload.at("words"));
  o.target_b = workload.at("target_kib").get<std::uint64_t>() << 10;
  check_verb(o, verb);
  if (o.mode == Mode::kPingPong) check_ping_pong(o, shape);
  if (o.doorbell_batch > o.outstanding) {
    throw UserError("/workload/doorbell_batch", "a doorbell of " + std::to_string(o.doorbell_batch) +
                                                    " requests does not fit in a window of " +
                                                    std::to_string(o.outstanding) + ": 1 to " +
                                                    std::to_string(o.outstanding) + " is allowed");
  }
  o.issuing_threads = issuing_threads_of(workload, shape);
  return o;
}

RegistryEntry primitive_entry() {
  using namespace parameters;
  json p;
  p["verb"] = choice("read", kVerb, "what is posted");
  p["transport"] = choice("rc", kTransport, "rc: every verb; uc: write and send; ud: send");
  p["pattern"] =
      choice("symmetric", kPattern,
             "every machine to all others; the first machine to the others; the others to the first");
  p["payload_b"] = number(8, 1, 1 << 20, "bytes of each request; atomics: 8");
  p["inline"] = flag(false, "the payload is copied into the request (write, send)");
  p["outstanding"] = number(16, 1, 4096, "requests in flight per thread at most");
  p["doorbell_batch"] = number(1, 1, 512, "requests posted with one doorbell, on one queue pair");
  p["signal_interval"] = number(
      1, 1, 4096,
      "one in so many requests of a queue pair is signalled; more are, where the unsignalled ones would "
      "fill half of the window");
  p["mode"] =
      choice("pipelined", kMode,
             "pipelined keeps the window full; synchronous waits for all of it before the next; "
             "ping_pong (write): pairs of machines answer each other's WRITE when they see it, half a "
             "round trip is the latency");
  p["words"] = choice("distinct", kWords,
                      "atomics: every request in flight has a word of its own, all take one per machine, or "
                      "each a random one of target_kib");
  p["target_kib"] = number(1024, 1, 1 << 22, "memory of each machine that random addresses are drawn from");
  p["issuing_threads"] = number(0, 0, 256, "threads of each machine that post, the first ones; 0: all");
  return {"primitive",
          "raw verbs: each thread keeps a window of one kind of request in flight",
          {{"properties", p}},
          ""};
}

std::unique_ptr<Benchmark> make_primitive(const json& workload, const BenchmarkParameters& parameters) {
  return std::make_unique<Primitive>(workload, parameters);
}

}  // namespace verbtwin::protocols
