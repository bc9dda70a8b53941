#include "protocols/occ/transaction.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "backend/prefetch.hpp"
#include "protocols/checks/report.hpp"
#include "protocols/occ/messages.hpp"
#include "protocols/remainder.hpp"
#include "protocols/spread_bits.hpp"
#include "protocols/store/cluster_hash.hpp"
#include "protocols/whole_lines.hpp"

namespace verbtwin::protocols {

std::string_view to_string(AbortReason reason) {
  switch (reason) {
    case AbortReason::kNone:
      return "none";
    case AbortReason::kRecordLocked:
      return "record_locked";
    case AbortReason::kLockFailed:
      return "lock_failed";
    case AbortReason::kWriteSetChanged:
      return "write_set_changed";
    case AbortReason::kReadSetChanged:
      return "read_set_changed";
    case AbortReason::kVerbFailed:
      return "verb_failed";
  }
  return "unknown";
}

std::string_view to_string(Phase phase) {
  constexpr std::array<std::string_view, kPhases> kNames = {"execution", "validation", "logging", "commit"};
  return kNames[static_cast<std::size_t>(phase)];
}

namespace {

/// The classes of records that are often asked for, if those of a node, with their part of its index, fit
/// into the cache that a socket's cores share; every socket's cores ask for all of them. Empty: they do not.
std::vector<bool> popular_cached(const OccNode& node, std::uint64_t cache_b) {
  const StoreLayout& layout = node.store.layout();
  const std::uint64_t index_b = ClusterHash::kBucketBytes / ClusterHash::kKeysPerBucket;
  const std::vector<RecordClass>& classes = node.popularity.classes();
  std::vector<bool> popular = popular_classes(classes);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const std::uint64_t record_b = layout.table(classes[i].table).record.stride_b + index_b;
    if (popular[i]) bytes += classes[i].records / static_cast<std::uint64_t>(layout.nodes()) * record_b;
  }
  if (bytes > cache_b) popular.clear();
  return popular;
}

}  // namespace

OccEngine::OccEngine(const OccNode& node, Worker& worker, UdRpc& rpc, History* history)
    : node_(node),
      worker_(worker),
      cpu_(worker.cpu()),
      rpc_(rpc),
      store_(node.store),
      history_(history),
      inline_max_b_(worker.port().device().attributes().max_inline_data),
      popular_cached_(popular_cached(node, cpu_.last_level_cache_b())),
      entry_of_node_(static_cast<std::size_t>(node.store.layout().nodes())) {
  register_handlers();
  if (options().validation.lock != LockKind::kLogRecord) return;
  const StoreLayout& layout = store_.layout();
  polled_logs_.resize(static_cast<std::size_t>(layout.nodes()));
  worker_.set_polled_memory(*this);
  worker_.port().watch(
      store_.memory().subspan(layout.ring_offset(0, worker_.port().thread()), layout.rings_bytes()));
}

int OccEngine::record_nic(std::uint64_t slot) const {
  if (options().validation.lock != LockKind::kCas) return worker_.nic();
  return static_cast<int>(
      remainder_of(slot, static_cast<std::uint64_t>(worker_.port().shape().nics_per_node)));
}

int OccEngine::queue_pair_for(std::uint64_t thing) const {
  const auto queue_pairs = static_cast<std::uint64_t>(worker_.port().shape().qps_per_peer);
  if (queue_pairs == 1) return 0;
  constexpr std::uint64_t kSpread = 0x9E3779B97F4A7C15;  // neighbours take different ones
  return static_cast<int>(remainder_of(thing * kSpread >> 32, queue_pairs));
}

OccEngine::RemoteLog& OccEngine::log_at(int node) {
  std::unique_ptr<RemoteLog>& log = logs_[static_cast<std::uint32_t>(node)];
  if (!log) {
    const LogSpec& spec = store_.layout().log();
    const std::uint32_t held = spec.held_at_start(store_.node(), worker_.port().thread(), node);
    log = std::make_unique<RemoteLog>(*this, spec, held, node);
  }
  return *log;
}

