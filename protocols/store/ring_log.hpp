// Ring logs: every worker has one log ring at every node that backs up records it may write; it alone
// appends.
//
// An entry is framed by the same word at both ends: its number in the ring, its size, and a hash of what is
// between and of how often numbers have wrapped. So a reader knows whether all of it is there, whatever order
// the bytes land in, and never takes a leftover of an earlier lap for new. An entry never wraps, nor reaches
// from one segment of the ring into the next (LogSpec::segment_b): where less than the longest entry is left,
// both sides go on behind the end. Space is reclaimed lazily: the sender tells the backup how far its entries
// are certain, the backup applies them and says how far it is.
//
// LogWriter belongs to one worker; LogReader is used by whichever worker of the backup serves the request
// (one at a time per ring: a ring's requests come from its one sender, one after another).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "protocols/checks/history.hpp"
#include "protocols/store/layout.hpp"
#include "protocols/whole_lines.hpp"

namespace verbtwin::protocols {

/// What an entry stands for: updates for a backup; or one of FaRM's records (SOSP 2015, section 4), which
/// begin with a LogRecord that heads them. A LOCK record stays in the primary's log until COMMIT-PRIMARY or
/// ABORT has closed it.
enum class LogKind : std::uint16_t { kBackup = 0, kLock, kClosedLock, kCommitBackup, kCommitPrimary, kAbort };

/// Entries of this kind are for backups to apply.
inline constexpr bool is_for_backups(LogKind kind) {
  return kind == LogKind::kBackup || kind == LogKind::kCommitBackup;
}

/// One write in an entry; the value follows, padded to 8 B.
struct LogRecord {
  std::uint64_t record;
  std::uint64_t version;  // the version word to be
  std::uint32_t slot;
  std::uint16_t value_b;
  LogKind kind = LogKind::kBackup;  // the same in all records of an entry
};
static_assert(sizeof(LogRecord) == 24);

/// What heads FaRM's records: a LogRecord without a value. `certain` is TRUNCATE, riding along: how far the
/// sender's entries in this log may be applied.
struct LogHead {
  std::uint64_t
      about;  // LOCK: the owner word to lock with; COMMIT-PRIMARY and ABORT: the LOCK record's frame
  std::uint64_t certain;
  std::uint32_t lock_offset;  // COMMIT-PRIMARY and ABORT: where the LOCK record is
  std::uint16_t value_b;      // 0
  LogKind kind;
};
static_assert(sizeof(LogHead) == sizeof(LogRecord));

inline constexpr std::size_t kLogFrameBytes = 8;

/// What the frames say about an entry's body, which stands between the two.
std::uint64_t log_entry_digest(std::span<const std::byte> entry);
/// Closes an entry: `frame` is what reserve() gave, `digest` that of its body.
void seal_log_entry(std::span<std::byte> entry, std::uint64_t frame, std::uint64_t digest);
inline void seal_log_entry(std::span<std::byte> entry, std::uint64_t frame) {
  seal_log_entry(entry, frame, log_entry_digest(entry));
}

inline constexpr std::size_t log_entry_bytes(std::size_t records, std::size_t value_bytes_padded) {
  return 2 * kLogFrameBytes + records * sizeof(LogRecord) + value_bytes_padded;
}

/// A sender's account of one of its rings.
class LogWriter {
 public:
  /// As though the ring held `held` entries more than it does, until it is first reclaimed.
  explicit LogWriter(const LogSpec& spec, std::uint32_t held = 0) : spec_(spec), held_(held) {}

  struct Place {
    std::uint64_t offset;  // in the ring
    std::uint64_t frame;   // for seal_log_entry() and make_certain()
  };

  /// True if an entry of `bytes` (frames included) has room; if not, more must be reclaimed first.
  bool has_room(std::size_t bytes) const;
  /// Takes that room, or nothing.
  std::optional<Place> reserve(std::size_t bytes);
  /// True if promise() would succeed.
  bool can_promise(std::size_t bytes) const;
  /// Sets room for an entry of `bytes` aside: a later reserve_promised() of it cannot fail. False: not
  /// enough. A ring's entries are either all promised before they are reserved or none is.
  bool promise(std::size_t bytes);
  Place reserve_promised(std::size_t bytes);
  void withdraw_promise(std::size_t bytes) { promised_ -= bytes; }
  /// The transaction of the entry with this frame has committed.
  void make_certain(std::uint64_t frame);

