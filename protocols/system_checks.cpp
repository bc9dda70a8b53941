// The checks of a finished run: what system.hpp declares of them.
#include <algorithm>
#include <cstring>
#include <utility>

#include "backend/prefetch.hpp"
#include "protocols/checks/final_state.hpp"
#include "protocols/checks/logs.hpp"
#include "protocols/checks/losses.hpp"
#include "protocols/checks/serializability.hpp"
#include "protocols/system.hpp"

namespace verbtwin::protocols {

namespace {

FinalRecord final_record_at(const StoreLayout& layout, RecordId record, const std::byte* at) {
  const std::uint32_t value_b = layout.table(record.table()).spec.value_b;
  return {load_word(at), load_word(at + 8), {at + kRecordHeaderBytes, value_b}};
}

}  // namespace

FinalRecord final_record(NodeStore& holder, RecordId record, int rank, std::uint64_t slot) {
  return final_record_at(holder.layout(), record, holder.record_copy(record.table(), rank, slot));
}

namespace {

/// std::ranges::equal compares one std::byte after another.
bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

/// The records of a finished run, read as the checks want them.
class FinalData {
 public:
  /// `claimed` are those that read() is going to be asked for, in this order.
  FinalData(const System& system, const FindFinalRecords& find, std::span<const RecordId> claimed)
      : system_(system), find_(find), claimed_(claimed), next_(system.layout().tables()) {
    primaries_.reserve(claimed.size());
  }

  /// Fills in the value; false: the record does not exist.
  bool value(RecordId record, std::span<std::byte> value) {
    const FinalRecord last = primary(record);
    if (last.version == 0) return system_.workload().initial_value(record, value);
    std::ranges::copy(last.value.first(value.size()), value.begin());
    return (last.version & kDeletedBit) == 0;
  }

  std::uint64_t initial_digest(RecordId record) {
    value_.assign(value_b(record), {});
    const bool exists = system_.workload().initial_value(record, value_);
    return written_digest(exists ? 0 : kDeletedBit, value_);
  }

  /// As ReadCopies has it.
  void read(std::span<const RecordId> records, std::span<RecordCopy> copies) {
    const std::size_t each = copies.size() / records.size();
    found_.resize(copies.size());
    find_(records, found_);
    for (std::size_t r = 0; r < records.size(); ++r) {
      const std::size_t primary = r * each;
      primaries_.push_back(found_[primary]);
      for (std::size_t i = primary; i < primary + each; ++i) {
        const FinalRecord& last = found_[i];
        // A backup that holds the primary's bytes has its digest.
        const bool same = i != primary && last.version == found_[primary].version &&
                          same_bytes(last.value, found_[primary].value);
        const std::uint64_t digest = same ? copies[primary].digest : digest_of(records[r], last);
        copies[i] = {writes_of(last.version), digest, last.lock != 0};
      }
    }
  }

 private:
  std::size_t value_b(RecordId record) const { return system_.layout().table(record.table()).spec.value_b; }

  std::uint64_t digest_of(RecordId record, const FinalRecord& last) {
    if (last.version == 0) return initial_digest(record);
    return written_digest(last.version, last.value.first(value_b(record)));
  }

  /// What was read before is not looked up again; who asks for a table's records mostly does so in order.
  FinalRecord primary(RecordId record) {
    constexpr std::size_t kAhead = 8;
    std::size_t& next = next_[record.table()];
    if (next >= primaries_.size() || claimed_[next] != record) {
      const auto found = std::ranges::lower_bound(claimed_.first(primaries_.size()), record);
      next = static_cast<std::size_t>(found - claimed_.begin());
    }
    if (next + kAhead < primaries_.size()) prefetch_line(primaries_[next + kAhead].value.data());
    if (next < primaries_.size() && claimed_[next] == record) return primaries_[next++];
    FinalRecord last;
    find_(std::span(&record, 1), std::span(&last, 1));
    return last;
  }

  const System& system_;
  const FindFinalRecords& find_;
  std::span<const RecordId> claimed_;
  std::vector<FinalRecord> primaries_;  // of `claimed_`
  std::vector<std::size_t> next_;       // place in `claimed_`, by table
  std::vector<FinalRecord> found_;
  std::vector<std::byte> value_;
};

}  // namespace

std::vector<CheckReport> run_checks(const System& system, std::span<const History* const> histories,
                                    std::span<const std::span<const LoggedWrite>> logged,
                                    const FindFinalRecords& find) {
  const SystemParameters& p = system.parameters();
  const TruncateAfter truncate_after = p.options.truncate_after;
  // Transactions that end before they commit leave nothing to judge.
  if (truncate_after == TruncateAfter::kExecution || truncate_after == TruncateAfter::kValidation) return {};
  const bool backed_up = truncate_after == TruncateAfter::kNone;
  const GroupedAccesses accesses(histories);
  FinalData data(system, find, accesses.claimed());
  std::vector<CheckReport> reports;
  reports.push_back(check_serializable(
      accesses, [&](RecordId record) { return data.initial_digest(record); },
      p.one_clock ? histories.size() : static_cast<std::size_t>(p.shape.threads)));
  FinalStateReports final_state = check_final_state(
      accesses, backed_up ? p.replicas : 1,
      [&](std::span<const RecordId> records, std::span<RecordCopy> copies) { data.read(records, copies); });
  reports.push_back(std::move(final_state.final_state));
  if (backed_up) {
    const LogPlacement placement = p.options.logging.placement;
    LoggedBehind behind{.records = placement != LogPlacement::kCoordinator};
    if (placement != LogPlacement::kBackups) {
      behind.coordinator_of = [&](std::size_t worker) {
        return static_cast<std::uint32_t>(worker / static_cast<std::size_t>(p.shape.threads));
      };
    }
    reports.push_back(check_logs(histories, logged, p.replicas, p.shape.nodes, behind));
    reports.push_back(std::move(final_state.backups));
  }
  reports.push_back(system.workload().check_invariant(
      accesses, [&](RecordId record, std::span<std::byte> value) { return data.value(record, value); }));
  return reports;
}

namespace {

/// The nodes' records where they lie. A few at a time, and of these all places first and the records on their
/// way, then their contents: each is a miss of the caches.
class RecordsInPlace {
 public:
  RecordsInPlace(const StoreLayout& layout, const std::vector<std::unique_ptr<NodeProgram>>& nodes)
      : layout_(layout), nodes_(nodes) {}

