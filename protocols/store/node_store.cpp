#include "protocols/store/node_store.hpp"

#include <array>
#include <cassert>

#include "protocols/store/cluster_hash.hpp"

namespace verbtwin::protocols {

NodeStore::NodeStore(const StoreLayout& layout, int node, int threads, NodeMemory& memory,
                     LogWrites log_writes, KeepLogged keep_logged)
    : layout_(layout),
      node_(node),
      threads_(threads),
      node_memory_(memory),
      memory_(memory.local()),
      lkey_(memory.lkey()),
      log_writes_(log_writes),
      keep_logged_(keep_logged),
      readers_(static_cast<std::size_t>(threads)) {
  assert(memory_.size() >= layout.total_bytes());
  // A short run fills small rings only.
  constexpr std::uint32_t kRingFilledB = 16384;
  const StoreLayout::Part rings = layout.rings();
  if (layout.log().ring_b <= kRingFilledB) memory.expect_use(rings.offset, rings.bytes);
  for (std::uint32_t id = 0; id < layout.tables(); ++id) {
    const StoreLayout::Table& table = layout.table(id);
    for (const std::uint64_t records_at : table.records_at)
      memory.keep_records(records_at, table.spec.records * table.record.stride_b, table.record.stride_b);
    // The index: a key has one place for ever.
    memory.expect_reads(table.buckets_at, table.bucket_count * ClusterHash::kBucketBytes);
  }
}

std::uint64_t NodeStore::find_slot(std::uint32_t table, std::uint64_t key) const {
  assert(key < layout_.table(table).spec.records && "a key that does not exist");
  const std::byte* bucket = memory_.data() + layout_.bucket_offset(table, key);
  return ClusterHash::find(
      std::span<const std::byte, ClusterHash::kBucketBytes>(bucket, ClusterHash::kBucketBytes), key);
}

NodeStore::Reclaimed NodeStore::reclaim(int sender_node, int sender_thread, std::uint64_t certain) {
  LogReader& reader =
      readers_[static_cast<std::size_t>(sender_thread)][static_cast<std::uint32_t>(sender_node)];
  const LogRing log = ring(sender_node, sender_thread);
  Reclaimed done;
  done.first = reader.head() == 0;
  while (reader.head() < certain) {
    const auto body = reader.next(layout_.log(), log);
    if (!body) break;  // not all of it is here yet
    const std::uint64_t records = apply(*body);
    done.records += records;
    done.applied += records > 0 ? 1 : 0;
    ++done.entries;
    done.lines += (body->size() + kCacheLineBytes - 1) / kCacheLineBytes;
  }
  done.head = reader.head();
  return done;
}

void NodeStore::drain_logs() {
  for (int node = 0; node < layout_.nodes(); ++node) {
    for (int thread = 0; thread < threads_; ++thread) reclaim(node, thread, ~std::uint64_t{0});
  }
}

std::uint64_t NodeStore::apply(std::span<const std::byte> body) {
  if (!is_for_backups(log_head(body).kind)) return 0;  // a primary's: it is installed
  const std::span<const std::byte> writes = log_writes(body);
  if (keep_logged_ != KeepLogged::kNothing) {
    const std::scoped_lock guard(logged_mutex_);
    for_each_logged(writes, [&](const LogRecord& logged, std::span<const std::byte> value) {
      logged_.append(
          {{RecordId{logged.record}, writes_of(logged.version), written_digest(logged.version, value)},
           static_cast<std::uint32_t>(node_)});
    });
  }
  if (log_writes_ == LogWrites::kAreKept) return 0;
  std::array<BackupWrite, 8> some;
  std::size_t count = 0;
  std::uint64_t records = 0;
  const auto update_some = [&] {
    update_backups(std::span(some).first(count));
    records += count;
    count = 0;
  };
  for_each_logged(writes, [&](const LogRecord& logged, std::span<const std::byte> value) {
    const RecordId record{logged.record};
    const int rank = layout_.rank_of(node_, static_cast<int>(record.partition()));
    if (rank <= 0) return;
    some[count++] = {record, rank, logged.version, value};
    if (count == some.size()) update_some();
  });
  update_some();
  return records;
}

void NodeStore::update_backup(RecordId record, std::uint64_t version, std::span<const std::byte> value) {
  const int rank = layout_.rank_of(node_, static_cast<int>(record.partition()));
  if (rank <= 0) return;
  BackupWrite write{record, rank, version, value};
  update_backups(std::span(&write, 1));
}

/// Where each is kept is looked for before anything waits for it.
void NodeStore::update_backups(std::span<BackupWrite> writes) {
  for (const BackupWrite& write : writes) prefetch_slot(write.record);
  for (BackupWrite& write : writes) {
    write.slot = find_slot(write.record.table(), write.record.key());
    prefetch_copy(write.record.table(), write.rank, write.slot);
  }
  for (BackupWrite& write : writes) {
    write.copy = record_copy(write.record.table(), write.rank, write.slot);
    prefetch(write.copy);
  }
  for (const BackupWrite& write : writes) {
    // Rings of different senders are applied in any order, and by several workers at once. Nobody but this
    // node's CPUs touches a backup copy, so its lock word serves them.
    while (!try_lock(write.copy, owner_word(node_, 0, 0))) {
    }
    // Versions say which write is the newer.
    if (writes_of(atomic_word(write.copy + 8).load(std::memory_order_relaxed)) < writes_of(write.version)) {
      install(layout_.table(write.record.table()).record, write.copy, write.version, write.value);
    }
    unlock(write.copy);
  }
}

}  // namespace verbtwin::protocols
