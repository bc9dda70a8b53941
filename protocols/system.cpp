#include "protocols/system.hpp"

#include <algorithm>
#include <bit>

#include "backend/user_error.hpp"
#include "protocols/checks/final_state.hpp"
#include "protocols/checks/logs.hpp"
#include "protocols/checks/serializability.hpp"

namespace verbtwin::protocols {

System::System(const SystemParameters& parameters, const nlohmann::json& workload)
    : parameters_(parameters),
      workload_(make_workload(workload, parameters.shape.nodes, parameters.shape.threads)),
      cycles_(workload_->cycles()) {
  refuse_wrong_combinations(parameters_.options);
  std::size_t image_max_b = 0;
  const std::vector<TableSpec> tables = workload_->tables();
  for (const TableSpec& table : tables) {
    image_max_b = std::max<std::size_t>(image_max_b, RecordLayout(table.value_b).image_b);
  }
  const LogSpec log = log_spec();
  const auto coroutines = static_cast<std::size_t>(parameters_.coroutines);
  // A packet holds the largest message: a record's image, or a log entry, with their headers.
  const OccOptions& options = parameters_.options;
  const bool entries_by_message = options.logging.primitive == Primitive::kRpc;
  const std::size_t message_b =
      std::max<std::size_t>(entries_by_message ? log.entry_max_b : 0, image_max_b) + 64;
  parameters_.options.rpc.packet_b = std::max(
      parameters_.options.rpc.packet_b, static_cast<std::uint32_t>((message_b + 63) & ~std::size_t{63}));
  // What a transaction writes may go to one peer by messages, all at a time.
  const std::size_t written_b = workload_->writes_max() * 32 + workload_->written_b_max();
  parameters_.options.rpc.packets_per_call =
      std::max(parameters_.options.rpc.packets_per_call,
               static_cast<std::uint32_t>(written_b / parameters_.options.rpc.packet_b + 1));
  // Images, look-up results and RPC replies of every record; an entry for each primary and backup of every
  // write, which hold each value once per replica.
  const auto replicas = static_cast<std::size_t>(parameters_.replicas);
  const std::size_t logs = workload_->writes_max() * replicas;
  const std::size_t log_b = options.validation.lock == LockKind::kLogRecord ? 96 : 48;  // heads, answers
  arena_b_ = workload_->records_max() * (2 * image_max_b + 256) +
             replicas * log_entry_bytes(workload_->writes_max(), workload_->written_b_max()) + logs * log_b;
  arena_b_ = (arena_b_ + 63) & ~std::size_t{63};
  rpc_b_ = UdRpc::memory_bytes(parameters_.shape, parameters_.coroutines, parameters_.options.rpc);
  rpc_b_ = (rpc_b_ + 63) & ~std::size_t{63};
  layout_ = std::make_unique<StoreLayout>(tables, log, parameters_.shape.nodes, parameters_.shape.threads,
                                          parameters_.replicas, rpc_b_ + coroutines * arena_b_);
}

System::~System() = default;

/// The longest entry that a transaction can need, or as much as a datagram holds where it then writes
/// several; in a ring that has room for one of each coroutine and for all of a transaction.
LogSpec System::log_spec() const {
  constexpr std::size_t kEntryMaxB = 3840;  // a datagram holds it
  LogSpec log;
  log.ring_b = parameters_.options.log_ring_b;
  const bool lock_records = parameters_.options.validation.lock == LockKind::kLogRecord;
  const std::size_t head_b = lock_records ? sizeof(LogHead) : 0;
  const auto lines = [](std::size_t bytes) { return (bytes + 63) & ~std::size_t{63}; };
  const std::size_t all_b =
      lines(log_entry_bytes(workload_->writes_max(), workload_->written_b_max()) + head_b);
  std::size_t value_max_b = 0;
  for (const TableSpec& table : workload_->tables())
    value_max_b = std::max<std::size_t>(value_max_b, (table.value_b + 7) & ~7U);
  const std::size_t record_b = log_entry_bytes(1, value_max_b) + head_b;
  if (record_b > kEntryMaxB) {
    throw UserError("/workload", "a record may take " + std::to_string(record_b) + " B of a log; at most " +
                                     std::to_string(kEntryMaxB) + " B fit a datagram");
  }
  const std::size_t entries = all_b <= kEntryMaxB ? 1 : all_b / (kEntryMaxB - record_b) + 1;
  log.entry_max_b = static_cast<std::uint32_t>(std::min(all_b, kEntryMaxB));
  const auto coroutines = static_cast<std::size_t>(parameters_.coroutines);
  if (lock_records) log.answers = std::bit_ceil(static_cast<std::uint32_t>(coroutines * entries));
  const std::size_t needed_b = (std::max(coroutines, entries == 1 ? 1 : entries + 1) + 2) * log.entry_max_b;
  if (log.ring_b < needed_b) {
    throw UserError("/protocol/log/ring_kib",
                    "a log of " + std::to_string(log.ring_b >> 10) + " KiB cannot hold an entry of " +
                        std::to_string(log.entry_max_b) + " B for each of " + std::to_string(coroutines) +
                        " coroutines and all of a transaction: at least " +
                        std::to_string((needed_b >> 10) + 1) + " KiB");
  }
  return log;
}

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
      transactions.push_back(std::make_unique<Transaction>(
          engine, coroutine, arenas.first(system.arena_bytes()), system.workload().records_max()));
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
    const auto one_sided =
        static_cast<std::uint32_t>(p.coroutines) * 64 +
        static_cast<std::uint32_t>(p.shape.nodes * p.shape.nics_per_node * p.shape.qps_per_peer) * 8;
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
    const Request request = workload.draw(random, {port_.node(), port_.thread()});
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
        tx.abandon();
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
    threads_[static_cast<std::size_t>(thread)]->engine.for_each_log(
        [&](std::size_t backup) { nodes[backup]->store().reclaim(node, thread, ~std::uint64_t{0}); });
  }
}
std::uint64_t NodeProgram::location_cache_hits() const {
  return shared_->cache.hits();
}
std::uint64_t NodeProgram::location_cache_misses() const {
  return shared_->cache.misses();
}

