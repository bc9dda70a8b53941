// The server's side of OCC's messages. Each handler runs to completion on a worker of the node that holds the
// record.
#include <cstring>

#include "protocols/occ/engine.hpp"

namespace verbtwin::protocols {

namespace {

template <typename T>
T argument(const RpcCall& call) {
  T value;
  std::memcpy(&value, call.arguments().data(), sizeof value);
  return value;
}

}  // namespace

void OccEngine::answer(const RpcCall& call, Verdict verdict) {
  const std::span<std::byte> reply = rpc_.reply(call.origin(), sizeof(VerdictReply));
  new (reply.data()) VerdictReply{verdict};
}

template <void (OccEngine::*serve)(const RpcCall&)>
void OccEngine::handle(OccMessage message) {
  rpc_.set_handler(
      message, [](void* engine, const RpcCall& call) { (static_cast<OccEngine*>(engine)->*serve)(call); },
      this);
}

void OccEngine::register_handlers() {
  handle<&OccEngine::serve_fetch>(kFetch);
  handle<&OccEngine::serve_lock>(kLock);
  handle<&OccEngine::serve_check>(kCheck);
  handle<&OccEngine::serve_log>(kLog);
  handle<&OccEngine::serve_commit>(kCommitWrite);
  handle<&OccEngine::serve_unlock>(kUnlock);
  handle<&OccEngine::serve_reclaim>(kReclaim);
  handle<&OccEngine::serve_update_backup>(kUpdateBackup);
}

void OccEngine::serve_fetch(const RpcCall& call) {
  const RecordId id{argument<FetchRequest>(call).record};
  charge_look_up(id);
  cpu_.charge_cycles(node_.cycles.execution);
  const RecordLayout& layout = record_layout(id);
  const std::uint64_t slot = store_.find_slot(id.table(), id.key());
  std::byte* record = store_.primary_record(id.table(), slot);
  bool locked = false;
  if (call.arguments().size() >= sizeof(LockingFetchRequest)) {
    cpu_.charge(Cost::kLocalAtomic);
    locked = try_lock(record, argument<LockingFetchRequest>(call).owner);
  }
  const std::span<std::byte> reply = rpc_.reply(call.origin(), sizeof(FetchReply) + layout.image_b);
  new (reply.data()) FetchReply{slot | (locked ? kFetchLockedBit : 0)};
  std::byte* image = reply.data() + sizeof(FetchReply);
  const RecordView view = copy_record(layout, record, image);
  // A copy taken while a writer was at work must not pass for a record.
  if (view.state != RecordState::kStable && view.lock == 0) store_word(image, 1);
}

void OccEngine::serve_lock(const RpcCall& call) {
  const auto lock = argument<LockRequest>(call);
  cpu_.charge(Cost::kLocalAtomic);
  cpu_.charge_cycles(node_.cycles.validation);
  std::byte* record = store_.primary_record(RecordId{lock.record}.table(), lock.slot);
  if (!was_read_here(RecordId{lock.record})) cpu_.charge(Cost::kMemoryMiss);
  const OccOptions::Sabotage& sabotage = options().sabotage;
  if (!sabotage.skip_lock && !try_lock(record, lock.owner)) return answer(call, Verdict::kLocked);
  const std::uint64_t version = atomic_word(record + 8).load(std::memory_order_acquire);
  if (version != lock.version && !sabotage.skip_validation) {
    if (!sabotage.skip_lock) unlock(record);
    return answer(call, Verdict::kChanged);
  }
  answer(call, Verdict::kPassed);
}

void OccEngine::serve_check(const RpcCall& call) {
  const auto check = argument<CheckRequest>(call);
  cpu_.charge_cycles(node_.cycles.validation);
  std::byte* record = store_.primary_record(RecordId{check.record}.table(), check.slot);
  const bool locked = lock_word(record) != 0;  // before the version, see validation.cpp
  const std::uint64_t version = atomic_word(record + 8).load(std::memory_order_acquire);
  answer(call, !locked && version == check.version ? Verdict::kPassed : Verdict::kChanged);
}

void OccEngine::serve_log(const RpcCall& call) {
  const auto log = argument<LogRequest>(call);
  cpu_.charge_cycles(node_.cycles.logging);
  store_log_entry(store_.ring(call.origin().node, worker_.port().thread()).at(log.ring_offset),
                  call.arguments().subspan(sizeof log));
  // No NIC has written it: of what it makes complete, the polling of this round has seen nothing.
  if (!polled_logs_.empty()) worker_.port().wake(worker_.port().thread());
  answer(call, Verdict::kPassed);
}

void OccEngine::serve_commit(const RpcCall& call) {
  const auto commit = argument<CommitRequest>(call);
  cpu_.charge_cycles(node_.cycles.commit);
  const RecordId id{commit.record};
  std::byte* record = store_.primary_record(id.table(), commit.slot);
  install(record_layout(id), record, commit.version, call.arguments().subspan(sizeof commit));
  if (!options().sabotage.skip_lock) unlock(record);
  if (!call.passive()) answer(call, Verdict::kPassed);
}

void OccEngine::serve_unlock(const RpcCall& call) {
  const auto free = argument<UnlockRequest>(call);
  unlock(store_.primary_record(RecordId{free.record}.table(), free.slot));
  if (!call.passive()) answer(call, Verdict::kPassed);
}

void OccEngine::serve_update_backup(const RpcCall& call) {
  const auto commit = argument<CommitRequest>(call);
  update_own_backup(RecordId{commit.record}, commit.version, call.arguments().subspan(sizeof commit));
  answer(call, Verdict::kPassed);
}

void OccEngine::update_own_backup(RecordId record, std::uint64_t version, std::span<const std::byte> value) {
  charge_backup_update(1);
  cpu_.charge(Cost::kMemoryMiss, 2);  // bucket and record: nobody else looks for a backup's
  store_.update_backup(record, version, value);
}

/// A record of a backup is looked for in its index, and takes what installing it takes a primary.
void OccEngine::charge_backup_update(std::uint64_t records) {
  cpu_.charge(Cost::kIndexLookup, records);
  cpu_.charge(Cost::kLocalAtomic, records);
  cpu_.charge_cycles(node_.cycles.commit * records);
}

void OccEngine::serve_reclaim(const RpcCall& call) {
  const auto reclaim = argument<ReclaimRequest>(call);
  cpu_.charge_cycles(node_.cycles.logging);
  const std::uint64_t head = truncate(call.origin().node, reclaim.certain);
  if (call.passive()) return;
  const std::span<std::byte> reply = rpc_.reply(call.origin(), sizeof(ReclaimReply));
  new (reply.data()) ReclaimReply{head};
}

}  // namespace verbtwin::protocols
