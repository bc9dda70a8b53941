#include "protocols/checks/ramp_transactions.hpp"

#include <utility>

namespace verbtwin::protocols {

RampTransactions::RampTransactions(RampHistories histories) : numbers_(histories) {
  all_.reserve(numbers_.count());
  for (const RampHistory* history : histories) {
    for (std::size_t i = 0; i < history->size(); ++i) all_.push_back((*history)[i]);
  }
}

VersionOrder::VersionOrder(const RampTransactions& transactions) {
  for (std::uint32_t number = 0; number < transactions.count(); ++number) {
    const auto& writer = transactions[number];
    if (!writer.committed) continue;
    for (const RampWrite& write : writer.writes) versions_.push_back({write.key, writer.timestamp, number});
  }
  std::ranges::sort(versions_, {}, [](const Version& v) { return std::tuple(v.key, v.timestamp, v.writer); });
}

std::uint32_t VersionOrder::overwriter(std::uint64_t key, std::uint64_t timestamp) const {
  const auto next = std::ranges::upper_bound(versions_, std::tuple(key, timestamp), {}, &Version::place);
  return next != versions_.end() && next->key == key ? next->writer : kNoTransaction;
}

std::uint64_t VersionOrder::rank(std::uint64_t key, std::uint64_t timestamp) const {
  if (timestamp == 0) return 0;
  const auto found = std::ranges::lower_bound(versions_, std::tuple(key, timestamp), {}, &Version::place);
  if (found == versions_.end() || found->place() != std::tuple(key, timestamp)) return kUnknown;
  const auto first = std::ranges::lower_bound(versions_, key, {}, &Version::key);
  return static_cast<std::uint64_t>(found - first) + 1;
}

std::uint64_t count_lost_updates(const RampTransactions& transactions) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> overwritten;  // key, version
  for (std::uint32_t number = 0; number < transactions.count(); ++number) {
    if (!transactions.updates(number)) continue;
    for (const RampWrite& write : transactions[number].writes) {
      const auto reads = of_key(transactions[number].reads, write.key);
      if (!reads.empty()) overwritten.emplace_back(write.key, reads.front().timestamp);
    }
  }
  std::ranges::sort(overwritten);
  const auto repeated = std::unique(overwritten.begin(), overwritten.end());
  return static_cast<std::uint64_t>(overwritten.end() - repeated);
}

std::uint64_t count_write_skews(const RampTransactions& transactions) {
  const VersionOrder order(transactions);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> overwrites;  // reader, who overwrote what it read
  for (std::uint32_t number = 0; number < transactions.count(); ++number) {
    if (!transactions.updates(number)) continue;
    for (const RampRead& read : transactions[number].reads) {
      const std::uint32_t other = order.overwriter(read.key, read.timestamp);
      if (other == kNoTransaction || other == number || !transactions.updates(other)) continue;
      overwrites.emplace_back(number, other);
    }
  }
  std::ranges::sort(overwrites);
  overwrites.erase(std::unique(overwrites.begin(), overwrites.end()), overwrites.end());
  const auto is_skew = [&](const std::pair<std::uint32_t, std::uint32_t>& pair) {
    const std::uint32_t one = pair.first, other = pair.second;
    if (one > other || !std::ranges::binary_search(overwrites, std::pair(other, one))) return false;
    return std::ranges::none_of(transactions[one].writes, [&](const RampWrite& write) {
      return !of_key(transactions[other].writes, write.key).empty();
    });
  };
  return static_cast<std::uint64_t>(std::ranges::count_if(overwrites, is_skew));
}

}  // namespace verbtwin::protocols
