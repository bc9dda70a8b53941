// Execution: fetch the declared records, from local memory, by READ where the location is known, or by RPC.
#include <cassert>

#include "protocols/occ/messages.hpp"
#include "protocols/occ/transaction.hpp"
#include "protocols/store/cluster_hash.hpp"

namespace verbtwin::protocols {

Task<bool> Transaction::execute() {
  const OccOptions::Execution& options = engine_.options().execution;
  const bool all_located = options.primitive == Primitive::kRpc || locate_in_cache();
  if (!all_located && options.primitive == Primitive::kOneSided) {
    auto locating = locate_by_buckets();
    if (!co_await locating) co_return false;
  }

  WaitGroup group(engine_.worker_, this);
  for (std::size_t i = executed_; i < item_count_; ++i) {
    Item& item = items_[i];
    if (is_local(item)) {
      fetch_local(item);
    } else if (item.located) {
      fetch_by_read(item, group);
    } else {
      fetch_by_rpc(item, group);
    }
    if (!options.outstanding) {
      engine_.worker_.ring(options.doorbell_batching);
      co_await group;
    }
  }
  engine_.worker_.ring(options.doorbell_batching);
  co_await group;
  if (verb_failed(group)) co_return false;

  for (std::size_t i = executed_; i < item_count_; ++i) {
    if (!accept_fetched(items_[i])) co_return fail(AbortReason::kRecordLocked);
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
    if (is_local(item)) continue;
    engine_.cpu_.charge(Cost::kCacheLookup);
    const auto slot = engine_.node_.cache.find(item.record, item.record.key());
    item.located = slot.has_value();
    if (slot) item.slot = *slot;
    all = all && item.located;
  }
  return all;
}

/// READs the index buckets of records whose location is not cached, following links.
Task<bool> Transaction::locate_by_buckets() {
  Worker& worker = engine_.worker_;
  WaitGroup group(worker, this);
  std::vector<std::pair<std::size_t, std::uint64_t>> open;  // item, bucket number (or kLinked)
  std::vector<std::uint64_t> offsets;
  for (std::size_t i = executed_; i < item_count_; ++i) {
    Item& item = items_[i];
    if (is_local(item) || item.located) continue;
    const StoreLayout::Table& table = store().layout().table(item.record.table());
    const std::uint64_t bucket = ClusterHash::home_bucket(item.record.key(), table.bucket_count);
    item.scratch = take(ClusterHash::kBucketBytes);
    open.emplace_back(i, bucket);
    offsets.push_back(table.buckets_at + bucket * ClusterHash::kBucketBytes);
  }
  while (!open.empty()) {
    for (std::size_t n = 0; n < open.size(); ++n) {
      Item& item = items_[open[n].first];
      Channel& channel = worker.channel(item.node, worker.nic());
      SendWr wr;
      wr.opcode = Opcode::kRdmaRead;
      wr.sge = {item.scratch, ClusterHash::kBucketBytes, store().lkey()};
      wr.remote_addr = channel.remote.addr + offsets[n];
      wr.rkey = channel.remote.rkey;
      worker.stage(channel, wr, &group);
    }
    worker.ring(engine_.options().execution.doorbell_batching);
    co_await group;
    if (verb_failed(group)) co_return false;

    std::vector<std::pair<std::size_t, std::uint64_t>> linked;
    std::vector<std::uint64_t> linked_offsets;
    for (const auto& [index, bucket] : open) {
      Item& item = items_[index];
      engine_.cpu_.charge(Cost::kIndexLookup);
      const std::span<const std::byte, ClusterHash::kBucketBytes> image(item.scratch,
                                                                        ClusterHash::kBucketBytes);
      const std::uint64_t records = store().layout().table(item.record.table()).spec.records;
      const ClusterHash::Found found = ClusterHash::find(image, bucket, item.record.key(), records);
      assert(found.kind != ClusterHash::Found::Kind::kAbsent && "a key that does not exist");
      if (found.kind == ClusterHash::Found::Kind::kLink) {
        linked.emplace_back(index, ClusterHash::kLinked);
        linked_offsets.push_back(found.value);
      } else {
        item.slot = found.value;
        item.located = true;
        engine_.node_.cache.put(item.record, item.slot);
      }
    }
    open.swap(linked);
    offsets.swap(linked_offsets);
  }
  co_return true;
}

void Transaction::fetch_local(Item& item) {
  engine_.cpu_.charge(Cost::kIndexLookup);
  engine_.cpu_.charge_cycles(engine_.node_.cycles.execution);
  item.slot = store().find_slot(item.record.table(), item.record.key());
  item.located = true;
  const RecordView view =
      copy_record(layout(item), store().primary_record(item.record.table(), item.slot), item.image);
  item.fetched = view.state == RecordState::kStable;
}

void Transaction::fetch_by_read(Item& item, WaitGroup& group) {
  Channel& channel = engine_.record_channel(item.node, item.slot);
  SendWr wr;
  wr.opcode = Opcode::kRdmaRead;
  wr.sge = {item.image, layout(item).image_b, store().lkey()};
  wr.remote_addr = channel.remote.addr + store().layout().record_offset(item.record.table(), 0, item.slot);
  wr.rkey = channel.remote.rkey;
  engine_.worker_.stage(channel, wr, &group);
}

void Transaction::fetch_by_rpc(Item& item, WaitGroup& group) {
  const std::size_t reply_b = sizeof(FetchReply) + layout(item).image_b;
  item.scratch = take(reply_b);
  reply_to(item) = Reply(group, {item.scratch, reply_b});
  const std::span<std::byte> arguments =
      engine_.rpc_.call(item.node, kFetch, sizeof(FetchRequest), reply_to(item));
  new (arguments.data()) FetchRequest{item.record.packed};
}

/// Judges what came back; false: the record is being written.
bool Transaction::accept_fetched(Item& item) {
  const RecordLayout& record = layout(item);
  if (!is_local(item) && !item.located) {
    FetchReply reply;
    std::memcpy(&reply, item.scratch, sizeof reply);
    item.slot = reply.slot;
    item.located = true;
    std::memcpy(item.image, item.scratch + sizeof reply, record.image_b);
    if (engine_.options().execution.primitive != Primitive::kRpc) {
      engine_.cpu_.charge(Cost::kCacheLookup);
      engine_.node_.cache.put(item.record, item.slot);
    }
  }
  if (is_local(item)) {
    if (!item.fetched) return false;
  } else if (inspect(record, item.image).state != RecordState::kStable) {
    return false;
  }
  item.version = load_word(item.image + 8);
  const std::span<std::byte> value(item.image + kRecordHeaderBytes, record.value_b);
  if (item.version == 0) engine_.node_.initial.initial_value(item.record, value);
  if (engine_.history_ != nullptr) item.digest = value_digest(value);
  return true;
}

}  // namespace verbtwin::protocols
