// WorkloadRun: a workload's transactions one at a time on the fake backend: what each does to its rows, whom
// it reads, how it ends. Nothing is replicated, and a node's rows are locked by its CPU.
//
// One thread. Owns all but the workload's own data.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "protocols/occ/database_for_test.hpp"
#include "protocols/workloads/workload.hpp"

namespace verbtwin::protocols {

class WorkloadRun {
 public:
  /// `data`: InitialValues and Popularity of `tables`; no transaction declares more than `records_max`.
  template <typename Data>
  WorkloadRun(const Data& data, std::vector<TableSpec> tables, std::size_t records_max, int nodes = 1)
      : options_(options()),
        layout_(std::move(tables), {16384, 2048}, nodes, 1, 1, worker_bytes(nodes, records_max)),
        cluster_(ClusterShape{.nodes = nodes}, layout_.total_bytes()) {
    for (int node = 0; node < nodes; ++node) {
      nodes_.push_back(std::make_unique<Node>(cluster_, node, layout_, options_, data,
                                              arena_bytes(records_max), records_max));
    }
  }
  explicit WorkloadRun(const Workload& workload, int nodes = 1)
      : WorkloadRun(workload, workload.tables(), workload.records_max(), nodes) {}

  /// Runs `transaction(tx)`, a Task<Outcome>, at node 0, and gives up what it does not want.
  template <typename MakeTask>
  Outcome run(const MakeTask& transaction) {
    Transaction& tx = *nodes_.front()->transactions.front();
    Outcome outcome = Outcome::kAborted;
    trips_ = 0;
    worker().spawn(run_one(tx, transaction, outcome));
    constexpr int kTripsMax = 100, kSteps = 1000;  // as many as do whatever there is to do at a time
    while (worker().unfinished() > 0 && trips_ < kTripsMax) {
      ++trips_;
      for (auto& node : nodes_) {
        for (int i = 0; i < kSteps; ++i) node->worker.step();
      }
    }
    return outcome;
  }
  Outcome run(const Workload& workload, const Request& request) {
    return run([&](Transaction& tx) { return workload.run(tx, request); });
  }
  /// Of the last run: how often it waited for other nodes.
  int waits() const { return trips_ - 1; }

  /// What committed, in order.
  const History& history() const { return nodes_.front()->history; }
  FakeCpu& cpu() { return static_cast<FakeCpu&>(worker().cpu()); }

  bool exists(RecordId id) {
    std::vector<std::byte> value(layout_.table(id.table()).spec.value_b);
    return read(id, value);
  }
  template <typename Row>
  Row row(RecordId id) {
    Row row{};
    read(id, std::as_writable_bytes(std::span(&row, 1)));
    return row;
  }
  /// As a transaction would have left it.
  template <typename Row>
  void set(RecordId id, const Row& row) {
    std::byte* at = record(id);
    const std::uint64_t writes = writes_of(load_word(at + 8));
    install(layout_.table(id.table()).record, at, writes + 1, std::as_bytes(std::span(&row, 1)));
  }

 private:
  template <typename MakeTask>
  static Task<void> run_one(Transaction& tx, const MakeTask& make, Outcome& outcome) {
    WaitGroup& buffers = tx.begin();
    co_await buffers;
    auto task = make(tx);
    outcome = co_await task;
    if (outcome == Outcome::kUserAborted) tx.abandon();
  }

  static OccOptions options() {
    OccOptions o;
    o.execution = {Primitive::kRpc, true, true};
    o.validation = {LockKind::kRpc, Primitive::kRpc, true, true};
    o.logging = {Primitive::kRpc, true, true};
    o.commit = {Primitive::kRpc, true, true, /*passive_ack=*/false};
    o.rpc.packet_b = 4096;
    o.rpc.calls_max = 256;
    return o;
  }
  static std::size_t arena_bytes(std::size_t records_max) { return records_max * 2048; }
  static std::size_t worker_bytes(int nodes, std::size_t records_max) {
    return UdRpc::memory_bytes(ClusterShape{.nodes = nodes}, kCoroutines, options().rpc) +
           kCoroutines * arena_bytes(records_max);
  }

  Worker& worker() { return nodes_.front()->worker; }
  std::byte* record(RecordId id) {
    const NodeStore& store = nodes_[id.partition()]->store;
    return store.primary_record(id.table(), store.find_slot(id.table(), id.key()));
  }
  bool read(RecordId id, std::span<std::byte> value) {
    const std::byte* at = record(id);
    const std::uint64_t version = load_word(at + 8);
    if (version == 0) return nodes_.front()->occ.initial.initial_value(id, value);
    std::ranges::copy(std::span(at + kRecordHeaderBytes, value.size()), value.begin());
    return (version & kDeletedBit) == 0;
  }

  OccOptions options_;
  StoreLayout layout_;
  FakeCluster cluster_;
  std::vector<std::unique_ptr<Node>> nodes_;
  int trips_ = 0;
};

}  // namespace verbtwin::protocols
