// Locking by LOCK records, as FaRM commits (SOSP 2015, section 4): the coordinator sets room aside in the
// logs of all primaries and backups before it asks for the first lock, so that nothing it starts can fail for
// want of space; it WRITES a LOCK record with the new values into the log of each primary, whose CPU polls
// the log, locks all the record's writes or none and answers; it WRITES COMMIT-BACKUP records as any backup
// entry is, and waits for the NICs' acknowledgements; then COMMIT-PRIMARY tells each primary to install what
// its LOCK record holds, or ABORT to forget it. TRUNCATE rides on every record. What the primaries do is in
// polled_logs.cpp.
#include <algorithm>
#include <cassert>

#include "protocols/occ/transaction.hpp"

namespace verbtwin::protocols {

Task<bool> Transaction::lock_by_log_records() {
  build_log_entries(LogKind::kLock);
  if (log_entries_.empty()) co_return true;
  if (logs_updates()) build_log_entries(LogKind::kCommitBackup);
  auto promising = promise_log_space();
  co_await promising;

  RequestBatch batch(engine_.worker_, options().validation, this);
  for (LogEntry& entry : log_entries_) {
    if (entry.kind != LogKind::kLock) continue;
    place_log_entry(entry);
    send_lock_record(entry, batch.group());
    auto sent = batch.next();
    co_await sent;
  }
  auto rest = batch.rest();
  co_await rest;
  bool all = true;
  for (LogEntry& entry : log_entries_) {
    if (entry.kind == LogKind::kLock) all = judge_lock_record(entry) && all;
  }
  co_return !verb_failed(batch.status()) && all;
}

void Transaction::send_lock_record(LogEntry& entry, WaitGroup& group) {
  OccEngine::RemoteLog& log = *entry.log;
  if (entry.node == store().node()) {
    std::byte* at = own_ring().at(entry.place.offset);
    log.reclaimed(engine_.truncate(entry.node, log.writer.certain()));
    engine_.store_log_entry(at, {entry.bytes, entry.size});
    entry.verdict = engine_.lock_entry(at, owner());
    return;
  }
  group.add();
  log.lock_records.push_back({&group, &entry.verdict});
  write_into_log(entry.node, entry.place.offset, {entry.bytes, entry.size}, nullptr);
}

bool Transaction::judge_lock_record(LogEntry& entry) {
  const bool passed = entry.verdict == Verdict::kPassed;
  entry.locks = passed || options().artifact.conflicts_commit;  // the primary keeps a refused one open then
  return passed || conflict(entry.verdict == Verdict::kChanged ? AbortReason::kWriteSetChanged
                                                               : AbortReason::kLockFailed);
}

/// COMMIT-PRIMARY or ABORT. Nobody reads its place again: the room is certain at once.
void Transaction::close_lock_record(LogEntry& entry, bool commit, WaitGroup* waits) {
  entry.locks = false;
  if (entry.node == store().node()) {
    engine_.close_entry(own_ring().at(entry.place.offset), entry.place.frame, commit);
    return;
  }
  LogWriter& log = entry.log->writer;
  entry.close_promised = false;
  const LogWriter::Place place = log.reserve_promised(kCloseBytes);
  log.make_certain(place.frame);
  const LogKind kind = commit ? LogKind::kCommitPrimary : LogKind::kAbort;
  new (entry.close + kLogFrameBytes)
      LogHead{entry.place.frame, log.certain(), static_cast<std::uint32_t>(entry.place.offset), 0, kind};
  seal_log_entry({entry.close, kCloseBytes}, place.frame);
  // Its buffer must be out before the next attempt uses it, unless it goes with the request.
  if (waits == nullptr && kCloseBytes > engine_.inline_max_b_) waits = &buffers_->in_use;
  write_into_log(entry.node, place.offset, {entry.close, kCloseBytes}, waits);
}

/// The deliberate fault: their room is given back while COMMIT-PRIMARY still needs them.
void Transaction::truncate_lock_records() {
  for (LogEntry& entry : log_entries_) {
    if (entry.kind != LogKind::kLock) continue;
    entry.log->make_certain(entry.place.frame);
    entry.placed = false;
  }
}

/// After an abort: the primaries forget, and the room set aside is free again.
void Transaction::release_log_records() {
  for (LogEntry& entry : log_entries_) {
    OccEngine::RemoteLog& log = *entry.log;
    if (entry.locks) close_lock_record(entry, false, nullptr);
    if (entry.close_promised) log.writer.withdraw_promise(kCloseBytes);
    if (entry.placed) {
      log.make_certain(entry.place.frame);
    } else {
      log.writer.withdraw_promise(entry.size);
    }
    log.waiting.wake_all(engine_.worker_);
  }
  log_entries_.clear();
}

}  // namespace verbtwin::protocols