void OccEngine::prefetch_logs() {
  const bool by_rpc = options().logging.primitive == Primitive::kRpc;
  for (const int node : log_nodes_) {
    prefetch_line(logs_.near(static_cast<std::uint32_t>(node)));
    if (!by_rpc) worker_.prefetch_look_up(node, worker_.nic(), 0);
  }
  for (const int node : log_nodes_) {
    log_at(node).prefetch();
    if (!by_rpc) worker_.prefetch_channel(node, worker_.nic(), 0);
  }
}

/// Who takes more somewhere has to add it here: every take() of an attempt is among these.
std::size_t Transaction::arena_bytes(const TransactionMaxima& most, const OccOptions& options) {
  const bool lock_records = options.validation.lock == LockKind::kLogRecord;
  const std::size_t neighbours_b = options.index == Index::kNeighbourhoods ? most.neighbourhood_b : 0;
  // Of a record, beside its image and that in the answer to a fetch: a look-up, the answer's head,
  // Validation.
  constexpr std::size_t kRecordBytes = 256;
  static_assert(ClusterHash::kBucketBytes + sizeof(FetchReply) + kValidationBytes <= kRecordBytes);
  // Of an entry of a log, beside what is written: frames, heads, what closes a LOCK record, the answer.
  constexpr std::size_t kEntryBytes = 48, kLockingEntryBytes = 96;
  static_assert(2 * kLogFrameBytes + sizeof(VerdictReply) + sizeof(ReclaimReply) <= kEntryBytes);
  static_assert(2 * kLogFrameBytes + sizeof(LogHead) + kCloseBytes + sizeof(VerdictReply) <=
                kLockingEntryBytes);
  // All that is written is in the log of every backup, and once more in LOCK records.
  const std::size_t copies = most.backups + (lock_records ? 1 : 0);
  const std::size_t entries = most.backups * most.log_entries + (lock_records ? most.writes : 0);
  return whole_lines(most.records * (2 * most.image_b + neighbours_b + kRecordBytes) +
                     copies * log_entry_bytes(most.writes, most.written_b) +
                     entries * (lock_records ? kLockingEntryBytes : kEntryBytes));
}

Transaction::Transaction(OccEngine& engine, int coroutine, std::span<std::byte> arena,
                         std::size_t records_max, std::span<std::byte> spare)
    : engine_(engine),
      coroutine_(coroutine),
      buffers_(&first_),
      items_(records_max),
      first_(engine.worker(), this, arena, records_max),
      spare_(engine.worker(), this, spare, spare.empty() ? 0 : records_max) {}

WaitGroup& Transaction::begin() {
  if (!buffers_->in_use.idle() && !spare_.arena.empty()) buffers_ = buffers_ == &first_ ? &spare_ : &first_;
  item_count_ = 0;
  executed_ = 0;
  declared_ = 0;
  channel_count_ = 0;
  arena_used_ = 0;
  writes_ = false;
  reason_ = AbortReason::kNone;
  phase_ps_.fill(kNoPhase);
  locations_cached_ = locations_missed_ = 0;
  phase_ = Phase::kExecution;
  begin_ps_ = phase_start_ps_ = engine_.cpu_.now_ps();
  memory_begin_ps_ = engine_.cpu_.memory_now_ps();
  begun_ = engine_.worker_.resumed();
  return buffers_->in_use;
}

std::byte* Transaction::take(std::size_t bytes) {
  std::byte* at = buffers_->arena.data() + arena_used_;
  arena_used_ += whole_words(bytes);
  // In every build: behind it lie what other transactions have read.
  if (arena_used_ > buffers_->arena.size()) {
    throw std::logic_error("a transaction takes more than the " + std::to_string(buffers_->arena.size()) +
                           " B that it was reckoned to take");
  }
  return at;
}

