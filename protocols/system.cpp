#include "protocols/system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "backend/user_error.hpp"
#include "protocols/arrivals.hpp"
#include "protocols/occ/messages.hpp"
#include "protocols/retry.hpp"
#include "protocols/whole_lines.hpp"

namespace verbtwin::protocols {

namespace {

TransactionMaxima maxima_of(const Workload& workload, std::span<const TableSpec> tables,
                            const SystemParameters& parameters) {
  TransactionMaxima most;
  most.records = workload.records_max();
  most.writes = workload.writes_max();
  most.written_b = workload.written_b_max();
  for (const TableSpec& table : tables) {
    most.value_b = std::max<std::size_t>(most.value_b, table.value_b);
    const RecordLayout record(table.value_b);
    most.image_b = std::max<std::size_t>(most.image_b, record.image_b);
    const std::size_t neighbours_b = std::size_t{StoreLayout::kNeighbours} * record.stride_b;
    most.neighbourhood_b = std::max(most.neighbourhood_b, neighbours_b);
  }
  most.replicas = static_cast<std::size_t>(parameters.replicas);
  std::size_t partitions = workload.partitions_written_max();
  if (parameters.options.logging.placement == LogPlacement::kBackupsAndOwn) ++partitions;
  most.backups = std::min(partitions * (most.replicas - 1), static_cast<std::size_t>(parameters.shape.nodes));
  return most;
}

}  // namespace

System::System(const SystemParameters& parameters, const nlohmann::json& workload)
    : parameters_(parameters),
      workload_(make_workload(workload, parameters.shape.nodes, parameters.shape.threads)),
      cycles_(workload_->cycles()) {
  refuse_wrong_combinations(parameters_.options);
  const std::vector<TableSpec> tables = workload_->tables();
  TransactionMaxima most = maxima_of(*workload_, tables, parameters_);
  const LogSpec log = log_spec(most);
  most.log_entries = entries_max_;
  plan_messages(tables, most, log);
  const OccOptions& options = parameters_.options;
  awaited_max_ =
      static_cast<std::uint32_t>(std::max({std::size_t{64}, most.records, most.backups * entries_max_}));
  arena_b_ = Transaction::arena_bytes(most, options);
  // Values that a device may not take inline are read from there after the transaction has ended.
  const bool passive = options.commit.passive_ack && options.commit.primitive == Primitive::kOneSided;
  spare_arena_b_ = passive && most.image_b > kCacheLineBytes ? arena_b_ : 0;
  const auto coroutines = static_cast<std::size_t>(parameters_.coroutines);
  rpc_b_ =
      whole_lines(UdRpc::memory_bytes(parameters_.shape, parameters_.coroutines, parameters_.options.rpc));
  layout_ =
      std::make_unique<StoreLayout>(tables, log, parameters_.shape.nodes, parameters_.shape.threads,
                                    parameters_.replicas, rpc_b_ + coroutines * (arena_b_ + spare_arena_b_));
}

/// What goes by message decides how long packets are, and how many of them may be on their way at one time.
void System::plan_messages(std::span<const TableSpec> tables, const TransactionMaxima& most,
                           const LogSpec& log) {
  const OccOptions& options = parameters_.options;
  const bool fetches =
      options.execution.primitive != Primitive::kOneSided || std::ranges::any_of(tables, &TableSpec::by_rpc);
  const bool logs = options.logging.primitive == Primitive::kRpc;
  const bool installs = options.commit.primitive == Primitive::kRpc;
  const bool updates = options.logging.placement == LogPlacement::kCoordinator;
  const bool tells = options.reclaim == Reclaim::kEach;

  // A packet holds the largest message that there could be, whichever of them the options send: a record's
  // image, or a log entry, with their headers. So how much shares a packet is no matter of how a phase is
  // done.
  const std::size_t message_b = std::max<std::size_t>(log.entry_max_b, most.image_b) + 64;
  RpcOptions& rpc = parameters_.options.rpc;
  packet_min_b_ = rpc.packet_b;
  rpc.packet_b = std::max(rpc.packet_b, static_cast<std::uint32_t>(whole_lines(message_b)));
  if (logs) entry_packet_b_ = UdRpc::packet_bytes(sizeof(LogRequest) + log.entry_max_b);
  if (tells) entry_packet_b_ = UdRpc::packet_bytes(sizeof(ReclaimRequest) + log.entry_max_b);
  if (fetches) record_packet_b_ = UdRpc::packet_bytes(sizeof(FetchReply) + most.image_b);
  if (installs || updates)
    record_packet_b_ = std::max(record_packet_b_, UdRpc::packet_bytes(sizeof(CommitRequest) + most.value_b));
  packet_min_b_ = std::max({packet_min_b_, entry_packet_b_, record_packet_b_});

  // A transaction's requests of one phase may all go to one peer, at one time; an answer each comes back.
  std::size_t calls = std::max<std::size_t>(most.writes, 1);
  std::uint32_t packets = 1;
  const auto phase = [&](std::size_t to_one, std::size_t to_all, std::size_t longest_b, std::size_t all_b) {
    calls = std::max(calls, to_all);
    packets = std::max(packets, UdRpc::packets_for(packet_min_b_, to_one, longest_b, all_b));
  };
  const auto phase_of = [&](std::size_t messages, std::size_t bytes) {
    phase(messages, messages, bytes, messages * bytes);
  };
  if (fetches) phase_of(most.records, sizeof(LockingFetchRequest));
  if (options.validation.lock == LockKind::kRpc) phase_of(most.writes, sizeof(LockRequest));
  if (options.validation.check == Primitive::kRpc || options.validation.check_rpc_above > 0)
    phase_of(most.records, sizeof(CheckRequest));
  const auto log_phase = [&](std::size_t head_b) {
    const std::size_t entry_b = head_b + log.entry_max_b;
    phase(entries_max_, entries_max_ * most.backups, entry_b, entries_max_ * entry_b);
  };
  if (logs) log_phase(sizeof(LogRequest));
  if (tells) log_phase(sizeof(ReclaimRequest));
  const std::size_t written_b = most.writes * sizeof(CommitRequest) + most.written_b;
  const std::size_t longest_b = sizeof(CommitRequest) + most.value_b;
  if (updates) phase(most.writes, most.writes * (most.replicas - 1), longest_b, written_b);
  if (installs) phase(most.writes, most.writes, longest_b, written_b);
  rpc.packets_per_call = packets;
  rpc.calls_max = static_cast<std::uint32_t>(calls);
  rpc.passive_calls = installs || tells;
}

void System::check_device(const DeviceAttributes& device) const {
  const auto refuse = [&](const char* pointer, const char* what, std::uint32_t bytes, const char* instead) {
    throw UserError(pointer, std::string(what) + " takes a datagram of " + std::to_string(bytes) +
                                 " B, and this device's hold " + std::to_string(device.mtu) +
                                 " B: allowed are " + instead + " or a NIC with a larger MTU");
  };
  if (entry_packet_b_ > device.mtu) {
    const bool tells = parameters_.options.reclaim == Reclaim::kEach;
    refuse(tells ? "/protocol/log/reclaim" : "/protocol/phases/logging/primitive", "a log entry sent by RPC",
           entry_packet_b_, tells ? "\"few\"" : "\"one_sided\"");
  }
  if (record_packet_b_ > device.mtu) {
    refuse("/workload", "a record sent by RPC", record_packet_b_,
           "smaller records, phases that are one_sided,");
  }
  if (packet_min_b_ > device.mtu)
    refuse("/cluster/nic", "a packet of messages", packet_min_b_, "no smaller ones");
  constexpr std::uint32_t kLockBytes = 8;
  if (parameters_.options.commit.primitive != Primitive::kRpc && device.max_inline_data < kLockBytes) {
    throw UserError("/protocol/phases/commit/primitive",
                    "a lock is freed by a WRITE of " + std::to_string(kLockBytes) +
                        " B inline, and this device's carry " + std::to_string(device.max_inline_data) +
                        " B: allowed are \"rpc\" or a NIC that carries more");
  }
  UdRpc::check_device(parameters_.shape, parameters_.coroutines, parameters_.options.rpc, device);
  Worker::check_device(device, completions());
}

std::uint32_t System::completions() const {
  const ClusterShape& shape = parameters_.shape;
  // Signalled one-sided requests: those awaited, and one in every interval of the passive ones.
  const auto one_sided = static_cast<std::uint32_t>(parameters_.coroutines) * awaited_max_ +
                         Worker::unawaited_completions(shape);
  return UdRpc::completions(shape, parameters_.coroutines, parameters_.options.rpc) + one_sided;
}

System::~System() = default;

KeepLogged System::keep_logged() const {
  return parameters_.check ? KeepLogged::kAll : KeepLogged::kNothing;
}

/// The longest entry that a transaction can need, or as much as a datagram holds where it then writes
/// several; in a ring that has room for one of each coroutine and for all of a transaction, and where the
/// scenario leaves its size open and that is much, for twice as many.
LogSpec System::log_spec(const TransactionMaxima& most) {
  constexpr std::size_t kEntryMaxB = 3840;  // a datagram holds it
  constexpr std::size_t kRingB = 16 << 10;  // where that is enough
  LogSpec log;
  log.ring_b = parameters_.options.log_ring_b;
  log.reclaim_entries =
      parameters_.options.reclaim == Reclaim::kEach ? 0 : parameters_.options.reclaim_entries;
  const bool lock_records = parameters_.options.validation.lock == LockKind::kLogRecord;
  const std::size_t head_b = lock_records ? sizeof(LogHead) : 0;
  const std::size_t all_b = whole_lines(log_entry_bytes(most.writes, most.written_b) + head_b);
  const std::size_t record_b = log_entry_bytes(1, whole_words(most.value_b)) + head_b;
  if (record_b >= kEntryMaxB) {
    throw UserError("/workload", "a record may take " + std::to_string(record_b) + " B of a log; less than " +
                                     std::to_string(kEntryMaxB) + " B fit a datagram");
  }
  const std::size_t entries = entries_max_ = all_b <= kEntryMaxB ? 1 : all_b / (kEntryMaxB - record_b) + 1;
  log.entry_max_b = static_cast<std::uint32_t>(std::min(all_b, kEntryMaxB));
  const auto coroutines = static_cast<std::size_t>(parameters_.coroutines);
  if (lock_records) log.answers = std::bit_ceil(static_cast<std::uint32_t>(coroutines * entries));
  std::size_t needed_b = (std::max(coroutines, entries == 1 ? 1 : entries + 1) + 2) * log.entry_max_b;
  if (lock_records) {
    // A primary that is a backup too gets all that is written, what it is to lock besides, and what closes
    // that; and the end of a lap may stay empty.
    const std::size_t writes_b = all_b + entries * log_entry_bytes(1, 0);
    needed_b = std::max(needed_b, 2 * writes_b + entries * log_entry_bytes(1, 0) + log.entry_max_b);
  }
  if (log.ring_b == 0)
    log.ring_b = static_cast<std::uint32_t>(needed_b <= kRingB ? kRingB : std::bit_ceil(2 * needed_b));
  if (log.ring_b < needed_b) {
    throw UserError("/protocol/log/ring_kib",
                    "a log of " + std::to_string(log.ring_b >> 10) + " KiB cannot hold an entry of " +
                        std::to_string(log.entry_max_b) + " B for each of " + std::to_string(coroutines) +
                        " coroutines and all of a transaction: at least " +
                        std::to_string((needed_b >> 10) + 1) + " KiB");
  }
  // Four of the longest entries in a segment leave at least three quarters of it in use. Segments of more
  // than a fraction of a page save none.
  constexpr std::uint32_t kSegmentMaxB = 1024;
  const std::uint32_t segment_b = std::max(512U, std::bit_ceil(4 * log.entry_max_b));
  if (!lock_records && segment_b <= kSegmentMaxB && log.ring_b >= needed_b + needed_b / 3)
    log.segment_b = segment_b;
  return log;
}

struct NodeProgram::Shared {
  Shared(const System& s, int node, NodeMemory& memory)
      : system(s),
        store(s.layout(), node, s.parameters().shape.threads, memory, log_writes_of(s.parameters().options),
              s.keep_logged()),
        cache(s.parameters().options.location_cache_b, s.parameters().options.location_cache_start,
              s.workload(), s.parameters().shape.nodes),
        occ{s.parameters().options, s.cycles(), s.workload(), s.workload(), store, cache} {}

