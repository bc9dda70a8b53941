// Logging: one entry per backup, with the writes it backs up. When every backup has it, the transaction is
// committed.
#include <algorithm>
#include <cassert>

#include "protocols/occ/messages.hpp"
#include "protocols/occ/transaction.hpp"

namespace verbtwin::protocols {

Task<bool> Transaction::log_to_backups() {
  const OccOptions::Logging& options = engine_.options().logging;
  const StoreLayout& layout = store().layout();
  if (engine_.options().sabotage.skip_log) co_return true;
  for (const Item& item : items()) {
    if (!item.is_write) continue;
    for (int rank = 1; rank < layout.replicas(); ++rank) {
      const int backup = layout.backup_node(item.node, rank);
      const bool known =
          std::ranges::any_of(log_entries_, [&](const LogEntry& e) { return e.backup == backup; });
      if (!known) build_log_entry(backup);
    }
  }
  if (log_entries_.empty()) co_return true;
  // Room in every log before any is taken: an entry that stood at the head of one log while its transaction
  // waited for another could keep both from being reclaimed.
  while (OccEngine::BackupLog* full = find_full_log()) {
    full->reclaim();
    if (find_full_log() != full) continue;
    auto room = full->waiting.wait();
    co_await room;
  }
  for (LogEntry& entry : log_entries_) reserve_log_space(entry);

  WaitGroup group(engine_.worker_, this);
  for (LogEntry& entry : log_entries_) {
    write_log_entry(entry, group);
    if (!options.outstanding) {
      engine_.worker_.ring(options.doorbell_batching);
      co_await group;
    }
  }
  engine_.worker_.ring(options.doorbell_batching);
  co_await group;
  co_return !verb_failed(group);
}

void Transaction::build_log_entry(int backup) {
  const StoreLayout& layout_of_store = store().layout();
  const auto backed_up = [&](const Item& item) {
    return item.is_write && layout_of_store.rank_of(backup, item.node) > 0;
  };
  std::size_t records = 0, values_b = 0;
  for (const Item& item : items()) {
    if (!backed_up(item)) continue;
    ++records;
    values_b += (layout(item).value_b + 7U) & ~std::size_t{7};
  }
  LogEntry& entry = log_entries_.emplace_back();
  entry.backup = backup;
  entry.size = log_entry_bytes(records, values_b);
  entry.bytes = take(entry.size);
  std::byte* at = entry.bytes + kLogFrameBytes;
  for (const Item& item : items()) {
    if (!backed_up(item)) continue;
    const std::uint32_t value_b = layout(item).value_b;
    new (at) LogRecord{item.record.packed, item.version + 1, static_cast<std::uint32_t>(item.slot), value_b};
    at += sizeof(LogRecord);
    std::memcpy(at, item.image + kRecordHeaderBytes, value_b);
    at += (value_b + 7U) & ~std::size_t{7};
  }
}

OccEngine::BackupLog* Transaction::find_full_log() {
  for (const LogEntry& entry : log_entries_) {
    OccEngine::BackupLog& log = engine_.log_at(entry.backup);
    if (!log.writer.has_room(entry.size)) return &log;
  }
  return nullptr;
}

void Transaction::reserve_log_space(LogEntry& entry) {
  OccEngine::BackupLog& log = engine_.log_at(entry.backup);
  entry.place = *log.writer.reserve(entry.size);
  seal_log_entry({entry.bytes, entry.size}, entry.place.frame);
  if (log.writer.wants_reclaim()) log.reclaim();
}

void Transaction::write_log_entry(LogEntry& entry, WaitGroup& group) {
  Worker& worker = engine_.worker_;
  WorkerPort& port = worker.port();
  if (entry.backup == store().node()) {
    engine_.cpu_.charge(Cost::kCopyBlock, (entry.size + 63) / 64);
    std::byte* at = store().ring(port.node(), port.thread()).data() + entry.place.offset;
    std::memcpy(at, entry.bytes, entry.size - kLogFrameBytes);
    const std::uint64_t frame = load_word(entry.bytes + entry.size - kLogFrameBytes);
    atomic_word(at + entry.size - kLogFrameBytes).store(frame, std::memory_order_release);
    return;
  }
  if (engine_.options().logging.primitive == Primitive::kRpc) {
    assert(sizeof(LogRequest) + entry.size <= engine_.rpc_.payload_max_b());
    std::byte* reply = take(sizeof(VerdictReply));
    entry.reply = Reply(group, {reply, sizeof(VerdictReply)});
    const std::span<std::byte> arguments =
        engine_.rpc_.call(entry.backup, kLog, sizeof(LogRequest) + entry.size, entry.reply);
    new (arguments.data()) LogRequest{static_cast<std::uint32_t>(entry.place.offset),
                                      static_cast<std::uint16_t>(port.thread()), 0};
    std::memcpy(arguments.data() + sizeof(LogRequest), entry.bytes, entry.size);
    return;
  }
  Channel& channel = worker.channel(entry.backup, worker.nic());
  SendWr write;
  write.opcode = Opcode::kRdmaWrite;
  if (entry.size <= engine_.inline_max_b_) write.flags = kInline;
  write.sge = {entry.bytes, static_cast<std::uint32_t>(entry.size), store().lkey()};
  write.remote_addr =
      channel.remote.addr + store().layout().ring_offset(port.node(), port.thread()) + entry.place.offset;
  write.rkey = channel.remote.rkey;
  worker.stage(channel, write, &group);
}

void OccEngine::BackupLog::reclaim() {
  if (reclaiming_ || !writer.can_reclaim()) return;
  reclaiming_ = true;
  WorkerPort& port = engine_.worker_.port();
  if (node_ == port.node()) {
    const std::uint64_t head = engine_.store_.reclaim(port.node(), port.thread(), writer.certain());
    const ReclaimReply reply{head};
    on_reply(std::as_bytes(std::span(&reply, 1)));
    return;
  }
  const std::span<std::byte> arguments = engine_.rpc_.call(node_, kReclaim, sizeof(ReclaimRequest), *this);
  new (arguments.data()) ReclaimRequest{writer.certain(), static_cast<std::uint64_t>(port.thread())};
}

void OccEngine::BackupLog::make_certain(std::uint64_t frame) {
  writer.make_certain(frame);
  if (!waiting.empty()) reclaim();
}

void OccEngine::BackupLog::on_reply(std::span<const std::byte> reply) {
  writer.reclaimed(load_word(reply.data()));
  reclaiming_ = false;
  waiting.wake_all(engine_.worker_);
}

}  // namespace verbtwin::protocols
