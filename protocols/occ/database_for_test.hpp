// A small database on the fake backend, for tests of transactions: partition p lives at node p, its backup at
// p + 1; a worker a node, stepped until nothing is on its way.
//
// One thread.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "protocols/fake_backend_for_test.hpp"
#include "protocols/occ/transaction.hpp"

namespace verbtwin::protocols {

inline constexpr int kNodes = 4;
inline constexpr int kCoroutines = 4;
inline constexpr std::uint32_t kSmall = 0, kLarge = 1;  // tables: 8 B and 100 B values
inline constexpr std::size_t kArenaB = 8192;

struct Words {
  std::uint64_t first;
};

class Initial final : public InitialValues, public Popularity {
 public:
  bool initial_value(RecordId record, std::span<std::byte> value) const override {
    std::ranges::fill(value, std::byte{7});
    store_word(value.data(), 1000 + record.key());
    return true;
  }
  const std::vector<RecordClass>& classes() const override { return classes_; }
  std::size_t class_of(RecordId) const override { return 0; }

 private:
  std::vector<RecordClass> classes_{{kSmall, kNodes * 128, 1}};
};

/// A worker a node and what its coroutines need.
struct Node {
  template <typename Data>  // InitialValues and Popularity
  Node(FakeCluster& cluster, int number, const StoreLayout& layout, const OccOptions& options,
       const Data& initial, std::size_t arena_b = kArenaB, std::size_t records_max = 64,
       std::size_t spare_b = 0)
      : store(layout, number, 1, cluster.memory(number), log_writes_of(options), KeepLogged::kAll),
        cache(options.location_cache_b, options.location_cache_start, initial, kNodes),
        occ{options, cycles, initial, initial, store, cache},
        worker(cluster.port(number),
               UdRpc::completions(cluster.port(number).shape(), kCoroutines, options.rpc) + 1024),
        memory(store.memory().subspan(layout.worker_offset(0), layout.worker_bytes())),
        rpc_b(UdRpc::memory_bytes(cluster.port(number).shape(), kCoroutines, options.rpc)),
        rpc(worker, kCoroutines, options.rpc, memory.first(rpc_b), store.lkey()),
        engine(occ, worker, rpc, &history) {
    for (int i = 0; i < kCoroutines; ++i) {
      const std::size_t at = rpc_b + static_cast<std::size_t>(i) * (arena_b + spare_b);
      transactions.push_back(std::make_unique<Transaction>(
          engine, i, memory.subspan(at, arena_b), records_max, memory.subspan(at + arena_b, spare_b)));
    }
  }

  PhaseCycles cycles;
  NodeStore store;
  LocationCache cache;
  OccNode occ;
  Worker worker;
  std::span<std::byte> memory;
  std::size_t rpc_b;
  UdRpc rpc;
  History history;
  OccEngine engine;
  std::vector<std::unique_ptr<Transaction>> transactions;
};

/// What most tests have no need to change.
struct DatabaseSpec {
  std::vector<TableSpec> tables = {{"small", 8, 64}, {"large", 100, 64}};
  ClusterShape shape{.nodes = kNodes};
  std::uint32_t log_ring_b = 2048;
  std::uint32_t reclaim_entries = LogSpec{}.reclaim_entries;
  std::size_t spare_b = 0;  // of a coroutine
};

/// Partition p lives at node p, its backup at p + 1.
class Database {
 public:
  explicit Database(const OccOptions& options, const DatabaseSpec& spec = {})
      : options_(options),
        layout_(spec.tables,
                {spec.log_ring_b, 512, log_answers(options),
                 options.reclaim == Reclaim::kEach ? 0 : spec.reclaim_entries},
                kNodes, spec.shape.threads, 2, worker_bytes(options, spec)),
        cluster_(spec.shape, layout_.total_bytes()) {
    for (int node = 0; node < kNodes; ++node) {
      nodes_.push_back(std::make_unique<Node>(cluster_, node, layout_, options_, initial_, kArenaB,
                                              /*records_max=*/64, spec.spare_b));
    }
  }

  Node& node(int number) { return *nodes_[static_cast<std::size_t>(number)]; }
  Transaction& transaction(int number, int coroutine = 0) {
    return *node(number).transactions[static_cast<std::size_t>(coroutine)];
  }
  std::byte* record(RecordId id, int rank = 0) {
    const int at = layout_.backup_node(static_cast<int>(id.partition()), rank);
    return node(at).store.memory().data() + layout_.record_offset(id.table(), rank, id.key());
  }

  FakeFabric& fabric() { return cluster_.fabric(); }
  std::uint64_t packets() { return cluster_.fabric().packets; }
  std::uint64_t wakes() { return cluster_.fabric().wakes; }
  FakeCpu& cpu(int number) { return static_cast<FakeCpu&>(node(number).worker.cpu()); }
  FakeQueuePair& queue_pair(int from, int to, int nic = 0) {
    return static_cast<FakeQueuePair&>(*node(from).worker.channel(to, nic).queue_pair);
  }

  void step(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      for (auto& node : nodes_) node->worker.step();
    }
  }

  /// Steps all workers until they have nothing to do and nothing is on its way.
  void run() {
    const auto idle = [](const auto& node) {
      return static_cast<FakeCompletionQueue&>(node->worker.cq()).size() == 0;
    };
    // What one worker's step WRITES, another may find a round later.
    for (int quiet_rounds = 0; quiet_rounds < 2;) {
      bool more = false;
      for (auto& node : nodes_) more = node->worker.step() || more;
      quiet_rounds = more || !std::ranges::all_of(nodes_, idle) ? 0 : quiet_rounds + 1;
    }
  }

 private:
  static std::uint32_t log_answers(const OccOptions& options) {
    return options.validation.lock == LockKind::kLogRecord ? kCoroutines : 0;
  }
  static std::size_t worker_bytes(const OccOptions& options, const DatabaseSpec& spec) {
    return UdRpc::memory_bytes(spec.shape, kCoroutines, options.rpc) + kCoroutines * (kArenaB + spec.spare_b);
  }

  OccOptions options_;
  Initial initial_;
  StoreLayout layout_;
  FakeCluster cluster_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

struct Attempt {
  std::vector<RecordId> reads, writes;
  std::uint64_t add = 1;
  // What came of it:
  bool committed = false;
  AbortReason reason = AbortReason::kNone;
  std::vector<std::uint64_t> seen;  // reads, then writes
};

inline RecordId small(std::uint32_t partition, std::uint64_t key) {
  return RecordId::make(kSmall, partition, key);
}
inline Attempt writing(std::vector<RecordId> records) {
  return {.reads = {}, .writes = std::move(records), .seen = {}};
}

/// One attempt; `interfere` runs between Execution and Validation.
inline Task<void> attempt(Transaction& tx, Attempt& a, std::function<void()> interfere = {}) {
  WaitGroup& buffers = tx.begin();
  co_await buffers;
  std::vector<int> items;
  for (const RecordId record : a.reads) items.push_back(tx.read(record));
  for (const RecordId record : a.writes) items.push_back(tx.update(record));
  auto executing = tx.execute();
  if (co_await executing) {
    for (const int item : items) a.seen.push_back(tx.value<Words>(item).first);
    for (std::size_t i = a.reads.size(); i < items.size(); ++i) tx.value<Words>(items[i]).first += a.add;
    if (interfere) interfere();
    auto committing = tx.commit(0);
    a.committed = co_await committing;
  }
  a.reason = tx.abort_reason();
}

}  // namespace verbtwin::protocols
