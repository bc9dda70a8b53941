// OccEngine: one worker's share of an OCC protocol: the server's side of its messages, and the logs that this
// worker fills at other nodes. Transactions (transaction.hpp) are the coordinator's side.
//
// Owned by the node's program with the worker, and used by the worker's thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/prefetch.hpp"
#include "protocols/checks/history.hpp"
#include "protocols/occ/messages.hpp"
#include "protocols/occ/options.hpp"
#include "protocols/rpc/ud_rpc.hpp"
#include "protocols/runtime/worker.hpp"
#include "protocols/store/location_cache.hpp"
#include "protocols/store/node_store.hpp"

namespace verbtwin::protocols {

/// Application work of one request per phase, in core cycles, charged to whoever serves it.
struct PhaseCycles {
  std::uint32_t execution = 0, validation = 0, logging = 0, commit = 0;
};

/// Initial state of records: what a record that nobody has written holds.
class InitialValues {
 public:
  virtual ~InitialValues() = default;
  /// Fills in the value; false: no such record exists at first.
  virtual bool initial_value(RecordId record, std::span<std::byte> value) const = 0;
};

/// With the log at the coordinator backups are told of what changes by RPC, before the primary.
inline LogWrites log_writes_of(const OccOptions& options) {
  return options.logging.placement == LogPlacement::kCoordinator ? LogWrites::kAreKept
                                                                 : LogWrites::kAreApplied;
}

/// What all workers of a node share.
struct OccNode {
  const OccOptions& options;
  const PhaseCycles& cycles;
  const InitialValues& initial;
  const Popularity& popularity;
  NodeStore& store;
  LocationCache& cache;
};

class OccEngine final : public PolledMemory {
 public:
  OccEngine(const OccNode& node, Worker& worker, UdRpc& rpc, History* history);

  Worker& worker() { return worker_; }
  const OccOptions& options() const { return node_.options; }
  /// What a commit installs as the version after `version_to_be` less 1: that, but for a fault and an
  /// artifact that leave it. (Version 0 would be a record that nobody has written.)
  std::uint64_t installed_version(std::uint64_t version_to_be) const {
    const bool one_sided = options().commit.primitive == Primitive::kOneSided;
    const bool stays = one_sided && options().artifact.versions_stay && writes_of(version_to_be) > 1;
    return version_to_be - (stays || options().sabotage.skip_version_bump ? 1 : 0);
  }

  /// FaRM: the peers' log records and their answers to this worker's.
  bool poll_memory() override;

  /// Calls visit(node, tail) for every node at which this worker has a log, which reaches up to that
  /// position.
  template <typename Visit>
  void for_each_log(const Visit& visit) const {
    for (const std::uint32_t node : logs_.numbers())
      visit(std::size_t{node}, (*logs_.find(node))->writer.tail());
  }

 private:
  friend class Transaction;

  /// A LOCK record whose answer has not come yet.
  struct Unanswered {
    WaitGroup* group;
    Verdict* verdict;
  };

  /// One of this worker's log rings, at another node (or its own).
  class RemoteLog final : public ReplyTarget {
   public:
    RemoteLog(OccEngine& engine, const LogSpec& spec, std::uint32_t held, int node)
        : writer(spec, held), engine_(engine), node_(node) {}
    void on_reply(std::span<const std::byte> reply) override;
    void reclaim();  // asks the node to apply what is certain; off the critical path
    void make_certain(std::uint64_t frame);
    void reclaimed(std::uint64_t head);
    /// A hint: the writer is near.
    void prefetch() const { prefetch_lines(this, 2UL * kCacheLineBytes); }
    LogWriter writer;
    WaitList waiting;                      // for room
    std::vector<Unanswered> lock_records;  // oldest first: they are answered in order
    std::uint32_t answers = 0;             // taken so far

   private:
    OccEngine& engine_;
    int node_;
    bool reclaiming_ = false;
  };

