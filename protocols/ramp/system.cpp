#include "protocols/ramp/system.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "backend/user_error.hpp"
#include "protocols/arrivals.hpp"
#include "protocols/checks/last_versions.hpp"
#include "protocols/checks/read_atomic.hpp"
#include "protocols/checks/serializability.hpp"
#include "protocols/ramp/client.hpp"
#include "protocols/ramp/rpc_layers.hpp"
#include "protocols/ramp/server.hpp"
#include "protocols/retry.hpp"
#include "protocols/rpc/ud_rpc.hpp"
#include "protocols/whole_lines.hpp"

namespace verbtwin::protocols {

RampSystem::RampSystem(const RampParameters& parameters, const nlohmann::json& workload)
    : parameters_(parameters), workload_(make_key_groups(workload)) {
  lay_out();
}

void RampSystem::lay_out() {
  const RampOptions& options = parameters_.options;
  const ClusterShape& shape = parameters_.shape;
  const std::uint32_t group_max = workload_->group_max();
  RampLayout& l = layout_;
  l.servers = parameters_.servers == 0 ? shape.nodes : parameters_.servers;
  l.keys = workload_->keys();
  l.value_b = workload_->value_b();
  l.metadata_max_b = options.metadata_b(group_max);
  l.slots = (l.keys + static_cast<std::uint64_t>(l.servers) - 1) / static_cast<std::uint64_t>(l.servers);
  l.stride_b = static_cast<std::uint32_t>(whole_lines(l.image_b(l.metadata_max_b)));
  // First versions; current ones; those that transactions under way have prepared; overwritten ones.
  const auto clients = static_cast<std::uint64_t>(shape.nodes) * static_cast<std::uint64_t>(shape.threads) *
                       static_cast<std::uint64_t>(parameters_.coroutines);
  const std::uint64_t versions = l.slots + clients * group_max + options.versions_b / l.stride_b;
  constexpr std::uint64_t kVersionsMax = std::numeric_limits<std::uint32_t>::max() - 1;  // they are numbered
  const std::uint64_t needed = versions - options.versions_b / l.stride_b;
  if (needed > kVersionsMax) {
    throw UserError("/workload", "too large: " + std::to_string(needed) +
                                     " versions of its keys and of transactions under way on each server; "
                                     "allowed: up to " +
                                     std::to_string(kVersionsMax));
  }
  if (versions > kVersionsMax) {
    throw UserError("/protocol/versions_mib",
                    "room for " + std::to_string(versions) + " versions of " + std::to_string(l.stride_b) +
                        " B, of which a server keeps " + std::to_string(kVersionsMax) +
                        " at most: allowed here are " +
                        std::to_string((kVersionsMax - needed) * l.stride_b >> 20) + " MiB");
  }
  l.places = l.slots + versions;

  const std::uint32_t message_b = RampClient::message_max_b(l, group_max);
  const auto calls = static_cast<std::uint32_t>(parameters_.coroutines) * group_max;
  if (calls > CallSlots::kMost) {
    throw UserError("/cluster/coroutines", "out of range: " + std::to_string(parameters_.coroutines) +
                                               "; allowed: integer, 1 to " +
                                               std::to_string(CallSlots::kMost / group_max) + " where " +
                                               std::to_string(group_max) + " calls of each may be under way");
  }
  if (options.uses(RampOptions::Transport::kSendRecv)) {
    datagrams_.packet_b = static_cast<std::uint32_t>(
        std::max<std::size_t>(datagrams_.packet_b, whole_lines(UdRpc::packet_bytes(message_b))));
    // One message a SEND, as a WRITE is one: what RAMP puts together, it says (COMMIT, once a server).
    datagrams_.coalescing = Shared::kByNone;
    datagrams_.calls_max = group_max;
    datagrams_.passive_calls = false;
    datagrams_b_ = whole_lines(UdRpc::memory_bytes(shape, parameters_.coroutines, datagrams_));
  }
  if (options.uses_buffers()) {
    buffers_ = {message_b, calls};
    buffers_b_ = BufferRpc::memory_bytes(shape, buffers_);
  }
  if (options.in_place())
    landing_b_ = static_cast<std::size_t>(parameters_.coroutines) * RampClient::landing_bytes(l, group_max);
  l.worker_b = datagrams_b_ + buffers_b_ + landing_b_;
  l.total_b = l.worker_offset(shape.threads);
}

void RampSystem::check_device(const DeviceAttributes& device) const {
  if (datagrams_b_ > 0) check_datagrams(device);
  Worker::check_device(device, completions());
}

void RampSystem::check_datagrams(const DeviceAttributes& device) const {
  const std::uint32_t group_max = workload_->group_max();
  const std::size_t message_b = RampClient::message_max_b(layout_, group_max);
  const std::size_t allowed_b = UdRpc::message_max_b(device.mtu);
  if (message_b > allowed_b) {
    RampLayout no_values = layout_;
    no_values.value_b = 0;
    const std::string why = "messages of " + std::to_string(message_b) +
                            " B do not fit a datagram of this device, which has " +
                            std::to_string(allowed_b) + " B for one: allowed ";
    if (RampClient::message_max_b(no_values, group_max) > allowed_b)
      throw UserError("/protocol/transport", why + "are smaller groups of keys or \"rdma_write\"");
    throw UserError("/workload/value_b", why + "with \"send_recv\" are up to " +
                                             std::to_string(allowed_b - (message_b - layout_.value_b)) +
                                             " B");
  }
  UdRpc::check_device(parameters_.shape, parameters_.coroutines, datagrams_, device);
}

std::uint32_t RampSystem::completions() const {
  const ClusterShape& shape = parameters_.shape;
  const int coroutines = parameters_.coroutines;
  const auto one_sided =
      static_cast<std::uint32_t>(coroutines) * workload_->group_max() + Worker::unawaited_completions(shape) +
      Worker::completions_of_unawaited(buffers_.ring()) * static_cast<std::uint32_t>(shape.nodes);
  return (datagrams_b_ > 0 ? UdRpc::completions(shape, coroutines, datagrams_) : 0) + one_sided + 64;
}

struct RampNode::Shared {
  Shared(const RampSystem& s, int n, NodeMemory& m)
      : system(s), memory(m), server(s.layout(), s.parameters().options, n, s.parameters().shape.threads, m) {
    const RampOptions& options = s.parameters().options;
    if (options.in_place() && s.is_client(n)) addresses.emplace(s.layout(), options.addresses_known);
  }

