#include "protocols/checks/serializability.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "protocols/checks/cycles.hpp"

namespace verbtwin::protocols {
namespace {

constexpr std::uint32_t kNobody = std::numeric_limits<std::uint32_t>::max();

using Accesses = std::span<const RecordAccess>;

/// Judges one record after the other and gathers the dependencies that they impose.
class RecordJudge {
 public:
  RecordJudge(const TransactionNumbers& numbers, const InitialDigest& initial_digest, Findings& findings)
      : numbers_(numbers), initial_digest_(initial_digest), findings_(findings) {}

  void judge(Accesses accesses) {
    record_ = accesses.front().access.record;
    judge_by_transaction(accesses);
    judge_by_version(by_version(accesses));
  }

  std::span<const Dependency> dependencies() const { return dependencies_; }

 private:
  void judge_by_transaction(Accesses accesses);
  void judge_transaction(Accesses reads, Accesses writes);
  Accesses by_version(Accesses accesses);
  void judge_by_version(Accesses accesses);
  void judge_writers(Accesses writers, std::uint64_t last_version);
  void judge_readers(Accesses readers, Accesses writers);
  void judge_initial_readers(Accesses readers);
  void depend(std::uint32_t source, std::uint32_t target, std::uint64_t version, DependencyKind kind) {
    if (source != target) dependencies_.push_back({source, target, record_, version, kind});
  }
  std::string name(const RecordAccess& access) const { return numbers_.name(access.transaction); }
  std::string at(std::uint64_t version) const { return to_string(record_, version); }

