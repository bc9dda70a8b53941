// The receiver's side of FaRM's log records (SOSP 2015, section 4): each worker polls the rings that its
// peers of the same index WRITE into, locks what a LOCK record asks for and answers it, installs or forgets
// at COMMIT-PRIMARY and ABORT, and then, when the answers are on their way, truncates as far as any record
// says. COMMIT-BACKUP records cost it nothing but the look: they are applied when they are truncated.
//
// A record counts when its frames agree and its digest is right, in whatever order its bytes land. An answer
// is a single word WRITTEN into the coordinator's memory, where the coordinator polls for it.
#include <algorithm>

#include "protocols/occ/engine.hpp"

namespace verbtwin::protocols {

// A round runs every ready coroutine, and so may a peer's: its ring gets several records a round, and who
// took one would lag behind until the ring is full. Not all that come, though: completions and calls wait
// meanwhile, and the peers that are looked at later.
bool OccEngine::poll_memory() {
  bool any = false;
  const auto empty = static_cast<std::uint64_t>(worker_.port().shape().stands_for) - 1;
  for (int node = 0; node < store_.layout().nodes(); ++node) {
    if (node == store_.node()) continue;
    cpu_.charge(Cost::kPollSlot, empty);
    const std::unique_ptr<RemoteLog>* made = logs_.find(static_cast<std::uint32_t>(node));
    const RemoteLog* log = made == nullptr ? nullptr : made->get();  // who is resumed may make others
    std::size_t records = 0, answers = 0;
    while (records < Worker::kPollBatch && take_record(node)) ++records;
    while (answers < Worker::kPollBatch && log != nullptr && !log->lock_records.empty() && take_answer(node))
      ++answers;
    if (records + answers == 0) continue;
    any = true;
    worker_.ring(true);  // before the next peer's records: this one's locks wait for the answers
    if (records > 0) truncate(node, polled_logs_[static_cast<std::size_t>(node)].certain);
  }
  return any;
}

bool OccEngine::take_record(int node) {
  cpu_.charge(Cost::kPollSlot);
  PolledLog& log = polled_logs_[static_cast<std::size_t>(node)];
  const int thread = worker_.port().thread();
  const auto entry = log.reader.take(store_.layout().log(), store_.ring(node, thread));
  if (!entry) return false;
  cpu_.charge(Cost::kCopyBlock, entry->size() / kCacheLineBytes);  // its digest
  const LogHead head = log_head(log_entry_body(entry->data()));
  if (head.kind == LogKind::kLock) {
    cpu_.charge(Cost::kRpcReceive);
    answer_lock_record(node, lock_entry(entry->data(), head.about));
  } else if (head.kind == LogKind::kCommitPrimary || head.kind == LogKind::kAbort) {
    cpu_.charge(Cost::kRpcReceive);
    close_entry(store_.ring(node, thread).at(head.lock_offset), head.about,
                head.kind == LogKind::kCommitPrimary);
  }
  log.certain = head.certain;
  return true;
}

void OccEngine::answer_lock_record(int node, Verdict verdict) {
  PolledLog& log = polled_logs_[static_cast<std::size_t>(node)];
  const std::uint32_t answers = store_.layout().log().answers;
  // A peer has at most `answers` LOCK records that wait, so that neither place is in use.
  log.answer_words.resize(answers);
  const std::size_t place = log.answers++ % answers;
  log.answer_words[place] = lock_answer(static_cast<std::uint16_t>(log.answers), verdict, log.truncated);
  cpu_.charge(Cost::kRpcSend);
  Channel& channel = channel_for(node, worker_.nic(), log.answers);
  SendWr write;
  write.opcode = Opcode::kRdmaWrite;
  write.flags = kInline;
  write.sge = {reinterpret_cast<std::byte*>(&log.answer_words[place]), 8, 0};
  write.remote_addr = channel.remote.addr +
                      store_.layout().answers_offset(store_.node(), worker_.port().thread()) + place * 8;
  write.rkey = channel.remote.rkey;
  worker_.stage(channel, write, nullptr);
}

bool OccEngine::take_answer(int node) {
  cpu_.charge(Cost::kPollSlot);
  RemoteLog& log = log_at(node);
  const StoreLayout& layout = store_.layout();
  std::byte* at = store_.memory().data() + layout.answers_offset(node, worker_.port().thread()) +
                  log.answers % layout.log().answers * 8;
  const std::uint64_t word = atomic_word(at).load(std::memory_order_acquire);
  if (number_of_answer(word) != static_cast<std::uint16_t>(log.answers + 1)) return false;
  ++log.answers;
  cpu_.charge(Cost::kRpcReceive);
  const Unanswered answered = log.lock_records.front();
  log.lock_records.erase(log.lock_records.begin());
  *answered.verdict = verdict_of_answer(word);
  log.reclaimed(head_of_answer(word));
  answered.group->complete(WcStatus::kSuccess);
  return true;
}

/// Applies what is certain of a peer's log, as far as it has been read here: room that were given back before
/// would be written over unread. Returns how far the log is truncated.
std::uint64_t OccEngine::truncate(int node, std::uint64_t certain) {
  PolledLog* const polled =
      polled_logs_.empty() || node == store_.node() ? nullptr : &polled_logs_[static_cast<std::size_t>(node)];
  if (polled != nullptr) certain = std::min(certain, polled->reader.head());
  const int sender_thread = worker_.port().thread();
  NodeStore::Reclaimed done = store_.reclaim(node, sender_thread, certain);
  const LogSpec& spec = store_.layout().log();
  const std::uint32_t held = spec.held_at_start(node, sender_thread, store_.node());
  if (done.first && done.entries > 0) {
    // What it began as though it held is work, too. The first entry of all is asked for once it is certain.
    const std::uint64_t entries = done.entries, as_if = entries + std::min(held, spec.reclaim_entries - 1);
    for (std::uint64_t* work : {&done.entries, &done.applied, &done.records, &done.lines})
      *work = *work * as_if / entries;
  }
  // An entry is taken apart, as a call is: one whose transaction calls for it has been paid for with the
  // call. Its records at a backup are in no cache: nobody reads them there. They are fetched together, their
  // buckets before them, and updated one by one.
  const bool called_for = spec.reclaim_entries == 0 && node != store_.node();
  cpu_.charge(Cost::kRpcReceive, done.entries - (called_for && done.entries > 0 ? 1 : 0));
  cpu_.charge(Cost::kMemoryMiss, 2 * done.applied);
  charge_backup_update(done.records);
  cpu_.charge(Cost::kCopyBlock, done.lines);
  if (polled != nullptr) polled->truncated = done.head;
  return done.head;
}

/// Locks every record of a LOCK record, or none: then the entry is closed.
Verdict OccEngine::lock_entry(std::byte* entry, std::uint64_t owner) {
  const OccOptions::Sabotage& sabotage = options().sabotage;
  const std::span<const std::byte> writes = log_writes(log_entry_body(entry));
  Verdict verdict = Verdict::kPassed;
  std::size_t locked = 0;
  bool all_here = true;  // else they are waited for together
  for_each_logged(writes, [&](const LogRecord& logged, std::span<const std::byte>) {
    all_here = all_here && was_read_here(RecordId{logged.record});
  });
  if (!all_here) cpu_.charge(Cost::kMemoryMiss);
  for_each_logged(writes, [&](const LogRecord& logged, std::span<const std::byte>) {
    if (verdict != Verdict::kPassed) return;
    cpu_.charge(Cost::kLocalAtomic);
    cpu_.charge_cycles(node_.cycles.validation);
    std::byte* record = store_.primary_record(RecordId{logged.record}.table(), logged.slot);
    if (!sabotage.skip_lock && !try_lock(record, owner)) {
      verdict = Verdict::kLocked;
      return;
    }
    ++locked;
    const std::uint64_t version = atomic_word(record + 8).load(std::memory_order_acquire);
    const bool changed = writes_of(version) + 1 != writes_of(logged.version);
    if (changed && !sabotage.skip_validation) verdict = Verdict::kChanged;
  });
  if (verdict == Verdict::kPassed || options().artifact.conflicts_commit) {
    if (sabotage.truncate_before_commit) close_lock_entry(entry);
    return verdict;
  }
  for_each_logged(writes, [&](const LogRecord& logged, std::span<const std::byte>) {
    if (locked == 0) return;
    --locked;
    if (!sabotage.skip_lock) unlock(store_.primary_record(RecordId{logged.record}.table(), logged.slot));
  });
  close_lock_entry(entry);
  return verdict;
}

/// COMMIT-PRIMARY or ABORT for the LOCK record at `entry`, framed with `frame`. It is there still, unless its
/// room was given back too early.
void OccEngine::close_entry(std::byte* entry, std::uint64_t frame, bool commit) {
  if (!is_lock_entry(store_.layout().log(), entry, frame)) return;
  const OccOptions::Sabotage& sabotage = options().sabotage;
  const auto close = [&](const LogRecord& logged, std::span<const std::byte> value) {
    const RecordId id{logged.record};
    std::byte* record = store_.primary_record(id.table(), logged.slot);
    if (commit) {
      cpu_.charge_cycles(node_.cycles.commit);
      install(record_layout(id), record, installed_version(logged.version), value);
    }
    if (!sabotage.skip_lock) unlock(record);
  };
  for_each_logged(log_writes(log_entry_body(entry)), close);
  close_lock_entry(entry);
}

}  // namespace verbtwin::protocols
