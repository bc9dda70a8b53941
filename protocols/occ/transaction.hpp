// Transaction: optimistic concurrency control over a partitioned, replicated store, in four phases: Execution
// fetches the records, Validation locks the write set and checks that nothing read has changed, Logging
// writes the updates to every backup, Commit installs them at the primaries and unlocks (FaRM, NSDI 2014 and
// SOSP 2015; DrTM+R, EuroSys 2016; FaSST, OSDI 2016; DrTM+H, OSDI 2018, section 4). Each phase's primitive
// comes from OccOptions.
//
// A Transaction is one coroutine's, used for one attempt after another; it belongs to the worker of its
// engine and that worker's thread.
//
//   WaitGroup& buffers = tx.begin(); co_await buffers;     by whoever calls Workload::run(), not in it
//   const int a = tx.update(record)
//   co_await tx.execute()           fetch what was declared; false: aborted
//   tx.value(a)                     read or change in place; more may be declared and executed
//   co_await tx.commit(effect)      Validation, Logging, Commit; false: aborted
//   tx.abandon()                    instead of commit(); by whoever called run(), which said kUserAborted
// A record is declared once, to read it or to update it: a lock it holds already would keep it out. Who
// declares one twice, with an update among them, or one that there is not, gets a std::logic_error.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "protocols/attempts.hpp"
#include "protocols/occ/engine.hpp"
#include "protocols/occ/request_batch.hpp"
#include "protocols/runtime/task.hpp"

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
std::string_view to_string(Phase phase);

/// What one transaction of a workload takes at most.
struct TransactionMaxima {
  std::size_t records = 0, writes = 0;
  std::size_t value_b = 0, image_b = 0;  // of a record
  std::size_t neighbourhood_b = 0;       // of a record and its neighbours
  std::size_t written_b = 0;             // of the values that it writes, each padded to 8
  std::size_t replicas = 1;              // of a record
  std::size_t backups = 0;               // nodes whose logs hold it
  std::size_t log_entries = 1;           // that hold all of it, in each of their logs
};

class Transaction final : public WorkedOn {
 public:
  /// What an attempt may take of its arena, in whole cache lines.
  static std::size_t arena_bytes(const TransactionMaxima& most, const OccOptions& options);

  /// `arena` is registered memory of the worker, this coroutine's own; `records_max`: one transaction
  /// declares no more. `spare`, as large or empty: for the next attempt while writes that nobody waits for
  /// still read from `arena`.
  Transaction(OccEngine& engine, int coroutine, std::span<std::byte> arena, std::size_t records_max = 64,
              std::span<std::byte> spare = {});

  /// Starts an attempt. To be awaited: until then, writes of one before may still read this one's buffers.
  WaitGroup& begin();

  int read(RecordId record) { return declare(record, false); }
  int update(RecordId record) { return declare(record, true); }

  Task<bool> execute();

  template <typename T>
  T& value(int item) {
    return *reinterpret_cast<T*>(at(item).image + kRecordHeaderBytes);
  }
  /// All of a value.
  std::span<std::byte> bytes(int item) { return {&value<std::byte>(item), layout(at(item)).value_b}; }
  /// Whether there is such a record. One that is not there can be declared like any other: that it is still
  /// absent is validated too.
  bool exists(int item) { return at(item).exists; }
  /// Of a record declared for update: it is to exist, with the value put in place; or not to.
  void insert(int item) { at(item).exists = true; }
  void erase(int item) { at(item).exists = false; }

  /// Work of the application on this node's own data that no transaction changes, such as catalogues.
  void look_up_local(std::uint64_t times) { engine_.cpu_.charge(Cost::kIndexLookup, times); }

  /// Drops what was read so far: it will not be validated (read committed). Only before the first update.
  void forget() { item_count_ = executed_ = arena_used_ = 0; }

  void prefetch_rest() const override;

  Task<bool> commit(std::int64_t effect);
  /// Whether a commit changes the records; false: the run ends transactions before that (truncate_after).
  bool installs() const {
    return options().truncate_after == TruncateAfter::kNone ||
           options().truncate_after == TruncateAfter::kCommitWithoutLogging;
  }
  /// Instead of it, or behind it: of what has been committed there is nothing left to release.
  void abandon() { release_locks(); }

  AbortReason abort_reason() const { return reason_; }
  /// In words: the phase; of an attempt that was aborted why, and whose lock was in its way where that is
  /// known.
  std::string describe() const;
  /// Appends the records that it writes, from when it may be installing them until the next attempt begins.
  void append_installed(std::vector<RecordId>& records) const;
  /// What it is at now; of one that has ended, where it ended.
  Phase phase() const { return phase_; }
  std::int64_t phase_ps(Phase phase) const { return phase_ps_[static_cast<std::size_t>(phase)]; }
  std::int64_t begin_ps() const { return begin_ps_; }  // of the attempt
  /// Of this attempt: records whose location the cache was asked for, and had or not.
  std::uint32_t locations_cached() const { return locations_cached_; }
  std::uint32_t locations_missed() const { return locations_missed_; }

