#include "protocols/system.hpp"

#include <algorithm>

#include "backend/user_error.hpp"
#include "protocols/checks/final_state.hpp"
#include "protocols/checks/logs.hpp"
#include "protocols/checks/serializability.hpp"

namespace verbtwin::protocols {

namespace {

std::size_t padded_value(const TableSpec& table) {
  return (table.value_b + 7U) & ~std::size_t{7};
}

}  // namespace

System::System(const SystemParameters& parameters, const nlohmann::json& workload)
    : parameters_(parameters),
      workload_(make_workload(workload, parameters.shape.nodes, parameters.shape.threads)),
      cycles_(workload_->cycles()) {
  std::size_t image_max_b = 0, value_max_b = 0;
  const std::vector<TableSpec> tables = workload_->tables();
  for (const TableSpec& table : tables) {
    image_max_b = std::max<std::size_t>(image_max_b, RecordLayout(table.value_b).image_b);
    value_max_b = std::max(value_max_b, padded_value(table));
  }
  LogSpec log;
  log.ring_b = parameters_.options.log_ring_b;
  log.entry_max_b = static_cast<std::uint32_t>(
      (log_entry_bytes(workload_->writes_max(), workload_->writes_max() * value_max_b) + 63) &
      ~std::size_t{63});
  const auto coroutines = static_cast<std::size_t>(parameters_.coroutines);
  if (log.ring_b < (coroutines + 2) * log.entry_max_b) {
    throw UserError("/protocol/log/ring_kib",
                    "a log of " + std::to_string(log.ring_b >> 10) + " KiB cannot hold an entry of " +
                        std::to_string(log.entry_max_b) + " B for each of " + std::to_string(coroutines) +
                        " coroutines: at least " +
                        std::to_string(((coroutines + 2) * log.entry_max_b >> 10) + 1) + " KiB");
  }
  // A packet holds the largest message: a log entry, or a record's image, with their headers.
  while (parameters_.options.rpc.packet_b < std::max<std::size_t>(log.entry_max_b, image_max_b) + 64) {
    parameters_.options.rpc.packet_b *= 2;
  }
  // Images, look-up results and RPC replies of every record, an entry per backup of every write.
  const std::size_t logs = workload_->writes_max() * static_cast<std::size_t>(parameters_.replicas);
  arena_b_ = workload_->records_max() * (2 * image_max_b + 256) + logs * (log.entry_max_b + 16);
  arena_b_ = (arena_b_ + 63) & ~std::size_t{63};
  rpc_b_ = UdRpc::memory_bytes(parameters_.shape, parameters_.coroutines, parameters_.options.rpc);
  rpc_b_ = (rpc_b_ + 63) & ~std::size_t{63};
  layout_ = std::make_unique<StoreLayout>(tables, log, parameters_.shape.nodes, parameters_.shape.threads,
                                          parameters_.replicas, rpc_b_ + coroutines * arena_b_);
}

System::~System() = default;

struct NodeProgram::Shared {
  Shared(const System& s, int node, NodeMemory& memory)
      : system(s),
        store(s.layout(), node, s.parameters().shape.threads, memory, s.parameters().check),
        cache(s.parameters().options.location_cache_b, s.parameters().options.location_cache_start,
              s.workload()),
        occ{s.parameters().options, s.cycles(), s.workload(), store, cache} {}

