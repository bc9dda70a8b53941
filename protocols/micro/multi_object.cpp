#include "protocols/micro/multi_object.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "backend/user_error.hpp"
#include "protocols/micro/coroutine_thread.hpp"
#include "protocols/parameters.hpp"
#include "protocols/rpc/ud_rpc.hpp"
#include "protocols/store/record.hpp"
#include "protocols/whole_lines.hpp"

namespace verbtwin::protocols {

namespace {

using nlohmann::json;
using parameters::value_of;
using parameters::Word;

constexpr auto kWrites = std::to_array<Word<bool>>({{"read", false}, {"write", true}});
constexpr auto kTwoSided = std::to_array<Word<bool>>({{"one_sided", false}, {"two_sided", true}});

enum Handler : std::uint8_t { kRead, kWrite };

struct Options {
  bool write = false;
  bool two_sided = false;
  std::uint32_t payload_b = 64;
  std::uint32_t objects = 10;
  bool outstanding = false;
  bool doorbell_batching = false;
  bool passive_ack = false;
  bool own_machine = false;
  std::uint32_t records = 0;  // per machine
};

/// Where the parts lie in a node's registered memory: each thread's RPC and buffers, then the records.
struct Layout {
  std::size_t stride_b = 0;  // of records and buffers: whole cache lines
  std::size_t rpc_b = 0;
  std::size_t thread_b = 0;
  std::size_t records_offset = 0;
  std::size_t total_b = 0;
};

class MultiObject;

class MultiObjectThread final : public CoroutineThread {
 public:
  MultiObjectThread(const MultiObject& plan, WorkerPort& port);

 private:
  Task<void> run(int coroutine) override;

  struct Access {
    int node = 0;
    int queue_pair = 0;  // of those to the node; one-sided
    std::uint64_t record = 0;
  };
  Access draw();
  /// Starts some accesses of a group. `last`: no other follows.
  void begin(std::span<const Access> accesses, std::byte* buffer, Reply* replies, WaitGroup& group,
             bool last);
  void stage_one_sided(std::byte* buffer, const Access& access, WaitGroup* group);
  void call(std::byte* buffer, int node, std::uint64_t record, Reply& reply, WaitGroup* group);
  void serve(const RpcCall& call, bool write);
  std::byte* record_at(std::uint64_t record) {
    return port_.memory().local().data() + layout_.records_offset + record * layout_.stride_b;
  }

  const Options& options_;
  const Layout& layout_;
  std::byte* memory_;
  std::optional<UdRpc> rpc_;  // two-sided
  std::uint32_t inline_max_b_;
};

class MultiObject final : public Benchmark {
 public:
  MultiObject(const json& workload, const BenchmarkParameters& parameters);

  std::size_t node_memory_bytes() const override { return layout_.total_b; }
  void check_device(const DeviceAttributes& device) const override;
  std::unique_ptr<BenchmarkThread> make_thread(WorkerPort& port) const override {
    return std::make_unique<MultiObjectThread>(*this, port);
  }
  int machines() const override { return parameters_.shape.nodes; }

  /// A write's call says which record it is for, before its value.
  std::uint32_t message_head_b() const { return options_.write ? sizeof(std::uint64_t) : 0; }
  /// Signalled one-sided requests, those awaited and one in every interval of the passive ones, and RPC's.
  std::uint32_t completions() const {
    const auto one_sided = static_cast<std::uint32_t>(parameters_.coroutines) * options_.objects * 2;
    const std::uint32_t calls =
        options_.two_sided ? UdRpc::completions(parameters_.shape, parameters_.coroutines, rpc_) : 0;
    return one_sided + calls + 256;
  }