 private:
  struct Item {
    RecordId record;
    std::uint64_t slot = 0;
    std::uint64_t version = 0;     // the version word as fetched
    std::uint64_t digest = 0;      // of the value read
    std::uint64_t written = 0;     // of the value to be written, as the application left it; for the history
    std::byte* local = nullptr;    // the record itself, if it is this node's
    std::byte* image = nullptr;    // the record as fetched, then as it will be
    std::byte* scratch = nullptr;  // results of one request: bucket, CAS and header, RPC reply
    Channel* channel = nullptr;    // record_channel(), once it has been looked for
    std::int32_t node = 0;
    bool is_write = false;
    bool located = false;
    bool among_neighbours = false;  // fetched with them
    bool by_cas = false;            // locked by the NIC
    bool fetched = false;
    bool exists = false;
    bool locked = false;
    bool passed = false;        // lock and check of Validation
    bool asked_by_rpc = false;  // Validation's check
  };
  struct LogEntry {
    OccEngine::RemoteLog* log = nullptr;  // the node's
    int node = 0;
    LogKind kind = LogKind::kBackup;
    bool placed = false;  // in the ring
    std::byte* bytes = nullptr;
    std::size_t size = 0;
    std::size_t filled = 0;    // while it is built
    std::uint32_t next = 0;    // likewise: number + 1 of the next one for this node
    std::uint64_t digest = 0;  // for its frames
    LogWriter::Place place{};
    Reply reply;
    std::byte* head = nullptr;  // what answers that it may be applied: how far its log is
    // LOCK records:
    bool locks = false;  // the primary holds the locks, and the record open
    Verdict verdict = Verdict::kPassed;
    bool close_promised = false;  // room for COMMIT-PRIMARY or ABORT is set aside
    std::byte* close = nullptr;   // which is built here
  };
  static constexpr std::size_t kCloseBytes = 2 * kLogFrameBytes + sizeof(LogHead);
  // scratch during Validation: the CAS's old value, then the record's header as READ behind it, then an RPC's
  // reply.
  static constexpr std::size_t kOldLockAt = 0;
  static constexpr std::size_t kHeaderAt = 8;
  static constexpr std::size_t kReplyAt = 24;
  static constexpr std::size_t kValidationBytes = 32;

  int declare(RecordId record, bool is_write);
  void refuse_wrong(RecordId record, bool is_write);
  Item& at(int item) { return items_[static_cast<std::size_t>(item)]; }
  std::span<Item> items() { return std::span(items_).first(item_count_); }
  Reply& reply_to(const Item& item) {
    return buffers_->replies[static_cast<std::size_t>(&item - items_.data())];
  }
  std::byte* take(std::size_t bytes);
  /// A phase is about to touch this node's own records among those it writes or, `all`, any.
  void prefetch_local(bool all) {
    for (const Item& item : items()) {
      if ((all || item.is_write) && is_local(item)) prefetch(item.local);
    }
  }
  bool is_local(const Item& item) const { return item.node == store().node(); }
  NodeStore& store() const { return engine_.store_; }
  const OccOptions& options() const { return engine_.options(); }
  const RecordLayout& layout(const Item& item) const { return engine_.record_layout(item.record); }
  bool is_local_only(const Item& item) const {
    return store().layout().table(item.record.table()).spec.local_only;
  }
  bool is_by_rpc(const Item& item) const { return store().layout().table(item.record.table()).spec.by_rpc; }
  std::uint64_t owner() const;
  std::uint64_t version_to_be(const Item& item) const {
    return (writes_of(item.version) + 1) | (item.exists ? 0 : kDeletedBit);
  }
  bool fail(AbortReason reason) {
    reason_ = reason;
    return false;
  }
  /// Not for whom conflicts stop nobody.
  bool conflict(AbortReason reason) { return options().artifact.conflicts_commit || fail(reason); }
  bool verb_failed(WcStatus status) {
    return status != WcStatus::kSuccess && !fail(AbortReason::kVerbFailed);
  }
  void end_phase(Phase phase);
  /// READs the first `bytes` of the item's record on its queue pair, whose order the protocol relies on.
  void stage_read(Item& item, std::byte* to, std::uint32_t bytes, WaitGroup& group);
  void prefetch_channels() const;
  Channel& channel_of(Item& item);
  SendWr record_request(const Item& item, const Channel& channel, Opcode opcode, std::uint64_t offset,
                        std::byte* local, std::uint32_t bytes) const;

