#include "protocols/checks/accesses.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace verbtwin::protocols {

std::size_t TransactionNumbers::worker_of(std::uint32_t transaction) const {
  const auto next_worker = std::upper_bound(first_.begin(), first_.end() - 1, transaction);
  return static_cast<std::size_t>(next_worker - first_.begin() - 1);
}

std::string TransactionNumbers::name(std::uint32_t transaction) const {
  const std::size_t worker = worker_of(transaction);
  return fmt::format("{}.{}", worker, transaction - first_[worker]);
}

std::vector<RecordAccess> collect_accesses(Histories histories, const TransactionNumbers& numbers,
                                           bool reads) {
  std::size_t count = 0;
  for (const History* history : histories) {
    for (std::size_t i = 0; i < history->size(); ++i) {
      const History::Transaction transaction = (*history)[i];
      count += transaction.writes.size() + (reads ? transaction.reads.size() : 0);
    }
  }
  std::vector<RecordAccess> accesses;
  accesses.reserve(count);
  for (std::size_t worker = 0; worker < histories.size(); ++worker) {
    const History& history = *histories[worker];
    for (std::size_t i = 0; i < history.size(); ++i) {
      const History::Transaction transaction = history[i];
      const std::uint32_t number = numbers.first_of(worker) + static_cast<std::uint32_t>(i);
      for (const Access& write : transaction.writes) accesses.push_back({write, number, AccessKind::kWrite});
      if (!reads) continue;
      for (const Access& read : transaction.reads) accesses.push_back({read, number, AccessKind::kRead});
    }
  }
  return accesses;
}

}  // namespace verbtwin::protocols