namespace {

FinalRecord final_record_at(const StoreLayout& layout, RecordId record, const std::byte* at) {
  const std::uint32_t value_b = layout.table(record.table()).spec.value_b;
  return {load_word(at), load_word(at + 8), {at + kRecordHeaderBytes, value_b}};
}

}  // namespace

FinalRecord final_record(NodeStore& holder, RecordId record, int rank, std::uint64_t slot) {
  return final_record_at(holder.layout(), record, holder.record_copy(record.table(), rank, slot));
}

namespace {

/// The records of a finished run, read as the checks want them.
class FinalData {
 public:
  /// `written` are those that read() is going to be asked for, in this order.
  FinalData(const System& system, const FindFinalRecords& find, std::span<const RecordId> written)
      : system_(system), find_(find), written_(written), next_(system.layout().tables()) {
    primaries_.reserve(written.size());
  }

  /// Fills in the value; false: the record does not exist.
  bool value(RecordId record, std::span<std::byte> value) {
    const FinalRecord last = primary(record);
    if (last.version == 0) return system_.workload().initial_value(record, value);
    std::ranges::copy(last.value.first(value.size()), value.begin());
    return (last.version & kDeletedBit) == 0;
  }

  std::uint64_t initial_digest(RecordId record) {
    value_.assign(value_b(record), {});
    const bool exists = system_.workload().initial_value(record, value_);
    return written_digest(exists ? 0 : kDeletedBit, value_);
  }

  /// As ReadCopies has it.
  void read(std::span<const RecordId> records, std::span<RecordCopy> copies) {
    const std::size_t each = copies.size() / records.size();
    found_.resize(copies.size());
    find_(records, found_);
    for (std::size_t i = 0; i < copies.size(); ++i) {
      const std::size_t primary = i - i % each;
      const FinalRecord& last = found_[i];
      // A backup that holds the primary's bytes has its digest.
      const bool same = i != primary && last.version == found_[primary].version &&
                        std::ranges::equal(last.value, found_[primary].value);
      const std::uint64_t digest = same ? copies[primary].digest : digest_of(records[i / each], last);
      copies[i] = {writes_of(last.version), digest, last.lock != 0};
      if (i == primary) primaries_.push_back(last);
    }
  }

 private:
  std::size_t value_b(RecordId record) const { return system_.layout().table(record.table()).spec.value_b; }

  std::uint64_t digest_of(RecordId record, const FinalRecord& last) {
    if (last.version == 0) return initial_digest(record);
    return written_digest(last.version, last.value.first(value_b(record)));
  }

  /// What was read before is not looked up again; who asks for a table's records mostly does so in order.
  FinalRecord primary(RecordId record) {
    std::size_t& next = next_[record.table()];
    if (next >= primaries_.size() || written_[next] != record) {
      const auto found = std::ranges::lower_bound(written_.first(primaries_.size()), record);
      next = static_cast<std::size_t>(found - written_.begin());
    }
    if (next < primaries_.size() && written_[next] == record) return primaries_[next++];
    FinalRecord last;
    find_(std::span(&record, 1), std::span(&last, 1));
    return last;
  }