  const System& system;
  NodeStore store;
  LocationCache cache;
  OccNode occ;
};

struct NodeProgram::Thread {
  Thread(const System& system, Shared& shared, WorkerPort& port)
      : system_(system),
        port_(port),
        worker(port, completions(system)),
        rpc(worker, system.parameters().coroutines, system.parameters().options.rpc,
            memory(shared).first(system.rpc_bytes()), shared.store.lkey()),
        engine(shared.occ, worker, rpc, system.parameters().check ? &history : nullptr),
        random(system.parameters().seed,
               static_cast<std::uint64_t>(port.node()) * static_cast<std::uint64_t>(port.shape().threads) +
                   static_cast<std::uint64_t>(port.thread())),
        backoff(~system.parameters().seed,
                static_cast<std::uint64_t>(port.node()) << 16 | static_cast<std::uint64_t>(port.thread())) {
    statistics.user_aborts.resize(system.workload().transaction_names().size());
    std::span<std::byte> arenas = memory(shared).subspan(system.rpc_bytes());
    for (int coroutine = 0; coroutine < system.parameters().coroutines; ++coroutine) {
      transactions.push_back(
          std::make_unique<Transaction>(engine, coroutine, arenas.first(system.arena_bytes())));
      arenas = arenas.subspan(system.arena_bytes());
    }
  }

  std::span<std::byte> memory(Shared& shared) const {
    const StoreLayout& layout = system_.layout();
    return shared.store.memory().subspan(layout.worker_offset(port_.thread()), layout.worker_bytes());
  }

  static std::uint32_t completions(const System& system) {
    const SystemParameters& p = system.parameters();
    // Signalled one-sided requests: those awaited, and one in every interval of the passive ones.
    const auto one_sided = static_cast<std::uint32_t>(p.coroutines) * 64 +
                           static_cast<std::uint32_t>(p.shape.nodes * p.shape.nics_per_node) * 8;
    return UdRpc::completions(p.shape, p.coroutines, p.options.rpc) + one_sided;
  }

  Task<void> run_transactions(Transaction& tx, const Window& window, const std::atomic<bool>& stop);
  void count(const Transaction& tx, std::uint32_t type, std::int64_t start_ps, const Window& window);

