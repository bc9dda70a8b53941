// Validation: lock the write set, then check that what was only read has not changed. The two may not
// overlap: a transaction that checks before all its locks are held lets write skew through.
#include <cassert>

#include "protocols/checks/report.hpp"
#include "protocols/occ/transaction.hpp"

namespace verbtwin::protocols {

Task<bool> Transaction::lock_write_set() {
  const OccOptions::Validation& options = engine_.options().validation;
  RequestBatch batch(engine_.worker_, options, this);
  prefetch_local(true);
  for (Item& item : items()) {
    if (!item.is_write) continue;
    item.scratch = take(kValidationBytes);
    if (engine_.options().execution.lock) continue;  // the fetch has locked it
    item.by_cas = options.lock == LockKind::kCas && !is_local_only(item);
    if (item.by_cas) {
      lock_by_cas(item, batch.group());
    } else {
      lock_by_rpc(item, batch.group());
    }
    auto sent = batch.next();
    co_await sent;
  }
  auto rest = batch.rest();
  co_await rest;

  const bool all = judge_all(true, &Transaction::judge_lock);
  co_return !verb_failed(batch.status()) && all;
}

bool Transaction::judge_all(bool writes, void (Transaction::*judge)(Item&)) {
  bool all = true;
  for (Item& item : items()) {
    if (item.is_write != writes) continue;
    (this->*judge)(item);
    all = all && item.passed;
  }
  return all;
}

void Transaction::lock_by_cas(Item& item, WaitGroup& group) {
  Channel& channel = channel_of(item);
  if (!options().sabotage.skip_lock) {
    SendWr cas = record_request(item, channel, Opcode::kAtomicCmpAndSwp, 0, item.scratch + kOldLockAt, 8);
    cas.compare_add = 0;
    cas.swap = owner();
    store_word(item.scratch + kOldLockAt, ~std::uint64_t{0});  // of one that fails: no lock was free
    engine_.worker_.stage(channel, cas, nullptr);
  } else {
    store_word(item.scratch + kOldLockAt, 0);
  }
  stage_read(item, item.scratch + kHeaderAt, kRecordHeaderBytes, group);
}

void Transaction::lock_by_rpc(Item& item, WaitGroup& group) {
  if (is_local(item)) {
    engine_.cpu_.charge(Cost::kLocalAtomic);
    engine_.cpu_.charge_cycles(engine_.node_.cycles.validation);
    std::byte* record = item.local;
    Verdict verdict = Verdict::kPassed;
    if (!options().sabotage.skip_lock && !try_lock(record, owner())) verdict = Verdict::kLocked;
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
  bool changed = false;
  if (options().execution.lock) {
    item.passed = item.locked || options().sabotage.skip_lock || conflict(AbortReason::kLockFailed);
    return;
  }
  if (item.by_cas || is_local(item)) {
    item.locked = item.by_cas
                      ? load_word(item.scratch + kOldLockAt) == 0
                      : load_word(item.scratch + kReplyAt) == static_cast<std::uint64_t>(Verdict::kPassed);
    changed = load_word(item.scratch + kHeaderAt + 8) != item.version;
  } else {
    const auto verdict = static_cast<Verdict>(load_word(item.scratch + kReplyAt));
    item.locked = verdict == Verdict::kPassed;  // a changed record is not locked by the server
    changed = verdict == Verdict::kChanged;
  }
  if (options().sabotage.skip_validation) changed = false;
  item.passed = item.locked && !changed;
  if (!item.passed) {
    item.passed = conflict(changed ? AbortReason::kWriteSetChanged : AbortReason::kLockFailed);
  }
}

std::string Transaction::describe() const {
  std::string text(to_string(phase_));
  if (reason_ == AbortReason::kNone) return text;
  text += std::string(", ") + std::string(to_string(reason_));
  for (std::size_t i = 0; i < item_count_; ++i) {
    const Item& item = items_[i];
    std::uint64_t lock = 0;
    if (reason_ == AbortReason::kRecordLocked && item.located) lock = load_word(item.image);
    if (reason_ == AbortReason::kLockFailed && item.by_cas && item.scratch != nullptr)
      lock = load_word(item.scratch + kOldLockAt);
    if (lock != 0)
      return text + ": " + to_string(item.record) + " of node " + std::to_string(item.node) + " locked by " +
             owner_name(lock);
  }
  return text;
}

Task<bool> Transaction::check_read_set() {
  OccOptions::Validation options = engine_.options().validation;
  if (!writes_) options.doorbell_batching = false;  // as in the published table (OSDI 2018, table 1)
  // One record read and nothing written: the fetch was its own snapshot.
  if (item_count_ == 1 && !items_[0].is_write) co_return true;
  if (engine_.options().sabotage.skip_validation) co_return true;
  RequestBatch batch(engine_.worker_, options, this);
  for (Item& item : items()) {
    if (item.is_write) continue;
    item.scratch = take(kValidationBytes);
    item.asked_by_rpc = !is_local(item) && checks_by_rpc(item);
    if (is_local(item)) {
      check_locally(item);
    } else if (item.asked_by_rpc) {
      check_by_rpc(item, batch.group());
    } else {
      stage_read(item, item.scratch + kHeaderAt, kRecordHeaderBytes, batch.group());
    }
    auto sent = batch.next();
    co_await sent;
  }
  auto rest = batch.rest();
  co_await rest;

  const bool all = judge_all(false, &Transaction::judge_check);
  co_return !verb_failed(batch.status()) && (all || conflict(AbortReason::kReadSetChanged));
}

void Transaction::check_locally(Item& item) {
  engine_.cpu_.charge_cycles(engine_.node_.cycles.validation);
  std::byte* record = item.local;
  // The lock first: a writer that is let by here locks later, and will find this transaction's locks.
  store_word(item.scratch + kHeaderAt, lock_word(record));
  store_word(item.scratch + kHeaderAt + 8, atomic_word(record + 8).load(std::memory_order_acquire));
}

/// FaRM asks a primary that holds many of the records by message, instead of a READ for each.
bool Transaction::checks_by_rpc(const Item& item) {
  const OccOptions::Validation& options = engine_.options().validation;
  if (options.check == Primitive::kRpc) return true;
  if (options.check_rpc_above == 0) return false;
  std::uint32_t of_this_primary = 0;
  for (const Item& other : items()) of_this_primary += !other.is_write && other.node == item.node;
  return of_this_primary > options.check_rpc_above;
}

void Transaction::check_by_rpc(Item& item, WaitGroup& group) {
  reply_to(item) = Reply(group, {item.scratch + kReplyAt, sizeof(VerdictReply)});
  const std::span<std::byte> arguments =
      engine_.rpc_.call(item.node, kCheck, sizeof(CheckRequest), reply_to(item));
  new (arguments.data()) CheckRequest{item.record.packed, item.slot, item.version};
}

void Transaction::judge_check(Item& item) {
  if (item.asked_by_rpc) {
    item.passed = load_word(item.scratch + kReplyAt) == static_cast<std::uint64_t>(Verdict::kPassed);
  } else {
    item.passed =
        load_word(item.scratch + kHeaderAt) == 0 && load_word(item.scratch + kHeaderAt + 8) == item.version;
  }
}

void Transaction::release_locks() {
  record_abort();
  if (options().sabotage.keep_locks) return;
  if (logs_lock_records()) release_log_records();
  for (Item& item : items()) {
    if (item.locked && !options().sabotage.skip_lock) release_lock(item);
  }
  engine_.worker_.ring(options().commit.doorbell_batching);
}

void Transaction::release_lock(Item& item) {
  item.locked = false;
  if (is_local(item)) {
    unlock(item.local);
    return;
  }
  std::byte* word = item.scratch + kReplyAt;
  if (options().commit.primitive != Primitive::kRpc) {
    Channel& channel = channel_of(item);
    store_word(word, 0);
    SendWr write = record_request(item, channel, Opcode::kRdmaWrite, 0, word, 8);
    write.flags = kInline;
    engine_.worker_.stage(channel, write, nullptr);
    return;
  }
  const std::span<std::byte> arguments =
      call_or_pass(item.node, kUnlock, sizeof(UnlockRequest), true, reply_to(item),
                   {word, sizeof(VerdictReply)}, buffers_->in_use);
  new (arguments.data()) UnlockRequest{item.record.packed, item.slot};
}

}  // namespace verbtwin::protocols
