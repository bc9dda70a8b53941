// Commit: install the updates at the primaries and unlock. The transaction is certain before it begins.
#include <algorithm>
#include <utility>

#include "protocols/occ/transaction.hpp"

namespace verbtwin::protocols {

/// The logs may give the entries' room back: whoever does applies them, or has no more use for them.
void Transaction::make_log_certain() {
  for (const LogEntry& entry : log_entries_) entry.log->prefetch();
  for (const LogEntry& entry : log_entries_) {
    if (entry.placed) entry.log->make_certain(entry.place.frame);
  }
}

/// Every backup is told that its entry may be applied, by a call that repeats it. Where nobody waits for the
/// answer, a log that is half full asks how far it is (RemoteLog::reclaim).
Task<bool> Transaction::tell_backups() {
  RequestBatch batch(engine_.worker_, options().commit, this);
  for (LogEntry& entry : log_entries_) {
    if (!entry.placed) continue;
    LogWriter& log = entry.log->writer;
    if (entry.node == store().node()) {
      log.reclaimed(engine_.truncate(entry.node, log.ask()));
      continue;
    }
    entry.head = take(sizeof(ReclaimReply));
    store_word(entry.head, 0);
    const std::span<std::byte> arguments =
        call_or_pass(entry.node, kReclaim, sizeof(ReclaimRequest) + entry.size, options().commit.passive_ack,
                     entry.reply, {entry.head, sizeof(ReclaimReply)}, batch.group());
    new (arguments.data())
        ReclaimRequest{log.ask(), static_cast<std::uint64_t>(engine_.worker_.port().thread())};
    std::memcpy(arguments.data() + sizeof(ReclaimRequest), entry.bytes, entry.size);
    engine_.cpu_.charge(Cost::kCopyBlock, entry.size / kCacheLineBytes);
    auto sent = batch.next();
    co_await sent;
  }
  auto rest = batch.rest();
  co_await rest;
  for (const LogEntry& entry : log_entries_) {
    if (entry.head != nullptr) entry.log->reclaimed(load_word(entry.head));
  }
  co_return !verb_failed(batch.status());
}

/// Before anything is made of the values, so that what spoils them on their way shows.
void Transaction::take_written_digests() {
  if (engine_.history_ == nullptr) return;
  for (Item& item : items()) {
    if (!item.is_write) continue;
    item.written =
        written_digest(version_to_be(item), {item.image + kRecordHeaderBytes, layout(item).value_b});
  }
}

void Transaction::record_history(std::int64_t effect) {
  if (engine_.history_ == nullptr) return;
  std::vector<Access>& reads = engine_.reads_;
  std::vector<Access>& writes = engine_.writes_;
  reads.clear();
  writes.clear();
  for (const Item& item : items()) {
    reads.push_back({item.record, writes_of(item.version), item.digest});
    if (item.is_write) writes.push_back({item.record, writes_of(version_to_be(item)), item.written});
  }
  engine_.history_->commit(reads, writes, effect, {memory_begin_ps_, engine_.cpu_.now_ps()});
}

void Transaction::record_abort() {
  if (engine_.history_ == nullptr) return;
  for (const Item& item : items()) {
    if (item.is_write) engine_.history_->abort(item.record);
  }
}

/// Where the coordinator's log holds the transaction, the backups of its records are brought up to date
/// before the primaries let go of the locks.
Task<bool> Transaction::update_backups() {
  RequestBatch batch(engine_.worker_, options().commit, this);
  Acknowledgements acknowledgements(batch.group());
  for (const Item& item : items()) {
    if (!item.is_write || (options().sabotage.skip_backup_update && item.node == store().node())) continue;
    for (int rank = 1; rank < store().layout().replicas(); ++rank) {
      update_backup(item, store().layout().backup_node(item.node, rank), acknowledgements);
      auto sent = batch.next();
      co_await sent;
    }
  }
  auto rest = batch.rest();
  co_await rest;
  co_return !verb_failed(batch.status());
}

void Transaction::update_backup(const Item& item, int backup, Acknowledgements& acknowledgements) {
  const std::span<const std::byte> value(item.image + kRecordHeaderBytes, layout(item).value_b);
  if (backup == store().node()) {
    engine_.update_own_backup(item.record, version_to_be(item), value);
    return;
  }
  const std::span<std::byte> arguments = engine_.rpc_.call(
      backup, kUpdateBackup, sizeof(CommitRequest) + value.size(), acknowledgements.one_more());
  new (arguments.data()) CommitRequest{item.record.packed, item.slot, version_to_be(item)};
  std::memcpy(arguments.data() + sizeof(CommitRequest), value.data(), value.size());
}

/// FaRM reports a transaction committed when one COMMIT-PRIMARY has been acknowledged by a NIC (SOSP 2015,
/// section 4); one in this node's own log is there at once. So one of them, the first, is waited for.
Task<void> Transaction::send_commit_primary() {
  RequestBatch batch(engine_.worker_, options().commit, this);
  const auto is_local_lock = [this](const LogEntry& e) {
    return e.kind == LogKind::kLock && e.node == store().node();
  };
  bool certain = options().commit.passive_ack || std::ranges::any_of(log_entries_, is_local_lock);
  for (LogEntry& entry : log_entries_) {
    if (entry.kind != LogKind::kLock) continue;
    close_lock_record(entry, true, certain ? nullptr : &batch.group());
    certain = true;
    auto sent = batch.next();
    co_await sent;
  }
  auto rest = batch.rest();
  co_await rest;
}

Task<void> Transaction::install_and_unlock() {
  const OccOptions::Commit& options = engine_.options().commit;
  RequestBatch batch(engine_.worker_, options, this);
  prefetch_local(false);
  for (Item& item : items()) {
    if (!item.is_write) continue;
    prepare_image(item);
    if (is_local(item)) {
      commit_local(item);
    } else if (options.primitive == Primitive::kRpc) {
      commit_by_rpc(item, batch.group());
    } else {
      commit_by_write(item, batch.group());
    }
    auto sent = batch.next();
    co_await sent;
  }
  auto rest = batch.rest();
  co_await rest;
}

/// Turns the fetched image into the record to be: new version at both ends, lock word free.
void Transaction::prepare_image(Item& item) {
  const RecordLayout& record = layout(item);
  const std::uint64_t version = engine_.installed_version(version_to_be(item));
  store_word(item.image, 0);
  store_word(item.image + 8, version);
  if (record.digests) engine_.cpu_.charge(Cost::kCopyBlock, record.image_b / kCacheLineBytes);
  if (record.has_tail) {
    store_word(item.image + record.tail_offset(),
               tail_word(record, version, {item.image + kRecordHeaderBytes, record.value_b}));
  }
}

void Transaction::commit_local(Item& item) {
  engine_.cpu_.charge_cycles(engine_.node_.cycles.commit);
  engine_.cpu_.charge(Cost::kCopyBlock, layout(item).image_b / kCacheLineBytes);
  std::byte* record = item.local;
  install(layout(item), record, load_word(item.image + 8),
          {item.image + kRecordHeaderBytes, layout(item).value_b});
  if (!options().sabotage.skip_lock) unlock(record);
}

/// The value, then the unlock, on one queue pair: the second lands behind the first.
void Transaction::commit_by_write(Item& item, WaitGroup& group) {
  Channel& channel = channel_of(item);
  SendWr write =
      record_request(item, channel, Opcode::kRdmaWrite, 8, item.image + 8, layout(item).image_b - 8);
  if (write.sge.length <= engine_.inline_max_b_) write.flags = kInline;

  // A passive commit waits for nothing, but a value that the NIC reads from this transaction's buffer must be
  // out before the buffer is used again: the next attempt takes other ones, and the one after it waits.
  WaitGroup* waits = nullptr;
  if (!options().commit.passive_ack) {
    waits = &group;
  } else if ((write.flags & kInline) == 0) {
    waits = &buffers_->in_use;
  }
  SendWr free = record_request(item, channel, Opcode::kRdmaWrite, 0, item.image, 8);
  free.flags = kInline;
  if (options().sabotage.unlock_first) std::swap(write, free);
  engine_.worker_.stage(channel, write, nullptr);
  engine_.worker_.stage(channel, free, waits);
}

void Transaction::commit_by_rpc(Item& item, WaitGroup& group) {
  const std::uint32_t value_b = layout(item).value_b;
  const std::span<std::byte> arguments =
      call_or_pass(item.node, kCommitWrite, sizeof(CommitRequest) + value_b, options().commit.passive_ack,
                   reply_to(item), {item.scratch, sizeof(VerdictReply)}, group);
  new (arguments.data()) CommitRequest{item.record.packed, item.slot, load_word(item.image + 8)};
  std::memcpy(arguments.data() + sizeof(CommitRequest), item.image + kRecordHeaderBytes, value_b);
}

/// A call whose answer nobody needs where it may be passive and the peer has credit, else one to wait for.
std::span<std::byte> Transaction::call_or_pass(int node, OccMessage message, std::size_t bytes, bool passive,
                                               Reply& reply, std::span<std::byte> answer, WaitGroup& group) {
  if (passive && engine_.rpc_.has_credit(node)) return engine_.rpc_.call_passive(node, message, bytes);
  reply = Reply(group, answer);
  return engine_.rpc_.call(node, message, bytes, reply);
}

}  // namespace verbtwin::protocols