/// What a workload may not do is told in every build: it would end in lost memory or in a lock that is
/// waited for by who holds it.
void Transaction::refuse_wrong(RecordId record, bool is_write) {
  const auto refuse = [record](const char* what) {
    throw std::logic_error("a transaction declares " + to_string(record) + ", " + what);
  };
  const StoreLayout& layout = store().layout();
  if (item_count_ == items_.size()) refuse("one more than its workload's records_max()");
  if (record.table() >= layout.tables()) refuse("of a table that there is not");
  const TableSpec& table = layout.table(record.table()).spec;
  if (record.key() >= table.records) refuse("of a key beyond its table");
  if (record.partition() >= static_cast<std::uint32_t>(layout.nodes())) refuse("of a node that there is not");
  if (table.local_only && static_cast<int>(record.partition()) != store().node())
    refuse("another node's of a table that is local only");
  writes_ = writes_ || is_write;
  const std::uint64_t bit = std::uint64_t{1} << (spread_bits(record.packed) >> 58);
  const bool may_be_known = (declared_ & bit) != 0;
  declared_ |= bit;
  if (!writes_ || !may_be_known) return;
  for (const Item& item : items()) {
    if (item.record == record) refuse("which it has declared before");
  }
}

int Transaction::declare(RecordId record, bool is_write) {
  refuse_wrong(record, is_write);
  Item& item = items_[item_count_++];
  item = {};
  item.record = record;
  item.node = static_cast<int>(record.partition());
  item.is_write = is_write;
  item.image = take(layout(item).image_b);
  return static_cast<int>(item_count_) - 1;
}

std::uint64_t Transaction::owner() const {
  WorkerPort& port = engine_.worker_.port();
  return owner_word(port.node(), port.thread(), coroutine_);
}

void Transaction::end_phase(Phase phase) {
  const std::int64_t now_ps = engine_.cpu_.now_ps();
  std::int64_t& phase_ps = phase_ps_[static_cast<std::size_t>(phase)];
  phase_ps = std::max<std::int64_t>(phase_ps, 0) + now_ps - phase_start_ps_;
  phase_start_ps_ = now_ps;
  if (phase != Phase::kCommit) phase_ = static_cast<Phase>(static_cast<int>(phase) + 1);
}

SendWr Transaction::record_request(const Item& item, const Channel& channel, Opcode opcode,
                                   std::uint64_t offset, std::byte* local, std::uint32_t bytes) const {
  SendWr wr;
  wr.opcode = opcode;
  wr.sge = {local, bytes, store().lkey()};
  wr.remote_addr =
      channel.remote.addr + store().layout().record_offset(item.record.table(), 0, item.slot) + offset;
  wr.rkey = channel.remote.rkey;
  return wr;
}

void Transaction::stage_read(Item& item, std::byte* to, std::uint32_t bytes, WaitGroup& group) {
  Channel& channel = channel_of(item);
  engine_.worker_.stage(channel, record_request(item, channel, Opcode::kRdmaRead, 0, to, bytes), &group);
}

/// The channels of what is about to be READ, all of them before the first request: each look-up is two
/// misses.
void Transaction::prefetch_channels() const {
  const auto for_each = [this](void (Worker::*visit)(int, int, int) const) {
    for (std::size_t i = executed_; i < item_count_; ++i) {
      const Item& item = items_[i];
      if (!item.located || is_local(item)) continue;
      (engine_.worker_.*visit)(item.node, engine_.record_nic(item.slot), engine_.queue_pair_for(item.slot));
    }
  };
  for_each(&Worker::prefetch_look_up);
  for_each(&Worker::prefetch_channel);
}

Channel& Transaction::channel_of(Item& item) {
  if (item.channel == nullptr) item.channel = &engine_.record_channel(item.node, item.slot);
  Channel& channel = *item.channel;
  const auto in_use = std::span(channels_).first(channel_count_);
  const bool known =
      std::ranges::any_of(in_use, [&](const InUse& other) { return other.channel == &channel; });
  if (!known && channel_count_ < channels_.size())
    channels_[channel_count_++] = {&channel, channel.queue_pair};
  return channel;
}