  // execution.cpp
  bool locate_in_cache();
  Task<bool> locate_by_buckets();
  void locate_among_neighbours();
  void fetch_neighbourhood(Item& item, WaitGroup& group);
  bool locks_when_fetching(const Item& item) const { return options().execution.lock && item.is_write; }
  bool reads_backup(const Item& item) const {
    return options().sabotage.read_backup && item_count_ == 1 && !item.is_write &&
           store().layout().rank_of(store().node(), item.node) > 0;
  }
  void find_local();
  void fetch_local(Item& item);
  void fetch_by_rpc(Item& item, WaitGroup& group);
  bool accept_fetched(Item& item);
  bool accept_reply(Item& item);

  // validation.cpp
  Task<bool> lock_write_set();
  Task<bool> check_read_set();
  void lock_by_cas(Item& item, WaitGroup& group);
  void lock_by_rpc(Item& item, WaitGroup& group);
  /// Of the items that are written, or of the others: judges each, true if all have passed.
  bool judge_all(bool writes, void (Transaction::*judge)(Item&));
  void judge_lock(Item& item);
  void check_locally(Item& item);
  bool checks_by_rpc(const Item& item);
  void check_by_rpc(Item& item, WaitGroup& group);
  void judge_check(Item& item);
  void release_locks();
  void release_lock(Item& item);

  // log_records.cpp
  Task<bool> lock_by_log_records();
  void send_lock_record(LogEntry& entry, WaitGroup& group);
  bool judge_lock_record(LogEntry& entry);
  void close_lock_record(LogEntry& entry, bool commit, WaitGroup* waits);
  void truncate_lock_records();
  void garble_log_entry(LogEntry& entry);
  void release_log_records();

  // logging.cpp
  Task<bool> log_to_backups();
  /// Nothing that is not going to be written may be built: room is set aside for all that is.
  bool logs_updates() const {
    return !options().sabotage.skip_log && options().truncate_after == TruncateAfter::kNone;
  }
  Task<void> promise_log_space();
  void build_log_entries(LogKind kind);
  void find_log_nodes();
  void take_digest(LogEntry& entry);
  void copy_log_entries(std::size_t first);
  LogEntry& entry_for(int node, LogKind kind, std::size_t bytes);
  std::size_t log_head_bytes() const { return logs_lock_records() ? sizeof(LogHead) : 0; }
  OccEngine::RemoteLog* find_full_log();
  void place_log_entry(LogEntry& entry);
  void write_log_entry(LogEntry& entry, WaitGroup& group);
  void write_into_log(int node, std::uint64_t offset, std::span<std::byte> bytes, WaitGroup* group);
  LogRing own_ring() const { return store().ring(store().node(), engine_.worker_.port().thread()); }
  bool logs_lock_records() const { return options().validation.lock == LockKind::kLogRecord; }

  // commit.cpp
  void take_written_digests();
  void record_history(std::int64_t effect);
  void record_abort();
  void make_log_certain();
  Task<bool> tell_backups();
  Task<bool> update_backups();
  void update_backup(const Item& item, int backup, Acknowledgements& acknowledgements);
  Task<void> install_and_unlock();
  Task<void> send_commit_primary();
  void prepare_image(Item& item);
  void commit_local(Item& item);
  void commit_by_write(Item& item, WaitGroup& group);
  void commit_by_rpc(Item& item, WaitGroup& group);
  std::span<std::byte> call_or_pass(int node, OccMessage message, std::size_t bytes, bool passive,
                                    Reply& reply, std::span<std::byte> answer, WaitGroup& group);

  /// What requests of an attempt read from and answer to, after its end too where it waits for none.
  struct Buffers {
    Buffers(Worker& worker, const WorkedOn* owner, std::span<std::byte> bytes, std::size_t records_max)
        : arena(bytes), in_use(worker, owner), replies(records_max) {}
    std::span<std::byte> arena;
    WaitGroup in_use;
    std::vector<Reply> replies;  // of the item with the same place
  };

  OccEngine& engine_;
  int coroutine_;
  Buffers* buffers_;  // of this attempt
  std::size_t arena_used_ = 0;
  bool writes_ = false;  // declared an update
  std::size_t item_count_ = 0;
  std::size_t executed_ = 0;    // items fetched so far
  std::uint64_t declared_ = 0;  // a bit, which others share, of each record
  AbortReason reason_ = AbortReason::kNone;
  std::int64_t begin_ps_ = 0, memory_begin_ps_ = 0, phase_start_ps_ = 0;
  std::uint64_t begun_ = 0;  // what the worker had resumed when it began
  Phase phase_ = Phase::kExecution;
  std::array<std::int64_t, kPhases> phase_ps_{};
  std::uint32_t locations_cached_ = 0, locations_missed_ = 0;
  /// The first channels of this attempt, for prefetch_rest(): every phase comes back to them.
  struct InUse {
    const Channel* channel;
    const QueuePair* queue_pair;
  };
  std::array<InUse, 4> channels_;
  std::size_t channel_count_ = 0;
  std::vector<Item> items_;
  std::vector<LogEntry> log_entries_;
  Buffers first_, spare_;
};

}  // namespace verbtwin::protocols