  const System& system_;
  WorkerPort& port_;
  Worker worker;
  UdRpc rpc;
  History history;
  OccEngine engine;
  WorkerStatistics statistics;
  pcg32 random;   // the workload's
  pcg32 backoff;  // a stream of its own, so that retries do not shift the workload
  std::vector<std::unique_ptr<Transaction>> transactions;
};

/// A coroutine's life: draw a request, run it until it commits, draw the next.
Task<void> NodeProgram::Thread::run_transactions(Transaction& tx, const Window& window,
                                                 const std::atomic<bool>& stop) {
  Cpu& cpu = port_.cpu();
  const Workload& workload = system_.workload();
  while (cpu.now_ps() < window.end_ps && !stop.load(std::memory_order_relaxed)) {
    cpu.charge(Cost::kTransactionBegin);
    const std::int64_t start_ps = cpu.now_ps();
    const Request request = workload.draw(random);
    int attempts = 0;
    for (;;) {
      WaitGroup& buffers = tx.begin();
      co_await buffers;
      auto attempt = workload.run(tx, request);
      const Outcome outcome = co_await attempt;
      cpu.charge(Cost::kTransactionEnd);
      if (outcome == Outcome::kCommitted) {
        count(tx, request.type, start_ps, window);
        break;
      }
      const bool inside = window.contains(cpu.now_ps());
      if (outcome == Outcome::kUserAborted) {
        if (inside) ++statistics.user_aborts[request.type];
        break;
      }
      if (inside) ++statistics.aborts[static_cast<std::size_t>(tx.abort_reason())];
      if (tx.abort_reason() == AbortReason::kVerbFailed) co_return;  // the queue pair is gone
      // At once, but not before the others: whoever holds the lock may be a coroutine of this very worker. If
      // that is not enough, two may keep aborting each other in step, for ever: chance breaks the rhythm.
      const std::uint32_t yields = 1 + (attempts == 0 ? 0 : backoff(2U << std::min(attempts, 8)));
      ++attempts;
      for (std::uint32_t i = 0; i < yields; ++i) {
        auto yield = worker.yield();
        co_await yield;
      }
    }
  }
}

void NodeProgram::Thread::count(const Transaction& tx, std::uint32_t type, std::int64_t start_ps,
                                const Window& window) {
  const std::int64_t now_ps = port_.cpu().now_ps();
  ++statistics.committed_ever;
  if (!window.contains(now_ps)) return;
  TransactionSample& sample = statistics.committed.emplace_back();
  sample.type = type;
  sample.latency_ps = now_ps - start_ps;
  for (std::size_t phase = 0; phase < kPhases; ++phase)
    sample.phase_ps[phase] = tx.phase_ps(static_cast<Phase>(phase));
}

NodeProgram::NodeProgram(const System& system, int node, NodeMemory& memory,
                         const std::vector<WorkerPort*>& ports)
    : shared_(std::make_unique<Shared>(system, node, memory)) {
  for (WorkerPort* port : ports) threads_.push_back(std::make_unique<Thread>(system, *shared_, *port));
}

NodeProgram::~NodeProgram() = default;

void NodeProgram::start(const Window& window, const std::atomic<bool>& stop) {
  for (auto& thread : threads_) {
    thread->rpc.connect();
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
const WorkerStatistics& NodeProgram::statistics(int thread) const {
  return threads_[static_cast<std::size_t>(thread)]->statistics;
}
const History& NodeProgram::history(int thread) const {
  return threads_[static_cast<std::size_t>(thread)]->history;
}
NodeStore& NodeProgram::store() {
  return shared_->store;
}
std::uint64_t NodeProgram::location_cache_hits() const {
  return shared_->cache.hits();
}
std::uint64_t NodeProgram::location_cache_misses() const {
  return shared_->cache.misses();
}

FinalRecord final_record(NodeStore& store, RecordId record) {
  const std::byte* at = store.primary_record(record.table(), store.find_slot(record.table(), record.key()));
  const std::uint32_t value_b = store.layout().table(record.table()).spec.value_b;
  return {load_word(at), load_word(at + 8), {at + kRecordHeaderBytes, value_b}};
}

std::vector<CheckReport> run_checks(const System& system, std::span<const History* const> histories,
                                    std::span<const LoggedWrite> logged,
                                    const std::function<FinalRecord(RecordId)>& find) {
  const SystemParameters& p = system.parameters();
  const auto value_of = [&](RecordId record, std::span<std::byte> value) {
    const FinalRecord last = find(record);
    if (last.version == 0) {
      system.workload().initial_value(record, value);
    } else {
      std::ranges::copy(last.value.first(value.size()), value.begin());
    }
  };
  const auto digest_of = [&](RecordId record, auto&& fill) {
    std::vector<std::byte> value(system.layout().table(record.table()).spec.value_b);
    fill(record, std::span<std::byte>(value));
    return value_digest(value);
  };
  const auto initial_digest = [&](RecordId record) {
    return digest_of(
        record, [&](RecordId id, std::span<std::byte> value) { system.workload().initial_value(id, value); });
  };
  const auto read_primary = [&](RecordId record) {
    const FinalRecord last = find(record);
    return PrimaryRecord{last.version, digest_of(record, value_of), last.lock != 0};
  };
  return {check_serializable(histories, initial_digest), check_final_state(histories, read_primary),
          check_logs(histories, logged, p.replicas, p.shape.nodes),
          system.workload().check_invariant(histories, value_of)};
}

std::vector<CheckReport> run_checks(const System& system,
                                    const std::vector<std::unique_ptr<NodeProgram>>& nodes) {
  std::vector<const History*> histories;
  std::vector<LoggedWrite> logged;
  for (const auto& node : nodes) {
    for (int thread = 0; thread < system.parameters().shape.threads; ++thread) {
      histories.push_back(&node->history(thread));
    }
    node->store().drain_logs();
    logged.insert(logged.end(), node->store().logged().begin(), node->store().logged().end());
  }
  return run_checks(system, histories, logged, [&](RecordId record) {
    return final_record(nodes[record.partition()]->store(), record);
  });
}

}  // namespace verbtwin::protocols
