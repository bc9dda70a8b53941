// The server's side of OCC's messages. Each handler runs to completion on a worker of the node that holds the
// record.
#include <cstring>

#include "protocols/occ/engine.hpp"

namespace verbtwin::protocols {

namespace {

template <typename T>
T argument(const RpcRequest& request) {
  T value;
  std::memcpy(&value, request.arguments().data(), sizeof value);
  return value;
}

void answer(RpcRequest& request, Verdict verdict) {
  const std::span<std::byte> reply = request.reply(sizeof(VerdictReply));
  new (reply.data()) VerdictReply{verdict};
}

}  // namespace

template <void (OccEngine::*serve)(RpcRequest&)>
void OccEngine::handle(OccMessage message) {
  rpc_.set_handler(
      message, [](void* engine, RpcRequest& request) { (static_cast<OccEngine*>(engine)->*serve)(request); },
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

void OccEngine::serve_fetch(RpcRequest& request) {
  const RecordId id{argument<FetchRequest>(request).record};
  cpu_.charge(Cost::kIndexLookup);
  cpu_.charge_cycles(node_.cycles.execution);
  const RecordLayout& layout = record_layout(id);
  const std::uint64_t slot = store_.find_slot(id.table(), id.key());
  std::byte* record = store_.primary_record(id.table(), slot);
  bool locked = false;
  if (request.arguments().size() >= sizeof(LockingFetchRequest)) {
    cpu_.charge(Cost::kLocalAtomic);
    locked = try_lock(record, argument<LockingFetchRequest>(request).owner);
  }
  const std::span<std::byte> reply = request.reply(sizeof(FetchReply) + layout.image_b);
  new (reply.data()) FetchReply{slot | (locked ? kFetchLockedBit : 0)};
  std::byte* image = reply.data() + sizeof(FetchReply);
  const RecordView view = copy_record(layout, record, image);
  // A copy taken while a writer was at work must not pass for a record.
  if (view.state != RecordState::kStable && view.lock == 0) store_word(image, 1);
}

void OccEngine::serve_lock(RpcRequest& request) {
  const auto lock = argument<LockRequest>(request);
  cpu_.charge(Cost::kLocalAtomic);
  cpu_.charge_cycles(node_.cycles.validation);
  std::byte* record = store_.primary_record(RecordId{lock.record}.table(), lock.slot);
  const OccOptions::Sabotage& sabotage = options().sabotage;
  if (!sabotage.skip_lock && !try_lock(record, lock.owner)) return answer(request, Verdict::kLocked);
  const std::uint64_t version = atomic_word(record + 8).load(std::memory_order_acquire);
  if (version != lock.version && !sabotage.skip_validation) {
    if (!sabotage.skip_lock) unlock(record);
    return answer(request, Verdict::kChanged);
  }
  answer(request, Verdict::kPassed);
}

void OccEngine::serve_check(RpcRequest& request) {
  const auto check = argument<CheckRequest>(request);
  cpu_.charge_cycles(node_.cycles.validation);
  std::byte* record = store_.primary_record(RecordId{check.record}.table(), check.slot);
  const bool locked =
      atomic_word(record).load(std::memory_order_acquire) != 0;  // before the version, see validation.cpp
  const std::uint64_t version = atomic_word(record + 8).load(std::memory_order_acquire);
  answer(request, !locked && version == check.version ? Verdict::kPassed : Verdict::kChanged);
}

void OccEngine::serve_log(RpcRequest& request) {
  const auto log = argument<LogRequest>(request);
  cpu_.charge_cycles(node_.cycles.logging);
  store_log_entry(store_.ring(request.source_node(), worker_.port().thread()).data() + log.ring_offset,
                  request.arguments().subspan(sizeof log));
  answer(request, Verdict::kPassed);
}

void OccEngine::serve_commit(RpcRequest& request) {
  const auto commit = argument<CommitRequest>(request);
  cpu_.charge_cycles(node_.cycles.commit);
  const RecordId id{commit.record};
  std::byte* record = store_.primary_record(id.table(), commit.slot);
  install(record_layout(id), record, commit.version, request.arguments().subspan(sizeof commit));
  if (!options().sabotage.skip_lock) unlock(record);
  if (!request.passive()) answer(request, Verdict::kPassed);
}

void OccEngine::serve_unlock(RpcRequest& request) {
  const auto free = argument<UnlockRequest>(request);
  unlock(store_.primary_record(RecordId{free.record}.table(), free.slot));
  if (!request.passive()) answer(request, Verdict::kPassed);
}

void OccEngine::serve_update_backup(RpcRequest& request) {
  const auto commit = argument<CommitRequest>(request);
  cpu_.charge_cycles(node_.cycles.commit);
  cpu_.charge(Cost::kMemoryMiss);  // nobody reads a backup's records
  cpu_.charge(Cost::kLocalAtomic);
  store_.update_backup(RecordId{commit.record}, commit.slot, commit.version,
                       request.arguments().subspan(sizeof commit));
  answer(request, Verdict::kPassed);
}

void OccEngine::serve_reclaim(RpcRequest& request) {
  const auto reclaim = argument<ReclaimRequest>(request);
  cpu_.charge_cycles(node_.cycles.logging);
  const std::uint64_t head = truncate(request.source_node(), reclaim.certain);
  const std::span<std::byte> reply = request.reply(sizeof(ReclaimReply));
  new (reply.data()) ReclaimReply{head};
}

}  // namespace verbtwin::protocols
