// The server's side of OCC's messages. Each handler runs to completion on a worker of the node that holds the
// record.
#include <cstring>

#include "protocols/occ/messages.hpp"
#include "protocols/occ/transaction.hpp"

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

void OccEngine::register_handlers() {
  rpc_.set_handler(kFetch, serve_fetch, this);
  rpc_.set_handler(kLock, serve_lock, this);
  rpc_.set_handler(kCheck, serve_check, this);
  rpc_.set_handler(kLog, serve_log, this);
  rpc_.set_handler(kCommitWrite, serve_commit, this);
  rpc_.set_handler(kUnlock, serve_unlock, this);
  rpc_.set_handler(kReclaim, serve_reclaim, this);
}

void OccEngine::serve_fetch(void* self, RpcRequest& request) {
  auto& engine = *static_cast<OccEngine*>(self);
  const RecordId record{argument<FetchRequest>(request).record};
  engine.cpu_.charge(Cost::kIndexLookup);
  engine.cpu_.charge_cycles(engine.node_.cycles.execution);
  const RecordLayout& layout = engine.record_layout(record);
  const std::uint64_t slot = engine.store_.find_slot(record.table(), record.key());
  const std::span<std::byte> reply = request.reply(sizeof(FetchReply) + layout.image_b);
  new (reply.data()) FetchReply{slot};
  std::byte* image = reply.data() + sizeof(FetchReply);
  const RecordView view = copy_record(layout, engine.store_.primary_record(record.table(), slot), image);
  // A copy taken while a writer was at work must not pass for a record.
  if (view.state != RecordState::kStable && view.lock == 0) store_word(image, 1);
}

void OccEngine::serve_lock(void* self, RpcRequest& request) {
  auto& engine = *static_cast<OccEngine*>(self);
  const auto lock = argument<LockRequest>(request);
  engine.cpu_.charge(Cost::kLocalAtomic);
  engine.cpu_.charge_cycles(engine.node_.cycles.validation);
  std::byte* record = engine.store_.primary_record(RecordId{lock.record}.table(), lock.slot);
  const OccOptions::Sabotage& sabotage = engine.options().sabotage;
  if (!sabotage.skip_lock && !try_lock(record, lock.owner)) return answer(request, Verdict::kLocked);
  const std::uint64_t version = atomic_word(record + 8).load(std::memory_order_acquire);
  if (version != lock.version && !sabotage.skip_validation) {
    if (!sabotage.skip_lock) unlock(record);
    return answer(request, Verdict::kChanged);
  }
  answer(request, Verdict::kPassed);
}

void OccEngine::serve_check(void* self, RpcRequest& request) {
  auto& engine = *static_cast<OccEngine*>(self);
  const auto check = argument<CheckRequest>(request);
  engine.cpu_.charge_cycles(engine.node_.cycles.validation);
  std::byte* record = engine.store_.primary_record(RecordId{check.record}.table(), check.slot);
  const bool locked =
      atomic_word(record).load(std::memory_order_acquire) != 0;  // before the version, see validation.cpp
  const std::uint64_t version = atomic_word(record + 8).load(std::memory_order_acquire);
  answer(request, !locked && version == check.version ? Verdict::kPassed : Verdict::kChanged);
}

void OccEngine::serve_log(void* self, RpcRequest& request) {
  auto& engine = *static_cast<OccEngine*>(self);
  const auto log = argument<LogRequest>(request);
  const std::span<const std::byte> entry = request.arguments().subspan(sizeof log);
  engine.cpu_.charge_cycles(engine.node_.cycles.logging);
  engine.cpu_.charge(Cost::kCopyBlock, (entry.size() + 63) / 64);
  std::byte* at = engine.store_.ring(request.source_node(), log.sender_thread).data() + log.ring_offset;
  std::memcpy(at, entry.data(), entry.size() - kLogFrameBytes);
  const std::size_t frame_at = entry.size() - kLogFrameBytes;
  atomic_word(at + frame_at).store(load_word(entry.data() + frame_at), std::memory_order_release);
  answer(request, Verdict::kPassed);
}

void OccEngine::serve_commit(void* self, RpcRequest& request) {
  auto& engine = *static_cast<OccEngine*>(self);
  const auto commit = argument<CommitRequest>(request);
  engine.cpu_.charge_cycles(engine.node_.cycles.commit);
  const RecordId id{commit.record};
  std::byte* record = engine.store_.primary_record(id.table(), commit.slot);
  install(engine.record_layout(id), record, commit.version, request.arguments().subspan(sizeof commit));
  if (!engine.options().sabotage.skip_lock) unlock(record);
  if (!request.passive()) answer(request, Verdict::kPassed);
}

void OccEngine::serve_unlock(void* self, RpcRequest& request) {
  auto& engine = *static_cast<OccEngine*>(self);
  const auto free = argument<UnlockRequest>(request);
  unlock(engine.store_.primary_record(RecordId{free.record}.table(), free.slot));
  if (!request.passive()) answer(request, Verdict::kPassed);
}

void OccEngine::serve_reclaim(void* self, RpcRequest& request) {
  auto& engine = *static_cast<OccEngine*>(self);
  const auto reclaim = argument<ReclaimRequest>(request);
  engine.cpu_.charge_cycles(engine.node_.cycles.logging);
  const std::uint64_t head =
      engine.store_.reclaim(request.source_node(), static_cast<int>(reclaim.sender_thread), reclaim.certain);
  const std::span<std::byte> reply = request.reply(sizeof(ReclaimReply));
  new (reply.data()) ReclaimReply{head};
}

}  // namespace verbtwin::protocols