  const System& system;
  NodeStore store;
  LocationCache cache;
  OccNode occ;
};

struct NodeProgram::Thread {
  Thread(const System& system, Shared& shared, WorkerPort& port)
      : system_(system),
        port_(port),
        worker(port, system.completions()),
        rpc(worker, system.parameters().coroutines, system.parameters().options.rpc,
            memory(shared).first(system.rpc_bytes()), shared.store.lkey()),
        engine(shared.occ, worker, rpc, system.parameters().check ? &history : nullptr),
        random(system.parameters().seed,
               static_cast<std::uint64_t>(port.node()) * static_cast<std::uint64_t>(port.shape().threads) +
                   static_cast<std::uint64_t>(port.thread())),
        backoff(~system.parameters().seed,
                static_cast<std::uint64_t>(port.node()) << 16 | static_cast<std::uint64_t>(port.thread())),
        arrivals(system.parameters().offered_per_s / (port.shape().nodes * port.shape().threads),
                 system.parameters().seed,
                 static_cast<std::uint64_t>(port.node()) << 16 | static_cast<std::uint64_t>(port.thread())) {
    statistics.user_aborts.resize(system.workload().transaction_names().size());
    std::span<std::byte> arenas = memory(shared).subspan(system.rpc_bytes());
    const auto take = [&arenas](std::size_t bytes) {
      const std::span<std::byte> taken = arenas.first(bytes);
      arenas = arenas.subspan(bytes);
      return taken;
    };
    for (int coroutine = 0; coroutine < system.parameters().coroutines; ++coroutine) {
      const std::span<std::byte> arena = take(system.arena_bytes()), spare = take(system.spare_arena_bytes());
      transactions.push_back(
          std::make_unique<Transaction>(engine, coroutine, arena, system.workload().records_max(), spare));
    }
  }

