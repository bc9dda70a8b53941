#include "protocols/ramp/server.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "protocols/store/record.hpp"

namespace verbtwin::protocols {

RampServerNode::RampServerNode(const RampLayout& shared_layout, const RampOptions& shared_options, int node,
                               int threads, NodeMemory& memory)
    : layout(shared_layout),
      options(shared_options),
      versions(layout, node, memory, {options.collect_after_ps, options.in_place()}),
      locks(options.deadlock),
      mailboxes(static_cast<std::size_t>(threads)) {}

void RampServer::serve(Rpc& rpc) {
  doors_.push_back(std::make_unique<Door>(Door{this, &rpc}));
  Door* door = doors_.back().get();
  rpc.set_handler(id(RampMessage::kGetLast), entry<&RampServer::get_last>, door);
  rpc.set_handler(id(RampMessage::kGetTime), entry<&RampServer::get_time>, door);
  rpc.set_handler(id(RampMessage::kGetNewestOf), entry<&RampServer::get_newest_of>, door);
  rpc.set_handler(id(RampMessage::kPrepare), entry<&RampServer::prepare>, door);
  rpc.set_handler(id(RampMessage::kCommit), entry<&RampServer::commit>, door);
  rpc.set_handler(id(RampMessage::kLock), entry<&RampServer::lock>, door);
  rpc.set_handler(id(RampMessage::kRelease), entry<&RampServer::release>, door);
}

void RampServer::answer(Rpc& rpc, const RpcOrigin& origin, std::uint64_t key, const VersionStore::View& view,
                        bool with_value) {
  VersionReply reply{};
  reply.status = RampStatus::kFound;
  reply.timestamp = view.timestamp;
  reply.last_commit = view.last_commit;
  reply.place = view.in_place ? node_.layout.slot_of(key) : VersionReply::kNoPlace;
  if (with_value) {
    reply.metadata_b = static_cast<std::uint32_t>(view.metadata.size());
    reply.value_b = node_.layout.value_b;
  }
  const std::size_t behind_b = reply.metadata_b + std::size_t{reply.value_b};
  std::span<std::byte> to = put_head(rpc.reply(origin, sizeof reply + behind_b), reply);
  if (!with_value) return;
  cpu_.charge(Cost::kCopyBlock, behind_b / kCacheLineBytes);
  std::ranges::copy(view.metadata, to.begin());
  to = to.subspan(view.metadata.size());
  if (view.timestamp == 0) {
    fill_value(key, 0, to);
  } else {
    std::memcpy(to.data(), view.value.data(), view.value.size());
  }
}

void RampServer::refuse(Rpc& rpc, const RpcOrigin& origin, RampStatus status) {
  VersionReply reply{};
  reply.status = status;
  put_head(rpc.reply(origin, sizeof reply), reply);
}

void RampServer::get_last(Rpc& rpc, const RpcCall& call) {
  const auto arguments = head_of<GetArguments>(call.arguments());
  cpu_.charge(Cost::kIndexLookup);
  node_.versions.read_last(arguments.key, [&](const VersionStore::View& view) {
    answer(rpc, call.origin(), arguments.key, view, true);
  });
}

void RampServer::get_time(Rpc& rpc, const RpcCall& call) {
  const auto arguments = head_of<GetArguments>(call.arguments());
  cpu_.charge(Cost::kIndexLookup);
  node_.versions.read_last(arguments.key, [&](const VersionStore::View& view) {
    answer(rpc, call.origin(), arguments.key, view, false);
  });
}

void RampServer::get_newest_of(Rpc& rpc, const RpcCall& call) {
  const auto arguments = head_of<GetArguments>(call.arguments());
  timestamps_.clear();
  for (std::size_t i = 0; i < arguments.timestamps; ++i)
    timestamps_.push_back(word_at(call.arguments().subspan(sizeof arguments), i));
  cpu_.charge(Cost::kIndexLookup);
  const auto found = node_.versions.read_newest_of(
      arguments.key, timestamps_, cpu_.now_ps(),
      [&](const VersionStore::View& view) { answer(rpc, call.origin(), arguments.key, view, true); });
  if (found == VersionStore::Found::kNone) refuse(rpc, call.origin(), RampStatus::kNone);
  if (found == VersionStore::Found::kCollected) refuse(rpc, call.origin(), RampStatus::kCollected);
}

void RampServer::prepare(Rpc& rpc, const RpcCall& call) {
  const auto arguments = head_of<PrepareArguments>(call.arguments());
  const std::span<const std::byte> metadata =
      call.arguments().subspan(sizeof arguments, arguments.metadata_b);
  const std::span<const std::byte> value =
      call.arguments().subspan(sizeof arguments + arguments.metadata_b, arguments.value_b);
  cpu_.charge(Cost::kIndexLookup);
  const std::size_t blocks = (metadata.size() + value.size()) / kCacheLineBytes;
  cpu_.charge(Cost::kCopyBlock, node_.options.in_place() ? 2 * blocks : blocks);  // copied; its digest
  const PrepareReply reply{
      node_.versions.prepare(arguments.key, arguments.timestamp, metadata, value, cpu_.now_ps())};
  put_head(rpc.reply(call.origin(), sizeof reply), reply);
}

void RampServer::commit(Rpc& rpc, const RpcCall& call) {
  const auto arguments = head_of<CommitArguments>(call.arguments());
  for (std::size_t i = 0; i < arguments.written; ++i) {
    cpu_.charge(Cost::kIndexLookup);
    const std::uint64_t key = word_at(call.arguments().subspan(sizeof arguments), i);
    const std::size_t copied_b = node_.versions.commit(key, arguments.timestamp, cpu_.now_ps());
    cpu_.charge(Cost::kCopyBlock, copied_b / kCacheLineBytes);
  }
  rpc.reply(call.origin(), 0);
}

void RampServer::lock(Rpc& rpc, const RpcCall& call) {
  const auto arguments = head_of<LockArguments>(call.arguments());
  const LockClaim request{arguments.key,
                          arguments.client,
                          arguments.since_ps,
                          arguments.exclusive != 0,
                          arguments.wants_value != 0,
                          worker_.port().thread(),
                          &rpc,
                          call.origin()};
  cpu_.charge(Cost::kIndexLookup);
  cpu_.charge(Cost::kLocalAtomic);
  switch (node_.locks.lock(request)) {
    case LockTable::Verdict::kGranted:
      answer_granted(request);
      break;
    case LockTable::Verdict::kRefused:
      refuse(rpc, call.origin(), RampStatus::kRefused);
      break;
    case LockTable::Verdict::kWaits:
      break;
  }
}

void RampServer::answer_granted(const LockClaim& request) {
  node_.versions.read_last(request.key, [&](const VersionStore::View& view) {
    answer(*request.rpc, request.origin, request.key, view, request.wants_value);
  });
}

void RampServer::release(Rpc& rpc, const RpcCall& call) {
  const auto arguments = head_of<CommitArguments>(call.arguments());
  const std::span<const std::byte> keys = call.arguments().subspan(sizeof arguments);
  // What is looked up to be unlocked is at hand to be committed.
  for (std::size_t i = 0; i < arguments.written; ++i)
    node_.versions.commit(word_at(keys, i), arguments.timestamp, cpu_.now_ps());
  for (std::size_t i = 0; i < std::size_t{arguments.written} + arguments.locked; ++i)
    release_key(word_at(keys, i), arguments.client);
  rpc.reply(call.origin(), 0);
}

void RampServer::release_key(std::uint64_t key, std::uint64_t client) {
  cpu_.charge(Cost::kIndexLookup);
  cpu_.charge(Cost::kLocalAtomic);
  granted_.clear();
  node_.locks.release(key, client, granted_);
  for (const LockClaim& request : granted_) {
    if (request.thread == worker_.port().thread()) {
      answer_granted(request);
      continue;
    }
    RampServerNode::Mailbox& mailbox = node_.mailboxes[static_cast<std::size_t>(request.thread)];
    {
      const SpinLock lock(mailbox.spin);
      mailbox.granted.push_back(request);
      std::atomic_ref(mailbox.full).store(1, std::memory_order_release);
    }
    worker_.port().wake(request.thread);
  }
}

bool RampServer::take_grants() {
  cpu_.charge(Cost::kPollSlot);
  RampServerNode::Mailbox& mailbox = node_.mailboxes[static_cast<std::size_t>(worker_.port().thread())];
  if (std::atomic_ref(mailbox.full).load(std::memory_order_acquire) == 0) return false;
  std::vector<LockClaim> granted;
  {
    const SpinLock lock(mailbox.spin);
    granted.swap(mailbox.granted);
    std::atomic_ref(mailbox.full).store(0, std::memory_order_relaxed);
  }
  for (const LockClaim& request : granted) answer_granted(request);
  return true;
}

}  // namespace verbtwin::protocols
