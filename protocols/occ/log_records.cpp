// Locking by LOCK records, as FaRM commits (SOSP 2015, section 4): the coordinator sets room aside in the
// logs of all primaries and backups before it asks for the first lock, so that nothing it starts can fail for
// want of space; it puts a LOCK record with the new values into the log of each primary, whose CPU locks all
// its records or none and answers; COMMIT-BACKUP records are WRITTEN as any backup entry is; then
// COMMIT-PRIMARY tells each primary to install what its LOCK record holds, or ABORT to forget it. TRUNCATE
// rides on later LOCK records.
//
// FaRM's primaries poll their logs for records that were WRITTEN there. Here LOCK, COMMIT-PRIMARY and ABORT
// are messages whose handler puts the record into the log: the same work for the same CPU, and what the
// comparison of OSDI 2018 (table 2: V and C of FaRM are two-sided) measures.
#include <algorithm>
#include <cassert>

#include "protocols/occ/transaction.hpp"

namespace verbtwin::protocols {

Task<bool> Transaction::lock_by_log_records() {
  for (const Item& item : items()) {
    const auto has_record = [&](const LogEntry& e) { return e.node == item.node; };
    if (item.is_write && std::ranges::none_of(log_entries_, has_record)) {
      build_log_entry(item.node, LogKind::kLock);
    }
  }
  if (log_entries_.empty()) co_return true;
  if (!options().sabotage.skip_log) build_backup_entries();
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
  WorkerPort& port = engine_.worker_.port();
  entry.answer = take(sizeof(LockEntryReply));
  const std::uint64_t certain = engine_.log_at(entry.node).writer.certain();
  const LogRequest place{static_cast<std::uint32_t>(entry.place.offset),
                         static_cast<std::uint16_t>(port.thread()), 0};
  if (entry.node == store().node()) {
    const std::uint64_t head = store().reclaim(port.node(), port.thread(), certain);
    std::byte* at = store().ring(port.node(), port.thread()).data() + entry.place.offset;
    engine_.store_log_entry(at, {entry.bytes, entry.size});
    new (entry.answer) LockEntryReply{engine_.lock_entry(at, owner()), head};
    return;
  }
  entry.reply = Reply(group, {entry.answer, sizeof(LockEntryReply)});
  const std::span<std::byte> arguments =
      engine_.rpc_.call(entry.node, kLockEntry, sizeof(LockEntryRequest) + entry.size, entry.reply);
  new (arguments.data()) LockEntryRequest{place, owner(), certain};
  std::memcpy(arguments.data() + sizeof(LockEntryRequest), entry.bytes, entry.size);
}

bool Transaction::judge_lock_record(LogEntry& entry) {
  LockEntryReply reply;
  std::memcpy(&reply, entry.answer, sizeof reply);
  engine_.log_at(entry.node).reclaimed(reply.head);
  entry.locks = reply.verdict == Verdict::kPassed;
  if (entry.locks) return true;
  return conflict(reply.verdict == Verdict::kChanged ? AbortReason::kWriteSetChanged
                                                     : AbortReason::kLockFailed);
}

/// COMMIT-PRIMARY or ABORT.
void Transaction::close_lock_record(LogEntry& entry, bool commit, WaitGroup& group) {
  WorkerPort& port = engine_.worker_.port();
  entry.locks = false;
  if (entry.node == store().node()) {
    engine_.close_entry(store().ring(port.node(), port.thread()).data() + entry.place.offset, commit);
    return;
  }
  const bool passive = !commit || options().commit.passive_ack;
  const std::span<std::byte> arguments =
      call_or_pass(entry.node, kCloseEntry, sizeof(CloseEntryRequest), passive, entry.reply,
                   {entry.answer, sizeof(VerdictReply)}, group);
  new (arguments.data()) CloseEntryRequest{
      {static_cast<std::uint32_t>(entry.place.offset), static_cast<std::uint16_t>(port.thread()), 0},
      commit ? 1U : 0U};
}

/// The deliberate fault: their room is given back while COMMIT-PRIMARY still needs them.
void Transaction::truncate_lock_records() {
  for (LogEntry& entry : log_entries_) {
    if (entry.kind != LogKind::kLock) continue;
    engine_.log_at(entry.node).make_certain(entry.place.frame);
    entry.placed = false;
  }
}

/// After an abort: the primaries forget, and the room set aside at the backups is free again.
void Transaction::release_log_records() {
  for (LogEntry& entry : log_entries_) {
    OccEngine::RemoteLog& log = engine_.log_at(entry.node);
    if (!entry.placed) {
      log.writer.withdraw_promise(entry.size);
      log.waiting.wake_all(engine_.worker_);
      continue;
    }
    if (entry.locks) close_lock_record(entry, false, buffers_in_use_);
    log.make_certain(entry.place.frame);
  }
  log_entries_.clear();
}

/// Locks every record of a LOCK record, or none: then the entry is closed.
Verdict OccEngine::lock_entry(std::byte* entry, std::uint64_t owner) {
  const OccOptions::Sabotage& sabotage = options().sabotage;
  const std::span<const std::byte> body = log_entry_body(entry);
  Verdict verdict = Verdict::kPassed;
  std::size_t locked = 0;
  for_each_logged(body, [&](const LogRecord& logged, std::span<const std::byte>) {
    if (verdict != Verdict::kPassed) return;
    cpu_.charge(Cost::kLocalAtomic);
    cpu_.charge_cycles(node_.cycles.validation);
    std::byte* record = store_.primary_record(RecordId{logged.record}.table(), logged.slot);
    if (!sabotage.skip_lock && !try_lock(record, owner)) {
      verdict = Verdict::kLocked;
      return;
    }
    ++locked;
    const std::uint64_t version = atomic_word(record + 8).load(std::memory_order_acquire);
    const bool changed = writes_of(version) + 1 != writes_of(logged.version);
    if (changed && !sabotage.skip_validation) verdict = Verdict::kChanged;
  });
  if (verdict == Verdict::kPassed || options().artifact.conflicts_commit) {
    if (sabotage.truncate_before_commit) close_lock_entry(entry);
    return verdict;
  }
  for_each_logged(body, [&](const LogRecord& logged, std::span<const std::byte>) {
    if (locked == 0) return;
    --locked;
    if (!sabotage.skip_lock) unlock(store_.primary_record(RecordId{logged.record}.table(), logged.slot));
  });
  close_lock_entry(entry);
  return verdict;
}

void OccEngine::close_entry(std::byte* entry, bool commit) {
  const OccOptions::Sabotage& sabotage = options().sabotage;
  const bool bump = !sabotage.skip_version_bump && !options().artifact.versions_stay;
  for_each_logged(log_entry_body(entry), [&](const LogRecord& logged, std::span<const std::byte> value) {
    const RecordId id{logged.record};
    std::byte* record = store_.primary_record(id.table(), logged.slot);
    if (commit) {
      cpu_.charge_cycles(node_.cycles.commit);
      install(record_layout(id), record, logged.version - (bump ? 0 : 1), value);
    }
    if (!sabotage.skip_lock) unlock(record);
  });
  close_lock_entry(entry);
}

void OccEngine::serve_lock_entry(RpcRequest& request) {
  LockEntryRequest lock;
  std::memcpy(&lock, request.arguments().data(), sizeof lock);
  const int thread = lock.log.sender_thread;
  const std::uint64_t head = store_.reclaim(request.source_node(), thread, lock.certain);
  std::byte* at = store_.ring(request.source_node(), thread).data() + lock.log.ring_offset;
  store_log_entry(at, request.arguments().subspan(sizeof lock));
  const Verdict verdict = lock_entry(at, lock.owner);
  const std::span<std::byte> reply = request.reply(sizeof(LockEntryReply));
  new (reply.data()) LockEntryReply{verdict, head};
}

void OccEngine::serve_close_entry(RpcRequest& request) {
  CloseEntryRequest close;
  std::memcpy(&close, request.arguments().data(), sizeof close);
  close_entry(store_.ring(request.source_node(), close.log.sender_thread).data() + close.log.ring_offset,
              close.commit != 0);
  if (request.passive()) return;
  const std::span<std::byte> reply = request.reply(sizeof(VerdictReply));
  new (reply.data()) VerdictReply{Verdict::kPassed};
}

}  // namespace verbtwin::protocols