  template <void (OccEngine::*serve)(const RpcCall&)>
  void handle(OccMessage message);
  void register_handlers();
  void answer(const RpcCall& call, Verdict verdict);
  void serve_fetch(const RpcCall& call);
  void serve_lock(const RpcCall& call);
  void serve_check(const RpcCall& call);
  void serve_log(const RpcCall& call);
  void serve_commit(const RpcCall& call);
  void serve_unlock(const RpcCall& call);
  void serve_reclaim(const RpcCall& call);
  void serve_update_backup(const RpcCall& call);
  void update_own_backup(RecordId record, std::uint64_t version, std::span<const std::byte> value);
  void charge_backup_update(std::uint64_t records);
  /// A look-up in this node's index by an RPC: what no cache holds is waited for twice, bucket and record.
  void charge_look_up(RecordId record) {
    cpu_.charge(Cost::kIndexLookup);
    if (!is_cached(record)) cpu_.charge(Cost::kMemoryMiss, 2);
  }
  /// A primary's record that a transaction elsewhere has read before: by RPC it is in a cache; a NIC leaves
  /// it where it was.
  bool was_read_here(RecordId record) const {
    return options().execution.primitive == Primitive::kRpc || is_cached(record);
  }
  bool is_cached(RecordId record) const {
    if (popular_cached_.empty()) return false;
    const std::size_t its_class = node_.popularity.class_of(record);
    return its_class < popular_cached_.size() && popular_cached_[its_class];
  }
  void store_log_entry(std::byte* at, std::span<const std::byte> entry);

  // polled_logs.cpp: FaRM's records in this node's logs, a peer's or this worker's own.
  struct PolledLog {
    LogReader reader;
    std::uint64_t certain = 0;                // how far its records say that it may be truncated
    std::uint64_t truncated = 0;              // how far it is, which answers tell
    std::uint32_t answers = 0;                // given so far
    std::vector<std::uint64_t> answer_words;  // what they are sent from
  };
  bool take_record(int node);
  bool take_answer(int node);
  void answer_lock_record(int node, Verdict verdict);
  std::uint64_t truncate(int node, std::uint64_t certain);
  Verdict lock_entry(std::byte* entry, std::uint64_t owner);
  void close_entry(std::byte* entry, std::uint64_t frame, bool commit);

  RemoteLog& log_at(int node);
  /// A hint: the logs of all log_nodes_ are near, and the channels that they are written through.
  void prefetch_logs();
  /// The queue pair for a record's lock, check and commit. Two NICs of a node are not atomic with each other,
  /// so a lock that is taken by CAS has a home NIC, picked by its place; everything behind it takes the same
  /// queue pair, whose order the protocol relies on. Locks that a CPU takes leave the choice free.
  Channel& record_channel(int node, std::uint64_t slot) { return channel_for(node, record_nic(slot), slot); }
  /// The queue pair to a node's NIC that requests on `thing` take, always the same one.
  Channel& channel_for(int node, int nic, std::uint64_t thing) {
    return worker_.channel(node, nic, queue_pair_for(thing));
  }
  int record_nic(std::uint64_t slot) const;
  int queue_pair_for(std::uint64_t thing) const;  // of those to a peer
  const RecordLayout& record_layout(RecordId record) const {
    return store_.layout().table(record.table()).record;
  }

  const OccNode& node_;
  Worker& worker_;
  Cpu& cpu_;
  UdRpc& rpc_;
  NodeStore& store_;
  History* history_;  // null: nothing is recorded
  std::uint32_t inline_max_b_;
  std::vector<bool> popular_cached_;            // classes whose records are in the core's last-level cache
  NumberMap<std::unique_ptr<RemoteLog>> logs_;  // by node, made on first use
  std::vector<PolledLog> polled_logs_;          // by node; none without LOCK records
  std::vector<std::uint32_t> entry_of_node_;    // while log entries are built: number + 1, by node
  std::vector<int> log_nodes_;                  // likewise: who gets the transaction's entries
  std::vector<Access> reads_, writes_;          // of the transaction that is being recorded
};

}  // namespace verbtwin::protocols