void Transaction::prefetch_rest() const {
  for (const InUse& in_use : std::span(channels_).first(channel_count_)) {
    prefetch_line(in_use.channel);
    prefetch_lines(in_use.queue_pair, 3 * kCacheLineBytes);
  }
  constexpr std::size_t kFew = 4;
  prefetch_lines(items_.data(), std::min(item_count_, kFew) * sizeof(Item));
  prefetch_lines(log_entries_.data(), std::min(log_entries_.size(), kFew) * sizeof(LogEntry));
  prefetch_lines(buffers_->arena.data(), std::min<std::size_t>(arena_used_, kFew * kCacheLineBytes));
}

void Transaction::append_installed(std::vector<RecordId>& records) const {
  if (phase_ < Phase::kLogging) return;
  for (const Item& item : std::span(items_).first(item_count_)) {
    if (item.is_write) records.push_back(item.record);
  }
}

Task<bool> Transaction::commit(std::int64_t effect) {
  take_written_digests();
  const TruncateAfter truncate_after = options().truncate_after;
  if (truncate_after == TruncateAfter::kExecution) {
    release_locks();
    co_return true;
  }
  // With all of its records on this machine it has not waited for anything: others' changes during Execution,
  // and later its locks, would be seen by nobody.
  const bool takes_time = writes_ || item_count_ > 1;
  if (takes_time) {
    auto executed = engine_.worker_.catch_up(begun_);
    co_await executed;
  }
  const std::uint64_t resumed = engine_.worker_.resumed();
  auto locking = logs_lock_records() ? lock_by_log_records() : lock_write_set();
  const bool locked = co_await locking;
  auto checking = check_read_set();
  if (!locked || !co_await checking) {
    release_locks();
    co_return false;
  }
  end_phase(Phase::kValidation);
  if (truncate_after == TruncateAfter::kValidation) {
    release_locks();
    co_return true;
  }

  const bool logs_late = options().sabotage.commit_before_logged;
  if (!logs_late) {
    auto logging = log_to_backups();
    if (!co_await logging) co_return false;
  }
  end_phase(Phase::kLogging);

  const bool logs_at_coordinator = options().logging.placement == LogPlacement::kCoordinator;
  if (!logs_at_coordinator && !logs_late) make_log_certain();
  record_history(effect);
  if (options().reclaim == Reclaim::kEach && !logs_late) {
    auto telling = tell_backups();
    if (!co_await telling) co_return false;
  }
  if (logs_at_coordinator && truncate_after == TruncateAfter::kNone) {
    auto updating = update_backups();
    if (!co_await updating) co_return false;
  }
  // A log that is kept and not applied is all there is of the transaction until the backups have it.
  if (logs_at_coordinator && !logs_late) make_log_certain();
  if (writes_) {
    auto caught_up = engine_.worker_.catch_up(resumed);
    co_await caught_up;
  }
  auto installing = logs_lock_records() ? send_commit_primary() : install_and_unlock();
  co_await installing;
  if (logs_late) {
    auto logging = log_to_backups();
    if (!co_await logging) co_return false;
    make_log_certain();
  }
  end_phase(Phase::kCommit);
  // Phases that found nothing to do.
  const bool logged =
      std::ranges::any_of(log_entries_, [](const LogEntry& entry) { return entry.kind != LogKind::kLock; });
  if (!logged) phase_ps_[static_cast<std::size_t>(Phase::kLogging)] = kNoPhase;
  if (!writes_) phase_ps_[static_cast<std::size_t>(Phase::kCommit)] = kNoPhase;
  if (!writes_ && item_count_ == 1) phase_ps_[static_cast<std::size_t>(Phase::kValidation)] = kNoPhase;
  log_entries_.clear();
  for (Item& item : items()) item.locked = false;
  co_return true;
}

}  // namespace verbtwin::protocols