  void operator()(std::span<const RecordId> records, std::span<FinalRecord> copies) {
    constexpr std::size_t kFew = 32;
    const std::size_t each = copies.size() / records.size();
    for (std::size_t at = 0; at < records.size(); at += kFew) {
      const auto few = records.subspan(at, std::min(kFew, records.size() - at));
      read_few(few, copies.subspan(at * each, few.size() * each));
    }
  }

 private:
  void read_few(std::span<const RecordId> records, std::span<FinalRecord> copies) {
    const std::size_t each = copies.size() / records.size();
    const auto for_each_copy = [&](const auto& visit) {  // visit(store, table, rank, slot)
      for (std::size_t r = 0; r < records.size(); ++r) {
        for (int rank = 0; rank < static_cast<int>(each); ++rank) {
          const int holder = layout_.backup_node(static_cast<int>(records[r].partition()), rank);
          visit(nodes_[static_cast<std::size_t>(holder)]->store(), records[r].table(), rank, slots_[r]);
        }
      }
    };
    slots_.clear();
    places_.clear();
    for (const RecordId record : records) nodes_[record.partition()]->store().prefetch_slot(record);
    for (const RecordId record : records)
      slots_.push_back(nodes_[record.partition()]->store().find_slot(record.table(), record.key()));
    for_each_copy([](const NodeStore& store, std::uint32_t table, int rank, std::uint64_t slot) {
      store.prefetch_copy(table, rank, slot);
    });
    for_each_copy([&](const NodeStore& store, std::uint32_t table, int rank, std::uint64_t slot) {
      places_.push_back(store.record_copy(table, rank, slot));
      prefetch(places_.back());
    });
    for (std::size_t r = 0, i = 0; r < records.size(); ++r) {
      for (std::size_t end = i + each; i < end; ++i)
        copies[i] = final_record_at(layout_, records[r], places_[i]);
    }
  }

  const StoreLayout& layout_;
  const std::vector<std::unique_ptr<NodeProgram>>& nodes_;
  std::vector<std::uint64_t> slots_;
  std::vector<const std::byte*> places_;
};

}  // namespace

void find_losses(const System& system, const std::vector<std::unique_ptr<NodeProgram>>& nodes,
                 Findings& losses) {
  const SystemParameters& p = system.parameters();
  if (p.options.truncate_after != TruncateAfter::kNone || p.replicas == 1) return;
  std::vector<RecordId> records;
  for (const auto& node : nodes) node->append_installed(records);
  std::ranges::sort(records);
  records.erase(std::unique(records.begin(), records.end()), records.end());
  std::vector<FinalRecord> copies(records.size() * static_cast<std::size_t>(p.replicas));
  if (!records.empty()) RecordsInPlace(system.layout(), nodes)(records, copies);
  std::vector<std::uint64_t> versions;
  versions.reserve(copies.size());
  for (const FinalRecord& copy : copies) versions.push_back(writes_of(copy.version));
  std::vector<LoggedWrite> waiting;
  for (const auto& node : nodes) node->append_waiting(nodes, waiting);
  const bool at_coordinator = p.options.logging.placement == LogPlacement::kCoordinator;
  find_losses(records, versions, std::move(waiting), p.shape.nodes,
              at_coordinator ? MadeUpBy::kCoordinatorsLogs : MadeUpBy::kItsLog, losses);
}

std::vector<CheckReport> run_checks(const System& system,
                                    const std::vector<std::unique_ptr<NodeProgram>>& nodes,
                                    const Findings& losses) {
  std::vector<const History*> histories;
  std::vector<std::span<const LoggedWrite>> logged;
  // The logs that were written, not all there are: those grow with the square of the cluster, and a look into
  // an untouched one costs a page fault.
  for (const auto& node : nodes) node->drain_logs(nodes);
  for (const auto& node : nodes) {
    for (int thread = 0; thread < system.parameters().shape.threads; ++thread) {
      histories.push_back(&node->history(thread));
    }
    node->store().logged().for_each_part([&](std::span<const LoggedWrite> part) { logged.push_back(part); });
  }
  std::vector<CheckReport> reports =
      run_checks(system, histories, logged, RecordsInPlace(system.layout(), nodes));
  const auto logs = std::ranges::find(reports, kLogsCheck, &CheckReport::name);
  if (logs != reports.end()) logs->add(losses);
  return reports;
}

}  // namespace verbtwin::protocols