  const RampSystem& system;
  NodeMemory& memory;
  RampServerNode server;
  std::optional<AddressCache> addresses;
};

struct RampNode::Thread {
  Thread(const RampSystem& s, Shared& shared, WorkerPort& p)
      : system(s),
        port(p),
        worker(p, s.completions()),
        local(p.node()),
        server(shared.server, worker),
        random(s.parameters().seed, number(0)),
        backoff(~s.parameters().seed, number(0)),
        arrivals(s.parameters().offered_per_s /
                     ((s.parameters().shape.nodes - s.parameters().servers) * s.parameters().shape.threads),
                 s.parameters().seed, number(0)) {
    statistics.user_aborts.resize(s.workload().transaction_names().size());  // a server's too
    make_transports(shared);
    if (s.is_client(p.node())) make_clients(shared);
  }

  /// Of this worker's client `coroutine`, in the whole cluster.
  std::uint64_t number(int coroutine) const {
    const RampParameters& p = system.parameters();
    const std::int64_t workers = static_cast<std::int64_t>(port.node()) * p.shape.threads + port.thread();
    return static_cast<std::uint64_t>(workers * p.coroutines + coroutine);
  }

  void make_transports(Shared& shared);
  void make_clients(Shared& shared);
  Task<void> run(RampClient& client, const Window& window, const std::atomic<bool>& stop);
  void count(const RampClient& client, std::uint32_t type, const Start& start, const Window& window);
  void tell(const RampClient& client, std::uint32_t type, std::int64_t start_ps, std::int64_t attempt_ps,
            bool committed) const;