  std::span<std::byte> memory(Shared& shared) const {
    const StoreLayout& layout = system_.layout();
    return shared.store.memory().subspan(layout.worker_offset(port_.thread()), layout.worker_bytes());
  }

  Task<void> run_transactions(Transaction& tx, const Window& window, const std::atomic<bool>& stop);
  void count(const Transaction& tx, std::uint32_t type, const Start& start, const Window& window);
  void tell(const Transaction& tx, std::uint32_t type, std::int64_t start_ps, Outcome outcome) const;

  const System& system_;
  WorkerPort& port_;
  Worker worker;
  UdRpc rpc;
  History history;
  OccEngine engine;
  WorkerStatistics statistics;
  pcg32 random;   // the workload's
  pcg32 backoff;  // a stream of its own, so that retries do not shift the workload
  Arrivals arrivals;
  std::vector<std::unique_ptr<Transaction>> transactions;
};

/// A coroutine's life: draw a request, run it until it commits, draw the next.
Task<void> NodeProgram::Thread::run_transactions(Transaction& tx, const Window& window,
                                                 const std::atomic<bool>& stop) {
  Cpu& cpu = port_.cpu();
  const Workload& workload = system_.workload();
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
    const Request request = workload.draw(random, {port_.node(), port_.thread()});
    for (Retries retries;;) {
      WaitGroup& buffers = tx.begin();
      co_await buffers;
      auto attempt = workload.run(tx, request);
      const Outcome outcome = co_await attempt;
      cpu.charge(Cost::kTransactionEnd);
      if (system_.parameters().observer != nullptr) tell(tx, request.type, start.asked_ps, outcome);
      const bool inside = window.contains(cpu.now_ps());
      if (inside) {
        statistics.locations_cached += tx.locations_cached();
        statistics.locations_missed += tx.locations_missed();
      }
      if (outcome == Outcome::kCommitted) {
        count(tx, request.type, start, window);
        break;
      }
      if (outcome == Outcome::kUserAborted) {
        tx.abandon();
        if (inside) ++statistics.user_aborts[request.type];
        break;
      }
      if (inside) ++statistics.aborts[static_cast<std::size_t>(tx.abort_reason())];
      if (tx.abort_reason() == AbortReason::kVerbFailed) co_return;  // the queue pair is gone
      // Not before the others: whoever holds the lock may be a coroutine of this very worker.
      const std::int64_t end_ps = stop.load(std::memory_order_relaxed) ? 0 : window.end_ps;
      const std::int64_t next_ps = retries.next_ps(tx.begin_ps(), cpu.now_ps(), end_ps, backoff);
      do {
        auto sleep = worker.sleep_until(std::min(next_ps, cpu.now_ps() + kLookAtStopPs));
        co_await sleep;
      } while (cpu.now_ps() < next_ps && !stop.load(std::memory_order_relaxed));
    }
  }
  if (arrivals.open()) statistics.offered = arrivals.count(window);
}

