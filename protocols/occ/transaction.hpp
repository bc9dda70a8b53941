// Transaction: optimistic concurrency control over a partitioned, replicated store, in four phases: Execution
// fetches the records, Validation locks the write set and checks that nothing read has changed, Logging
// writes the updates to every backup, Commit installs them at the primaries and unlocks (FaRM, NSDI 2014;
// FaSST, OSDI 2016; DrTM+H, OSDI 2018, section 4). Each phase's primitive comes from OccOptions.
//
// OccEngine is one worker's share of the protocol; a Transaction is one coroutine's, used for one attempt
// after another. Both belong to the worker and its thread.
//
//   co_await tx.begin()
//   const int a = tx.update(record)
//   co_await tx.execute()           fetch what was declared; false: aborted
//   tx.value(a)                     read or change in place
//   co_await tx.commit(effect)      Validation, Logging, Commit; false: aborted
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "protocols/checks/history.hpp"
#include "protocols/occ/options.hpp"
#include "protocols/rpc/ud_rpc.hpp"
#include "protocols/runtime/task.hpp"
#include "protocols/runtime/worker.hpp"
#include "protocols/store/location_cache.hpp"
#include "protocols/store/node_store.hpp"

namespace verbtwin::protocols {

enum class AbortReason : std::uint8_t {
  kNone,
  kRecordLocked,
  kLockFailed,
  kWriteSetChanged,
  kReadSetChanged,
  kVerbFailed
};
inline constexpr std::size_t kAbortReasons = 6;
std::string_view to_string(AbortReason reason);

enum class Phase : std::uint8_t { kExecution, kValidation, kLogging, kCommit };
inline constexpr std::size_t kPhases = 4;

/// Application work of one request per phase, in core cycles, charged to whoever serves it.
struct PhaseCycles {
  std::uint32_t execution = 0, validation = 0, logging = 0, commit = 0;
};

/// Initial values of records: what a record that nobody has written holds.
class InitialValues {
 public:
  virtual ~InitialValues() = default;
  virtual void initial_value(RecordId record, std::span<std::byte> value) const = 0;
};

/// What all workers of a node share.
struct OccNode {
  const OccOptions& options;
  const PhaseCycles& cycles;
  const InitialValues& initial;
  NodeStore& store;
  LocationCache& cache;
};

class OccEngine {
 public:
  OccEngine(const OccNode& node, Worker& worker, UdRpc& rpc, History* history);

  Worker& worker() { return worker_; }
  const OccOptions& options() const { return node_.options; }

 private:
  friend class Transaction;

  /// One of this worker's log rings, at one backup.
  class BackupLog final : public ReplyTarget {
   public:
    BackupLog(OccEngine& engine, const LogSpec& spec, int node)
        : writer(spec), engine_(engine), node_(node) {}
    void on_reply(std::span<const std::byte> reply) override;
    void reclaim();  // asks the backup to apply what is certain; off the critical path
    void make_certain(std::uint64_t frame);
    LogWriter writer;
    WaitList waiting;  // for room

   private:
    OccEngine& engine_;
    int node_;
    bool reclaiming_ = false;
  };

  void register_handlers();
  static void serve_fetch(void* self, RpcRequest& request);
  static void serve_lock(void* self, RpcRequest& request);
  static void serve_check(void* self, RpcRequest& request);
  static void serve_log(void* self, RpcRequest& request);
  static void serve_commit(void* self, RpcRequest& request);
  static void serve_unlock(void* self, RpcRequest& request);
  static void serve_reclaim(void* self, RpcRequest& request);

  BackupLog& log_at(int node);
  Channel& record_channel(int node, std::uint64_t slot);
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
  std::vector<std::unique_ptr<BackupLog>> logs_;  // by node, made on first use
  std::vector<Access> reads_, writes_;            // of the transaction that is being recorded
};

class Transaction {
 public:
  static constexpr std::size_t kItemsMax = 64;

  /// `arena` is registered memory of the worker, this coroutine's own.
  Transaction(OccEngine& engine, int coroutine, std::span<std::byte> arena);

