// Execution: fetch the declared records, from local memory, by READ where the location is known, or by RPC.
#include "protocols/occ/transaction.hpp"
#include "protocols/store/cluster_hash.hpp"

namespace verbtwin::protocols {

Task<bool> Transaction::execute() {
  const OccOptions::Execution& options = engine_.options().execution;
  phase_ = Phase::kExecution;
  if (executed_ == 0) log_entries_.clear();
  const bool all_located = options.primitive == Primitive::kRpc || locate_in_cache();
  const bool looks_up = !all_located && options.primitive == Primitive::kOneSided;
  if (looks_up && engine_.options().index == Index::kNeighbourhoods) {
    locate_among_neighbours();
  } else if (looks_up) {
    auto locating = locate_by_buckets();
    if (!co_await locating) co_return false;
  }

  RequestBatch batch(engine_.worker_, options, this);
  find_local();
  prefetch_channels();
  for (std::size_t i = executed_; i < item_count_; ++i) {
    Item& item = items_[i];
    if (is_local(item)) {
      fetch_local(item);
    } else if (item.located && reads_backup(item)) {
      const int rank = store().layout().rank_of(store().node(), item.node);
      copy_record(layout(item), store().record_copy(item.record.table(), rank, item.slot), item.image);
    } else if (item.among_neighbours) {
      fetch_neighbourhood(item, batch.group());
    } else if (item.located) {
      stage_read(item, item.image, layout(item).image_b, batch.group());
    } else {
      fetch_by_rpc(item, batch.group());
    }
    auto sent = batch.next();
    co_await sent;
  }
  auto rest = batch.rest();
  co_await rest;
  if (verb_failed(batch.status())) co_return false;

  bool all_accepted = true;
  for (std::size_t i = executed_; i < item_count_; ++i) {
    all_accepted = accept_fetched(items_[i]) && all_accepted;
    if (!all_accepted && !options.lock && !engine_.options().artifact.conflicts_commit) break;
  }
  if (!all_accepted && !conflict(AbortReason::kRecordLocked)) {
    release_locks();
    co_return false;
  }
  executed_ = item_count_;
  end_phase(Phase::kExecution);
  co_return true;
}

/// True if every remote record's location is cached.
bool Transaction::locate_in_cache() {
  bool all = true;
  for (std::size_t i = executed_; i < item_count_; ++i) {
    Item& item = items_[i];
    if (is_local(item) || is_by_rpc(item)) continue;
    if (!engine_.node_.cache.holds_any()) {
      all = item.located = false;
      continue;
    }
    engine_.cpu_.charge(Cost::kCacheLookup);
    const auto slot = engine_.node_.cache.find(item.record, item.record.key());
    item.located = slot.has_value();
    if (slot) item.slot = *slot;
    ++(item.located ? locations_cached_ : locations_missed_);
    all = all && item.located;
  }
  return all;
}

/// READs the index buckets of records whose location is not cached.
Task<bool> Transaction::locate_by_buckets() {
  Worker& worker = engine_.worker_;
  const auto is_sought = [this](const Item& item) {
    return !is_local(item) && !item.located && !is_by_rpc(item);
  };
  RequestBatch batch(worker, options().execution, this);
  for (std::size_t i = executed_; i < item_count_; ++i) {
    Item& item = items_[i];
    if (!is_sought(item)) continue;
    item.scratch = take(ClusterHash::kBucketBytes);
    const std::uint64_t offset = store().layout().bucket_offset(item.record.table(), item.record.key());
    Channel& channel = engine_.channel_for(item.node, worker.nic(), offset);
    SendWr wr;
    wr.opcode = Opcode::kRdmaRead;
    wr.sge = {item.scratch, ClusterHash::kBucketBytes, store().lkey()};
    wr.remote_addr = channel.remote.addr + offset;
    wr.rkey = channel.remote.rkey;
    worker.stage(channel, wr, &batch.group());
    auto sent = batch.next();
    co_await sent;
  }
  auto rest = batch.rest();
  co_await rest;
  if (verb_failed(batch.status())) co_return false;

  for (std::size_t i = executed_; i < item_count_; ++i) {
    Item& item = items_[i];
    if (!is_sought(item)) continue;
    engine_.cpu_.charge(Cost::kCacheLookup);  // as in the location cache: lines that another has written
    const std::span<const std::byte, ClusterHash::kBucketBytes> bucket(item.scratch,
                                                                       ClusterHash::kBucketBytes);
    item.slot = ClusterHash::find(bucket, item.record.key());
    item.located = true;
    engine_.node_.cache.put(item.record, item.slot);
  }
  co_return true;
}

/// Those whose location is not cached will be READ with their neighbours: a key's place is among these.
void Transaction::locate_among_neighbours() {
  for (std::size_t i = executed_; i < item_count_; ++i) {
    Item& item = items_[i];
    if (is_local(item) || item.located || is_by_rpc(item)) continue;
    item.located = item.among_neighbours = true;
    item.slot = item.record.key();
  }
}

void Transaction::fetch_neighbourhood(Item& item, WaitGroup& group) {
  const StoreLayout::Neighbourhood all =
      store().layout().neighbourhood(item.record.table(), item.record.key());
  item.scratch = take(all.bytes);
  Channel& channel = channel_of(item);
  SendWr wr = record_request(item, channel, Opcode::kRdmaRead, 0, item.scratch, all.bytes);
  wr.remote_addr -= all.record_at;
  engine_.worker_.stage(channel, wr, &group);
}

/// Looks this node's own records up, all of them before the first is copied: their cache misses overlap.
void Transaction::find_local() {
  bool all_cached = true;
  const auto for_each_local = [this](const auto& visit) {
    for (std::size_t i = executed_; i < item_count_; ++i) {
      if (is_local(items_[i])) visit(items_[i]);
    }
  };
  for_each_local([&](const Item& item) { store().prefetch_slot(item.record); });
  for_each_local([&](Item& item) {
    item.slot = store().find_slot(item.record.table(), item.record.key());
    store().prefetch_copy(item.record.table(), 0, item.slot);
  });
  for_each_local([&](Item& item) {
    item.local = store().primary_record(item.record.table(), item.slot);
    item.located = true;
    prefetch(item.local);
    all_cached = all_cached && engine_.is_cached(item.record);
  });
  if (!all_cached) engine_.cpu_.charge(Cost::kMemoryMiss, 2);  // buckets, then records
}

void Transaction::fetch_local(Item& item) {
  engine_.cpu_.charge(Cost::kIndexLookup);
  engine_.cpu_.charge_cycles(engine_.node_.cycles.execution);
  std::byte* record = item.local;
  if (locks_when_fetching(item)) {
    engine_.cpu_.charge(Cost::kLocalAtomic);
    item.locked = !options().sabotage.skip_lock && try_lock(record, owner());
  }
  engine_.cpu_.charge(Cost::kCopyBlock, layout(item).image_b / kCacheLineBytes);
  const RecordView view = copy_record(layout(item), record, item.image);
  item.fetched = item.locked || view.state == RecordState::kStable;
}

void Transaction::fetch_by_rpc(Item& item, WaitGroup& group) {
  const std::size_t reply_b = sizeof(FetchReply) + layout(item).image_b;
  item.scratch = take(reply_b);
  reply_to(item) = Reply(group, {item.scratch, reply_b});
  const bool lock = locks_when_fetching(item) && !options().sabotage.skip_lock;
  const std::size_t request_b = lock ? sizeof(LockingFetchRequest) : sizeof(FetchRequest);
  const std::span<std::byte> arguments = engine_.rpc_.call(item.node, kFetch, request_b, reply_to(item));
  new (arguments.data()) FetchRequest{item.record.packed};
  if (lock) new (arguments.data()) LockingFetchRequest{item.record.packed, owner()};
}

/// Takes an RPC's answer apart: where the record is, whether it is locked for us, its image.
bool Transaction::accept_reply(Item& item) {
  FetchReply reply;
  std::memcpy(&reply, item.scratch, sizeof reply);
  item.slot = reply.slot & ~kFetchLockedBit;
  item.locked = (reply.slot & kFetchLockedBit) != 0;
  item.located = true;
  std::memcpy(item.image, item.scratch + sizeof reply, layout(item).image_b);
  if (options().execution.primitive != Primitive::kRpc && !is_by_rpc(item) &&
      engine_.node_.cache.holds_any()) {
    engine_.cpu_.charge(Cost::kCacheLookup);
    engine_.node_.cache.put(item.record, item.slot);
  }
  return item.locked || inspect(layout(item), item.image).state == RecordState::kStable;
}

/// Judges what came back; false: the record is being written.
bool Transaction::accept_fetched(Item& item) {
  const RecordLayout& record = layout(item);
  bool stable = item.fetched;
  if (item.among_neighbours) {
    engine_.cpu_.charge(Cost::kCacheLookup);  // as in a bucket: the key is looked for
    engine_.cpu_.charge(Cost::kCopyBlock, record.image_b / kCacheLineBytes);
    const StoreLayout::Neighbourhood all =
        store().layout().neighbourhood(item.record.table(), item.record.key());
    std::memcpy(item.image, item.scratch + all.record_at, record.image_b);
    engine_.node_.cache.put(item.record, item.slot);
  }
  if (!is_local(item)) {
    if (item.located && record.digests) {  // going over it costs about what copying it does
      engine_.cpu_.charge(Cost::kCopyBlock, record.image_b / kCacheLineBytes);
    }
    const RecordState state = item.located ? inspect(record, item.image).state : RecordState::kStable;
    stable = item.located ? state == RecordState::kStable : accept_reply(item);
    if (options().sabotage.accept_torn && state == RecordState::kTorn) stable = true;
  }
  if (!stable && !options().artifact.conflicts_commit) return false;
  item.version = load_word(item.image + 8);
  const std::span<std::byte> value(item.image + kRecordHeaderBytes, record.value_b);
  item.exists = item.version == 0 ? engine_.node_.initial.initial_value(item.record, value)
                                  : (item.version & kDeletedBit) == 0;
  if (engine_.history_ != nullptr) {
    item.digest = written_digest(item.exists ? 0 : kDeletedBit, value);
  }
  return stable;
}

}  // namespace verbtwin::protocols
