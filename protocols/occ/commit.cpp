// Commit: install the updates at the primaries and unlock. The transaction is certain before it begins.
#include "protocols/occ/messages.hpp"
#include "protocols/occ/transaction.hpp"

namespace verbtwin::protocols {

void Transaction::record_history(std::int64_t effect) {
  for (const LogEntry& entry : log_entries_) engine_.log_at(entry.backup).make_certain(entry.place.frame);
  if (engine_.history_ == nullptr) return;
  std::vector<Access>& reads = engine_.reads_;
  std::vector<Access>& writes = engine_.writes_;
  reads.clear();
  writes.clear();
  for (const Item& item : items()) {
    reads.push_back({item.record, item.version, item.digest});
    if (!item.is_write) continue;
    const std::span<const std::byte> value(item.image + kRecordHeaderBytes, layout(item).value_b);
    writes.push_back({item.record, item.version + 1, value_digest(value)});
  }
  engine_.history_->commit(reads, writes, effect);
}

Task<void> Transaction::install_and_unlock() {
  const OccOptions::Commit& options = engine_.options().commit;
  WaitGroup group(engine_.worker_, this);
  for (Item& item : items()) {
    if (!item.is_write) continue;
    prepare_image(item);
    if (is_local(item)) {
      commit_local(item);
    } else if (options.primitive == Primitive::kRpc) {
      commit_by_rpc(item, group);
    } else {
      commit_by_write(item, group);
    }
    if (!options.outstanding) {
      engine_.worker_.ring(options.doorbell_batching);
      co_await group;
    }
  }
  engine_.worker_.ring(options.doorbell_batching);
  co_await group;
}

/// Turns the fetched image into the record to be: new version at both ends, lock word free.
void Transaction::prepare_image(Item& item) {
  const RecordLayout& record = layout(item);
  const std::uint64_t version = item.version + (engine_.options().sabotage.skip_version_bump ? 0 : 1);
  store_word(item.image, 0);
  store_word(item.image + 8, version);
  if (record.has_tail) store_word(item.image + record.tail_offset(), version);
}

void Transaction::commit_local(Item& item) {
  engine_.cpu_.charge_cycles(engine_.node_.cycles.commit);
  std::byte* record = store().primary_record(item.record.table(), item.slot);
  install(layout(item), record, load_word(item.image + 8),
          {item.image + kRecordHeaderBytes, layout(item).value_b});
  if (!engine_.options().sabotage.skip_lock) unlock(record);
}

/// The value, then the unlock, on one queue pair: the second lands behind the first.
void Transaction::commit_by_write(Item& item, WaitGroup& group) {
  Channel& channel = engine_.record_channel(item.node, item.slot);
  const std::uint64_t record =
      channel.remote.addr + store().layout().record_offset(item.record.table(), 0, item.slot);
  SendWr write;
  write.opcode = Opcode::kRdmaWrite;
  write.sge = {item.image + 8, layout(item).image_b - 8, store().lkey()};
  if (write.sge.length <= engine_.inline_max_b_) write.flags = kInline;
  write.remote_addr = record + 8;
  write.rkey = channel.remote.rkey;
  engine_.worker_.stage(channel, write, nullptr);

  // A passive commit waits for nothing, but a value that the NIC reads from this transaction's buffer must be
  // out before the buffer is used again: begin() of the next attempt waits for that.
  WaitGroup* waits = nullptr;
  if (!engine_.options().commit.passive_ack) {
    waits = &group;
  } else if ((write.flags & kInline) == 0) {
    waits = &buffers_in_use_;
  }
  SendWr free;
  free.opcode = Opcode::kRdmaWrite;
  free.flags = kInline;
  free.sge = {item.image, 8, store().lkey()};
  free.remote_addr = record;
  free.rkey = channel.remote.rkey;
  engine_.worker_.stage(channel, free, waits);
}

void Transaction::commit_by_rpc(Item& item, WaitGroup& group) {
  const std::uint32_t value_b = layout(item).value_b;
  const std::size_t bytes = sizeof(CommitRequest) + value_b;
  std::span<std::byte> arguments;
  if (engine_.options().commit.passive_ack && engine_.rpc_.has_credit(item.node)) {
    arguments = engine_.rpc_.call_passive(item.node, kCommitWrite, bytes);
  } else {
    reply_to(item) = Reply(group, {item.scratch, sizeof(VerdictReply)});
    arguments = engine_.rpc_.call(item.node, kCommitWrite, bytes, reply_to(item));
  }
  new (arguments.data()) CommitRequest{item.record.packed, item.slot, load_word(item.image + 8)};
  std::memcpy(arguments.data() + sizeof(CommitRequest), item.image + kRecordHeaderBytes, value_b);
}

}  // namespace verbtwin::protocols
