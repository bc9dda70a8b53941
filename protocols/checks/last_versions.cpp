#include "protocols/checks/last_versions.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace verbtwin::protocols {

namespace {

/// Of each key the newest, by key.
std::vector<LastVersion> newest_committed(RampHistories histories) {
  std::vector<LastVersion> all;
  for (const RampHistory* history : histories) {
    for (std::size_t i = 0; i < history->size(); ++i) {
      const RampHistory::Transaction transaction = (*history)[i];
      if (!transaction.committed) continue;
      for (const RampWrite& write : transaction.writes)
        all.push_back({write.key, transaction.timestamp, write.digest});
    }
  }
  std::ranges::sort(all, [](const LastVersion& a, const LastVersion& b) {
    return a.key != b.key ? a.key < b.key : a.timestamp > b.timestamp;
  });
  // Not std::ranges::unique: Clang 14 does not compile the subrange of GCC 12's library.
  const auto same_key = [](const LastVersion& a, const LastVersion& b) { return a.key == b.key; };
  all.erase(std::unique(all.begin(), all.end(), same_key), all.end());
  return all;
}

std::uint64_t committed_transactions(RampHistories histories) {
  std::uint64_t count = 0;
  for (const RampHistory* history : histories) {
    for (std::size_t i = 0; i < history->size(); ++i) count += (*history)[i].committed;
  }
  return count;
}

}  // namespace

CheckReport check_last_versions(RampHistories histories, std::vector<LastVersion> last,
                                std::span<const std::uint64_t> locked) {
  std::ranges::sort(last, {}, &LastVersion::key);
  const std::vector<LastVersion> expected = newest_committed(histories);
  Findings findings;
  const auto judge = [&](const LastVersion& wanted, const LastVersion& found) {
    if (wanted.timestamp != found.timestamp) {
      findings.add("not the newest that was committed", [&] {
        return fmt::format("{}@{} where {}@{} should be", found.key, found.timestamp, wanted.key,
                           wanted.timestamp);
      });
    } else if (wanted.digest != found.digest) {
      findings.add("differs from what was written", [&] {
        return fmt::format("{}@{} as {:016x}, its transaction wrote {:016x}", found.key, found.timestamp,
                           found.digest, wanted.digest);
      });
    }
  };
  auto wanted = expected.begin();
  auto found = last.begin();
  while (wanted != expected.end() || found != last.end()) {
    if (found == last.end() || (wanted != expected.end() && wanted->key < found->key)) {
      judge(*wanted, {wanted->key, 0, 0});
      ++wanted;
    } else if (wanted == expected.end() || found->key < wanted->key) {
      judge({found->key, 0, 0}, *found);
      ++found;
    } else {
      judge(*wanted++, *found++);
    }
  }
  for (const std::uint64_t key : locked) findings.add("left locked", [key] { return fmt::to_string(key); });
  return findings.report("final_state", committed_transactions(histories));
}

}  // namespace verbtwin::protocols