  const RampSystem& system;
  WorkerPort& port;
  Worker worker;
  LocalRpc local;
  std::optional<UdRpc> datagrams;
  std::optional<BufferRpc> buffers;
  std::optional<TcpRpc> sockets;
  Rpc* gets = nullptr;  // to other nodes
  Rpc* puts = nullptr;
  RampServer server;
  RpcLayers layers;
  RampStatistics statistics;
  std::optional<RampEngine> engine;
  std::vector<std::unique_ptr<RampClient>> clients;
  std::span<std::byte> landing;
  pcg32 random;   // the workload's
  pcg32 backoff;  // a stream of its own, so that retries do not shift the workload
  Arrivals arrivals;
};

void RampNode::Thread::make_transports(Shared& shared) {
  const RampParameters& p = system.parameters();
  const RampOptions& options = p.options;
  std::span<std::byte> memory =
      shared.memory.local().subspan(system.layout().worker_offset(port.thread()), system.layout().worker_b);
  const bool serves = system.is_server(port.node());
  if (system.datagrams_b_ > 0) {
    datagrams.emplace(worker, p.coroutines, system.datagrams_, memory.first(system.datagrams_b_),
                      shared.memory.lkey());
    if (serves) server.serve(*datagrams);
    layers.datagrams = &*datagrams;
  }
  if (system.buffers_b_ > 0) {
    std::vector<int> speakers;
    for (int node = 0; node < p.shape.nodes; ++node) {
      const bool asks = serves && system.is_client(node);
      const bool answers = system.is_client(port.node()) && system.is_server(node);
      if (node != port.node() && (asks || answers)) speakers.push_back(node);
    }
    buffers.emplace(worker, system.buffers_, std::move(speakers),
                    memory.subspan(system.datagrams_b_, system.buffers_b_));
    if (options.sabotage.accept_torn) buffers->accept_torn();
    if (serves) server.serve(*buffers);
    layers.buffers = &*buffers;
  }
  if (options.uses_sockets()) {
    sockets.emplace(worker);
    if (serves) server.serve(*sockets);
    layers.sockets = &*sockets;
  }
  landing = memory.subspan(system.datagrams_b_ + system.buffers_b_);
  if (serves) server.serve(local);
  layers.local = &local;
  if (serves && options.deadlock == RampOptions::Deadlock::kWaitDie) layers.grants = &server;
  layers.attach(worker);
  Rpc* by_transport = nullptr;
  if (datagrams) by_transport = &*datagrams;
  if (sockets) by_transport = &*sockets;
  if (by_transport == nullptr) by_transport = &*buffers;
  gets = options.get == RampOptions::Get::kRpc ? by_transport : &*buffers;
  puts = options.put == RampOptions::Put::kRpc ? by_transport : &*buffers;
}

void RampNode::Thread::make_clients(Shared& shared) {
  const RampParameters& p = system.parameters();
  engine.emplace(RampEngine{system.layout(), p.options, worker, *gets, *puts, local,
                            shared.addresses ? &*shared.addresses : nullptr, shared.memory.lkey(), p.check});
  const std::size_t each_b = landing.size() / static_cast<std::size_t>(p.coroutines);
  for (int coroutine = 0; coroutine < p.coroutines; ++coroutine) {
    clients.push_back(
        std::make_unique<RampClient>(*engine, number(coroutine), system.workload().group_max(),
                                     landing.subspan(static_cast<std::size_t>(coroutine) * each_b, each_b)));
  }
}

/// A client's life: draw a group, run it until it commits, draw the next.
Task<void> RampNode::Thread::run(RampClient& client, const Window& window, const std::atomic<bool>& stop) {
  Cpu& cpu = port.cpu();
  KeyGroup group;
  std::uint64_t resumed = 0;  // when the transaction before began
  while (cpu.now_ps() < window.end_ps && !stop.load(std::memory_order_relaxed)) {
    std::optional<std::int64_t> asked_ps;
    if (arrivals.open()) {
      auto arrival = arrivals.next(worker, cpu, window, stop);
      asked_ps = co_await arrival;
      if (!asked_ps) break;
    }
    cpu.charge(Cost::kTransactionBegin);
    const Start start{asked_ps.value_or(cpu.now_ps()), cpu.now_ps()};
    auto turn = worker.yield_unless_waited(resumed);  // for the core it waits as any request does
    co_await turn;
    resumed = worker.resumed();
    system.workload().draw(random, group);
    for (Retries retries;;) {
      const std::int64_t attempt_ps = cpu.now_ps();
      auto attempt = client.run(group, start.asked_ps);
      const bool committed = co_await attempt;
      cpu.charge(Cost::kTransactionEnd);
      if (system.parameters().observer != nullptr)
        tell(client, group.type, start.asked_ps, attempt_ps, committed);
      if (committed) break;
      if (window.contains(cpu.now_ps())) ++statistics.aborts[static_cast<std::size_t>(client.abort_reason())];
      if (client.abort_reason() == RampAbort::kVerbFailed) co_return;  // the queue pair is gone
      const std::int64_t end_ps = stop.load(std::memory_order_relaxed) ? 0 : window.end_ps;
      const std::int64_t next_ps = retries.next_ps(attempt_ps, cpu.now_ps(), end_ps, backoff);
      do {
        auto sleep = worker.sleep_until(std::min(next_ps, cpu.now_ps() + kLookAtStopPs));
        co_await sleep;
      } while (cpu.now_ps() < next_ps && !stop.load(std::memory_order_relaxed));
    }
    count(client, group.type, start, window);
  }
  if (arrivals.open()) statistics.offered = arrivals.count(window);
}

void RampNode::Thread::count(const RampClient& client, std::uint32_t type, const Start& start,
                             const Window& window) {
  const std::int64_t now_ps = port.cpu().now_ps();
  ++statistics.committed_ever;
  if (!window.contains(now_ps)) return;
  if (client.read_rounds() > 0) ++statistics.reads_by_rounds[client.read_rounds()];
  statistics.in_place += client.in_place();
  statistics.in_place_accepted += client.in_place_accepted();
  TransactionSample& sample = statistics.committed.emplace_back();
  sample.type = type;
  sample.latency_ps = now_ps - start.asked_ps;
  if (arrivals.open()) statistics.waited_ps.push_back(start.waited_ps());
  for (std::size_t phase = 0; phase < kRampPhases; ++phase)
    sample.phase_ps[phase] = client.phase_ps(static_cast<RampPhase>(phase));
}

void RampNode::Thread::tell(const RampClient& client, std::uint32_t type, std::int64_t start_ps,
                            std::int64_t attempt_ps, bool committed) const {
  std::array<EndedPhase, kRampPhases> phases;
  for (std::size_t i = 0; i < kRampPhases; ++i)
    phases[i] = {kRampPhaseNames[i], client.phase_ps(static_cast<RampPhase>(i))};
  EndedAttempt ended;
  ended.node = port.node();
  ended.thread = port.thread();
  const auto own = std::ranges::find(clients, &client, &std::unique_ptr<RampClient>::get);
  ended.coroutine = static_cast<int>(own - clients.begin());
  ended.transaction = system.workload().transaction_names()[type];
  ended.transaction_ps = start_ps;
  ended.begin_ps = attempt_ps;
  ended.end_ps = port.cpu().now_ps();
  ended.phases = phases;
  if (!committed) ended.outcome = kRampAbortNames[static_cast<std::size_t>(client.abort_reason())];
  system.parameters().observer->ended(ended);
}

RampNode::RampNode(const RampSystem& system, int node, NodeMemory& memory,
                   const std::vector<WorkerPort*>& ports)
    : shared_(std::make_unique<Shared>(system, node, memory)) {
  for (WorkerPort* port : ports) {
    system.check_device(port->device().attributes());
    threads_.push_back(std::make_unique<Thread>(system, *shared_, *port));
  }
}

RampNode::~RampNode() = default;

void RampNode::start(const Window& window, const std::atomic<bool>& stop) {
  for (auto& thread : threads_) {
    for (auto& client : thread->clients) thread->worker.spawn(thread->run(*client, window, stop));
  }
}

Steppable& RampNode::worker(int thread) {
  return threads_[static_cast<std::size_t>(thread)]->worker;
}
std::size_t RampNode::unfinished_of(int thread) const {
  return threads_[static_cast<std::size_t>(thread)]->worker.unfinished();
}
std::uint64_t RampNode::finished_ever_of(int thread) const {
  return statistics(thread).committed_ever;
}
const RampStatistics& RampNode::statistics(int thread) const {
  return threads_[static_cast<std::size_t>(thread)]->statistics;
}
std::vector<const RampHistory*> RampNode::histories(int thread) const {
  std::vector<const RampHistory*> all;
  for (const auto& client : threads_[static_cast<std::size_t>(thread)]->clients)
    all.push_back(&client->history());
  return all;
}
std::uint64_t RampNode::versions_collected_early() const {
  return shared_->server.versions.collected_early();
}

std::vector<LastVersion> RampNode::last_versions() const {
  return shared_->server.versions.last_versions();
}

std::vector<std::uint64_t> RampNode::locked_keys() const {
  return shared_->server.locks.claimed_keys();
}

std::vector<CheckReport> run_checks(const RampSystem& system, RampHistories histories,
                                    std::vector<LastVersion> last_versions,
                                    std::span<const std::uint64_t> locked_keys) {
  std::vector<std::byte> value(system.layout().value_b);
  const auto initial_digest = [&](std::uint64_t key) {
    fill_value(key, 0, value);
    return value_digest(value);
  };
  std::vector<CheckReport> reports = {check_read_atomic(histories, initial_digest),
                                      check_last_versions(histories, std::move(last_versions), locked_keys)};
  if (system.parameters().options.algorithm == RampAlgorithm::kS2pl) {
    // Its timestamps are the order in which versions replaced each other.
    const std::vector<History> numbered = number_versions(histories);
    std::vector<const History*> each;
    for (const History& history : numbered) each.push_back(&history);
    const RampParameters& p = system.parameters();
    const auto of_node = static_cast<std::size_t>(p.shape.threads) * static_cast<std::size_t>(p.coroutines);
    reports.push_back(check_serializable(
        Histories(each), [&](RecordId record) { return initial_digest(record.packed); },
        p.one_clock ? each.size() : of_node));
  }
  return reports;
}

}  // namespace verbtwin::protocols