  /// Starts an attempt. To be awaited: until then, writes of the last one may still read this one's buffers.
  WaitGroup& begin();

  int read(RecordId record) { return declare(record, false); }
  int update(RecordId record) { return declare(record, true); }

  Task<bool> execute();

  template <typename T>
  T& value(int item) {
    return *reinterpret_cast<T*>(items_[static_cast<std::size_t>(item)].image + kRecordHeaderBytes);
  }

  Task<bool> commit(std::int64_t effect);

  AbortReason abort_reason() const { return reason_; }
  std::int64_t phase_ps(Phase phase) const { return phase_ps_[static_cast<std::size_t>(phase)]; }

 private:
  struct Item {
    RecordId record;
    std::uint64_t slot = 0;
    std::uint64_t version = 0;
    std::uint64_t digest = 0;      // of the value read
    std::byte* image = nullptr;    // the record as fetched, then as it will be
    std::byte* scratch = nullptr;  // results of one request: bucket, CAS and header, RPC reply
    std::int32_t node = 0;
    bool is_write = false;
    bool located = false;
    bool fetched = false;
    bool locked = false;
    bool passed = false;  // lock and check of Validation
  };
  struct LogEntry {
    int backup = 0;
    std::byte* bytes = nullptr;
    std::size_t size = 0;
    LogWriter::Place place{};
    Reply reply;
  };

  int declare(RecordId record, bool is_write);
  std::span<Item> items() { return std::span(items_).first(item_count_); }
  Reply& reply_to(const Item& item) { return replies_[static_cast<std::size_t>(&item - items_.data())]; }
  std::byte* take(std::size_t bytes);
  bool is_local(const Item& item) const { return item.node == store().node(); }
  NodeStore& store() const { return engine_.store_; }
  const RecordLayout& layout(const Item& item) const { return engine_.record_layout(item.record); }
  std::uint64_t owner() const;
  bool fail(AbortReason reason) {
    reason_ = reason;
    return false;
  }
  bool verb_failed(const WaitGroup& group) {
    return group.status() != WcStatus::kSuccess && !fail(AbortReason::kVerbFailed);
  }
  void end_phase(Phase phase);

  // execution.cpp
  bool locate_in_cache();
  Task<bool> locate_by_buckets();
  void fetch_local(Item& item);
  void fetch_by_rpc(Item& item, WaitGroup& group);
  void fetch_by_read(Item& item, WaitGroup& group);
  bool accept_fetched(Item& item);

  // validation.cpp
  Task<bool> lock_write_set();
  Task<bool> check_read_set();
  void lock_by_cas(Item& item, WaitGroup& group);
  void lock_by_rpc(Item& item, WaitGroup& group);
  void judge_lock(Item& item);
  void check_by_read(Item& item, WaitGroup& group);
  void check_by_rpc(Item& item, WaitGroup& group);
  void judge_check(Item& item);
  void release_locks();

  // logging.cpp
  Task<bool> log_to_backups();
  void build_log_entry(int backup);
  OccEngine::BackupLog* find_full_log();
  void reserve_log_space(LogEntry& entry);
  void write_log_entry(LogEntry& entry, WaitGroup& group);

  // commit.cpp
  void record_history(std::int64_t effect);
  Task<void> install_and_unlock();
  void prepare_image(Item& item);
  void commit_local(Item& item);
  void commit_by_write(Item& item, WaitGroup& group);
  void commit_by_rpc(Item& item, WaitGroup& group);

  OccEngine& engine_;
  int coroutine_;
  std::span<std::byte> arena_;
  std::size_t arena_used_ = 0;
  std::size_t item_count_ = 0;
  std::size_t executed_ = 0;  // items fetched so far
  WaitGroup buffers_in_use_;  // passive writes that still read from the arena
  AbortReason reason_ = AbortReason::kNone;
  std::int64_t phase_start_ps_ = 0;
  std::array<std::int64_t, kPhases> phase_ps_{};
  std::array<Item, kItemsMax> items_;
  std::vector<LogEntry> log_entries_;
  std::array<Reply, kItemsMax> replies_;  // of the item with the same place
};

}  // namespace verbtwin::protocols
