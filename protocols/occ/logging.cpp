// Logging: an entry in the log of every backup of what is written. When every log has its entry, the
// transaction is committed. An entry holds all that the transaction writes, wherever it is kept (Wei et al.,
// OSDI 2018, table 3: 1,006 B per request for TPC-C's new-order), so that any log tells the whole of it. A
// LOCK record holds what its primary is to lock (SOSP 2015, section 4).
#include <algorithm>
#include <cassert>

#include "protocols/occ/transaction.hpp"
#include "protocols/whole_lines.hpp"

namespace verbtwin::protocols {

Task<bool> Transaction::log_to_backups() {
  if (!logs_updates()) co_return true;
  // With LOCK records, room in every log has been set aside before the first lock was asked for.
  if (!logs_lock_records()) {
    build_log_entries(LogKind::kBackup);
    auto promising = promise_log_space();
    if (!log_entries_.empty()) co_await promising;
  }
  if (options().sabotage.truncate_before_commit) truncate_lock_records();
  RequestBatch batch(engine_.worker_, options().logging, this);
  for (LogEntry& entry : log_entries_) {
    if (entry.kind != LogKind::kLock) place_log_entry(entry);
  }
  for (LogEntry& entry : log_entries_) {
    if (entry.kind == LogKind::kLock) continue;
    write_log_entry(entry, batch.group());
    auto sent = batch.next();
    co_await sent;
  }
  auto rest = batch.rest();
  co_await rest;
  co_return !verb_failed(batch.status());
}

/// Every node whose log is to hold the transaction, once: they get the same entries.
void Transaction::find_log_nodes() {
  const StoreLayout& layout = store().layout();
  const LogPlacement placement = options().logging.placement;
  std::vector<int>& nodes = engine_.log_nodes_;
  nodes.clear();
  if (!writes_) return;
  const auto add_backups_of = [&](int partition) {
    for (int rank = 1; rank < layout.replicas(); ++rank) {
      const int node = layout.backup_node(partition, rank);
      if (std::ranges::find(nodes, node) == nodes.end()) nodes.push_back(node);
    }
  };
  if (placement != LogPlacement::kBackups) add_backups_of(store().node());
  if (placement == LogPlacement::kCoordinator) return;
  for (const Item& item : items()) {
    if (item.is_write) add_backups_of(item.node);
  }
}

/// The entry that is being built for a node's log and has room for `bytes` more, made when there is none.
Transaction::LogEntry& Transaction::entry_for(int node, LogKind kind, std::size_t bytes) {
  std::uint32_t& number = engine_.entry_of_node_[static_cast<std::size_t>(node)];
  const std::size_t room = store().layout().log().entry_max_b - log_entry_bytes(0, 0) - log_head_bytes();
  if (number == 0 || log_entries_[number - 1].size + bytes > room) {
    LogEntry& made = log_entries_.emplace_back();
    made.log = &engine_.log_at(node);
    made.node = node;
    made.kind = kind;
    number = static_cast<std::uint32_t>(log_entries_.size());
  }
  return log_entries_[number - 1];
}

/// An entry for every log that is to hold writes of this transaction, or several where one would be too long:
/// first how long each is, then its place, then its records; then, for backups, the copies.
void Transaction::build_log_entries(LogKind kind) {
  if (kind != LogKind::kLock) {
    find_log_nodes();
    if (engine_.log_nodes_.empty()) return;
    engine_.prefetch_logs();
  }
  // A LOCK record goes to the item's primary; what backups log is built for the first of them.
  const auto log_of = [&](const Item& item) {
    return kind == LogKind::kLock ? item.node : engine_.log_nodes_.front();
  };
  const std::size_t first = log_entries_.size();
  const std::size_t head_b = log_head_bytes();
  for (const Item& item : items()) {
    if (!item.is_write) continue;
    const std::size_t record_b = sizeof(LogRecord) + whole_words(layout(item).value_b);
    entry_for(log_of(item), kind, record_b).size += record_b;
  }
  for (std::size_t i = log_entries_.size(); i-- > first;) {
    std::uint32_t& number = engine_.entry_of_node_[static_cast<std::size_t>(log_entries_[i].node)];
    log_entries_[i].next = number == i + 1 ? 0 : number;  // of the same node
    number = static_cast<std::uint32_t>(i + 1);
  }
  for (std::size_t i = first; i < log_entries_.size(); ++i) {
    LogEntry& entry = log_entries_[i];
    entry.size += log_entry_bytes(0, 0) + head_b;
    entry.bytes = take(entry.size);
    entry.filled = kLogFrameBytes + head_b;
    if (kind == LogKind::kLock && entry.node != store().node()) entry.close = take(kCloseBytes);
  }
  for (const Item& item : items()) {
    if (!item.is_write) continue;
    const std::uint32_t value_b = layout(item).value_b;
    const LogRecord record{item.record.packed, version_to_be(item), static_cast<std::uint32_t>(item.slot),
                           static_cast<std::uint16_t>(value_b), kind};
    std::uint32_t& number = engine_.entry_of_node_[static_cast<std::size_t>(log_of(item))];
    const std::size_t record_b = sizeof record + whole_words(value_b);
    const LogEntry& open = log_entries_[number - 1];
    if (open.filled + record_b + kLogFrameBytes > open.size) number = open.next;
    LogEntry& entry = log_entries_[number - 1];
    std::memcpy(entry.bytes + entry.filled, &record, sizeof record);
    std::memcpy(entry.bytes + entry.filled + sizeof record, item.image + kRecordHeaderBytes, value_b);
    entry.filled += record_b;
  }
  for (std::size_t i = first; i < log_entries_.size(); ++i) {
    LogEntry& entry = log_entries_[i];
    engine_.entry_of_node_[static_cast<std::size_t>(entry.node)] = 0;
    engine_.cpu_.charge(Cost::kCopyBlock, entry.size / kCacheLineBytes);
  }
  if (kind != LogKind::kLock) copy_log_entries(first);
}

void Transaction::take_digest(LogEntry& entry) {
  entry.digest = log_entry_digest({entry.bytes, entry.size});
  engine_.cpu_.charge(Cost::kCopyBlock, entry.size / kCacheLineBytes);  // going over it costs about the same
}

/// The entries that the first log gets, for the others: their frames will differ.
void Transaction::copy_log_entries(std::size_t first) {
  const std::size_t built = log_entries_.size();
  if (!logs_lock_records()) {  // whose entries say what differs from log to log
    for (std::size_t i = first; i < built; ++i) take_digest(log_entries_[i]);
  }
  for (std::size_t n = 1; n < engine_.log_nodes_.size(); ++n) {
    for (std::size_t i = first; i < built; ++i) {
      LogEntry copy = log_entries_[i];
      copy.node = engine_.log_nodes_[n];
      copy.log = &engine_.log_at(copy.node);
      copy.bytes = take(copy.size);
      std::memcpy(copy.bytes, log_entries_[i].bytes, copy.size);
      engine_.cpu_.charge(Cost::kCopyBlock, copy.size / kCacheLineBytes);
      log_entries_.push_back(copy);
    }
  }
}

/// Room in every log before any is taken: an entry that stood at the head of one log while its transaction
/// waited for another could keep both from being reclaimed.
Task<void> Transaction::promise_log_space() {
  while (OccEngine::RemoteLog* full = find_full_log()) {
    full->reclaim();
    if (find_full_log() != full) continue;
    auto room = full->waiting.wait();
    co_await room;
  }
  for (LogEntry& entry : log_entries_) {
    LogWriter& log = entry.log->writer;
    log.promise(entry.size);
    entry.close_promised = entry.close != nullptr;
    if (entry.close_promised) log.promise(kCloseBytes);
  }
}

OccEngine::RemoteLog* Transaction::find_full_log() {
  for (const LogEntry& entry : log_entries_) {
    OccEngine::RemoteLog& log = *entry.log;
    std::size_t bytes = 0;  // a primary may be a backup too
    for (const LogEntry& other : log_entries_) {
      if (other.node == entry.node) bytes += other.size + (other.close != nullptr ? kCloseBytes : 0);
    }
    if (!log.writer.can_promise(bytes)) return &log;
  }
  return nullptr;
}

void Transaction::place_log_entry(LogEntry& entry) {
  OccEngine::RemoteLog& log = *entry.log;
  entry.place = log.writer.reserve_promised(entry.size);
  entry.placed = true;
  if (logs_lock_records()) {
    new (entry.bytes + kLogFrameBytes) LogHead{owner(), log.writer.certain(), 0, 0, entry.kind};
    take_digest(entry);
  }
  if (options().sabotage.garble_log && entry.kind != LogKind::kLock) garble_log_entry(entry);
  seal_log_entry({entry.bytes, entry.size}, entry.place.frame, entry.digest);
  if (options().sabotage.truncate_before_commit && entry.kind != LogKind::kLock) {
    entry.log->make_certain(entry.place.frame);
    entry.placed = false;
  }
  if (log.writer.wants_reclaim()) log.reclaim();
}

/// The deliberate fault: no backup takes these values from its log, whose reader after a loss would.
void Transaction::garble_log_entry(LogEntry& entry) {
  const std::span<const std::byte> body(entry.bytes + kLogFrameBytes, entry.size - 2 * kLogFrameBytes);
  for_each_logged(log_writes(body), [&](const LogRecord& logged, std::span<const std::byte> value) {
    const auto partition = static_cast<int>(RecordId{logged.record}.partition());
    if (store().layout().rank_of(entry.node, partition) > 0) return;
    std::memset(entry.bytes + (value.data() - entry.bytes), 0xEE, value.size());
  });
  take_digest(entry);
}

void Transaction::write_log_entry(LogEntry& entry, WaitGroup& group) {
  if (entry.node == store().node()) {
    engine_.store_log_entry(own_ring().at(entry.place.offset), {entry.bytes, entry.size});
    return;
  }
  if (options().logging.primitive == Primitive::kRpc) {
    assert(sizeof(LogRequest) + entry.size <= engine_.rpc_.payload_max_b());
    std::byte* reply = take(sizeof(VerdictReply));
    entry.reply = Reply(group, {reply, sizeof(VerdictReply)});
    const std::span<std::byte> arguments =
        engine_.rpc_.call(entry.node, kLog, sizeof(LogRequest) + entry.size, entry.reply);
    new (arguments.data()) LogRequest{static_cast<std::uint32_t>(entry.place.offset),
                                      static_cast<std::uint16_t>(engine_.worker_.port().thread()), 0};
    std::memcpy(arguments.data() + sizeof(LogRequest), entry.bytes, entry.size);
    return;
  }
  write_into_log(entry.node, entry.place.offset, {entry.bytes, entry.size}, &group);
}

void Transaction::write_into_log(int node, std::uint64_t offset, std::span<std::byte> bytes,
                                 WaitGroup* group) {
  Worker& worker = engine_.worker_;
  Channel& channel = engine_.channel_for(node, worker.nic(), offset);
  SendWr write;
  write.opcode = Opcode::kRdmaWrite;
  if (bytes.size() <= engine_.inline_max_b_) write.flags = kInline;
  write.sge = {bytes.data(), static_cast<std::uint32_t>(bytes.size()), store().lkey()};
  write.remote_addr =
      channel.remote.addr + store().layout().log_offset(store().node(), worker.port().thread(), offset);
  write.rkey = channel.remote.rkey;
  worker.stage(channel, write, group);
}

void OccEngine::store_log_entry(std::byte* at, std::span<const std::byte> entry) {
  cpu_.charge(Cost::kCopyBlock, (entry.size() + 63) / 64);
  const std::size_t frame_at = entry.size() - kLogFrameBytes;
  std::memcpy(at, entry.data(), frame_at);
  atomic_word(at + frame_at).store(load_word(entry.data() + frame_at), std::memory_order_release);
}

void OccEngine::RemoteLog::reclaim() {
  if (reclaiming_ || !writer.can_reclaim()) return;
  reclaiming_ = true;
  WorkerPort& port = engine_.worker_.port();
  if (node_ == port.node()) {
    const ReclaimReply reply{engine_.truncate(node_, writer.ask())};
    on_reply(std::as_bytes(std::span(&reply, 1)));
    return;
  }
  const std::span<std::byte> arguments = engine_.rpc_.call(node_, kReclaim, sizeof(ReclaimRequest), *this);
  new (arguments.data()) ReclaimRequest{writer.ask(), static_cast<std::uint64_t>(port.thread())};
}

void OccEngine::RemoteLog::make_certain(std::uint64_t frame) {
  writer.make_certain(frame);
  if (!waiting.empty() || (writer.holds_more() && writer.wants_reclaim())) reclaim();
}

void OccEngine::RemoteLog::on_reply(std::span<const std::byte> reply) {
  reclaiming_ = false;
  reclaimed(load_word(reply.data()));
}

void OccEngine::RemoteLog::reclaimed(std::uint64_t head) {
  writer.reclaimed(head);
  waiting.wake_all(engine_.worker_);
}

}  // namespace verbtwin::protocols