  /// No entry reaches beyond this position.
  std::uint64_t tail() const { return tail_; }
  /// Entries up to here belong to committed transactions: a backup may apply them.
  std::uint64_t certain() const { return certain_; }
  /// A backup could apply something.
  bool can_reclaim() const { return certain_ > head_; }
  /// It could, and a request is worth its while: for a few entries at a time, however long the ring, since
  /// the handler applies all of them before it serves anybody else; or the ring is half full. (With LOCK
  /// records every record says how far its log may be applied, and only the room has to be asked for.)
  bool wants_reclaim() const {
    const bool counts = spec_.answers == 0 && spec_.reclaim_entries > 0;
    const bool many = counts && entries_ + held_ - asked_entries_ > spec_.reclaim_entries;
    return (many || tail_ - head_ > spec_.ring_b / 2) && can_reclaim();
  }
  /// Up to where a backup is asked to apply entries now: certain().
  std::uint64_t ask() {
    asked_entries_ = entries_ - uncertain_.size();
    held_ = 0;
    return certain_;
  }
  /// The ring has not been reclaimed yet, and is as though it held more.
  bool holds_more() const { return held_ > 0; }
  void reclaimed(std::uint64_t head) { head_ = std::max(head_, head); }

 private:
  struct Uncertain {
    std::uint64_t end;
    bool certain;
  };

  LogSpec spec_;
  std::uint64_t head_ = 0, certain_ = 0, tail_ = 0;  // bytes since the start, skipped ends of laps included
  std::uint64_t entries_ = 0;                        // the last one's number, and that of the last certain
  std::uint64_t asked_entries_ = 0;                  // one when a backup was last asked
  std::uint32_t held_;
  // One for each entry behind certain_, oldest first: mostly as many as coroutines have entries here.
  std::vector<Uncertain> uncertain_;
  std::uint64_t promised_ = 0;  // bytes
};

/// Marks the LOCK record at `entry` (a ring's memory at the place of its first frame word) as closed.
void close_lock_entry(std::byte* entry);
/// The body of a whole entry in a ring.
std::span<const std::byte> log_entry_body(const std::byte* entry);
/// What the body of an entry is, and what heads it if it is one of FaRM's.
LogHead log_head(std::span<const std::byte> body);
/// The writes in a body.
std::span<const std::byte> log_writes(std::span<const std::byte> body);
/// The LOCK record at `entry` is the one that reserve() gave `frame`, and whole.
bool is_lock_entry(const LogSpec& spec, std::byte* entry, std::uint64_t frame);

/// A receiver's account of one ring in its own memory. A backup applies what it has read and gives the room
/// back (next()); who polls a ring for FaRM's records goes ahead of that, with a reader of its own (take()).
class LogReader {
 public:
  LogReader() = default;

  /// The next entry's body if it is complete and no open LOCK record, else nothing.
  std::optional<std::span<const std::byte>> next(const LogSpec& spec, const LogRing& ring);
  /// The next entry, whole and with its frames, whatever it is, or nothing.
  std::optional<std::span<std::byte>> take(const LogSpec& spec, const LogRing& ring);
  std::uint64_t head() const { return head_; }

  /// Calls visit(body) for every whole entry from here up to position `tail`, also behind one that is not all
  /// there yet: what a recovery finds. Passes none.
  template <typename Visit>
  void for_each_ahead(const LogSpec& spec, const LogRing& ring, std::uint64_t tail,
                      const Visit& visit) const {
    for (std::uint64_t at = head_; at < tail;) {
      const auto entry = find_whole(spec, ring, at, tail);
      if (!entry) return;
      visit(log_entry_body(entry->data()));
      at += entry->size();
    }
  }

 private:
  /// The first whole entry from `at` on, which becomes its place.
  std::optional<std::span<std::byte>> find_whole(const LogSpec& spec, const LogRing& ring, std::uint64_t& at,
                                                 std::uint64_t tail) const;
  std::optional<std::span<std::byte>> look(const LogSpec& spec, const LogRing& ring) const;
  void pass(const LogSpec& spec, std::size_t bytes);

  std::uint64_t head_ = 0;
  std::uint64_t entries_ = 0;
};

/// Walks the records of an entry's body: calls visit(LogRecord, value bytes).
template <typename Visit>
void for_each_logged(std::span<const std::byte> body, Visit&& visit) {
  while (body.size() >= sizeof(LogRecord)) {
    LogRecord record;
    std::memcpy(&record, body.data(), sizeof record);
    const std::size_t padded = whole_words(record.value_b);
    if (sizeof record + padded > body.size()) return;
    visit(record, body.subspan(sizeof record, record.value_b));
    body = body.subspan(sizeof record + padded);
  }
}

}  // namespace verbtwin::protocols
