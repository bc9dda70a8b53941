#include "protocols/workloads/invariants.hpp"

#include <algorithm>

namespace verbtwin::protocols {

std::vector<RecordId> written_records(std::span<const History* const> histories) {
  std::vector<RecordId> written;
  for (const History* history : histories) {
    for (std::size_t i = 0; i < history->size(); ++i) {
      for (const Access& write : (*history)[i].writes) written.push_back(write.record);
    }
  }
  std::ranges::sort(written);
  written.erase(std::unique(written.begin(), written.end()), written.end());
  return written;
}

std::uint64_t committed_transactions(std::span<const History* const> histories) {
  std::uint64_t sum = 0;
  for (const History* history : histories) sum += history->size();
  return sum;
}

CheckReport check_sum(const char* name, const char* unit, std::span<const History* const> histories,
                      const std::function<std::int64_t(RecordId)>& change_of) {
  CheckReport report;
  report.name = name;
  report.transactions = committed_transactions(histories);
  std::int64_t expected = 0, change = 0;
  for (const History* history : histories) {
    for (std::size_t i = 0; i < history->size(); ++i) expected += (*history)[i].effect;
  }
  for (const RecordId record : written_records(histories)) change += change_of(record);
  if (change != expected) {
    report.violations = 1;
    report.examples.push_back("records changed by " + std::to_string(change) + " " + unit +
                              ", transactions by " + std::to_string(expected));
  }
  return report;
}

}  // namespace verbtwin::protocols