  const System& system_;
  const FindFinalRecords& find_;
  std::span<const RecordId> written_;
  std::vector<FinalRecord> primaries_;  // of `written_`
  std::vector<std::size_t> next_;       // place in `written_`, by table
  std::vector<FinalRecord> found_;
  std::vector<std::byte> value_;
};

}  // namespace

std::vector<CheckReport> run_checks(const System& system, std::span<const History* const> histories,
                                    std::span<const std::span<const LoggedWrite>> logged,
                                    const FindFinalRecords& find) {
  const SystemParameters& p = system.parameters();
  const TruncateAfter truncate_after = p.options.truncate_after;
  // Transactions that end before they commit leave nothing to judge.
  if (truncate_after == TruncateAfter::kExecution || truncate_after == TruncateAfter::kValidation) return {};
  const bool backed_up = truncate_after == TruncateAfter::kNone;
  const GroupedAccesses accesses(histories);
  FinalData data(system, find, accesses.written());
  std::vector<CheckReport> reports;
  reports.push_back(
      check_serializable(accesses, [&](RecordId record) { return data.initial_digest(record); }));
  FinalStateReports final_state = check_final_state(
      accesses, backed_up ? p.replicas : 1,
      [&](std::span<const RecordId> records, std::span<RecordCopy> copies) { data.read(records, copies); });
  reports.push_back(std::move(final_state.final_state));
  if (backed_up) {
    CoordinatorOf coordinator_of;
    if (p.options.logging.placement == LogPlacement::kCoordinator) {
      coordinator_of = [&](std::size_t worker) {
        return static_cast<std::uint32_t>(worker / static_cast<std::size_t>(p.shape.threads));
      };
    }
    reports.push_back(check_logs(histories, logged, p.replicas, p.shape.nodes, coordinator_of));
    reports.push_back(std::move(final_state.backups));
  }
  reports.push_back(system.workload().check_invariant(
      accesses, [&](RecordId record, std::span<std::byte> value) { return data.value(record, value); }));
  return reports;
}

namespace {

/// The nodes' records where they lie. All places first and the records on their way, then their contents:
/// each is a miss of the caches.
class RecordsInPlace {
 public:
  RecordsInPlace(const StoreLayout& layout, const std::vector<std::unique_ptr<NodeProgram>>& nodes)
      : layout_(layout), nodes_(nodes) {}

  void operator()(std::span<const RecordId> records, std::span<FinalRecord> copies) {
    const std::size_t each = copies.size() / records.size();
    slots_.clear();
    places_.clear();
    for (const RecordId record : records) {
      slots_.push_back(nodes_[record.partition()]->store().find_slot(record.table(), record.key()));
    }
    for (std::size_t i = 0; i < copies.size(); ++i) {
      const RecordId record = records[i / each];
      const auto rank = static_cast<int>(i % each);
      const int holder = layout_.backup_node(static_cast<int>(record.partition()), rank);
      places_.push_back(nodes_[static_cast<std::size_t>(holder)]->store().record_copy(record.table(), rank,
                                                                                      slots_[i / each]));
      prefetch(places_.back());
    }
    for (std::size_t i = 0; i < copies.size(); ++i) {
      copies[i] = final_record_at(layout_, records[i / each], places_[i]);
    }
  }

 private:
  const StoreLayout& layout_;
  const std::vector<std::unique_ptr<NodeProgram>>& nodes_;
  std::vector<std::uint64_t> slots_;
  std::vector<const std::byte*> places_;
};

}  // namespace

std::vector<CheckReport> run_checks(const System& system,
                                    const std::vector<std::unique_ptr<NodeProgram>>& nodes) {
  std::vector<const History*> histories;
  std::vector<std::span<const LoggedWrite>> logged;
  // The logs that were written, not all there are: those grow with the square of the cluster, and a look into
  // an untouched one costs a page fault.
  for (const auto& node : nodes) node->drain_logs(nodes);
  for (const auto& node : nodes) {
    for (int thread = 0; thread < system.parameters().shape.threads; ++thread) {
      histories.push_back(&node->history(thread));
    }
    logged.push_back(node->store().logged());
  }
  return run_checks(system, histories, logged, RecordsInPlace(system.layout(), nodes));
}

}  // namespace verbtwin::protocols
