// Validation: lock the write set, then check that what was only read has not changed. The two may not
// overlap: a transaction that checks before all its locks are held lets write skew through.
#include <cassert>

#include "protocols/occ/messages.hpp"
#include "protocols/occ/transaction.hpp"

namespace verbtwin::protocols {

namespace {

// scratch during Validation: the CAS's old value, then the record's header as READ behind it, then an RPC's
// reply.
constexpr std::size_t kOldLockAt = 0;
constexpr std::size_t kHeaderAt = 8;
constexpr std::size_t kReplyAt = 24;
constexpr std::size_t kScratchBytes = 32;

}  // namespace

Task<bool> Transaction::lock_write_set() {
  const OccOptions::Validation& options = engine_.options().validation;
  WaitGroup group(engine_.worker_, this);
  for (Item& item : items()) {
    if (!item.is_write) continue;
    item.scratch = take(kScratchBytes);
    if (options.lock == LockKind::kCas) {
      lock_by_cas(item, group);
    } else {
      lock_by_rpc(item, group);
    }
    if (!options.outstanding) {
      engine_.worker_.ring(options.doorbell_batching);
      co_await group;
    }
  }
  engine_.worker_.ring(options.doorbell_batching);
  co_await group;

  bool all = true;
  for (Item& item : items()) {
    if (!item.is_write) continue;
    judge_lock(item);
    all = all && item.passed;
  }
  co_return !verb_failed(group) && all;
}

void Transaction::lock_by_cas(Item& item, WaitGroup& group) {
  Channel& channel = engine_.record_channel(item.node, item.slot);
  const std::uint64_t record =
      channel.remote.addr + store().layout().record_offset(item.record.table(), 0, item.slot);
  if (!engine_.options().sabotage.skip_lock) {
    SendWr cas;
    cas.opcode = Opcode::kAtomicCmpAndSwp;
    cas.sge = {item.scratch + kOldLockAt, 8, store().lkey()};
    cas.remote_addr = record;
    cas.rkey = channel.remote.rkey;
    cas.compare_add = 0;
    cas.swap = owner();
    engine_.worker_.stage(channel, cas, nullptr);
  } else {
    store_word(item.scratch + kOldLockAt, 0);
  }
  SendWr read;
  read.opcode = Opcode::kRdmaRead;
  read.sge = {item.scratch + kHeaderAt, kRecordHeaderBytes, store().lkey()};
  read.remote_addr = record;
  read.rkey = channel.remote.rkey;
  engine_.worker_.stage(channel, read, &group);
}

void Transaction::lock_by_rpc(Item& item, WaitGroup& group) {
  if (is_local(item)) {
    engine_.cpu_.charge(Cost::kLocalAtomic);
    engine_.cpu_.charge_cycles(engine_.node_.cycles.validation);
    std::byte* record = store().primary_record(item.record.table(), item.slot);
    Verdict verdict = Verdict::kPassed;
    if (!engine_.options().sabotage.skip_lock && !try_lock(record, owner())) verdict = Verdict::kLocked;
    store_word(item.scratch + kHeaderAt + 8, atomic_word(record + 8).load(std::memory_order_acquire));
    store_word(item.scratch + kReplyAt, static_cast<std::uint64_t>(verdict));
    return;
  }
  reply_to(item) = Reply(group, {item.scratch + kReplyAt, sizeof(VerdictReply)});
  const std::span<std::byte> arguments =
      engine_.rpc_.call(item.node, kLock, sizeof(LockRequest), reply_to(item));
  new (arguments.data()) LockRequest{item.record.packed, item.slot, item.version, owner()};
}

void Transaction::judge_lock(Item& item) {
  const bool by_cas = engine_.options().validation.lock == LockKind::kCas;
  bool changed = false;
  if (by_cas || is_local(item)) {
    item.locked = by_cas ? load_word(item.scratch + kOldLockAt) == 0
                         : load_word(item.scratch + kReplyAt) == static_cast<std::uint64_t>(Verdict::kPassed);
    changed = load_word(item.scratch + kHeaderAt + 8) != item.version;
  } else {
    const auto verdict = static_cast<Verdict>(load_word(item.scratch + kReplyAt));
    item.locked = verdict == Verdict::kPassed;  // a changed record is not locked by the server
    changed = verdict == Verdict::kChanged;
  }
  if (engine_.options().sabotage.skip_validation) changed = false;
  item.passed = item.locked && !changed;
  if (changed) fail(AbortReason::kWriteSetChanged);
  if (!item.locked && !changed) fail(AbortReason::kLockFailed);
}

Task<bool> Transaction::check_read_set() {
  const OccOptions::Validation& options = engine_.options().validation;
  // One record read and nothing written: the fetch was its own snapshot.
  if (item_count_ == 1 && !items_[0].is_write && layout(items_[0]).proves_itself) co_return true;
  if (engine_.options().sabotage.skip_validation) co_return true;
  WaitGroup group(engine_.worker_, this);
  for (Item& item : items()) {
    if (item.is_write) continue;
    item.scratch = take(kScratchBytes);
    if (is_local(item)) {
      engine_.cpu_.charge_cycles(engine_.node_.cycles.validation);
      std::byte* record = store().primary_record(item.record.table(), item.slot);
      // The lock first: a writer that is let by here locks later, and will find this transaction's locks.
      store_word(item.scratch + kHeaderAt, atomic_word(record).load(std::memory_order_acquire));
      store_word(item.scratch + kHeaderAt + 8, atomic_word(record + 8).load(std::memory_order_acquire));
    } else if (options.check == Primitive::kRpc) {
      check_by_rpc(item, group);
    } else {
      check_by_read(item, group);
    }
    if (!options.outstanding) {
      engine_.worker_.ring(options.doorbell_batching);
      co_await group;
    }
  }
  engine_.worker_.ring(options.doorbell_batching);
  co_await group;

  bool all = true;
  for (Item& item : items()) {
    if (item.is_write) continue;
    judge_check(item);
    all = all && item.passed;
  }
  co_return !verb_failed(group) && (all || fail(AbortReason::kReadSetChanged));
}

void Transaction::check_by_read(Item& item, WaitGroup& group) {
  Channel& channel = engine_.record_channel(item.node, item.slot);
  SendWr read;
  read.opcode = Opcode::kRdmaRead;
  read.sge = {item.scratch + kHeaderAt, kRecordHeaderBytes, store().lkey()};
  read.remote_addr = channel.remote.addr + store().layout().record_offset(item.record.table(), 0, item.slot);
  read.rkey = channel.remote.rkey;
  engine_.worker_.stage(channel, read, &group);
}

void Transaction::check_by_rpc(Item& item, WaitGroup& group) {
  reply_to(item) = Reply(group, {item.scratch + kReplyAt, sizeof(VerdictReply)});
  const std::span<std::byte> arguments =
      engine_.rpc_.call(item.node, kCheck, sizeof(CheckRequest), reply_to(item));
  new (arguments.data()) CheckRequest{item.record.packed, item.slot, item.version};
}

void Transaction::judge_check(Item& item) {
  if (!is_local(item) && engine_.options().validation.check == Primitive::kRpc) {
    item.passed = load_word(item.scratch + kReplyAt) == static_cast<std::uint64_t>(Verdict::kPassed);
  } else {
    item.passed =
        load_word(item.scratch + kHeaderAt) == 0 && load_word(item.scratch + kHeaderAt + 8) == item.version;
  }
}

void Transaction::release_locks() {
  Worker& worker = engine_.worker_;
  if (engine_.options().sabotage.skip_lock) return;
  for (Item& item : items()) {
    if (!item.locked) continue;
    item.locked = false;
    if (is_local(item)) {
      unlock(store().primary_record(item.record.table(), item.slot));
    } else if (engine_.options().commit.primitive == Primitive::kRpc) {
      std::span<std::byte> arguments;
      if (engine_.rpc_.has_credit(item.node)) {
        arguments = engine_.rpc_.call_passive(item.node, kUnlock, sizeof(UnlockRequest));
      } else {
        reply_to(item) = Reply(buffers_in_use_, {item.scratch + kReplyAt, sizeof(VerdictReply)});
        arguments = engine_.rpc_.call(item.node, kUnlock, sizeof(UnlockRequest), reply_to(item));
      }
      new (arguments.data()) UnlockRequest{item.record.packed, item.slot};
    } else {
      Channel& channel = engine_.record_channel(item.node, item.slot);
      store_word(item.scratch + kReplyAt, 0);
      SendWr write;
      write.opcode = Opcode::kRdmaWrite;
      write.flags = kInline;
      write.sge = {item.scratch + kReplyAt, 8, store().lkey()};
      write.remote_addr =
          channel.remote.addr + store().layout().record_offset(item.record.table(), 0, item.slot);
      write.rkey = channel.remote.rkey;
      worker.stage(channel, write, nullptr);
    }
  }
  worker.ring(engine_.options().commit.doorbell_batching);
}

}  // namespace verbtwin::protocols
