// NodeStore: a node's share of the database in its registered memory, as the node's own CPUs use it:
// look-ups, record reads, and the logs it keeps for others.
//
// One per node, shared by its workers. Records are reached through record.hpp's functions only; a log ring is
// read by one worker, the one of its sender's index, because its one sender asks that one for one reclaim
// after another.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "backend/cluster.hpp"
#include "backend/number_map.hpp"
#include "protocols/checks/history.hpp"
#include "protocols/store/layout.hpp"
#include "protocols/store/ring_log.hpp"

namespace verbtwin::protocols {

/// What a node remembers of what its logs held, for the checks.
enum class KeepLogged : std::uint8_t { kNothing, kAll };

/// What becomes of a log's writes: those of records that the log's node backs up are applied there, or it is
/// a coordinator's log, whose records' backups are brought up to date by themselves.
enum class LogWrites : std::uint8_t { kAreApplied, kAreKept };

class NodeStore {
 public:
  /// `layout` and `memory` are not owned and outlive the store.
  NodeStore(const StoreLayout& layout, int node, int threads, NodeMemory& memory, LogWrites log_writes,
            KeepLogged keep_logged);

  const StoreLayout& layout() const { return layout_; }
  int node() const { return node_; }
  std::span<std::byte> memory() const { return memory_; }
  std::uint32_t lkey() const { return lkey_; }

  /// Where this node's primary copy of a record of its own partition is; the key must exist.
  std::uint64_t find_slot(std::uint32_t table, std::uint64_t key) const;
  std::byte* primary_record(std::uint32_t table, std::uint64_t slot) const {
    return record_copy(table, 0, slot);
  }
  /// The copy of replica rank `rank` that this node holds.
  std::byte* record_copy(std::uint32_t table, int rank, std::uint64_t slot) const {
    return node_memory_.record_at(layout_.record_offset(table, rank, slot));
  }
  /// Who looks for many records asks first for what find_slot(), then for what record_copy() will look at:
  /// each is a miss of the caches, and so they overlap.
  void prefetch_slot(RecordId record) const {
    prefetch(memory_.data() + layout_.bucket_offset(record.table(), record.key()));
  }
  void prefetch_copy(std::uint32_t table, int rank, std::uint64_t slot) const {
    node_memory_.prefetch_record(layout_.record_offset(table, rank, slot));
  }
  LogRing ring(int sender_node, int sender_thread) const {
    return {memory_.data() + layout_.ring_offset(sender_node, sender_thread), layout_.log().part_b(),
            layout_.ring_step_b()};
  }

  /// Brings this node's backup copy of a record up to `version`, unless it is newer already. The backup looks
  /// for it in its own index: what a primary's slots are is the primary's business.
  void update_backup(RecordId record, std::uint64_t version, std::span<const std::byte> value);

  /// What reclaim() did: how far the log has been applied, and with how much work.
  struct Reclaimed {
    std::uint64_t head = 0;
    std::uint64_t entries = 0;
    std::uint64_t applied = 0;  // of them, with records that this node backs up
    std::uint64_t records = 0;  // those
    std::uint64_t lines = 0;    // of 64 B, of the entries
    bool first = false;         // none had been applied before
  };
  /// Applies a sender's entries up to position `certain`.
  Reclaimed reclaim(int sender_node, int sender_thread, std::uint64_t certain);
  /// Calls visit(LogRecord) for each write that a sender's log holds for backups up to position `tail` and
  /// that has not been applied yet: what is left of it if the sender is lost.
  template <typename Visit>
  void for_each_waiting(int sender_node, int sender_thread, std::uint64_t tail, const Visit& visit) const {
    const LogReader* reader =
        readers_[static_cast<std::size_t>(sender_thread)].find(static_cast<std::uint32_t>(sender_node));
    (reader == nullptr ? LogReader() : *reader)
        .for_each_ahead(
            layout_.log(), ring(sender_node, sender_thread), tail, [&](std::span<const std::byte> body) {
              if (!is_for_backups(log_head(body).kind)) return;
              for_each_logged(log_writes(body), [&](const LogRecord& logged, auto) { visit(logged); });
            });
  }
  /// Applies every complete entry of every log: for the end of a run, when all workers have stopped.
  void drain_logs();
  const Parts<LoggedWrite>& logged() const { return logged_; }

 private:
  /// A write to a record that this node backs up.
  struct BackupWrite {
    RecordId record;
    int rank;
    std::uint64_t version;
    std::span<const std::byte> value;
    std::uint64_t slot = 0;     // found by
    std::byte* copy = nullptr;  // update_backups()
  };

  /// Returns how many records it brings up to date.
  std::uint64_t apply(std::span<const std::byte> body);
  void update_backups(std::span<BackupWrite> writes);

  const StoreLayout& layout_;
  int node_, threads_;
  NodeMemory& node_memory_;
  std::span<std::byte> memory_;  // the records aside
  std::uint32_t lkey_;
  LogWrites log_writes_;
  KeepLogged keep_logged_;
  /// By the sender's thread, then its node. Workers ask their peers of the same index, so that each map is
  /// one worker's.
  std::vector<NumberMap<LogReader>> readers_;
  std::mutex logged_mutex_;
  Parts<LoggedWrite> logged_;
};

}  // namespace verbtwin::protocols