void NodeProgram::Thread::count(const Transaction& tx, std::uint32_t type, const Start& start,
                                const Window& window) {
  const std::int64_t now_ps = port_.cpu().now_ps();
  ++statistics.committed_ever;
  if (!window.contains(now_ps)) return;
  TransactionSample& sample = statistics.committed.emplace_back();
  sample.type = type;
  sample.latency_ps = now_ps - start.asked_ps;
  if (arrivals.open()) statistics.waited_ps.push_back(start.waited_ps());
  for (std::size_t phase = 0; phase < kPhases; ++phase)
    sample.phase_ps[phase] = tx.phase_ps(static_cast<Phase>(phase));
}

void NodeProgram::Thread::tell(const Transaction& tx, std::uint32_t type, std::int64_t start_ps,
                               Outcome outcome) const {
  std::array<EndedPhase, kPhases> phases;
  for (std::size_t i = 0; i < kPhases; ++i) {
    const auto phase = static_cast<Phase>(i);
    phases[i] = {to_string(phase), tx.phase_ps(phase)};
  }
  EndedAttempt ended;
  ended.node = port_.node();
  ended.thread = port_.thread();
  const auto own = std::ranges::find(transactions, &tx, &std::unique_ptr<Transaction>::get);
  ended.coroutine = static_cast<int>(own - transactions.begin());
  ended.transaction = system_.workload().transaction_names()[type];
  ended.transaction_ps = start_ps;
  ended.begin_ps = tx.begin_ps();
  ended.end_ps = port_.cpu().now_ps();
  ended.phases = phases;
  if (outcome == Outcome::kUserAborted) ended.outcome = EndedAttempt::kUserAbort;
  if (outcome == Outcome::kAborted) {
    ended.failed_in = to_string(tx.phase());
    ended.outcome = to_string(tx.abort_reason());
  }
  system_.parameters().observer->ended(ended);
}

