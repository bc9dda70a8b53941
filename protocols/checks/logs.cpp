#include "protocols/checks/logs.hpp"

#include <fmt/format.h>
#define XXH_INLINE_ALL  // of known lengths little is left
#include <xxhash.h>

#include <algorithm>
#include <cassert>
#include <tuple>
#include <vector>

namespace verbtwin::protocols {
namespace {

/// A bag of writes, told from others by the sum of its writes' hashes: in any order, and without keeping
/// them. 128 bits, so that two bags with one sum are as unlikely as two values with one digest.
struct Bag {
  std::uint64_t low = 0, high = 0;
  bool operator==(const Bag&) const = default;
  void add(const Bag& other) {
    low += other.low;
    high += other.high;
  }
};

Bag bag_of(const Access& write) {
  static_assert(sizeof write == 3 * sizeof(std::uint64_t), "padding would be hashed");
  const XXH128_hash_t hash = XXH3_128bits(&write, sizeof write);
  return {hash.low64, hash.high64};
}

/// The replicas of a cluster, and where they log.
struct Logging {
  std::uint32_t replicas, nodes;
  const LoggedBehind& behind;
};

/// Calls visit(writes, backups) for what each committed transaction wrote, and the nodes that log all of it.
template <typename Visit>
void for_each_committed(Histories histories, const Logging& logging, const Visit& visit) {
  std::vector<std::uint32_t> backups;
  const auto add_backups_of = [&](std::uint32_t home) {
    for (std::uint32_t rank = 1; rank < logging.replicas; ++rank) {
      std::uint32_t backup = home + rank;
      if (backup >= logging.nodes) backup -= logging.nodes;
      if (std::ranges::find(backups, backup) == backups.end()) backups.push_back(backup);
    }
  };
  const LoggedBehind& behind = logging.behind;
  for (std::size_t worker = 0; worker < histories.size(); ++worker) {
    const History& history = *histories[worker];
    for (std::size_t i = 0; i < history.size(); ++i) {
      const std::span<const Access> writes = history[i].writes;
      backups.clear();
      if (behind.coordinator_of && !writes.empty()) add_backups_of(behind.coordinator_of(worker));
      if (behind.records) {
        for (const Access& write : writes) add_backups_of(write.record.partition());
      }
      visit(writes, std::span<const std::uint32_t>(backups));
    }
  }
}

/// Whether each node's logs hold, all together, what they should.
bool all_logged(Histories histories, LoggedParts logged, const Logging& logging) {
  std::vector<Bag> expected(logging.nodes), found(expected.size());
  for_each_committed(histories, logging, [&](std::span<const Access> writes, auto backups) {
    if (backups.empty()) return;
    Bag all;
    for (const Access& write : writes) all.add(bag_of(write));
    for (const std::uint32_t backup : backups) expected[backup].add(all);
  });
  for (const auto& part : logged) {
    for (const LoggedWrite& entry : part) {
      assert(entry.backup < found.size());
      found[entry.backup].add(bag_of(entry.write));
    }
  }
  return expected == found;
}

/// What should be (committed) or is (logged) in the log of `backup`.
struct Entry {
  Access access;
  std::uint32_t backup;
  bool logged;
};

using Entries = std::span<const Entry>;

std::vector<Entry> gather(Histories histories, LoggedParts logged, const Logging& logging) {
  std::vector<Entry> entries;
  for_each_committed(histories, logging, [&](std::span<const Access> writes, auto backups) {
    for (const std::uint32_t backup : backups) {
      for (const Access& write : writes) entries.push_back({write, backup, false});
    }
  });
  for (const auto& part : logged) {
    for (const LoggedWrite& entry : part) entries.push_back({entry.write, entry.backup, true});
  }
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

/// Puts into words what is missing, wrong, or too much.
void compare(std::vector<Entry> entries, Findings& findings) {
  std::ranges::sort(entries, {}, [](const Entry& e) {
    return std::tuple(e.access.record, e.access.version, e.backup, e.access.digest, e.logged);
  });
  const auto place_of = [](const Entry& e) {
    return std::tuple(e.access.record, e.access.version, e.backup);
  };
  std::vector<Entry> missing, unexpected;
  for (auto begin = entries.begin(), end = begin; begin != entries.end(); begin = end) {
    end = std::find_if(begin, entries.end(), [&](const Entry& e) { return place_of(e) != place_of(*begin); });
    judge(Entries(begin, end), missing, unexpected, findings);
  }
}

}  // namespace

CheckReport check_logs(Histories histories, LoggedParts logged, int replicas, int nodes,
                       const LoggedBehind& behind) {
  assert(replicas >= 1 && replicas <= nodes);
  const Logging logging{static_cast<std::uint32_t>(replicas), static_cast<std::uint32_t>(nodes), behind};
  Findings findings;
  if (!all_logged(histories, logged, logging)) compare(gather(histories, logged, logging), findings);
  return findings.report(kLogsCheck, TransactionNumbers(histories).count());
}

}  // namespace verbtwin::protocols
