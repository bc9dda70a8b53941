#include "protocols/checks/logs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <tuple>
#include <vector>

namespace verbtwin::protocols {
namespace {

/// What should be (committed) or is (logged) in the log of `backup`.
struct Entry {
  Access access;
  std::uint32_t backup;
  bool logged;
};

using Entries = std::span<const Entry>;

template <typename HomeOf>
std::vector<Entry> gather(std::span<const RecordAccess> writes, std::span<const LoggedWrite> logged,
                          int replicas, int nodes, const HomeOf& home_of) {
  std::vector<Entry> entries;
  entries.reserve(writes.size() * static_cast<std::size_t>(replicas - 1) + logged.size());
  for (const RecordAccess& write : writes) {
    for (int i = 1; i < replicas; ++i) {
      const std::uint32_t backup =
          (home_of(write) + static_cast<std::uint32_t>(i)) % static_cast<std::uint32_t>(nodes);
      entries.push_back({write.access, backup, false});
    }
  }
  for (const LoggedWrite& entry : logged) entries.push_back({entry.write, entry.backup, true});
  return entries;
}

std::string place(const Entry& entry) {
  return fmt::format("{} in the log of node {}", to_string(entry.access.record, entry.access.version),
                     entry.backup);
}

/// One version of one record at one backup, ordered by digest, a committed write before its log entry.
void judge(Entries entries, std::vector<Entry>& missing, std::vector<Entry>& unexpected, Findings& findings) {
  missing.clear();
  unexpected.clear();
  for (std::size_t begin = 0, end = 0; begin < entries.size(); begin = end) {
    std::size_t committed = 0;
    while (end < entries.size() && entries[end].access.digest == entries[begin].access.digest) {
      committed += entries[end++].logged ? 0 : 1;
    }
    const std::size_t logged = end - begin - committed;
    if (committed > 0 && logged > committed) {
      findings.add(
          "logged twice", [&] { return place(entries[begin]); }, logged - committed);
    } else {
      missing.insert(missing.end(), committed - std::min(committed, logged), entries[begin]);
      unexpected.insert(unexpected.end(), logged - std::min(committed, logged), entries[begin]);
    }
  }
  const std::size_t different = std::min(missing.size(), unexpected.size());
  for (std::size_t i = 0; i < different; ++i) {
    findings.add("logged value differs", [&] {
      return fmt::format("{}: {:016x} was committed, {:016x} logged", place(missing[i]),
                         missing[i].access.digest, unexpected[i].access.digest);
    });
  }
  for (std::size_t i = different; i < missing.size(); ++i) {
    findings.add("committed but not logged", [&] { return place(missing[i]); });
  }
  for (std::size_t i = different; i < unexpected.size(); ++i) {
    findings.add("logged but not committed", [&] { return place(unexpected[i]); });
  }
}

}  // namespace

CheckReport check_logs(Histories histories, std::span<const LoggedWrite> logged, int replicas, int nodes,
                       const CoordinatorOf& coordinator_of) {
  assert(replicas >= 1 && replicas <= nodes);
  const TransactionNumbers numbers(histories);
  const auto home_of = [&](const RecordAccess& write) {
    return coordinator_of ? coordinator_of(numbers.worker_of(write.transaction))
                          : write.access.record.partition();
  };
  std::vector<Entry> entries =
      gather(collect_accesses(histories, numbers, false), logged, replicas, nodes, home_of);
  Findings findings;
  std::vector<Entry> missing, unexpected;
  for_each_record(entries, [&](std::span<Entry> record) {
    const auto version_at_backup = [](const Entry& e) { return std::tuple(e.access.version, e.backup); };
    std::ranges::sort(record, {}, [](const Entry& e) {
      return std::tuple(e.access.version, e.backup, e.access.digest, e.logged);
    });
    for (auto begin = record.begin(), end = begin; begin != record.end(); begin = end) {
      end = std::find_if(begin, record.end(),
                         [&](const Entry& e) { return version_at_backup(e) != version_at_backup(*begin); });
      judge(Entries(begin, end), missing, unexpected, findings);
    }
  });
  return findings.report("backup_logs", numbers.count());
}

}  // namespace verbtwin::protocols