NodeProgram::NodeProgram(const System& system, int node, NodeMemory& memory,
                         const std::vector<WorkerPort*>& ports)
    : shared_(std::make_unique<Shared>(system, node, memory)) {
  for (WorkerPort* port : ports) {
    system.check_device(port->device().attributes());
    threads_.push_back(std::make_unique<Thread>(system, *shared_, *port));
  }
}

NodeProgram::~NodeProgram() = default;

void NodeProgram::start(const Window& window, const std::atomic<bool>& stop) {
  for (auto& thread : threads_) {
    for (auto& transaction : thread->transactions) {
      thread->worker.spawn(thread->run_transactions(*transaction, window, stop));
    }
  }
}

Steppable& NodeProgram::worker(int thread) {
  return threads_[static_cast<std::size_t>(thread)]->worker;
}

std::size_t NodeProgram::unfinished_of(int thread) const {
  return threads_[static_cast<std::size_t>(thread)]->worker.unfinished();
}

std::uint64_t NodeProgram::finished_ever_of(int thread) const {
  return threads_[static_cast<std::size_t>(thread)]->statistics.committed_ever;
}

/// The first few; and how many answers each node owes.
std::string NodeProgram::describe_unfinished() const {
  constexpr std::size_t kShown = 4;
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    const Thread& thread = *threads_[i];
    for (std::size_t coroutine = 0; coroutine < thread.transactions.size(); ++coroutine) {
      if (thread.worker.is_finished(coroutine) || parts.size() == kShown) continue;
      parts.push_back(fmt::format("thread {} coroutine {}: {}", i, coroutine,
                                  thread.transactions[coroutine]->describe()));
    }
  }
  for (int node = 0; node < shared_->system.parameters().shape.nodes; ++node) {
    std::size_t unanswered = 0;
    for (const auto& thread : threads_) unanswered += thread->rpc.unanswered(node);
    if (unanswered > 0) parts.push_back(fmt::format("{} unanswered by node {}", unanswered, node));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

Phase NodeProgram::phase(int thread, int coroutine) const {
  const Thread& of = *threads_[static_cast<std::size_t>(thread)];
  return of.transactions[static_cast<std::size_t>(coroutine)]->phase();
}
const WorkerStatistics& NodeProgram::statistics(int thread) const {
  return threads_[static_cast<std::size_t>(thread)]->statistics;
}
const History& NodeProgram::history(int thread) const {
  return threads_[static_cast<std::size_t>(thread)]->history;
}
NodeStore& NodeProgram::store() {
  return shared_->store;
}
void NodeProgram::drain_logs(const std::vector<std::unique_ptr<NodeProgram>>& nodes) const {
  const int node = shared_->store.node();
  for (int thread = 0; thread < threads(); ++thread) {
    threads_[static_cast<std::size_t>(thread)]->engine.for_each_log([&](std::size_t backup, std::uint64_t) {
      nodes[backup]->store().reclaim(node, thread, ~std::uint64_t{0});
    });
  }
}

void NodeProgram::append_installed(std::vector<RecordId>& records) const {
  for (const auto& thread : threads_) {
    for (const auto& transaction : thread->transactions) transaction->append_installed(records);
    const std::size_t ended = thread->history.size();
    for (std::size_t i = ended - std::min(ended, thread->transactions.size()); i < ended; ++i) {
      for (const Access& write : thread->history[i].writes) records.push_back(write.record);
    }
  }
}

void NodeProgram::append_waiting(const std::vector<std::unique_ptr<NodeProgram>>& nodes,
                                 std::vector<LoggedWrite>& waiting) const {
  for (int thread = 0; thread < threads(); ++thread) {
    threads_[static_cast<std::size_t>(thread)]->engine.for_each_log(
        [&](std::size_t backup, std::uint64_t tail) {
          const auto add = [&](const LogRecord& logged) {
            waiting.push_back({{RecordId{logged.record}, writes_of(logged.version), 0},
                               static_cast<std::uint32_t>(backup)});
          };
          nodes[backup]->store().for_each_waiting(shared_->store.node(), thread, tail, add);
        });
  }
}

}  // namespace verbtwin::protocols