  const TransactionNumbers& numbers_;
  const InitialDigest& initial_digest_;
  Findings& findings_;
  std::vector<Dependency> dependencies_;
  std::vector<RecordAccess> ordered_;
  RecordId record_;
};

void RecordJudge::judge_by_transaction(Accesses accesses) {
  for (std::size_t begin = 0, reads = 0, end = 0; begin < accesses.size(); begin = end) {
    const std::uint32_t transaction = accesses[begin].transaction;
    while (end < accesses.size() && accesses[end].transaction == transaction) ++end;
    reads = begin;
    while (reads < end && accesses[reads].kind == AccessKind::kWrite) ++reads;
    if (reads < end)
      judge_transaction(accesses.subspan(reads, end - reads), accesses.subspan(begin, reads - begin));
  }
}

void RecordJudge::judge_transaction(Accesses reads, Accesses writes) {
  std::uint64_t version = reads.front().access.version, newest = version;
  for (const RecordAccess& read : reads) {
    version = std::min(version, read.access.version);
    newest = std::max(newest, read.access.version);
  }
  if (newest != version) {
    findings_.add("read at two versions", [&] {
      return fmt::format("{} read {} and {}", name(reads.front()), at(version), at(newest));
    });
  }
  std::uint64_t wrong = 0, first_wrong = std::numeric_limits<std::uint64_t>::max();
  for (const RecordAccess& write : writes) {
    if (write.access.version == version + 1) continue;
    ++wrong;
    first_wrong = std::min(first_wrong, write.access.version);
  }
  if (wrong == 0) return;
  findings_.add(
      "write does not follow its read",
      [&] {
        return fmt::format("{} read {} and wrote {}", name(reads.front()), at(version), at(first_wrong));
      },
      wrong);
}

Accesses RecordJudge::by_version(Accesses accesses) {
  const auto before = [](const RecordAccess& a, const RecordAccess& b) {
    if (a.access.version != b.access.version) return a.access.version < b.access.version;
    if (a.kind != b.kind) return a.kind < b.kind;
    if (a.access.digest != b.access.digest) return a.access.digest < b.access.digest;
    return a.transaction < b.transaction;
  };
  if (std::ranges::is_sorted(accesses, before)) return accesses;
  ordered_.assign(accesses.begin(), accesses.end());
  std::ranges::sort(ordered_, before);
  return ordered_;
}

void RecordJudge::judge_by_version(Accesses accesses) {
  std::uint32_t last_writer = kNobody;
  std::uint64_t last_version = 0;
  std::size_t overwritten = 0;  // from here on are the accesses since the last installed version
  for (std::size_t begin = 0, reads = 0, end = 0; begin < accesses.size(); begin = end) {
    const std::uint64_t version = accesses[begin].access.version;
    while (end < accesses.size() && accesses[end].access.version == version) ++end;
    reads = begin;
    while (reads < end && accesses[reads].kind == AccessKind::kWrite) ++reads;
    const Accesses writers = accesses.subspan(begin, reads - begin);
    if (!writers.empty()) {
      judge_writers(writers, last_version);
      // Where several installed one version, which is reported, the first stands for all in the graph.
      const std::uint32_t writer = writers.front().transaction;
      if (last_writer != kNobody) depend(last_writer, writer, last_version, DependencyKind::kWriteWrite);
      for (const RecordAccess& read : accesses.subspan(overwritten, begin - overwritten)) {
        if (read.kind != AccessKind::kRead) continue;
        depend(read.transaction, writer, read.access.version, DependencyKind::kReadWrite);
      }
      last_writer = writer;
      last_version = version;
      overwritten = begin;
    }
    judge_readers(accesses.subspan(reads, end - reads), writers);
  }
}

void RecordJudge::judge_writers(Accesses writers, std::uint64_t last_version) {
  const std::uint64_t version = writers.front().access.version;
  if (version == 0) {
    findings_.add(
        "initial version overwritten",
        [&] { return fmt::format("{} wrote {}", name(writers.front()), at(version)); }, writers.size());
    return;
  }
  if (writers.size() > 1) {
    findings_.add(
        "version installed twice",
        [&] { return fmt::format("{} and {} wrote {}", name(writers[0]), name(writers[1]), at(version)); },
        writers.size() - 1);
  }
  if (version > last_version + 1) {
    findings_.add("version missing", [&] {
      return fmt::format("nobody wrote {}, but {} wrote {}", at(last_version + 1), name(writers.front()),
                         at(version));
    });
  }
}

void RecordJudge::judge_readers(Accesses readers, Accesses writers) {
  if (readers.empty()) return;
  const std::uint64_t version = readers.front().access.version;
  if (writers.empty()) {
    if (version == 0) return judge_initial_readers(readers);
    findings_.add(
        "read of a version nobody committed",
        [&] { return fmt::format("{} read {}", name(readers.front()), at(version)); }, readers.size());
    return;
  }
  const auto digest_of = [](const RecordAccess& a) { return a.access.digest; };
  for (const RecordAccess& read : readers) {
    const auto found = std::ranges::lower_bound(writers, read.access.digest, {}, digest_of);
    const bool same = found != writers.end() && digest_of(*found) == read.access.digest;
    const RecordAccess& write = same ? *found : writers.front();
    depend(write.transaction, read.transaction, version, DependencyKind::kWriteRead);
    if (same) continue;
    findings_.add("read differs from what was written", [&] {
      return fmt::format("{} read {} as {:016x}, {} wrote {:016x}", name(read), at(version),
                         read.access.digest, name(write), write.access.digest);
    });
  }
}

void RecordJudge::judge_initial_readers(Accesses readers) {
  // Ordered by digest, so that without a callback each further digest is counted once, however many read it.
  std::uint64_t expected = initial_digest_ ? initial_digest_(record_) : readers.front().access.digest;
  for (const RecordAccess& read : readers) {
    if (read.access.digest == expected) continue;
    findings_.add("read differs from the initial value", [&] {
      return fmt::format("{} read {} as {:016x}, not {:016x}", name(read), at(0), read.access.digest,
                         expected);
    });
    if (!initial_digest_) expected = read.access.digest;
  }
}

std::string in_words(std::span<const Dependency> path, const TransactionNumbers& numbers) {
  constexpr std::size_t kStepsShown = 8;
  std::string text = numbers.name(path.front().source);
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (i == kStepsShown) return text + fmt::format(" ... ({} dependencies)", path.size());
    const Dependency& step = path[i];
    text += fmt::format(" -{}", to_string(step.kind));
    if (step.kind != DependencyKind::kRealTime)
      text += fmt::format(" {}", to_string(step.record, step.version));
    text += fmt::format("-> {}", numbers.name(step.target));
  }
  return text;
}

std::vector<Interval> times_of(const GroupedAccesses& accesses) {
  std::vector<Interval> when;
  when.reserve(accesses.numbers().count());
  for (const History* history : accesses.histories()) {
    for (std::size_t i = 0; i < history->size(); ++i) when.push_back((*history)[i].when);
  }
  return when;
}

void judge_order(const GroupedAccesses& accesses, std::span<const Dependency> dependencies,
                 std::size_t histories_per_clock, Findings& findings) {
  const TransactionNumbers& numbers = accesses.numbers();
  if (dependencies.empty()) return;
  const DependencyGraph graph(numbers.count(), dependencies);
  const Cycles cycles = graph.find_cycles();
  if (cycles.components > 0) {
    findings.add(
        "dependency cycle", [&] { return in_words(cycles.shortest, numbers); }, cycles.components);
    return;
  }
  const std::vector<Interval> when = times_of(accesses);
  const std::size_t workers = accesses.histories().size();
  const std::size_t step = std::min(histories_per_clock, workers);
  std::vector<std::uint32_t> clocks;
  bool overtaken = false;
  for (std::size_t worker = 0; worker < workers; worker += step) {
    const std::uint32_t first = numbers.first_of(worker);
    clocks.push_back(first);
    const std::uint32_t last = numbers.first_of(std::min(worker + step, workers));
    const Overtakings overtakings = graph.find_overtakings(when, first, last);
    if (overtakings.transactions == 0) continue;
    findings.add(
        "order against real time",
        [&] {
          const Interval& late = when[overtakings.path.front().source];
          const Interval& early = when[overtakings.path.back().target];
          return fmt::format("{}, which had ended {:.3f} us before the first began",
                             in_words(overtakings.path, numbers),
                             static_cast<double>(late.begin_ps - early.end_ps) / 1e6);
        },
        overtakings.transactions);
    overtaken = true;
  }
  if (overtaken || clocks.size() < 2) return;
  const Cycles in_time = graph.find_cycles_in_time(when, clocks);
  if (in_time.components == 0) return;
  findings.add(
      "cycle of dependencies and real time", [&] { return in_words(in_time.shortest, numbers); },
      in_time.components);
}

}  // namespace

CheckReport check_serializable(const GroupedAccesses& accesses, const InitialDigest& initial_digest,
                               std::size_t histories_per_clock) {
  const TransactionNumbers& numbers = accesses.numbers();
  Findings findings;
  RecordJudge judge(numbers, initial_digest, findings);
  accesses.for_each_record([&](Accesses record) { judge.judge(record); });
  judge_order(accesses, judge.dependencies(), histories_per_clock, findings);
  return findings.report("serializable", numbers.count());
}

}  // namespace verbtwin::protocols