  Options options_;
  RpcOptions rpc_;
  Layout layout_;
  BenchmarkParameters parameters_;
};

MultiObject::MultiObject(const json& workload, const BenchmarkParameters& parameters)
    : parameters_(parameters) {
  options_.write = value_of(kWrites, workload.at("access"));
  options_.two_sided = value_of(kTwoSided, workload.at("primitive"));
  options_.payload_b = workload.at("payload_b");
  options_.objects = workload.at("objects");
  options_.outstanding = workload.at("outstanding");
  options_.doorbell_batching = workload.at("doorbell_batching");
  options_.passive_ack = workload.at("passive_ack");
  options_.own_machine = workload.at("own_machine");
  options_.records = workload.at("records_per_machine");
  if (options_.passive_ack && !options_.write) {
    throw UserError("/workload/passive_ack",
                    "a read waits for its data: passive_ack allows access write only");
  }
  // All of a group may go to one peer. In steps: RECVs are reckoned with it.
  rpc_.calls_max = (options_.objects + 15) / 16 * 16;
  // Each message is a packet of its own: what is compared is verbs, not packing.
  rpc_.coalescing = Shared::kByNone;
  rpc_.request_batching = options_.doorbell_batching ? Shared::kByCoroutine : Shared::kByNone;
  rpc_.reply_inline_max_b = workload.at("reply_inline_max_b");
  rpc_.packet_b =
      std::max(rpc_.packet_b, std::bit_ceil(UdRpc::packet_bytes(options_.payload_b + message_head_b())));
  const auto threads = static_cast<std::size_t>(parameters.shape.threads);
  const auto coroutines = static_cast<std::size_t>(parameters.coroutines);
  layout_.stride_b = whole_lines(options_.payload_b);
  if (options_.two_sided)
    layout_.rpc_b = whole_lines(UdRpc::memory_bytes(parameters.shape, parameters.coroutines, rpc_));
  layout_.thread_b = layout_.rpc_b + coroutines * options_.objects * layout_.stride_b;
  layout_.records_offset = threads * layout_.thread_b;
  layout_.total_b = layout_.records_offset + options_.records * layout_.stride_b;
}

void MultiObject::check_device(const DeviceAttributes& device) const {
  if (options_.two_sided) {
    const std::uint32_t most_b = UdRpc::message_max_b(device.mtu) - message_head_b();
    if (options_.payload_b > most_b) {
      throw UserError("/workload/payload_b", "a message is one datagram, and this device's hold " +
                                                 std::to_string(device.mtu) + " B: two_sided allows up to " +
                                                 std::to_string(most_b) + " B");
    }
    UdRpc::check_device(parameters_.shape, parameters_.coroutines, rpc_, device);
  }
  Worker::check_device(device, completions());
}

MultiObjectThread::MultiObjectThread(const MultiObject& plan, WorkerPort& port)
    : CoroutineThread(port, plan.completions(), plan.parameters_,
                      plan.parameters_.offered_per_s / (port.shape().nodes * port.shape().threads)),
      options_(plan.options_),
      layout_(plan.layout_),
      memory_(port.memory().local().data() + static_cast<std::size_t>(port.thread()) * layout_.thread_b),
      inline_max_b_(port.device().attributes().max_inline_data) {
  if (!options_.two_sided) return;
  rpc_.emplace(worker_, plan.parameters_.coroutines, plan.rpc_, std::span(memory_, layout_.rpc_b),
               port.memory().lkey());
  rpc_->set_handler(
      kRead,
      [](void* self, const RpcCall& call) { static_cast<MultiObjectThread*>(self)->serve(call, false); },
      this);
  rpc_->set_handler(
      kWrite,
      [](void* self, const RpcCall& call) { static_cast<MultiObjectThread*>(self)->serve(call, true); },
      this);
}

Task<void> MultiObjectThread::run(int coroutine) {
  const std::size_t group_b = options_.objects * layout_.stride_b;
  std::byte* buffers = memory_ + layout_.rpc_b + static_cast<std::size_t>(coroutine) * group_b;
  std::vector<Reply> replies(options_.objects);
  std::vector<Access> accesses(options_.objects);
  const std::uint32_t together = options_.outstanding ? options_.objects : 1;
  std::uint64_t resumed = 0;  // when the group before began
  for (;;) {
    auto next = next_start();
    const std::optional<Start> start = co_await next;
    if (!start) co_return;
    auto turn = worker_.yield_unless_waited(resumed);
    co_await turn;
    resumed = worker_.resumed();
    WaitGroup group(worker_);
    for (std::uint32_t i = 0; i < options_.objects; i += together) {
      for (std::uint32_t j = 0; j < together; ++j) accesses[j] = draw();
      begin(std::span(accesses).first(together), buffers + i * layout_.stride_b, &replies[i], group,
            i + together == options_.objects);
      worker_.ring(options_.outstanding && options_.doorbell_batching);
      co_await group;
    }
    count(*start, group.status());
    if (group.status() != WcStatus::kSuccess) co_return;  // the queue pair is gone
  }
}

MultiObjectThread::Access MultiObjectThread::draw() {
  Access access;
  const auto nodes = static_cast<std::uint32_t>(port_.shape().nodes);
  access.node = options_.own_machine ? static_cast<int>(random_(nodes)) : pick_node();
  access.record = random_(options_.records);
  const int qps = port_.shape().qps_per_peer;
  if (!options_.two_sided && qps > 1) {
    access.queue_pair = static_cast<int>(random_(static_cast<std::uint32_t>(qps)));
  }
  return access;
}

void MultiObjectThread::begin(std::span<const Access> accesses, std::byte* buffer, Reply* replies,
                              WaitGroup& group, bool last) {
  for (std::size_t i = 0; i < accesses.size(); ++i, buffer += layout_.stride_b) {
    const Access& access = accesses[i];
    // Passive accesses need no answer of their own; the last one's paces the coroutine.
    const bool passive = options_.passive_ack && !(last && i + 1 == accesses.size());
    if (options_.two_sided) {
      const bool unanswered = passive && rpc_->has_credit(access.node);
      call(buffer, access.node, access.record, replies[i], unanswered ? nullptr : &group);
      continue;
    }
    // Requests of one queue pair complete in order: of those in flight together only the last asks for it.
    const bool covered = std::ranges::any_of(accesses.subspan(i + 1), [&](const Access& later) {
      return later.node == access.node && later.queue_pair == access.queue_pair;
    });
    stage_one_sided(buffer, access, passive || covered ? nullptr : &group);
  }
}

void MultiObjectThread::stage_one_sided(std::byte* buffer, const Access& access, WaitGroup* group) {
  Channel& channel = worker_.channel(access.node, worker_.nic(), access.queue_pair);
  SendWr wr;
  wr.opcode = options_.write ? Opcode::kRdmaWrite : Opcode::kRdmaRead;
  wr.sge = {buffer, options_.payload_b, port_.memory().lkey()};
  if (options_.write && options_.payload_b <= inline_max_b_) wr.flags = kInline;
  wr.remote_addr = channel.remote.addr + layout_.records_offset + access.record * layout_.stride_b;
  wr.rkey = channel.remote.rkey;
  worker_.stage(channel, wr, group);
}

void MultiObjectThread::call(std::byte* buffer, int node, std::uint64_t record, Reply& reply,
                             WaitGroup* group) {
  const Handler handler = options_.write ? kWrite : kRead;
  const std::size_t bytes = sizeof record + (options_.write ? options_.payload_b : 0);
  std::span<std::byte> arguments;
  if (group == nullptr) {
    arguments = rpc_->call_passive(node, handler, bytes);
  } else {
    reply = Reply(*group, {buffer, layout_.stride_b});
    arguments = rpc_->call(node, handler, bytes, reply);
  }
  store_word(arguments.data(), record);
  if (options_.write) std::memcpy(arguments.data() + sizeof record, buffer, options_.payload_b);
}

/// Records are read and written by several threads at once and hold nothing that must agree: each word is
/// whole, no more. Random ones are in no cache: a read waits for its lines together, a write goes on.
void MultiObjectThread::serve(const RpcCall& call, bool write) {
  const std::uint64_t lines = layout_.stride_b / kCacheLineBytes;
  cpu_.charge(Cost::kCopyBlock, lines);
  std::byte* record = record_at(load_word(call.arguments().data()));
  std::uint32_t at = 0;
  if (write) {
    cpu_.store_cold(lines);
    const std::byte* value = call.arguments().data() + sizeof(std::uint64_t);
    for (; at + 8 <= options_.payload_b; at += 8) {
      atomic_word(record + at).store(load_word(value + at), std::memory_order_relaxed);
    }
    if (!call.passive()) rpc_->reply(call.origin(), 0);
    return;
  }
  cpu_.charge(Cost::kMemoryMiss);
  const std::span<std::byte> reply = rpc_->reply(call.origin(), options_.payload_b);
  for (; at + 8 <= options_.payload_b; at += 8) {
    store_word(reply.data() + at, atomic_word(record + at).load(std::memory_order_relaxed));
  }
}

}  // namespace

RegistryEntry multi_object_entry() {
  using namespace parameters;
  json p;
  p["access"] = choice("read", kWrites, "what each of a group's accesses does");
  p["primitive"] = choice("one_sided", kTwoSided, "READ and WRITE, or RPC over UD");
  p["payload_b"] = number(64, 8, 65536, "bytes of a record; two_sided: up to 4088, or 4080 of a write");
  p["payload_b"]["multipleOf"] = 8;
  p["objects"] =
      number(10, 1, 256, "accesses of one group, each to a random record of a random other machine");
  p["outstanding"] =
      flag(true, "the accesses of a group are in flight together instead of one after another");
  p["doorbell_batching"] =
      flag(true,
           "what leaves by one queue pair together shares a doorbell: accesses of a group, and calls of all "
           "coroutines; replies do so anyway");
  p["passive_ack"] =
      flag(false,
           "writes: only the last of a group is waited for, the others are acknowledged by what comes later");
  p["own_machine"] = flag(
      false, "records are drawn from all machines, the own one included, which is reached like the others");
  p["reply_inline_max_b"] =
      inline_limit("two_sided: longer replies are fetched by DMA even where the NIC would take them inline");
  p["records_per_machine"] = number(65536, 1, 1 << 30, "records that the random ones are drawn from");
  return {
      "multi-object",
      "groups of reads or writes of random records: what coroutines, outstanding requests, doorbell batching "
      "and passive acknowledgement bring",
      {{"properties", p}},
      ""};
}

std::unique_ptr<Benchmark> make_multi_object(const json& workload, const BenchmarkParameters& parameters) {
  return std::make_unique<MultiObject>(workload, parameters);
}

}  // namespace verbtwin::protocols
